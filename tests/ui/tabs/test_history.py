"""The tab of stored runs without a browser: its handlers, and the HTML that they send."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import gradio as gr
import pandas as pd
import pytest
from samples import ENVIRONMENT, failed_result, measurement, ok_result

from demo.core.result import Failure, RunResult, RunSpec
from demo.store.history import FOLDER_VARIABLE, History
from demo.ui.html import comparison as compare
from demo.ui.jobs.fake_runner import FakeRunner
from demo.ui.page import Page
from demo.ui.tabs import history as history_tab
from demo.ui.tabs.history import PAGE, HistoryTab
from tests.ui.tabs.test_run import HOSTILE, Tags, cancel, from_browser, pressed, stage_of, visitor

SLOWER = ok_result(id="slower", compiled=measurement(0.004), started_at="2026-11-21T10:00:00Z")


@pytest.fixture(autouse=True)
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.delenv("SPACE_ID", raising=False)
    history = History()
    for result in (ok_result(), failed_result(), SLOWER):
        history.append(result)
    return history


@pytest.fixture
def page(history: History) -> Page:
    return Page(FakeRunner(lambda *_: ok_result(), seconds=60), history=history)


def tab(page: Page) -> HistoryTab:
    return page.history_tab


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def told(updates: dict[Any, Any], page: Page) -> str:
    return text(updates[tab(page)._message])


# ---- the list


def test_every_run_is_listed_newest_first_with_what_came_of_it(page: Page) -> None:
    html, more, _ = tab(page)._show("")
    said = text(html)
    assert "3 runs" in said
    for words in ("2.00× faster ▲", "2.00× slower ▼", "Out of memory", "2.04 ms → 1.02 ms", "batch 256 · default"):
        assert words in said
    assert said.index("2026-11-21 10:00") < said.index("2026-11-21 09:01") < said.index("2026-11-21 09:00")
    assert more["visible"] is False


def test_a_search_leaves_what_fits_and_says_where_nothing_does(page: Page) -> None:
    assert "1 run " in text(tab(page)._show("owlvit")[0])
    assert text(tab(page)._show(HOSTILE)[0]).startswith("No stored run holds")
    assert not Tags(tab(page)._show(HOSTILE)[0]).runs_script


def test_an_empty_history_says_so(tmp_path: Path) -> None:
    page = Page(FakeRunner(lambda *_: ok_result()), history=History(tmp_path / "none" / "history.sqlite3"))
    assert text(tab(page)._show("")[0]) == "No runs yet. Each one is kept here."


def test_a_long_history_is_shown_piece_by_piece(page: Page, history: History) -> None:
    for number in range(PAGE):
        history.append(failed_result(id=f"n{number}"))
    html, more, count = tab(page)._show("")
    assert f"The newest {PAGE} of {PAGE + 3} runs" in html
    assert more["visible"] is True
    html, more, _ = tab(page)._show_more("", count)
    assert f"{PAGE + 3} runs" in html
    assert more["visible"] is False


def test_the_list_does_not_grow_without_end(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_tab, "MOST_AT_ONCE", 2)
    html, more, count = tab(page)._show_more("", 1)
    assert "The newest 2 of 3 runs" in text(html)
    assert more["visible"] is False
    assert tab(page)._show_more("", count)[2] == 2


def test_a_history_that_cannot_be_read_is_a_sentence(page: Page, history: History) -> None:
    history.path.write_bytes(b"not a database, and long enough to be looked at" * 10)
    assert "cannot be read" in text(tab(page)._show("")[0])


def test_texts_from_outside_cannot_become_html() -> None:
    hostile = ok_result(
        id=HOSTILE,
        spec=RunSpec(f"{HOSTILE}/model", "image-classification"),
        environment=dataclasses.replace(ENVIRONMENT, device_name=HOSTILE, torch=HOSTILE),
    )
    failed = failed_result(id='"><b>', failure=Failure("load", HOSTILE, HOSTILE))
    for html in (compare.listing([hostile, failed], 2, HOSTILE), compare.comparison([hostile, failed])):
        assert not Tags(html).runs_script
        assert HOSTILE not in html


# ---- opening


def opened(page: Page, id: Any) -> dict[Any, Any]:
    event = gr.EventData(None, {"run": id})
    return tab(page)._open(event, from_browser(), visitor("one"))


def test_opening_a_run_goes_to_the_run_tab_and_shows_it_there(page: Page) -> None:
    updates = opened(page, ok_result().id)
    assert updates[tab(page)._tabs]["selected"] == "run"
    assert "2.00×" in stage_of(page, updates)
    assert updates[page.run_tab.opened] == ok_result().id


@pytest.mark.parametrize("id", ["gone", None, {"a": 1}, HOSTILE])
def test_opening_a_run_that_is_gone_says_so(id: Any, page: Page) -> None:
    assert "That run is not here" in stage_of(page, opened(page, id))


def test_a_run_that_goes_on_keeps_the_stage(page: Page) -> None:
    running = pressed(page)
    next(running)
    updates = opened(page, ok_result().id)
    assert "going on" in told(updates, page)
    assert page.run_tab._stage.top not in updates
    cancel(page, "one")
    list(running)
    assert "2.00×" in stage_of(page, opened(page, ok_result().id))


# ---- comparing


def test_two_to_four_runs_are_compared_oldest_first(page: Page) -> None:
    html, message = tab(page)._compare_ticked(f"slower {failed_result().id} {ok_result().id}")
    assert message == ""
    said = text(html)
    assert "3 runs compared" in said
    assert "They differ in: checkpoint, task, batch size, device, what to look for, picture." in said
    assert said.index("2026-11-21 09:00") < said.index("2026-11-21 09:01") < said.index("2026-11-21 10:00")
    assert "A 2.00× B Out of memory C 0.50×" in said


def test_in_the_chart_a_faster_run_lies_right_of_one_and_a_slower_one_left() -> None:
    html = compare.comparison([ok_result(), SLOWER])
    one = float(re.findall(r'class="one" style="left:([\d.]+)%', html)[0])
    faster, slower = (float(left) for left in re.findall(r'class="point" style="left:([\d.]+)%', html))
    assert 0 <= slower < one < faster <= 100
    assert slower + faster == pytest.approx(2 * one, abs=0.5)  # 0.5 and 2 are equally far from 1


OTHERWISE: dict[str, Any] = {
    "checkpoint": "shapes-segformer", "task": "image-segmentation", "batch_size": 2, "mode": "lite", "fullgraph": True,
    "dtype": "bfloat16", "device": "cuda", "weights": "random", "text": ("a lion",), "iterations": 10,
    "protocol": "as published", "precision": 0.02, "most_seconds": 9.0, "channels_last": True, "attention": "eager",
    "threads": 1, "cache": "empty", "graph_break": True, "profile": "on",
}  # fmt: skip


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(RunSpec)])
def test_runs_of_which_anything_else_was_asked_are_not_said_to_differ_by_noise_only(field: str) -> None:
    result = ok_result()
    other = dataclasses.replace(result.spec, **{field: OTHERWISE[field]})
    html = compare.comparison([result, ok_result(id="other", spec=other)])
    assert "what differs is noise" not in html and "They differ in: " in html


def test_when_noise_pays_for_itself_is_not_said() -> None:
    times = tuple(0.002 * (0.66 if place % 8 < 4 else 1.4) for place in range(48))
    noisy = ok_result(id="noisy", compiled=dataclasses.replace(ok_result().compiled, wall_seconds=times))
    assert noisy.speedup is not None and noisy.speedup.verdict == "unsure" and noisy.break_even_calls is not None
    said = text(compare.comparison([ok_result(), noisy]))
    assert re.search(r"Pays for itself after [\d\s]+ calls Too noisy to tell ", said)


def test_equal_runs_are_said_to_differ_by_noise_only() -> None:
    assert "what differs is noise" in compare.comparison([ok_result(), ok_result(id="again")])


@pytest.mark.parametrize("results", [[failed_result(), failed_result(id="b")], [ok_result(), failed_result()]])
def test_runs_without_figures_are_compared_too(results: list[RunResult]) -> None:
    assert "Out of memory" in compare.comparison(results)


@pytest.mark.parametrize("ticked", ["", "slower", "slower slower2 gone", "a b c d e"])
def test_any_other_number_is_answered_with_a_sentence(ticked: str, page: Page, history: History) -> None:
    for id in "abcde":
        history.append(failed_result(id=id))
    _, message = tab(page)._compare_ticked(ticked)
    assert "Tick 2 to 4 runs" in text(message)


# ---- taking away


def test_an_export_holds_the_ticked_runs_or_all_that_the_search_leaves(page: Page) -> None:
    path, message = tab(page)._export("csv", "slower", "owlvit")
    assert list(pd.read_csv(path)["id"]) == ["slower"]
    assert Path(path).name == "worth-compiling-runs.csv" and "1 run written" in text(message)
    path, _ = tab(page)._export("csv", "", "owlvit")
    assert list(pd.read_csv(path)["id"]) == [failed_result().id]


def test_an_export_holds_the_newest_and_says_where_the_rest_is(
    page: Page, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_tab, "MOST_AT_ONCE", 2)
    path, message = tab(page)._export("csv", "", "")
    assert list(pd.read_csv(path)["id"]) == ["slower", failed_result().id]
    assert "2 runs written" in text(message) and "the newest of 3; on the command line" in text(message)
    _, message = tab(page)._export("csv", "", "owlvit")
    assert "newest" not in text(message)


def test_ticked_ids_are_read_once_each_and_not_without_end(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    get = History.get
    monkeypatch.setattr(History, "get", lambda self, id: read.append(id) or get(self, id))
    path, _ = tab(page)._export("csv", "slower " * 150_000, "")
    assert list(pd.read_csv(path)["id"]) == ["slower"] == read
    many = " ".join(map(str, range(history_tab.MOST_AT_ONCE + 1)))
    read.clear()
    with pytest.raises(gr.Error, match="At most 1000 runs at once"):
        tab(page)._export("csv", many, "")
    assert "At most 1000 runs at once" in text(tab(page)._compare_ticked(many)[1])
    assert "Ticked: 5" in text(tab(page)._compare_ticked("a b c d e")[1])
    sure, _, doomed, message = tab(page)._ask(many)
    assert sure["visible"] is False and doomed == () and "At most 1000 runs at once" in text(message)
    assert read == []


def test_one_export_is_written_at_a_time(page: Page) -> None:
    buttons = {button._id for button in tab(page)._exports.values()}
    writing = [fn for fn in page.blocks.fns.values() if fn.fn and fn.targets and fn.targets[0][0] in buttons]
    assert len(writing) == 3
    assert {fn.concurrency_id for fn in writing} == {"export"} and {fn.concurrency_limit for fn in writing} == {1}


def test_an_export_that_fails_is_a_sentence(page: Page, history: History) -> None:
    history.path.write_bytes(b"not a database, and long enough to be looked at" * 10)
    with pytest.raises(gr.Error, match="cannot be read"):
        tab(page)._export("csv", "", "")


# ---- deleting


def test_deleting_asks_first_and_then_removes_what_was_ticked_only(page: Page, history: History) -> None:
    sure, question, doomed, _ = tab(page)._ask("slower")
    assert sure["visible"] is True and "Delete 1 run?" in question
    assert history.count() == 3
    sure, message, _, html, *_ = tab(page)._delete_doomed(doomed, "")
    assert sure["visible"] is False and "1 run deleted" in message
    assert "slower" not in html
    assert [result.id for result in history.all()] == [failed_result().id, ok_result().id]


def test_deleting_nothing_says_what_to_tick(page: Page) -> None:
    sure, _, doomed, message = tab(page)._ask(" ")
    assert sure["visible"] is False and doomed == () and "Tick the runs" in message


def test_on_a_space_nothing_can_be_deleted_from_the_page(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    page = Page(FakeRunner(lambda *_: ok_result()), history=history)
    assert tab(page)._delete.visible is False
    tab(page)._delete_doomed(("slower",), "")
    assert history.count() == 3
