"""The tabs Published, Shared and Sweep in a real browser. A fake runner stands for the models, a Hub on loopback for
the one that is shared with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner, progress
from huggingface_hub import constants
from samples import failed_result, measurement, ok_result
from shared_tables import plausible, write
from troubles import heard

from demo.core.result import Progress, RunResult
from demo.core.spec import RunSpec
from demo.store.history import FOLDER_VARIABLE
from demo.store.hub_dataset import PushedHistory
from demo.ui.page import Page, launch
from tests import hub_stub

DATASET = "somebody/worth-compiling-runs"
GO_ON = threading.Event()
"""While it is not set, no cell with a batch of more than 2 ends."""


def answer(spec: RunSpec, image: Path) -> RunResult:
    """Half of a sweep is faster, half slower, and one cell does not fit."""
    if (spec.checkpoint, spec.batch_size) == ("shapes-rtdetr", 4):
        return failed_result(spec=spec)
    return ok_result(spec=spec, compiled=measurement(0.001 if spec.checkpoint == "shapes-vit" else 0.004))


class HeldRunner(FakeRunner):
    """Stands still in the midst of the timing while `GO_ON` is not set."""

    def run(self, spec: RunSpec, *asked: Any, **named: Any) -> Iterator[Progress | RunResult]:
        while spec.batch_size > 2 and not GO_ON.wait(0.2):
            yield progress(7.0, 10.0, ok_result())
        yield from super().run(spec, *asked, **named)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("data")
    write(folder / "repository", [*plausible(), plausible()[0] | {"id": "bad", "speedup": -1.0}])
    with (
        pytest.MonkeyPatch.context() as patch,
        hub_stub.serve({f"datasets/{DATASET}": folder / "repository"}) as endpoint,
    ):
        patch.setenv(FOLDER_VARIABLE, str(folder))
        patch.setenv("HF_ENDPOINT", endpoint)
        patch.setattr(constants, "HF_ASSETS_CACHE", str(folder / "cache"))
        # without a precompiler: a sweep would compile its cells for minutes
        page = Page(HeldRunner(answer, 0.2), history=PushedHistory(DATASET, lambda **_: None)).blocks
        _, url, _ = launch(page, prevent_thread_lock=True)
        yield url
        GO_ON.set()
        page.close()


@pytest.fixture
def tab(new_tab: Any) -> Iterator[Any]:
    """A fresh tab, which must not log an error."""
    tab = new_tab()
    troubles = heard(tab)
    yield tab
    assert troubles == []


def width(tab: Any) -> int:
    return int(tab.evaluate("document.documentElement.scrollWidth"))


def test_published_charts_and_rows_stand_within_a_phone_and_a_row_fills_the_form(
    tab: Any, address: str, shots: Path
) -> None:
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(f"{address}?__theme=dark&tab=published")
    tab.wait_for_selector("#published-by-batch .js-plotly-plot .main-svg")
    charts = tab.locator("#published .js-plotly-plot .main-svg").evaluate_all(
        "drawn => drawn.map(one => [one.getBoundingClientRect().left, one.getBoundingClientRect().right])"
    )
    assert tab.locator("#published .js-plotly-plot").count() == 2 and width(tab) == 390
    assert all(left >= 0 and right <= 390 for left, right in charts)
    row = tab.locator("#published-table tbody tr").first
    shown = [row.locator(cell).bounding_box() for cell in (".strong", ".saved")]
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in shown)
    tab.screenshot(path=shots / "published-phone.png", full_page=True)
    row.get_by_role("link", name="Run this here").click()
    tab.locator("#top .question", has_text="vit-base-patch16-224").wait_for()
    tab.wait_for_function("document.activeElement.id === 'run'")
    tab.go_back()
    tab.wait_for_selector("#published-table tbody tr")
    assert "tab=published" in tab.url and tab.title() == "Published · Worth compiling?"


def test_the_address_follows_the_filters_and_brings_them_back(tab: Any, address: str) -> None:
    tab.goto(address)
    tab.get_by_role("tab", name="Published").click()
    tab.wait_for_url("**?tab=published")
    tab.get_by_label("GPU", exact=True).click()
    tab.get_by_role("option", name="T4").click()
    tab.get_by_label("Search model").first.press_sequentially("detr", delay=20)
    tab.wait_for_url("**?tab=published&published_gpu=T4&published_model=detr")
    tab.wait_for_function(
        "[...document.querySelectorAll('#published-table tbody tr')].every(row => /T4/.test(row.innerText))"
    )
    rows, copied = tab.locator("#published-table tbody").inner_text(), tab.url
    tab.get_by_role("tab", name="Sweep").click()
    tab.wait_for_url("**?tab=sweep")
    tab.go_back()
    tab.wait_for_url(copied)
    tab.goto(f"{address}?tab=published&published_subset=&published_gpu=%3Cscript%3E&published_batch_size=4")
    tab.wait_for_url("**?tab=published&published_subset=&published_gpu=&published_batch_size=4")
    assert tab.locator("#published-table tbody tr").count() > 12
    tab.goto(copied)
    tab.wait_for_selector("#published-table tbody tr")
    assert tab.locator("#published-table tbody").inner_text() == rows
    assert tab.get_by_label("GPU", exact=True).input_value() == "T4" and tab.url == copied


def test_shared_rows_arrive_are_chosen_by_a_link_and_fill_the_form(tab: Any, address: str, shots: Path) -> None:
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(f"{address}?tab=shared&lang=ar")
    tab.wait_for_selector("#shared-table tbody tr")
    tab.wait_for_function("document.title.startsWith('النتائج المشتركة')")
    assert tab.locator("#shared-map tbody tr").count() == 5
    assert "تُركت" in tab.locator("#shared-status").inner_text() and width(tab) == 390
    tab.screenshot(path=shots / "shared-arabic-phone.png")

    tab.goto(f"{address}?tab=shared&shared_device=Tesla+T4&shared_model=detr&lang=en")
    tab.wait_for_function("document.querySelectorAll('#shared-map tbody tr').length === 1")
    assert tab.locator("#shared-filters").get_by_label("Device").input_value() == "Tesla T4"
    rows = tab.locator("#shared-table tbody tr").all_inner_texts()
    assert rows and all("T4" in row and "detr" in row for row in rows)
    tab.locator("#shared-table").get_by_role("link", name="Repeat this here").first.click()
    tab.locator("#top .question", has_text="detr-resnet-50").wait_for()
    tab.wait_for_function("document.activeElement.id === 'run'")
    assert "detr-resnet-50" in tab.url  # a reload fills the form again
    tab.go_back()
    tab.locator("#shared-table tbody tr").first.wait_for()
    assert "tab=shared" in tab.url and tab.title().startswith("Shared")


def test_a_sweep_goes_on_while_its_page_is_opened_anew_and_its_cells_open(tab: Any, address: str, shots: Path) -> None:
    tab.set_viewport_size({"width": 1280, "height": 720})
    tab.goto(f"{address}?tab=sweep")
    tab.locator("#sweep-plan", has_text="Cells: 8.").wait_for()
    assert tab.evaluate("document.querySelector('#sweep-start').getBoundingClientRect().bottom") <= 720
    tab.locator("#sweep-form .preset").last.focus()
    preset, actions = (tab.locator(part).last.bounding_box() for part in ("#sweep-form .preset", "#sweep-actions"))
    assert preset["y"] + preset["height"] <= actions["y"]  # what gets the focus does not lie under the buttons

    GO_ON.clear()
    tab.locator("#sweep-start").click()
    tab.locator("#sweep-map button[data-place]").first.wait_for()
    tab.reload()
    tab.get_by_role("tab", name="Sweep").click()
    tab.locator("#sweep-stop:not([disabled])").wait_for()
    assert tab.locator("#sweep-start").is_disabled()
    assert 1 <= tab.locator("#sweep-map button[data-place]").count() < 8
    tab.locator("#sweep-map td.now").first.wait_for()
    GO_ON.set()
    tab.locator("#sweep-status", has_text="8 of 8 cells finished").wait_for()
    tab.locator("#sweep-start:not([disabled])").wait_for()

    shown = tab.locator("#sweep-map button[data-place]")
    assert shown.count() == 8 and "OOM" in shown.nth(5).inner_text()
    shown.nth(0).click()
    tab.locator("#sweep-opened .headline").wait_for()
    assert "2.00×" in tab.locator("#sweep-opened").inner_text()
    shown.nth(5).click()
    tab.locator("#sweep-opened", has_text="ran out of memory").wait_for()
    with tab.expect_download() as download:
        tab.locator("#sweep-exports").get_by_text("Export CSV").click()
    assert len(Path(download.value.path()).read_text().splitlines()) == 9
    tab.screenshot(path=shots / "sweep.png", full_page=True)
