"""The tab of shared results in a real browser, its rows from a Hub on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from huggingface_hub import constants
from samples import ok_result
from shared_tables import plausible, write

from demo.core import hub
from demo.store.history import FOLDER_VARIABLE
from demo.store.hub_dataset import PushedHistory
from demo.ui.page import build, launch
from tests import hub_stub

DATASET = "somebody/worth-compiling-runs"


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
        patch.setattr(constants, "HF_HUB_CACHE", str(folder / "cache"))
        patch.setattr(hub, "_answers", {})
        page = build(FakeRunner(lambda *_: ok_result(), 0.2), history=PushedHistory(DATASET, lambda **_: None))
        _, url, _ = launch(page, prevent_thread_lock=True)
        yield url
        page.close()


@pytest.mark.parametrize(
    ("name", "width", "query", "title"),
    [
        ("light", 1440, "", "Shared"),
        ("phone-arabic", 390, "&lang=ar", "النتائج المشتركة"),
    ],
)
def test_map_and_table_arrive_and_stand_within_the_page(
    new_tab: Any, address: str, shots: Path, name: str, width: int, query: str, title: str
) -> None:
    page = new_tab(width)
    page.goto(f"{address}?tab=shared{query}")
    page.wait_for_selector("#shared-table tbody tr")
    page.wait_for_function("title => document.title.startsWith(title)", arg=title)
    assert page.locator("#shared-map tbody tr").count() == 5
    assert "361" in page.locator("#shared-status").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.screenshot(path=shots / f"shared-{name}.png")


def test_repeat_this_here_fills_the_form_and_back_returns(new_tab: Any, address: str) -> None:
    page = new_tab(390, 844)
    page.goto(f"{address}?tab=shared")
    page.get_by_label("Search model").last.press_sequentially("detr", delay=20)
    page.wait_for_function("document.querySelectorAll('#shared-map tbody tr').length === 1")
    page.locator("#shared-table").get_by_role("link", name="Repeat this here").first.click()
    page.locator("#top .question", has_text="detr-resnet-50").wait_for()
    page.wait_for_function("document.activeElement.id === 'run'")
    assert "detr-resnet-50" in page.url  # a reload fills the form again
    page.go_back()
    page.locator("#shared-table tbody tr").first.wait_for()
    assert "tab=shared" in page.url and page.title().startswith("Shared")
    page.get_by_role("tab", name="Sweep").click()  # in sight, also on a phone
    page.locator("#sweep-start").wait_for()


def test_a_link_chooses_among_the_rows_also_where_they_arrive_later(new_tab: Any, address: str) -> None:
    page = new_tab()
    page.goto(f"{address}?tab=shared&shared_device=Tesla+T4&shared_model=vit")
    page.wait_for_selector("#shared-table tbody tr")
    assert page.locator("#shared-filters").get_by_label("Device").input_value() == "Tesla T4"
    assert page.get_by_label("Search model").last.input_value() == "vit"
    assert page.url.endswith("&shared_device=Tesla+T4&shared_model=vit")
    rows = page.locator("#shared-table tbody tr").all_inner_texts()
    assert rows and all("T4" in row and "vit" in row for row in rows)
