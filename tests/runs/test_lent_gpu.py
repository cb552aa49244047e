"""Runs on a GPU that is lent for one run: what the runner does with its events. A generator stands for ZeroGPU.

`tests/ui/test_zero_gpu.py` tries the same with the package `spaces`.
"""

import dataclasses
import os
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from samples import ok_result

from demo.core import catalog
from demo.core.result import Progress, RunResult
from demo.core.spec import BadInput, RunSpec
from demo.runs.environment import worker_environment
from demo.runs.process import WorkerDied
from demo.runs.runner import Runner
from demo.store.history import History

PACKAGE = catalog.make_spec(checkpoint="shapes-vit", compiler="aot")


class Lender:
    """Yields the given events, or raises one that is an exception; keeps the specs that it was asked for."""

    def __init__(self, *events: Progress | RunResult | Exception) -> None:
        self.events = events
        self.asked: list[RunSpec] = []
        self.closed = 0

    def __call__(self, spec: RunSpec, image: Path | None) -> Generator[Progress | RunResult, None, None]:
        self.asked.append(spec)
        try:
            for event in self.events:
                if isinstance(event, Exception):
                    raise event
                yield dataclasses.replace(event, spec=spec) if isinstance(event, RunResult) else event
        finally:
            self.closed += 1


def run(lender: Lender, history: History | None = None, spec: RunSpec = PACKAGE, **more: Any) -> RunResult:
    *_, result = Runner(history, worker_module="tests.no_such_worker", lent_gpu=lender).run(spec, None, **more)
    assert isinstance(result, RunResult)
    return result


def test_a_package_runs_on_the_lent_gpu_and_its_result_is_stored_as_any_other(tmp_path: Path) -> None:
    history, lender = History(tmp_path / "history.sqlite3"), Lender(Progress("load", 0.1, 0.0), ok_result(id="theirs"))
    result = run(lender, history)
    assert result.status == "ok" and result.id != "theirs" and history.get(result.id) is not None
    assert [(spec.device, spec.repeats) for spec in lender.asked] == [("cuda", 1)]
    assert result.spec.device == "cuda"


def test_each_repeat_borrows_the_gpu_anew() -> None:
    lender = Lender(ok_result())
    result = run(lender, spec=dataclasses.replace(PACKAGE, repeats=3))
    assert len(lender.asked) == lender.closed == 3
    assert result.spec.repeats == 3 and len(result.earlier) == 2


def test_a_gpu_that_is_taken_back_or_silent_makes_a_result_that_says_so() -> None:
    taken = run(Lender(Progress("time", 0.6, 0.0), WorkerDied("GPU task aborted")))
    assert taken.status == "crashed" and taken.failure is not None and "GPU task aborted" in taken.failure.message
    assert taken.failure.phase == "time" and "device cpu" in taken.failure.remedy
    assert run(Lender(Progress("time", 0.6, 0.0))).status == "crashed"


def test_where_no_gpu_is_lent_the_run_is_refused_and_not_stored(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    with pytest.raises(BadInput, match="quota"):
        run(Lender(BadInput("ZeroGPU's GPU did not begin: quota.")), history)
    assert history.all(10) == []


def test_a_cancel_gives_the_gpu_back() -> None:
    cancel, lender = threading.Event(), Lender(*[Progress("time", 0.6, 0.0)] * 3, ok_result())
    cancel.set()
    assert run(lender, cancel=cancel).status == "cancelled"
    assert lender.closed == 1


def test_on_zero_gpu_a_worker_sees_no_gpu_outside_of_the_function_that_holds_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-of-the-fork")
    assert worker_environment("/tmp")["CUDA_VISIBLE_DEVICES"] == "GPU-of-the-fork"
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    seen = worker_environment("/tmp")
    assert seen["CUDA_VISIBLE_DEVICES"] == "" and not [name for name in seen if name.startswith("SPACES_")]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-of-the-fork"
