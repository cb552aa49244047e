"""Makes a whole run by the command line, and checks what must hold of each run of a bundled checkpoint.

Each file of tests/end_to_end/ has one model, so that the cold compiles run side by side.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.core.options import TEXT_GENERATION
from demo.core.result import RunResult
from demo.core.result_json import from_json
from demo.store.history import History
from tools.scenes import draw_scene

SCENE = draw_scene(777_001, (800, 600))
"""A drawn scene that no checkpoint was trained on, larger than any model's input."""


def whole_run(folder: Path, *options: str) -> RunResult:
    """Runs `python -m demo run`. Returns the result that it prints as JSON, which must equal the stored one."""
    command = [sys.executable, "-m", "demo", "run", "--iterations", "20", "--json", *options]
    environment = os.environ | {"WORTH_COMPILING_DATA": str(folder / "data")}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert process.returncode == 0, process.stderr
    result = from_json(json.loads(process.stdout))
    assert list(History(folder / "data" / "history.sqlite3").all()) == [result]
    return result


def run_on_scene(folder: Path, name: str, batch_size: int, *options: str) -> RunResult:
    path = folder / "fresh.png"
    SCENE.image.save(path)
    picture = ("--image", str(path), "--batch-size", str(batch_size))
    return whole_run(folder, "--checkpoint", name, *picture, *options)


def assert_all_figures(result: RunResult) -> None:
    text = result.spec.task == TEXT_GENERATION
    assert result.status == "ok"
    assert len(result.eager.wall_seconds) == len(result.compiled.wall_seconds) >= 20
    assert result.speedup.low < result.speedup.ratio < result.speedup.high
    assert result.speedup.control.low < result.speedup.control.high
    assert result.eager.peak_memory_bytes > 50e6
    assert result.environment.compiler
    assert result.eager.back_to_back.calls >= 3
    assert result.machine_states
    assert text or result.request_seconds[0] > result.latencies["eager"]
    assert result.compilation.graphs == (2 if text else 1)  # the prompt's and a step's
    assert result.compilation.graph_breaks == ()
    assert result.parity.verdict == "match"
    shares = dict(result.parity.task)
    assert shares.pop("score_difference", 0.0) < 0.01
    assert shares.pop("box_iou", 1.0) > 0.99
    assert set(shares.values()) <= {0.0, 1.0}


both_variants = pytest.mark.parametrize("variant", ["eager", "compiled"])
