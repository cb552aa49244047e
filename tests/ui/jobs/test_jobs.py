"""Jobs: how often a page hears of one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from samples import ok_result

from demo.core.result import Progress
from demo.core.spec import RunSpec
from demo.ui.jobs import jobs
from demo.ui.jobs.fake_runner import MACHINE, FakeRunner
from demo.ui.jobs.queue import RunQueue
from demo.ui.tabs import form

ROOT = Path(__file__).resolve().parents[3]
VIT = "google/vit-base-patch16-224"


@pytest.mark.parametrize(("gpu", "often"), [(None, False), ("Tesla T4", True)], ids=["a CPU", "a GPU"])
def test_a_page_hears_little_while_the_cores_of_its_browser_may_be_timed(
    gpu: str | None, often: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "UPDATE_SECONDS", 0.01)
    monkeypatch.setattr(jobs, "CPU_TIMING_UPDATE_SECONDS", 60.0)  # until the timing is over
    runner = FakeRunner(lambda *_: ok_result(), seconds=2.0, machine=dataclasses.replace(MACHINE, gpu=gpu))
    job = jobs.Jobs(runner, RunQueue()).start("one", RunSpec("shapes-vit", "image-classification"), form.scenes()[0])
    heard = [news.phase for news in job.watch() if isinstance(news, Progress)]
    assert "check" in heard  # no pause outlasts the timing
    assert (heard.count("time") > 1) is often
    assert heard.count("compile") > 1
