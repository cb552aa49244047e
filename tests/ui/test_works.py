"""Tests of the runs, searches and sweeps that visitors start, and of their queue, with a fake runner."""

import contextlib
import itertools
import threading
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from support.fake_runner import FakeRunner
from support.page_support import answering
from support.samples import ok_result

from demo.core import limits
from demo.core.options import BadInput, RunSpec
from demo.core.progress import Provisional
from demo.core.result import RunResult
from demo.ui import run_queue, works as visitor_works
from demo.ui.run_queue import RunQueue
from demo.ui.tabs.events import MOST_FOLLOWING, follow_work
from demo.ui.tabs.headline import waits
from demo.ui.works import Supervisor, VisitorRun, visitor_name

OK = ok_result()


def job(runner: FakeRunner, queue: RunQueue, visitor: str = "one", **changes: Any) -> VisitorRun:
    return VisitorRun(runner, queue, visitor, RunSpec("shapes-vit", "image-classification"), None, **changes)


def test_a_run_refused_by_a_full_queue_leaves_the_last_one() -> None:
    queue, works = RunQueue(longest=1), Supervisor()
    first = works.start(job(answering(OK), queue))
    list(first.watch())
    with queue.join("another"), pytest.raises(BadInput, match="Try again in a few minutes"):
        works.start(job(answering(OK), queue))
    assert works.of("one") is first
    second = works.start(job(answering(OK), queue))
    list(second.watch())
    assert isinstance(second.take_result(), RunResult) and len(queue) == 0


def test_a_visitor_has_one_run_at_a_time() -> None:
    queue, works, runner = RunQueue(), Supervisor(), answering(OK, seconds=0.1)
    runner.hold = True
    first = works.start(job(runner, queue))
    with pytest.raises(BadInput, match="Your last run, search or sweep goes on"):
        works.start(job(runner, queue))
    assert works.of("one") is first and len(queue) == 1
    first.cancel()


def test_who_waits_learns_when_the_present_run_ends(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr(run_queue, "time", SimpleNamespace(monotonic=lambda: now[0]))
    queue = RunQueue()
    with queue.join("one"):
        with queue.join("two"):
            queue.expect_end(20.0)
            assert waits(1, queue) == "Runs ahead of yours: 1, the first ends in about 20 s."
        assert queue.seconds_left == 20.0  # another left the queue
        now[0] += 30.0
        assert waits(1, queue) == "Runs ahead of yours: 1."
        queue.expect_end(20.0)
    assert queue.seconds_left is None  # the next run has not said it


def test_works_have_as_many_places_as_the_queue(monkeypatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(queue=2))
    queue, works, runner = RunQueue(longest=9), Supervisor(), answering(OK, seconds=60)
    two = [works.start(job(runner, queue, visitor)) for visitor in ("one", "two")]
    with pytest.raises(BadInput, match="2 others are going on here already"):
        works.start(job(runner, queue, "three"))
    for going in two:
        going.cancel()


def test_a_run_of_a_series_waits_behind_a_full_queue() -> None:
    queue = RunQueue(longest=1)
    with contextlib.ExitStack() as first:
        first.enter_context(queue.join())
        with queue.join(patient=True) as turn:
            assert next(turn) == 1
            first.close()
            assert list(turn) == []


def test_a_run_whose_thread_cannot_start_gives_its_place_back(monkeypatch) -> None:
    queue, works = RunQueue(longest=1), Supervisor()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with pytest.raises(BadInput, match="cannot start another run just now"):
            works.start(job(answering(OK), queue))
    assert len(queue) == 0 and works.of("one") is None


@pytest.mark.parametrize("ends_by", ["itself", "time", "cancel", "another visitor"])
def test_the_wait_for_a_quiet_machine_ends(ends_by: str, monkeypatch) -> None:
    limited = {"itself": [0.8, 0.7, 0.05], "another visitor": [0.8]}  # looking once more would be an error
    shares = iter(limited.get(ends_by, itertools.repeat(0.8)))
    queue = RunQueue()
    another = queue.join("another")

    def share() -> float:
        if ends_by == "another visitor" and len(queue) == 1:
            another.__enter__()
        time.sleep(0.05)
        return next(shares)

    monkeypatch.setattr(visitor_works.cores, "others_share", share)
    monkeypatch.setattr(visitor_works, "UPDATE_SECONDS", 0.01)
    monkeypatch.setattr(visitor_works, "MOST_QUIET_SECONDS", 0.3 if ends_by == "time" else 60.0)
    work = Supervisor().start(job(answering(OK, seconds=0.5), queue, when_quiet=True))
    waits = []
    for event in work.watch():
        if isinstance(event, visitor_works.WaitingForQuiet):
            waits.append(event.share)
            if ends_by == "cancel":
                work.cancel()
    assert 0.8 in waits or ends_by == "another visitor"  # that wait is over before a page hears of it
    assert isinstance(work.take_result(), RunResult) is (ends_by != "cancel")


def test_an_early_answer_does_not_wait_for_the_next_update(monkeypatch) -> None:
    monkeypatch.setattr(visitor_works, "UPDATE_SECONDS", 3600.0)
    work = job(answering(OK), RunQueue())
    updates = work.watch()
    next(updates)
    work._note(early := Provisional("check", 0.95, 9.0, result=OK))
    assert next(updates) is early


def test_only_the_newest_pages_follow_a_run() -> None:
    """Each page that follows holds a connection, and a browser has only six to a server."""
    going: Any = SimpleNamespace(pages=[], watch=lambda: itertools.repeat("news"))
    pages = [follow_work(going) for _ in range(MOST_FOLLOWING + 2)]
    assert [next(page, "let go") for page in pages] == ["news"] * len(pages)
    assert [next(page, "let go") for page in pages] == ["let go"] * 2 + ["news"] * MOST_FOLLOWING


def test_each_new_visitor_has_an_id() -> None:
    first, second = visitor_name(None, "page 1"), visitor_name(None, "page 2")
    assert first != second and visitor_name(first, "page 2") == first
