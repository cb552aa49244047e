"""Tests of what a worker process may send through its pipe: valid events, and anything else."""

import contextlib
import dataclasses
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from support.samples import MACHINE, ok_result

from demo.core import codec
from demo.core.progress import Progress
from demo.core.result_json import from_json, to_json
from demo.runs import process
from demo.runs.process import Worker, WorkerDied

PROGRESS = codec.plain(Progress("compile", 0.5, 1.0))
GOOD = to_json(ok_result())


def sent(event: str, **more: Any) -> bytes:
    return json.dumps({"event": event, **more}).encode() + b"\n"


@pytest.fixture
def listen(monkeypatch) -> Callable[..., tuple[Worker, list[Any]]]:
    """Returns a function that lets a `Worker` read bytes as if from its process.

    It returns the worker and the events found.
    """

    def read(text: bytes, exit_code: int | None = None) -> tuple[Worker, list[Any]]:
        @contextlib.contextmanager
        def child(module: str, writing: str, pass_fds: Sequence[int]) -> Iterator[Any]:
            pipe = os.fdopen(os.dup(pass_fds[0]), "wb")

            def write() -> None:
                with contextlib.suppress(BrokenPipeError), pipe:
                    pipe.write(text)

            threading.Thread(target=write, daemon=True).start()
            yield SimpleNamespace(exit_code_now=lambda: exit_code)

        monkeypatch.setattr(process, "child_process", child)
        worker = Worker("none")
        events = []
        with contextlib.suppress(WorkerDied):
            while True:
                events.append(worker.next_event())
        return worker, [event for event in events if event is not None]

    return read


def test_the_machine_is_known_before_the_probe_of_its_instructions(listen: Any) -> None:
    first = dataclasses.replace(MACHINE, compiler_seconds=None)
    probed = dataclasses.replace(MACHINE, probe_seconds=17.0, compiler_seconds=3.0)
    reports = [sent(event, machine=codec.plain(host)) for event, host in (("machine", first), ("ready", probed))]
    assert listen(reports[0])[0].machine == first
    assert listen(b"".join(reports))[0].machine_when_ready() == probed


def test_a_wait_for_the_probe_is_reported_once() -> None:
    calls: list[str] = []
    worker = Worker.__new__(Worker)
    worker.machine, looks = MACHINE, iter([False, False, True])
    worker.ready = SimpleNamespace(wait=lambda seconds: next(looks))
    assert worker.machine_when_ready(lambda: calls.append("probe")) == MACHINE and calls == ["probe"]


def test_a_result_that_takes_long_to_read_outlives_its_worker(listen: Any, monkeypatch) -> None:
    monkeypatch.setattr(process, "from_json", lambda data: time.sleep(1.0) or from_json(data))
    _, events = listen(sent("result", result=GOOD), exit_code=0)
    assert events == [ok_result()]


@pytest.mark.parametrize(
    "bad",
    [
        b"\x00\xff{{{\n",
        b"[1, 2]\n",
        sent("surprise"),
        b"[" * 100_000 + b"]" * 100_000 + b"\n",
        b"x" * 3_000_000,
        sent("progress", progress=PROGRESS | {"fraction": "half"}),
        sent("progress", progress=PROGRESS | {"fraction": float("nan")}),
        sent("result", result={name: value for name, value in GOOD.items() if name != "spec"}),
        sent("result", result=GOOD | {"spec": GOOD["spec"] | {"batch_size": -1}}),
        sent("refused"),
    ],
    ids=lambda bad: bad[:60].decode(errors="replace"),
)
def test_a_message_that_is_no_event_makes_the_worker_unreadable(bad: bytes, listen: Any, monkeypatch) -> None:
    monkeypatch.setattr(process, "MAX_MESSAGE_CHARACTERS", 1_000_000)
    worker, events = listen(sent("progress", progress=PROGRESS) + bad)
    assert worker.unreadable and events == [Progress("compile", 0.5, 1.0)]


def test_an_event_that_is_cut_short_is_not_unreadable(listen: Any) -> None:
    worker, events = listen(sent("result", result=GOOD) + b'{"event": "resu')
    assert not worker.unreadable and events == [ok_result()]
