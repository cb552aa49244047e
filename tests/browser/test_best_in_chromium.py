"""The search for the best way, as a visitor meets it: a served page, a runner without models, a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from search_runner import SearchRunner, measured
from troubles import heard

from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.store.history import History
from demo.ui.page import build, launch

LONG = 64
"""A batch size whose runs last until they are cancelled, but for the first."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    def answer(spec: RunSpec) -> RunResult:
        runner.seconds = 600.0 if spec.batch_size == LONG and len(runner.runs) > 1 else 0.4
        return measured(spec)

    runner = SearchRunner(History(tmp_path_factory.mktemp("data") / "history.sqlite3"), answer)
    page = build(runner, history=runner.history)
    _, address, _ = launch(page, server_name="127.0.0.1", prevent_thread_lock=True)
    yield address
    page.close()


@pytest.fixture
def tab(new_tab: Any, served: str) -> Iterator[Any]:
    tab = new_tab()
    troubles = heard(tab)
    tab.goto(served)
    tab.get_by_text("Example CPU").first.wait_for()
    yield tab
    assert troubles == []


def test_cancel_keeps_the_rows_that_were_measured(tab: Any) -> None:
    field = tab.locator("#batch input[type=number]")
    field.fill(str(LONG))
    field.press("Tab")
    tab.locator("#best").click()
    tab.locator("#best-table a").first.wait_for()
    tab.locator("#cancel").click()
    tab.get_by_text("Cancelled. What was measured is kept").wait_for()
    assert tab.locator("#best-table a").count() == 1 and tab.locator("#best").is_enabled()


def test_a_search_from_its_press_over_a_reload_to_its_answer_and_from_a_run_back_to_it(
    tab: Any, served: str, shots: Path
) -> None:
    tab.locator("#best").click()
    tab.locator("#best-head [role=progressbar]").wait_for()
    tab.locator("#run:disabled").wait_for()
    assert not tab.locator("#top").is_visible()
    tab.locator("#best-table a").first.wait_for()
    tab.screenshot(path=shots / "best-running.png")
    tab.reload()
    tab.locator("#best-head .answer").wait_for()  # still so far, or on a slow machine at its end
    tab.locator("#best-ladder .plot-container").wait_for()
    assert "Freezing" in tab.locator("#best-head .answer").inner_text()
    first = tab.locator("#best-table tbody tr").first
    assert "Freezing" in first.inner_text() and "rank 1" in first.inner_text()
    tab.screenshot(path=shots / "best-over.png", full_page=True)
    tab.locator("#best-goals label", has_text="Soonest answer").click()
    tab.wait_for_function("!document.querySelector('#best-table tbody tr').textContent.includes('Freezing')")
    tab.locator("#best-table a", has_text="Freezing").click()
    assert "freezing" in tab.locator("#best-opened .headline .kicker").inner_text()
    tab.locator("#run").click()  # the run takes the stage
    tab.locator("#top .headline").wait_for()
    assert not tab.locator("#best-stage").is_visible()
    tab.locator("#fold-take > .label-wrap").click()
    tab.locator("a[data-follow=best]").click()
    tab.get_by_text("everything was tried").wait_for()  # it is all stored
    assert tab.locator("#best-table").is_visible() and not tab.locator("#top").is_visible()
    tab.goto(f"{served}?stage=1")
    tab.keyboard.press("5")
    tab.locator("#best-table a").first.wait_for()
    assert not tab.locator("#best-charts").is_visible()
