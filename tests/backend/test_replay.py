"""Tests of replaying a log of input sizes: dynamo recompiles exactly when its rules say so."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from support import own_workload, tiny_vit
from support.own_workload import SCENE

from demo.backend import compilation, compile_cache, compile_model, machine_probe, replay, tasks
from demo.core import catalog
from demo.core.options import BadInput
from demo.core.size_log import InputSize, read_log


@pytest.fixture(autouse=True)
def without_inductor(monkeypatch) -> None:
    torch._dynamo.reset()
    monkeypatch.setattr(compile_model, "apply_compile", own_workload.without_inductor)


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> str:
    return str(tiny_vit.of_any_size(tmp_path_factory.mktemp("network")))


def test_only_the_answer_is_on_standard_output() -> None:
    job = "import os; from demo.backend.messages import answer_one_job as run;"
    job += "run(lambda **job: print('a print', end='') or os.system('echo of a child') or [job, os.getpid() > 1])"
    process = subprocess.run([sys.executable, "-c", job], input=b'{"a": 1}', capture_output=True, check=True)
    assert process.stdout == b'[{"a": 1}, true]\n' and process.stderr == b"a printof a child\n"


def replay_log(checkpoint: str, dynamic: str, log: str, compiled: bool = True) -> dict[str, Any]:
    of_text = checkpoint == "shapes-gemma"
    task, prompt = ("text-generation", "One") if of_text else ("image-classification", "")
    spec = catalog.make_spec(checkpoint, task, folders=True, device="cpu", dynamic=dynamic, prompt=prompt)
    with torch.no_grad():
        return replay.replay(tasks.load(spec, SCENE), list(read_log(log, of_text)), compiled)


@pytest.mark.parametrize(
    ("checkpoint", "dynamic", "log", "waited"),
    [
        # The first batch is taken as fixed, the second makes the batch a variable, which holds for the third.
        ("a network", "auto", "1\n1\n2\n3\n1", "x.x.."),
        # Variable from the start, but 1 is always fixed: the first graph is for 1, the second for any other batch.
        ("a network", "on", "1\n2\n3", "xx."),
        # Every size has a graph of its own; the last one is the first.
        ("a network", "off", "2 64 64\n2 64 96\n2 64 64", "xx."),
        ("shapes-gemma", "auto", "1 16\n1 16\n1 24\n1 40\n1 16", "x.x.."),
    ],
)
def test_recompiles_follow_dynamos_rules(checkpoint: str, dynamic: str, log: str, waited: str, network: str) -> None:
    replay = replay_log(network if checkpoint == "a network" else checkpoint, dynamic, log)
    assert "".join("x" if wait else "." for wait in replay["waited"]) == waited
    assert replay["recompiles"] == waited.count("x") - 1 and replay["fallbacks"] == 0
    assert len(replay["seconds"]) == len(waited) and all(seconds > 0 for seconds in replay["seconds"])


def test_a_call_that_records_a_cuda_graph_counts_as_waited(network: str, monkeypatch) -> None:
    """Of calls with one size, the first uses no CUDA graph, the second records one, and the third replays it."""
    recordings = iter([0, 0, 0, 0, 1, 1, 1])  # when the log begins, then before and after each call
    monkeypatch.setattr(compilation, "cuda_graph_recordings", lambda: next(recordings))
    assert replay_log(network, "off", "1\n1\n1")["waited"] == [True, True, False]


def test_eager_waits_for_nothing() -> None:
    assert replay_log("shapes-vit", "auto", "1\n3", compiled=False)["waited"] == [False, False]


def test_a_size_that_the_model_cannot_take_is_refused() -> None:
    with pytest.raises(BadInput, match="cannot be called with 1 × 96 × 64"):
        replay_log("shapes-vit", "auto", "1\n1 96 64", compiled=False)


def test_a_size_for_which_a_cpus_memory_is_too_small_fails(monkeypatch, tmp_path: Path) -> None:
    full = Mock(side_effect=RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"))
    monkeypatch.setattr(tasks, "load", lambda *_: SimpleNamespace(model=full, batch_of=lambda size: {}))
    monkeypatch.setattr(replay, "resolve", lambda spec, host: spec)
    monkeypatch.setattr(machine_probe, "host", lambda: None)
    monkeypatch.setattr(compile_cache, "use_empty_cache", lambda folder: None)
    spec = catalog.make_spec("shapes-vit", device="cpu")
    assert replay.replay_job(spec, SCENE, [InputSize(1)], False, tmp_path) == {"failed": "out of memory"}
