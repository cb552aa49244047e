"""The forecast on the page: what it reads of the history, and what it says beside the Run button."""

from __future__ import annotations

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import page_support
from fake_runner import MACHINE, FakeRunner
from samples import ENVIRONMENT, ok_result

from demo.core.result import RunResult
from demo.store.history import History
from demo.ui.jobs.recent_runs import RecentRuns
from demo.ui.page import Page


class CountingHistory(History):
    reads = 0

    def all(self, *arguments: Any, **more: Any) -> list[RunResult]:
        self.reads += 1
        return super().all(*arguments, **more)


def test_the_history_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    history = CountingHistory(tmp_path / "history.sqlite3")
    recent_runs = RecentRuns(history)
    assert recent_runs.runs() == [] and recent_runs.runs() == []
    assert history.reads == 1
    history.append(ok_result())
    assert recent_runs.runs() == recent_runs.runs() == [ok_result()]
    assert history.reads == 2


def test_what_only_the_log_beside_the_file_holds_is_a_change_too(tmp_path: Path) -> None:
    """As long as somebody else has the file open, SQLite leaves the latest results in its log."""
    path = tmp_path / "history.sqlite3"
    history = CountingHistory(path)
    history.append(ok_result())
    recent_runs = RecentRuns(history)
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT id FROM results").fetchall()
        assert len(recent_runs.runs()) == 1
        written = path.stat().st_mtime_ns
        history.append(ok_result(id="second"))
        assert path.stat().st_mtime_ns == written
        assert len(recent_runs.runs()) == 2


def test_a_history_that_cannot_be_read_leaves_the_forecast_without_earlier_runs(tmp_path: Path) -> None:
    broken = tmp_path / "history.sqlite3"
    broken.write_bytes(b"not a database, and long enough to be looked at as one" * 100)
    assert RecentRuns(History(broken)).runs() == []


def forecast(history: History, **changes: Any) -> str:
    """What the page says for its form as it stands, with these fields changed."""
    page = Page(FakeRunner(lambda *_: ok_result()), history=history)
    return str(page_support.forecast(page, **changes))


def test_a_stored_run_of_this_machine_narrows_the_forecast(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    assert "rough estimate from model size (827 k parameters)</small>" in forecast(history)
    here = dataclasses.replace(ENVIRONMENT, device_name=MACHINE.cpu)
    history.append(ok_result(environment=here))
    assert "based on 1 earlier run with these settings" in forecast(history)
    assert "rough estimate" in forecast(history, batch_size=8)
    assert 'data-query="checkpoint=shapes-vit&amp;batch_size=8"' in forecast(history, batch_size=8)
