"""The forecast on the page: what it reads of the history, and what it says beside the Run button."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import page_support
from fake_runner import MACHINE, FakeRunner
from samples import ENVIRONMENT, ok_result

from demo.store.history import History
from demo.ui.page import Page


def forecast(history: History, **changes: Any) -> str:
    """What the page says for its form as it stands, with these fields changed."""
    page = Page(FakeRunner(lambda *_: ok_result()), history=history)
    return str(page_support.forecast(page, **changes))


def test_a_stored_run_of_this_machine_narrows_the_forecast(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    assert "rough estimate from model size (827 k parameters), download not counted</small>" in forecast(history)
    here = dataclasses.replace(ENVIRONMENT, device_name=MACHINE.cpu)
    history.append(ok_result(environment=here))
    assert "based on earlier runs with these settings: 1" in forecast(history)
    assert "rough estimate" in forecast(history, batch_size=8)
    assert 'data-query="checkpoint=shapes-vit&amp;batch_size=8"' in forecast(history, batch_size=8)


def test_a_history_that_cannot_be_read_leaves_the_forecast_without_earlier_runs(tmp_path: Path) -> None:
    broken = tmp_path / "history.sqlite3"
    broken.write_bytes(b"not a database, and long enough to be looked at as one" * 100)
    assert "rough estimate" in forecast(History(broken))
