"""Jobs: how often a page hears of one, and what becomes of one that finds no place."""

import dataclasses
import itertools
import threading
import time

import pytest
from fake_runner import MACHINE, FakeRunner
from samples import ok_result

from demo.core.errors import BadInput
from demo.core.result import Progress, RunResult
from demo.core.spec import RunSpec
from demo.ui.jobs import jobs
from demo.ui.jobs.queue import Full, RunQueue
from demo.ui.jobs.supervisor import Supervisor
from demo.ui.tabs import form


def started(runner: FakeRunner, queue: RunQueue, when_quiet: bool = False) -> jobs.Job:
    spec, image = RunSpec("shapes-vit", "image-classification"), form.scenes()[0]
    return Supervisor("run").start("one", jobs.Job(runner, queue, "one", spec, image, when_quiet=when_quiet))


@pytest.mark.parametrize(("gpu", "often"), [(None, False), ("Tesla T4", True)], ids=["a CPU", "a GPU"])
def test_a_page_hears_little_while_the_cores_of_its_browser_may_be_timed(
    gpu: str | None, often: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "OFTEN_SECONDS", 0.01)
    monkeypatch.setattr(jobs, "UPDATE_SECONDS", 0.6)
    runner = FakeRunner(lambda *_: ok_result(), seconds=2.0, machine=dataclasses.replace(MACHINE, gpu=gpu))
    job = started(runner, RunQueue())
    heard = [news.phase for news in job.watch() if isinstance(news, Progress)]
    assert (heard.count("time") > 3) is often
    assert heard.count("compile") > 3


def test_a_full_queue_refuses_a_run_before_the_visitors_last_one_is_forgotten() -> None:
    spec, queue, works = RunSpec("shapes-vit", "image-classification"), RunQueue(longest=1), Supervisor("run")
    first, second = (jobs.Job(FakeRunner(lambda *_: ok_result()), queue, "one", spec, None) for _ in range(2))
    works.start("one", first)
    list(first.watch())
    with queue.join("another"), pytest.raises(Full):
        works.start("one", second)
    assert works.of("one") is first
    works.start("one", second)
    list(second.watch())
    assert isinstance(second.outcome(), RunResult) and len(queue) == 0


def test_a_run_whose_thread_cannot_start_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, works = RunQueue(longest=1), Supervisor("run")

    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    job = jobs.Job(
        FakeRunner(lambda *_: ok_result()), queue, "one", RunSpec("shapes-vit", "image-classification"), None
    )
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        with pytest.raises(BadInput, match="cannot start another run just now"):
            works.start("one", job)
    assert len(queue) == 0 and works.of("one") is None


@pytest.mark.parametrize("ends_by", ["itself", "time", "cancel", "another visitor"])
def test_a_run_that_waits_for_a_quiet_machine_tells_the_share_of_others_and_ends_its_wait(
    ends_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([0.8, 0.7, 0.05]) if ends_by == "itself" else itertools.repeat(0.8)
    queue = RunQueue()
    another = queue.join("another")

    def share(windows: int) -> float:
        if ends_by == "another visitor" and len(queue) == 1:
            another.__enter__()
        time.sleep(0.05)
        return next(shares)

    monkeypatch.setattr(jobs.cores, "others_share", share)
    monkeypatch.setattr(jobs, "OFTEN_SECONDS", 0.01)
    monkeypatch.setattr(jobs, "MOST_QUIET_SECONDS", 0.3 if ends_by == "time" else 60.0)
    job = started(FakeRunner(lambda *_: ok_result(), seconds=0.5), queue, when_quiet=True)
    heard = []
    for news in job.watch():
        heard.append(news)
        if ends_by == "cancel" and isinstance(news, jobs.WaitingForQuiet):
            job.cancel()
    if ends_by != "another visitor":  # that wait is over before a page hears of it
        assert 0.8 in [news.share for news in heard if isinstance(news, jobs.WaitingForQuiet)]
    assert isinstance(job.outcome(), RunResult) is (ends_by != "cancel")
