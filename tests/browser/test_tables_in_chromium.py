"""The tabs History, Published, Shared and Sweep in a real browser. A fake runner stands for the models, a Hub on
loopback for the one that is shared with."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from huggingface_hub import constants
from samples import failed_result, measurement, ok_result
from shared_tables import plausible, write

from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.store.history import FOLDER_VARIABLE
from demo.store.hub_dataset import PushedHistory
from demo.ui.page import Page
from demo.ui.tabs import history_tab
from tests import hub_stub

DATASET = "somebody/worth-compiling-runs"


def answer(spec: RunSpec, image: Path) -> RunResult:
    """Half of a sweep is faster, half slower, one cell does not fit. The second batch size waits."""
    RUNNER.hold |= spec.batch_size > 2 and not LET_GO.is_set()
    if (spec.checkpoint, spec.batch_size) == ("shapes-rtdetr", 4):
        return failed_result(spec=spec)
    return ok_result(spec=spec, compiled=measurement(0.001 if spec.checkpoint == "shapes-vit" else 0.004))


LET_GO = threading.Event()
RUNNER = FakeRunner(answer, 0.2)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushedHistory]:
    folder = tmp_path_factory.mktemp("data")
    write(folder / "repository", [*plausible(), plausible()[0] | {"id": "bad", "speedup": -1.0}])
    with (
        pytest.MonkeyPatch.context() as patch,
        hub_stub.serve({f"datasets/{DATASET}": folder / "repository"}) as endpoint,
    ):
        patch.setenv(FOLDER_VARIABLE, str(folder))
        patch.setenv("HF_ENDPOINT", endpoint)
        patch.setattr(constants, "HF_ASSETS_CACHE", str(folder / "cache"))
        often = history_tab.LIST.replace("UPDATE_MILLISECONDS = 5_000", "UPDATE_MILLISECONDS = 300")
        assert often != history_tab.LIST
        patch.setattr(history_tab, "LIST", often)
        kept = PushedHistory(DATASET, lambda **_: None)
        for number in range(6):
            kept.append(ok_result(id=f"mine{number}", started_at=f"2026-11-23T09:0{number}:00Z"))
        slower = ok_result(id="slower", compiled=measurement(0.004), started_at="2026-11-21T10:00:00Z")
        for result in (ok_result(), failed_result(), slower):
            kept.append(result)
        yield kept


@pytest.fixture(scope="module")
def address(history: PushedHistory, served: Any) -> str:
    return str(served(Page(RUNNER, history=history).blocks))


@pytest.fixture
def tab(new_tab: Any) -> Any:
    return new_tab()


def width(tab: Any) -> int:
    return int(tab.evaluate("document.documentElement.scrollWidth"))


def test_published_filters_are_in_the_address_and_its_rows_stand_within_a_phone_and_fill_the_form(
    tab: Any, address: str, shots: Path
) -> None:
    tab.goto(f"{address}?tab=published&published_subset=&published_gpu=%3Cscript%3E")
    tab.wait_for_url("**?tab=published&published_subset=&published_gpu=")  # what is no choice is not kept
    tab.get_by_label("GPU", exact=True).click()
    tab.get_by_role("option", name="T4").click()
    tab.get_by_label("Search model").first.press_sequentially("detr", delay=20)
    tab.wait_for_url("**?tab=published&*published_gpu=T4*&published_model=detr")
    tab.wait_for_function(
        "[...document.querySelectorAll('#published-table tbody tr')].every(row => /T4/.test(row.innerText))"
    )
    rows, copied = tab.locator("#published-table tbody").inner_text(), tab.url
    tab.get_by_role("tab", name="Sweep").click()
    tab.wait_for_url("**?tab=sweep")
    tab.go_back()
    tab.wait_for_url(copied)
    tab.reload()
    tab.wait_for_selector("#published-table tbody tr")
    assert tab.locator("#published-table tbody").inner_text() == rows
    assert tab.get_by_label("GPU", exact=True).input_value() == "T4" and tab.url == copied

    tab.set_viewport_size({"width": 390, "height": 844})
    tab.wait_for_function(
        """() => { const drawn = [...document.querySelectorAll('#published .js-plotly-plot .main-svg')].map(one =>
          one.getBoundingClientRect());
          return drawn.length > 1 && drawn.every(one => one.left >= 0 && one.right <= 390); }"""
    )
    row = tab.locator("#published-table tbody tr").first
    shown = [row.locator(cell).bounding_box() for cell in (".strong", ".saved")]
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in shown) and width(tab) == 390
    tab.screenshot(path=shots / "published-phone.png", full_page=True)
    row.get_by_role("link", name="Run this here").click()
    tab.locator("#top .question", has_text="detr-resnet-50").wait_for()
    tab.wait_for_function("document.activeElement.id === 'run'")


def test_shared_rows_arrive_are_chosen_by_a_link_and_fill_the_form(tab: Any, address: str, shots: Path) -> None:
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(f"{address}?tab=shared&shared_device=Tesla+T4&shared_model=detr&lang=ar")
    tab.wait_for_function("document.querySelectorAll('#shared-map tbody tr').length === 1")
    tab.wait_for_function("document.title.startsWith('النتائج المشتركة')")
    rows = tab.locator("#shared-table tbody tr").all_inner_texts()
    assert rows and all("T4" in row and "detr" in row for row in rows)
    assert "تُركت" in tab.locator("#shared-status").inner_text() and width(tab) == 390
    tab.screenshot(path=shots / "shared-arabic-phone.png")
    tab.locator("#shared-table a[data-follow=fill]").first.click()
    tab.locator("#top .question", has_text="detr-resnet-50").wait_for()
    tab.wait_for_function("document.activeElement.id === 'run'")
    assert "detr-resnet-50" in tab.url  # a reload fills the form again
    tab.go_back()
    tab.locator("#shared-table tbody tr").first.wait_for()
    tab.wait_for_function("document.title.startsWith('النتائج المشتركة')")
    assert "tab=shared" in tab.url


def test_a_sweep_goes_on_while_its_page_is_opened_anew_and_its_cells_open(tab: Any, address: str, shots: Path) -> None:
    tab.set_viewport_size({"width": 1280, "height": 720})
    tab.goto(f"{address}?tab=sweep")
    tab.locator("#sweep-plan", has_text="Cells: 8.").wait_for()
    assert tab.evaluate("document.querySelector('#sweep-start').getBoundingClientRect().bottom") <= 720
    tab.locator("#sweep-form .preset").last.focus()
    preset, actions = (tab.locator(part).last.bounding_box() for part in ("#sweep-form .preset", "#sweep-actions"))
    assert preset["y"] + preset["height"] <= actions["y"]  # what gets the focus does not lie under the buttons

    tab.locator("#sweep-start").click()
    tab.locator("#sweep-map button[data-place]").first.wait_for()
    tab.reload()
    tab.get_by_role("tab", name="Sweep").click()
    tab.locator("#sweep-stop:not([disabled])").wait_for()
    assert tab.locator("#sweep-start").is_disabled()
    assert 1 <= tab.locator("#sweep-map button[data-place]").count() < 8
    tab.locator("#sweep-map td.now").first.wait_for()
    LET_GO.set()
    RUNNER.hold = False
    tab.locator("#sweep-status", has_text="8 of 8 cells finished").wait_for()
    tab.locator("#sweep-start:not([disabled])").wait_for()

    shown = tab.locator("#sweep-map button[data-place]")
    assert shown.count() == 8 and "OOM" in shown.nth(5).inner_text()
    shown.nth(0).click()
    tab.locator("#sweep-opened .headline").wait_for()
    assert "2.00×" in tab.locator("#sweep-opened").inner_text()
    shown.nth(5).click()
    tab.locator("#sweep-opened", has_text="ran out of memory").wait_for()
    tab.screenshot(path=shots / "sweep.png", full_page=True)


# ---- History


def row_of(tab: Any, id: str) -> Any:
    """The run's row in the list."""
    return tab.locator("#runs tr", has=tab.locator(f"a[data-run='{id}']"))


def pick(tab: Any, *ids: str) -> None:
    for id in ids:
        row_of(tab, id).get_by_role("checkbox").check()


def ticked(tab: Any) -> list[str]:
    found: list[str] = tab.evaluate("Array.from(document.querySelectorAll('#runs input:checked'), box => box.value)")
    return found


def searched(tab: Any, words: str, runs: int) -> None:
    tab.get_by_label("Search").first.fill(words)
    tab.locator("#runs caption", has_text=f"{runs} run").wait_for()


def test_runs_are_searched_compared_taken_away_and_opened_and_back_brings_the_comparison(
    tab: Any, address: str, shots: Path
) -> None:
    tab.goto(f"{address}?tab=history")
    tab.locator("#runs caption").wait_for()  # gradio loses what is typed before it has the page together
    searched(tab, "owlvit", 1)
    searched(tab, "2026-11-21", 3)
    pick(tab, "slower", failed_result().id, ok_result().id)
    tab.locator("#compare").click()
    tab.locator("#compared").get_by_text("3 runs compared").wait_for()
    tab.wait_for_url("**?tab=history&history_compare=*")
    tab.screenshot(path=shots / "history-compared.png", full_page=True)
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Export CSV", exact=True).click()
    assert download.value.suggested_filename == "worth-compiling-runs.csv"
    assert "slower" in Path(download.value.path()).read_text()

    tab.locator("#runs a[data-run=slower]").click()
    tab.locator("#top .headline .figure", has_text="2.00×").wait_for()
    tab.wait_for_url("**run=slower*")
    tab.wait_for_function("document.title === 'shapes-vit 2.00× slower · Worth compiling?'")
    tab.go_back()
    tab.locator("#runs").wait_for()
    tab.wait_for_function("document.title.startsWith('History')")
    assert "tab=history&history_compare=" in tab.url
    tab.locator("#compared").get_by_text("3 runs compared").wait_for()


def test_a_tick_belongs_to_a_run_and_a_question_means_the_runs_that_it_names(
    tab: Any, address: str, history: PushedHistory
) -> None:
    """Whatever becomes of the list: others store runs meanwhile, and a second tab deletes some."""
    tab.set_viewport_size({"width": 1440, "height": 500})
    tab.goto(f"{address}?tab=history")
    pick(tab, "mine4", "mine2")
    searched(tab, "mine3", 1)
    assert ticked(tab) == []
    searched(tab, "mine", 6)
    tab.wait_for_function("document.querySelectorAll('#runs input:checked').length === 2")
    assert ticked(tab) == ["mine4", "mine2"]
    searched(tab, "", history.count())
    tab.locator("#delete").click()
    tab.locator("#sure").get_by_text("2026-11-23 09:04 UTC · mine4").wait_for()
    other = tab.context.new_page()
    other.goto(f"{address}?tab=history")
    pick(other, "mine3")
    other.locator("#delete").click()
    other.locator("#sure").get_by_text("mine3").wait_for()
    row_of(tab, "mine4").get_by_role("checkbox").focus()
    for new, scrolled in (("new", 120), ("newer", 560)):  # the first rows are in sight, and above it
        tab.evaluate("top => scrollTo(0, top)", scrolled)
        where = row_of(tab, "mine4").bounding_box()["y"]
        history.append(ok_result(id=new, started_at=f"2026-11-23T10:00:0{len(new)}Z"))
        row_of(tab, new).wait_for(state="attached")
        # the browser's own keeping of the place comes with the next frame
        tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert ticked(tab) == ["mine4", "mine2"]
        assert tab.evaluate("document.activeElement.value") == "mine4"
        assert abs(row_of(tab, "mine4").bounding_box()["y"] - where) < 2
    row_of(tab, "mine4").get_by_role("checkbox").uncheck()
    pick(tab, "mine5")
    assert all(history.get(f"mine{number}") is not None for number in range(6))
    tab.locator("#for-good").click()
    tab.get_by_text("2 runs deleted.").wait_for()
    tab.wait_for_function("document.activeElement.id === 'delete'")  # the button that was pressed is gone
    tab.wait_for_function("!document.querySelector('#runs input:checked')")
    assert [history.get(f"mine{number}") is None for number in range(6)] == [False, False, True, False, True, False]
    row_of(other, "mine4").wait_for(state="detached")
    row_of(other, "new").wait_for()
    assert ticked(other) == ["mine3"]
    other.locator("#for-good").click()
    other.get_by_text("1 run deleted.").wait_for()
    left = [result.id for result in history.all() if result.id.startswith(("mine", "new"))]
    assert left == ["newer", "new", "mine5", "mine1", "mine0"]
