"""The tab of the published tables in a real browser. A fake runner stands for the models: nothing is timed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from samples import ok_result

from demo.core.spec import RunSpec
from demo.ui.page import build, launch


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    result = ok_result(spec=RunSpec("microsoft/resnet-50", "image-classification", device="cpu"), predictions=None)
    page = build(FakeRunner(lambda *_: result, seconds=0.2))
    _, url, _ = launch(page, prevent_thread_lock=True)
    yield url
    page.close()


def opened(new_tab: Any, address: str, width: int, height: int, query: str = "") -> Any:
    """The tab, its charts drawn."""
    page = new_tab(width, height)
    page.goto(address + query)
    page.get_by_role("tab", name="Published").click()
    page.wait_for_selector("#published-by-batch .js-plotly-plot .main-svg")
    page.wait_for_selector("#published-table tbody tr")
    return page


@pytest.mark.parametrize(
    ("name", "width", "height", "query"),
    [
        ("light", 1440, 900, ""),
        ("phone", 390, 844, "?__theme=dark"),
    ],
)
def test_charts_and_table_stand_within_the_page(
    new_tab: Any, address: str, shots: Path, name: str, width: int, height: int, query: str
) -> None:
    page = opened(new_tab, address, width, height, query)
    assert page.locator("#published .js-plotly-plot").count() == 3
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    charts = page.locator("#published .js-plotly-plot .main-svg").evaluate_all(
        "drawn => drawn.map(one => [one.getBoundingClientRect().left, one.getBoundingClientRect().right])"
    )
    assert all(left >= 0 and right <= width for left, right in charts)
    row = page.locator("#published-table tbody tr").first
    shown = [row.locator(cell).bounding_box() for cell in (".strong", ".saved")]
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= width for box in shown)
    page.screenshot(path=shots / f"published-{name}.png", full_page=True)
    if name == "phone":
        row.get_by_role("link", name="Run this here").click()
        page.locator("#top .question", has_text="vit-base-patch16-224").wait_for()
        page.wait_for_function("document.activeElement.id === 'run'")
        page.go_back()
        page.wait_for_selector("#published-table tbody tr")
        assert "tab=published" in page.url and page.title() == "Published · Worth compiling?"


def test_a_choice_changes_table_and_charts_together(new_tab: Any, address: str) -> None:
    page = opened(new_tab, address, 1440, 900)
    page.get_by_label("GPU", exact=True).click()
    page.get_by_role("option", name="T4").click()
    page.wait_for_selector("#published-table td:has-text('T4')")
    page.get_by_label("Batch size", exact=True).last.click()
    page.get_by_role("option", name="16").click()
    page.wait_for_selector("#published-table td:has-text('OOM')")
    page.wait_for_selector("#published-durations text:has-text('batch of 16')")
    rows = page.locator("#published-table tbody tr").all_inner_texts()
    assert rows and all("T4" in row and "A100" not in row and "V100" not in row for row in rows)


def test_the_address_follows_the_filters_and_brings_them_back(new_tab: Any, address: str) -> None:
    page = opened(new_tab, address, 1440, 900)
    assert page.url.endswith("?tab=published")
    page.get_by_label("GPU", exact=True).click()
    page.get_by_role("option", name="T4").click()
    page.get_by_label("Search model").press_sequentially("detr", delay=20)
    page.wait_for_url("**?tab=published&published_gpu=T4&published_model=detr")
    rows = page.locator("#published-table tbody").inner_text()
    copied = page.url
    page.get_by_role("tab", name="Sweep").click()
    page.wait_for_url("**?tab=sweep")
    page.get_by_role("tab", name="Published").click()
    page.wait_for_url(copied)
    page.get_by_label("Search model").fill("")
    page.wait_for_url("**?tab=published&published_gpu=T4")
    page.go_back()
    page.go_back()  # to the entry that still has the search
    page.wait_for_url(copied)
    page.wait_for_function("rows => document.querySelector('#published-table tbody').innerText === rows", arg=rows)
    assert page.get_by_label("Search model").input_value() == "detr"

    other = new_tab()
    other.goto(copied)
    other.wait_for_selector("#published-table tbody tr")
    assert other.locator("#published-table tbody").inner_text() == rows
    assert other.get_by_label("GPU", exact=True).input_value() == "T4" and other.url == copied
    other.goto(f"{address}?tab=published&published_subset=&published_gpu=%3Cscript%3E&published_batch_size=4")
    other.wait_for_url("**?tab=published&published_subset=&published_gpu=&published_batch_size=4")
    assert other.locator("#published-table tbody tr").count() > 12


def test_after_a_run_of_the_twelve_its_published_rows_stand_beside_it(new_tab: Any, address: str, shots: Path) -> None:
    page = new_tab()
    page.goto(address)
    page.locator("#run").click()
    page.locator("#top .headline").wait_for()
    page.locator("#fold-why .label-wrap").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#figure-beside .js-plotly-plot .main-svg")
    assert "On an A100 with torch 2.0.1 the guide saw 1.58×" in page.locator("#fold-why").inner_text()
    page.screenshot(path=shots / "beside.png", full_page=True)
