"""What visitors have started: its queue, how often a page hears of it, and what becomes of a run without a place."""

import contextlib
import itertools
import threading
import time
from typing import Any

import pytest
from support.fake_runner import FakeRunner
from support.page_support import answering
from support.samples import ok_result

from demo.core.result import RunResult
from demo.core.spec import BadInput, RunSpec
from demo.ui import jobs
from demo.ui.jobs import Job, RunQueue, Supervisor, visitor_name

OK = ok_result()


def job(runner: FakeRunner, queue: RunQueue, **changes: Any) -> Job:
    return Job(runner, queue, "one", RunSpec("shapes-vit", "image-classification"), None, **changes)


def test_a_full_queue_refuses_a_run_at_once_and_before_the_visitors_last_one_is_forgotten() -> None:
    queue, works = RunQueue(longest=1), Supervisor()
    first, second = (job(answering(OK), queue) for _ in range(2))
    works.start(first)
    list(first.watch())
    with queue.join("another"), pytest.raises(BadInput, match="Try again in a few minutes"):
        works.start(second)
    assert works.of("one") is first
    works.start(second)
    list(second.watch())
    assert isinstance(second.outcome(), RunResult) and len(queue) == 0


def test_a_visitor_has_one_run_at_a_time() -> None:
    queue, works, runner = RunQueue(), Supervisor(), answering(OK, seconds=0.1)
    runner.hold = True
    first = works.start(job(runner, queue))
    with pytest.raises(BadInput, match="Your last run, search or sweep goes on"):
        works.start(job(runner, queue))
    assert works.of("one") is first and len(queue) == 1
    runner.hold = False
    list(first.watch())
    again = works.start(job(runner, queue))
    list(again.watch())
    assert isinstance(again.outcome(), RunResult)


def test_a_run_of_a_series_stands_behind_a_full_queue() -> None:
    queue = RunQueue(longest=1)
    with contextlib.ExitStack() as first:
        first.enter_context(queue.join())
        with queue.join(patient=True) as turn:
            assert next(turn) == 1
            first.close()
            assert list(turn) == []
    assert len(queue) == 0


def test_a_run_whose_thread_cannot_start_gives_its_place_back(monkeypatch) -> None:
    queue, works = RunQueue(longest=1), Supervisor()

    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        with pytest.raises(BadInput, match="cannot start another run just now"):
            works.start(job(answering(OK), queue))
    assert len(queue) == 0 and works.of("one") is None


@pytest.mark.parametrize("ends_by", ["itself", "time", "cancel", "another visitor"])
def test_a_run_that_waits_for_a_quiet_machine_tells_the_share_of_others_and_ends_its_wait(
    ends_by: str, monkeypatch
) -> None:
    known = {"itself": [0.8, 0.7, 0.05], "another visitor": [0.8]}  # looking once more would be an error
    shares = iter(known.get(ends_by, itertools.repeat(0.8)))
    queue = RunQueue()
    another = queue.join("another")

    def share() -> float:
        if ends_by == "another visitor" and len(queue) == 1:
            another.__enter__()
        time.sleep(0.05)
        return next(shares)

    monkeypatch.setattr(jobs.cores, "others_share", share)
    monkeypatch.setattr(jobs, "UPDATE_SECONDS", 0.01)
    monkeypatch.setattr(jobs, "MOST_QUIET_SECONDS", 0.3 if ends_by == "time" else 60.0)
    going = Supervisor().start(job(answering(OK, seconds=0.5), queue, when_quiet=True))
    heard = []
    for news in going.watch():
        heard.append(news)
        if ends_by == "cancel" and isinstance(news, jobs.WaitingForQuiet):
            going.cancel()
    if ends_by != "another visitor":  # that wait is over before a page hears of it
        assert 0.8 in [news.share for news in heard if isinstance(news, jobs.WaitingForQuiet)]
    assert isinstance(going.outcome(), RunResult) is (ends_by != "cancel")


def test_new_visitors_have_ids_of_their_own_which_their_browser_keeps() -> None:
    one, two = visitor_name(None, "page 1"), visitor_name(None, "page 2")
    assert one != two and one == visitor_name("not an id", "page 1")
    assert visitor_name(one, "page 2") == one
