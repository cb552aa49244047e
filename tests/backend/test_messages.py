"""Tests of the messages of a worker: their content, how often they come, and that none comes during a timed call."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest
from support.samples import ok_result

from demo.backend import messages, timing
from demo.backend.messages import Events, WorkerJob
from demo.backend.run_steps import Run
from demo.backend.workload import Variant, Variants
from demo.core import codec
from demo.core.options import RunSpec
from demo.core.progress import Provisional

SPEC = RunSpec("shapes-vit", "image-classification", batch_size=4, iterations=80)


class Pipe(io.StringIO):
    """A text stream in place of the worker's pipe. `progress` has the progress messages written to it."""

    @property
    def progress(self) -> list[dict[str, Any]]:
        return [json.loads(line)["progress"] for line in self.getvalue().splitlines()]


@pytest.mark.parametrize(("seconds_between", "sent"), [(0.0, 8), (60.0, 1)])
def test_updates_leave_between_blocks_only(seconds_between: float, sent: int, monkeypatch) -> None:
    assert messages.MIN_SECONDS_BETWEEN >= 0.25
    monkeypatch.setattr(messages, "MIN_SECONDS_BETWEEN", seconds_between)
    calls, samples, sends = [], [], []  # the calls, and how many came before each sample and message
    pipe = SimpleNamespace(write=lambda text: sends.append(len(calls)), flush=lambda: None)
    run: Any = Run(WorkerJob(SPEC), Events(pipe))
    clock = SimpleNamespace(time=lambda call: calls.append(call) or 0.001, now=lambda: 0.0)
    run.workload = SimpleNamespace(clock=clock)
    variant = Variant(lambda: None, [0.012] * 3, None)  # so long that a half block has 5 calls
    slow_at_first = Variant(lambda: None, [0.1] * 3, None)
    run.variants = Variants(slow_at_first, variant, [0.012] * 3)
    check = {"check_cores": lambda threads: samples.append(len(calls)), "pause": lambda: 0.0}
    run.observer = SimpleNamespace(seconds=0.0, **check)
    run.time_interleaved(threads=0)
    # 20 calls of A B B A and 4 that settle, then 10 of the control between
    assert samples == [24 + 34 * block for block in range(8)] and sends == samples[:sent]


@pytest.mark.parametrize(
    ("free", "most", "kept", "threads"),
    [(4, 4, (2,), 4), (3, 4, (), 3), (3, 4, (2, 4), 2), (3, 4, (1,), 3), (9, 4, (2,), 4), (1, 2, (2,), 1)],
    ids=["all are free", "none is kept", "kept", "too few are kept", "more than asked", "too many are kept"],
)
def test_threads_for_which_code_is_kept_are_preferred(free: int, most: int, kept: Any, threads: int) -> None:
    assert WorkerJob(SPEC, kept_threads=kept).threads_on(free, most) == threads


def test_a_status_code_is_sent_at_once_and_not_repeated() -> None:
    events = Events(pipe := Pipe())
    for code in ("", "fewer_threads", ""):
        events.progress("time", 0.6, code=code)
    assert [progress["code"] for progress in pipe.progress] == ["", "fewer_threads", ""]


def test_the_share_of_the_timing_never_falls(monkeypatch) -> None:
    """The share does not fall either if the timing goes on after its time because the verdict is unsure.

    Times and speed-up agree.
    """
    monkeypatch.setattr(messages, "MIN_SECONDS_BETWEEN", 0.0)
    events = Events(pipe := Pipe())
    samples = timing.Samples(1, eager=[0.002, 0.002, 0.004, 0.004], compiled=[0.001] * 4)
    for elapsed in (0.5, 2.0, 3.4, 3.6, 5.0, 7.0, 7.5):
        events.block_timed(samples, timing.Plan(max_seconds=3.5), elapsed)
    for progress in pipe.progress:
        assert progress["eager_seconds"] / progress["compiled_seconds"] == pytest.approx(progress["speedup"]["ratio"])
    end_is_open = [progress["remaining_seconds"] is None for progress in pipe.progress]
    assert end_is_open == [False] * 3 + [True] * 4
    shares = [(progress["fraction"] - messages.TIMING_STARTS) / messages.TIMING_SHARE for progress in pipe.progress]
    assert shares == sorted(shares) and 0 < shares[0] and shares[-1] == pytest.approx(1.0)


def test_the_count_of_calls_never_falls_when_calls_get_slower() -> None:
    estimates, line, counted = [0.002, 0.00201, 0.03, 0.003, 0.5], (), []
    for second, each in enumerate(estimates, 4):
        line = messages.bent(line, 0.0, second, each)
        since, calls, now_each = line[-1]
        counted.append(calls + (second - since) / now_each)
    assert counted == sorted(counted)
    assert [each for _, _, each in line] == [0.002, 0.03, 0.003, 0.5]  # noise bends nothing


def test_the_race_begins_with_the_compile(monkeypatch) -> None:
    """The clock of the chart of calls starts with the compile.

    Compiled answers its first call when the timing begins.
    """
    seconds = iter(range(0, 80, 10))
    monkeypatch.setattr(messages.time, "monotonic", lambda: next(seconds))
    events = Events(pipe := Pipe())
    for phase, code in [
        ("warm up", ""),
        ("compile", ""),
        ("compile", "dynamo"),
        ("compile", "inductor"),
        ("compile", "inductor"),
        ("time", ""),
        ("check", "explain"),
    ]:
        events.progress(phase, 0.5, code=code)
    race = [(progress["racing_seconds"], progress["first_seconds"]) for progress in pipe.progress]
    assert race == [(None, None), (0, None), (10, None), (20, None), (30, None), (40, 40), (50, 40)]
    steps = [["dynamo", 10], ["inductor", 20]]
    assert [progress["compile_steps"] for progress in pipe.progress] == [[], [], steps[:1], *4 * [steps]]


def test_a_provisional_result_is_sent_with_the_state_of_its_run() -> None:
    stream = io.StringIO()
    events = Events(stream)
    events.progress("time", 0.5, eager_seconds=0.002)
    events.provisional(ok_result(), "check", 0.95, code="compile_again")
    message = json.loads(stream.getvalue().splitlines()[-1])
    sent = codec.from_plain(Provisional, message["provisional"])
    assert (message["event"], sent.result, sent.phase, sent.eager_seconds) == (
        "provisional",
        ok_result(),
        "check",
        0.002,
    )
