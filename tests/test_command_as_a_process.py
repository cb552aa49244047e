"""Runs of the command line as a process: a refusal, and an empty compile cache."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest
import tiny_vit
from test_end_to_end import run

from demo.core import catalog
from demo.core.result import RunResult

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"


def test_a_picture_that_the_worker_refuses_is_a_sentence_and_exit_2(tmp_path: Path):
    (tmp_path / "empty.png").touch()
    done = run(tmp_path, "--checkpoint", "shapes-vit", "--image", str(tmp_path / "empty.png"), "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "empty" in done.stderr and "Traceback" not in done.stderr


def test_an_empty_cache_measures_a_cold_and_a_warm_first_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model = ["--checkpoint", str(tiny_vit.written(tmp_path / "vit")), "--task", "image-classification"]
    arguments = [*model, "--image", str(SCENE), "--iterations", "10", "--json"]
    monkeypatch.delenv("TORCHINDUCTOR_VEC_ISA_OK")
    done = run(tmp_path, *arguments, "--cache", "empty")
    assert done.returncode == 0, done.stderr
    emptied = RunResult.from_json(json.loads(done.stdout))
    cold, warm = emptied.compilation.cold, emptied.compilation.warm
    assert (emptied.compilation.cache, cold.run_id, warm.run_id) == ("cold", "", "")
    assert cold.parts["inductor"] > 0
    assert warm.parts["inductor"] == warm.parts["backend compile"] == 0
    if platform.machine() in ("x86_64", "AMD64"):  # elsewhere inductor may know the instructions without trying
        assert cold.parts["instruction probe"] > warm.parts["instruction probe"] > 0
    for cost in (cold, warm):
        assert sum(cost.parts.values()) == pytest.approx(cost.first_call_seconds)
