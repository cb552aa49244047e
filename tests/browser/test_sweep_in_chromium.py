"""The tab of sweeps in a real browser. A fake runner stands for the models: nothing is compiled or timed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from samples import failed_result, measurement, ok_result
from troubles import heard

from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.store.history import FOLDER_VARIABLE
from demo.ui.page import Page, launch


def answer(spec: RunSpec, image: Path) -> RunResult:
    """Half of it faster, half slower, and one that does not fit."""
    if (spec.checkpoint, spec.batch_size) == ("shapes-rtdetr", 4):
        return failed_result(spec=spec)
    seconds = 0.001 if spec.checkpoint == "shapes-vit" else 0.004
    return ok_result(spec=spec, compiled=measurement(seconds))


RUNNER = FakeRunner(answer, seconds=1.0)  # a page hears of a sweep once a second


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("data")))
        page = Page(RUNNER)
        _, url, _ = launch(page.blocks, prevent_thread_lock=True)
        yield url
        page.blocks.close()


@pytest.fixture
def tab(new_tab: Any, address: str) -> Iterator[Any]:
    """The tab in a fresh page, which must not log an error."""
    page = new_tab()
    troubles = heard(page)
    page.goto(address)
    page.get_by_role("tab", name="Sweep").click()
    page.locator("#sweep-start").wait_for()
    yield page
    assert troubles == []


def test_the_map_fills_a_cell_opens_and_the_table_can_be_had_in_every_size_and_theme(tab: Any, shots: Path) -> None:
    tab.locator("#sweep-plan", has_text="Cells: 8.").wait_for()
    tab.locator("#sweep-start").click()
    tab.locator("#sweep-map td.now").first.wait_for()
    assert tab.locator("#sweep-start").is_disabled()
    tab.locator("#sweep-status", has_text="8 of 8 cells finished").wait_for()
    tab.locator("#sweep-start:not([disabled])").wait_for()
    shown = tab.locator("#sweep-map button[data-place]")
    assert shown.count() == 8
    assert "OOM" in shown.nth(5).inner_text()
    shown.nth(0).click()
    tab.locator("#sweep-opened .headline").wait_for()
    assert "2.00×" in tab.locator("#sweep-opened").inner_text()
    shown.nth(5).click()
    tab.locator("#sweep-opened", has_text="ran out of memory").wait_for()
    with tab.expect_download() as download:
        tab.get_by_text("Table as CSV").click()
    assert len(Path(download.value.path()).read_text().splitlines()) == 9
    for theme in ("light", "dark"):
        tab.evaluate("dark => document.body.classList.toggle('dark', dark)", theme == "dark")
        for width in (390, 1440, 1920):
            tab.set_viewport_size({"width": width, "height": 1080 if width > 390 else 844})
            tab.wait_for_timeout(200)
            assert tab.evaluate("document.documentElement.scrollWidth") == width
            tab.screenshot(path=shots / f"sweep-{theme}-{width}.png", full_page=True)


def test_start_is_in_sight_on_a_projector_and_what_gets_the_focus_does_not_lie_under_it(tab: Any) -> None:
    tab.set_viewport_size({"width": 1280, "height": 720})
    assert tab.evaluate("document.querySelector('#sweep-start').getBoundingClientRect().bottom") <= 720
    tab.locator("#sweep-form .preset").last.focus()
    preset, actions = (tab.locator(part).last.bounding_box() for part in ("#sweep-form .preset", "#sweep-actions"))
    assert preset["y"] + preset["height"] <= actions["y"]


def test_stop_leaves_what_is_there(tab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tab.locator("#sweep-start").click()
    tab.locator("#sweep-map button[data-place]").first.wait_for()
    monkeypatch.setattr(RUNNER, "seconds", 600)  # the cell in hand will not end by itself
    tab.locator("#sweep-stop").click()
    tab.locator("#sweep-status", has_text="Stopped").wait_for()
    assert 1 <= tab.locator("#sweep-map button[data-place]").count() < 8
    tab.locator("#sweep-start:not([disabled])").wait_for()


def test_a_sweep_goes_on_while_its_page_is_opened_anew(tab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RUNNER, "seconds", 1.5)
    tab.locator("#sweep-start").click()
    tab.locator("#sweep-map button[data-place]").first.wait_for()
    tab.reload()
    tab.get_by_role("tab", name="Sweep").click()
    tab.locator("#sweep-stop:not([disabled])").wait_for()
    assert tab.locator("#sweep-start").is_disabled()
    assert tab.locator("#sweep-map button[data-place]").count() >= 1
    tab.locator("#sweep-status", has_text="8 of 8 cells finished").wait_for()
    tab.locator("#sweep-start:not([disabled])").wait_for()
    tab.locator("#sweep-map button[data-place]").nth(0).click()
    tab.locator("#sweep-opened .headline").wait_for()
