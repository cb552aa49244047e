"""The race view: what the lanes show, and that the timing cannot notice it."""

from __future__ import annotations

import io
import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demo.backend import run as worker
from demo.backend import timing
from demo.core.result import PHASES, Progress, RunSpec
from demo.core.stats import Interval
from demo.ui.html import progress as live

SPEC = RunSpec("shapes-vit", "image-classification", batch_size=4)


def timed(**changes: Any) -> Progress:
    known = {"calls": 40, "eager_seconds": 0.012, "compiled_seconds": 0.006, "speedup": Interval(2.0, 1.9, 2.1)}
    return Progress("time", 0.7, 5.0, 2.0, "", **({"timing_done": 0.5} | known | changes))


def lengths(progress: Progress) -> list[float]:
    """Of eager's bar and of compiled's, in per cent of the lane."""
    return [float(found) for found in re.findall(r'class="bar \w+" style="width:([\d.]+)%', live.strip(progress, SPEC))]


def test_the_faster_lane_is_as_far_as_the_timing_and_the_other_behind_by_the_speed_up() -> None:
    assert lengths(timed()) == pytest.approx([25, 50])
    assert lengths(timed(eager_seconds=0.003)) == pytest.approx([50, 25])


def test_before_the_timing_nobody_has_left_and_at_its_end_the_faster_one_is_there() -> None:
    assert lengths(Progress("compile", 0.2, 3.0, eager_seconds=0.012)) == [0, 0]
    assert lengths(timed(timing_done=1.0)) == pytest.approx([50, 100])
    assert lengths(Progress("check", 0.9, 6.0, calls=9, eager_seconds=0.012, compiled_seconds=0.006)) == [50, 100]


def test_the_counters_are_calls_milliseconds_and_images_of_the_real_batch() -> None:
    html = live.strip(timed(), SPEC)
    assert html.count("<b>40</b> calls") == 2
    assert "12.0 ms" in html and "6.00 ms" in html
    assert "<b>333</b> images/s" in html and "<b>667</b> images/s" in html


def test_what_was_not_measured_yet_is_a_dash_and_no_zero() -> None:
    html = live.strip(Progress("load", 0.0, 0.1), SPEC)
    assert html.count("<b>–</b> calls") == 2 and html.count("<b>–</b> images/s") == 2


def test_phases_elapsed_and_remaining_time_are_told() -> None:
    html = live.strip(timed(), SPEC)
    assert re.findall(r'<li class="(\w+)"', html) == ["done", "done", "done", "now", "next"]
    assert "5.0 s elapsed · about 2.0 s left" in html


def test_every_phase_has_its_step() -> None:
    assert tuple(live._STEP_OF_PHASE) == PHASES


# The worker's side


class SentLines(io.StringIO):
    """The pipe to the page, and whether anything goes into it while a call is being timed."""

    inside = False
    sent_inside = 0

    def write(self, text: str) -> int:
        self.sent_inside += self.inside
        return super().write(text)


def looked_at(stream: SentLines, monkeypatch: pytest.MonkeyPatch, told_every: float) -> list[int]:
    """Times two made-up models by the worker's own look; the calls since the start at each look."""
    monkeypatch.setattr(worker, "TELL_EVERY_SECONDS", told_every)
    run = worker.Run(SPEC, Path("unused"), {"id": "x", "started_at": "now"}, worker.Events(stream))  # type: ignore[arg-type]
    run.observer = SimpleNamespace(look=lambda: None)  # type: ignore[assignment]
    plan = timing.Plan(iterations=80)
    look = run.look(plan, time.perf_counter())
    calls = 0
    at_looks = []

    def call() -> float:
        nonlocal calls
        calls += 1
        return 0.001

    class Clock:
        def time(self, call: Any) -> float:
            stream.inside = True
            took: float = call()
            stream.inside = False
            return took

        def now(self) -> float:
            return 0.0

    def watched(samples: timing.Samples) -> None:
        at_looks.append(calls)
        look(samples)

    timing.interleaved(call, call, Clock(), plan, 5, watched)
    return at_looks


def test_no_update_is_sent_from_inside_a_timed_block(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SentLines()
    at_looks = looked_at(stream, monkeypatch, told_every=0.0)
    assert stream.sent_inside == 0
    assert len(stream.getvalue().splitlines()) == len(at_looks) == 8
    assert all((calls - 20) % 30 == 0 for calls in at_looks)  # 20 calls of A B B A, then 10 of the control between


def test_at_most_four_updates_a_second_leave_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker.TELL_EVERY_SECONDS >= 0.25
    stream = SentLines()
    looked_at(stream, monkeypatch, told_every=60.0)
    assert len(stream.getvalue().splitlines()) == 1


def test_the_counters_stay_when_the_timing_has_ended() -> None:
    stream = io.StringIO()
    events = worker.Events(stream)
    events.progress("time", 0.8, calls=40, eager_seconds=0.012, compiled_seconds=0.006, timing_done=1.0)
    events.progress("check", 0.9)
    last = json.loads(stream.getvalue().splitlines()[-1])["progress"]
    assert (last["phase"], last["calls"], last["eager_seconds"], last["compiled_seconds"]) == (
        "check",
        40,
        0.012,
        0.006,
    )


def test_the_share_of_the_timing_never_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not when the first stretch is over and the verdict is still unsure."""
    monkeypatch.setattr(worker, "TELL_EVERY_SECONDS", 0.0)
    stream = io.StringIO()
    run = worker.Run(SPEC, Path("unused"), {"id": "x", "started_at": "now"}, worker.Events(stream))
    run.observer = SimpleNamespace(look=lambda: None)  # type: ignore[assignment]
    seconds = iter((0.5, 2.0, 3.4, 3.6, 5.0, 7.0, 7.5))
    monkeypatch.setattr(worker.time, "perf_counter", lambda: next(seconds))
    plan = timing.Plan(most_seconds=3.5)
    look = run.look(plan, 0.0)
    samples = timing.Samples(1, eager=[0.002] * 4, compiled=[0.001] * 4)
    for _ in range(7):
        look(samples)
    shares = [json.loads(line)["progress"]["timing_done"] for line in stream.getvalue().splitlines()]
    assert shares == sorted(shares) and 0 < shares[0] and shares[-1] == 1.0
