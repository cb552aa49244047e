"""The tab of stored runs without a browser: its handlers, and the HTML that they send."""

from __future__ import annotations

import dataclasses
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import gradio as gr
import pandas as pd
import pytest
from page_support import HOSTILE, Tags, cancel, from_browser, handler, pressed, stage_of, visitor
from samples import ENVIRONMENT, failed_result, measurement, ok_result

from demo.core.catalog import PROMPT
from demo.core.languages import ENGLISH
from demo.core.result import Failure
from demo.core.spec import TEXT_GENERATION, RunSpec, without_meaning
from demo.core.speedup import Spread
from demo.store.history import FOLDER_VARIABLE, History
from demo.store.journal import Journal
from demo.ui.html import comparison
from demo.ui.jobs.fake_runner import FakeRunner
from demo.ui.page import Page
from demo.ui.tabs import history as history_tab
from demo.ui.tabs.history import NAMED, PAGE, HistoryTab, ListState

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


def shown(page: Page, search: str = "") -> tuple[str, Any, Any]:
    """The list for this search, the button for more of it, and what it was made from."""
    first: tuple[str, Any, Any] = handler(page, changes=tab(page).runs, of=(tab(page).search, "change"))(search)
    return first


def more(page: Page, search: str, state: Any) -> tuple[str, Any, Any]:
    """The same after a press of "Show more"."""
    longer: tuple[str, Any, Any] = handler(page, of=(tab(page).more_button, "click"))(search, state)
    return longer


def compared(page: Page, ticked: str) -> tuple[Any, str]:
    """The comparison of the ticked runs, and a message."""
    head, _, figures, _, message = handler(page, of=(tab(page).compare_button, "click"))(ticked)
    return (head + figures, message) if isinstance(head, str) else (head, message)


def chart_of(page: Page, ticked: str) -> dict[str, Any]:
    """The update of the comparison's chart of calls over time."""
    _, chart, *_ = handler(page, of=(tab(page).compare_button, "click"))(ticked)
    return dict(chart)


def exported(page: Page, format: str, ticked: str, search: str) -> tuple[Any, str]:
    """The path of the export, and a message."""
    answer: tuple[Any, str] = handler(page, of=(tab(page).exports[format], "click"))(ticked, search)
    return answer


def asked(page: Page, ticked: str, language: str = "en") -> tuple[Any, str, str]:
    """Whether the question before a deletion is shown, the question, and a message."""
    ask = handler(page, of=(tab(page).delete_button, "click"))
    answer: tuple[Any, str, str] = ask(ticked, request=from_browser(lang=language))
    return answer


def deleted(page: Page, ids: str) -> tuple[Any, ...]:
    """What the page shows after the deletion was confirmed: question, message, the three of the comparison, list."""
    answer: tuple[Any, ...] = handler(page, of=(tab(page).for_good_button, "click"))(ids, "")
    return answer


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def told(updates: dict[Any, Any], page: Page) -> str:
    return text(updates[tab(page).message])


# ---- the list


def test_every_run_is_listed_newest_first_with_what_came_of_it(page: Page) -> None:
    html, button, _ = shown(page)
    said = text(html)
    assert "3 runs" in said
    for words in ("2.00× faster ▲", "2.00× slower ▼", "Out of memory", "2.04 ms → 1.02 ms", "batch 256 · default"):
        assert words in said
    assert said.index("2026-11-21 10:00") < said.index("2026-11-21 09:01") < said.index("2026-11-21 09:00")
    assert button["visible"] is False


def test_a_search_leaves_what_fits_and_says_where_nothing_does(page: Page) -> None:
    assert "1 run " in text(shown(page, "owlvit")[0])
    assert text(shown(page, HOSTILE)[0]).startswith("No stored run holds")
    assert not Tags(shown(page, HOSTILE)[0]).runs_script


def test_an_empty_history_says_so(tmp_path: Path) -> None:
    page = Page(FakeRunner(lambda *_: ok_result()), history=History(tmp_path / "none" / "history.sqlite3"))
    assert text(shown(page)[0]) == "No runs yet. Each one is kept here."


def test_a_long_history_is_shown_piece_by_piece(page: Page, history: History) -> None:
    for number in range(PAGE):
        history.append(failed_result(id=f"n{number}"))
    html, button, state = shown(page)
    assert f"The newest {PAGE} of {PAGE + 3} runs" in html
    assert button["visible"] is True
    html, button, _ = more(page, "", state)
    assert f"{PAGE + 3} runs" in html
    assert button["visible"] is False


def test_the_list_does_not_grow_without_end(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_tab, "MAX_AT_ONCE", 2)
    html, button, state = more(page, "", ListState(1))
    assert "The newest 2 of 3 runs" in text(html)
    assert button["visible"] is False
    assert more(page, "", state)[2].most == 2


def test_a_history_that_cannot_be_read_is_a_sentence(page: Page, history: History) -> None:
    history.path.write_bytes(b"not a database, and long enough to be looked at" * 10)
    assert "cannot be read" in text(shown(page)[0])


def test_texts_from_outside_cannot_become_html() -> None:
    hostile = ok_result(
        id=HOSTILE,
        spec=RunSpec(f"{HOSTILE}/model", "image-classification"),
        environment=dataclasses.replace(ENVIRONMENT, device_name=HOSTILE, torch=HOSTILE),
    )
    failed = failed_result(id='"><b>', failure=Failure("load", HOSTILE, HOSTILE))
    for html in (
        comparison.listing([hostile, failed], 2, HOSTILE, ENGLISH),
        "".join(comparison.comparison([hostile, failed], ENGLISH)),
    ):
        assert not Tags(html).runs_script
        assert HOSTILE not in html


# ---- opening


def opened(page: Page, id: Any) -> dict[Any, Any]:
    updates: dict[Any, Any] = handler(page, of=(tab(page).runs, "select"))(visitor("one"), data={"run": id})
    return updates


def test_opening_a_run_goes_to_the_run_tab_and_shows_it_there(page: Page) -> None:
    updates = opened(page, ok_result().id)
    assert updates[tab(page).tabs]["selected"] == "run"
    assert "2.00×" in stage_of(page, updates)
    assert updates[page.run_tab.opened] == ok_result().id


@pytest.mark.parametrize("id", ["gone", None, {"a": 1}, HOSTILE])
def test_opening_a_run_that_is_gone_says_so(id: Any, page: Page) -> None:
    assert "Run not found" in stage_of(page, opened(page, id))


def test_a_run_that_goes_on_keeps_the_stage(page: Page) -> None:
    running = pressed(page)
    next(running)
    updates = opened(page, ok_result().id)
    assert "going on" in told(updates, page)
    assert page.run_tab.pane.top not in updates
    cancel(page, "one")
    list(running)
    assert "2.00×" in stage_of(page, opened(page, ok_result().id))


# ---- comparing


def test_two_to_four_runs_are_compared_oldest_first(page: Page) -> None:
    html, message = compared(page, f"slower {failed_result().id} {ok_result().id}")
    assert message == ""
    said = text(html)
    assert "3 runs compared" in said
    assert "They differ in: checkpoint, task, batch size, device, what to look for, picture." in said
    assert said.index("2026-11-21 09:00") < said.index("2026-11-21 09:01") < said.index("2026-11-21 10:00")
    assert re.search(r"A 2\.00× .*B Out of memory C 0\.50×", said)


def test_in_the_chart_a_faster_run_lies_right_of_one_and_a_slower_one_left() -> None:
    html = "".join(comparison.comparison([ok_result(), SLOWER], ENGLISH))
    one = float(re.findall(r'class="one" style="left:([\d.]+)%', html)[0])
    faster, slower = (float(left) for left in re.findall(r'class="point" style="left:([\d.]+)%', html))
    assert 0 <= slower < one < faster <= 100
    assert slower + faster == pytest.approx(2 * one, abs=0.5)  # 0.5 and 2 are equally far from 1


OTHERWISE: dict[str, Any] = {
    "checkpoint": "shapes-segformer", "task": "image-segmentation", "batch_size": 2, "mode": "lite", "fullgraph": True,
    "dtype": "bfloat16", "device": "cuda", "weights": "random", "text": ("a lion",), "iterations": 10,
    "protocol": "as published", "precision": 0.02, "most_seconds": 9.0, "channels_last": True, "attention": "eager",
    "threads": 1, "cache": "empty", "graph_break": True, "profile": "on", "repeats": 3,
    "compiler": "aot", "scope": "layers", "freezing": True, "dynamic": "on", "another_size": True,
    "prompt": "Another", "tokens": 8,
}  # fmt: skip


def test_runs_of_which_anything_else_was_asked_are_not_said_to_differ_by_noise_only() -> None:
    for field in [field.name for field in dataclasses.fields(RunSpec)]:
        spec = ok_result().spec
        if field in without_meaning("image-classification"):
            spec = RunSpec("shapes-gemma", TEXT_GENERATION, prompt=PROMPT, device="cpu")
        result, other = ok_result(spec=spec), dataclasses.replace(spec, **{field: OTHERWISE[field]})
        html = "".join(comparison.comparison([result, ok_result(id="other", spec=other)], ENGLISH))
        assert "the differences are noise" not in html and "They differ in: " in html


def test_when_noise_pays_for_itself_is_not_said() -> None:
    times = tuple(0.002 * (0.66 if place % 8 < 4 else 1.4) for place in range(48))
    noisy = ok_result(id="noisy", compiled=dataclasses.replace(ok_result().compiled, wall_seconds=times))
    assert noisy.speedup is not None and noisy.speedup.verdict == "unsure" and noisy.speedup.ratio > 1
    said = text("".join(comparison.comparison([ok_result(), noisy], ENGLISH)))
    assert re.search(r"Pays for itself after about [\d\s]+ calls Too noisy to tell ", said)


def test_equal_runs_are_said_to_differ_by_noise_only() -> None:
    assert "the differences are noise" in "".join(comparison.comparison([ok_result(), ok_result(id="again")], ENGLISH))


def test_equal_runs_whose_answers_differ_too_much_are_not_said_to_differ_by_noise() -> None:
    known = Spread("same runs", 0.03, 20)
    fast, slow = ok_result(spread=known), ok_result(id="slow", compiled=measurement(0.004), spread=known)
    near = ok_result(id="near", compiled=measurement(0.00101), spread=known)
    for results, noise in (
        ([fast, near], True),
        ([fast, slow], False),
        ([fast, ok_result(id="lost", status="cancelled", eager=None, compiled=None)], False),
    ):
        html = "".join(comparison.comparison(results, ENGLISH))
        assert ("the differences are noise" in html) is noise
        assert ("differ by more than noise" in html) is not noise


def test_the_words_at_the_ticks_do_not_lie_over_each_other() -> None:
    for seconds in (0.04, 0.004, 0.0019, 0.001, 0.00001):
        html, _ = comparison.comparison([ok_result(), ok_result(id="b", compiled=measurement(seconds))], ENGLISH)
        ticks = html.partition('class="line ticks"')[2]
        places = [float(place) for place in re.findall(r"left:([\d.]+)%", ticks)]
        assert ">1×<" in ticks and all(after - before >= 14.9 for before, after in pairwise(places))


def test_runs_without_figures_are_compared_too() -> None:
    for results in [[failed_result(), failed_result(id="b")], [ok_result(), failed_result()]]:
        assert "Out of memory" in "".join(comparison.comparison(results, ENGLISH))


def linked(page: Page, query: str, chosen: str = "") -> tuple[Any, str, Any]:
    """The comparison that a link brings to a page that shows the one of `chosen`, its query, and a message."""
    follow = handler(page, takes=tab(page).asked, changes=tab(page).compared)
    head, _, _, now, message = follow(query, chosen)
    return head, now, message


def test_a_link_shows_the_comparison_that_it_was_copied_from(page: Page) -> None:
    ids = f"slower {ok_result().id}"
    head, _, _, chosen, _ = handler(page, of=(tab(page).compare_button, "click"))(ids)
    assert chosen == f"history_compare={ids.replace(' ', '+')}"
    assert linked(page, f"?tab=history&{chosen}&lang=en") == (head, chosen, "")
    stays = gr.skip()
    assert linked(page, f"?{chosen}", chosen) == (stays, stays, stays)  # as when the tab is opened again
    assert linked(page, "?tab=history", chosen) == ("", "", "")


@pytest.mark.parametrize("ids", ["gone+slower", "a+b+c+d+e", "%3Cscript%3E", "+".join(map(str, range(2000)))])
def test_a_link_to_runs_that_are_not_here_says_so(ids: str, page: Page) -> None:
    head, now, message = linked(page, f"?tab=history&history_compare={ids}", "history_compare=slower+slower2")
    assert (head, now) == ("", "")
    assert "The runs that this link compares are not all stored here." in message


@pytest.mark.parametrize("ticked", ["", "slower", "slower slower2 gone", "a b c d e"])
def test_any_other_number_is_answered_with_a_sentence(ticked: str, page: Page, history: History) -> None:
    for id in "abcde":
        history.append(failed_result(id=id))
    _, message = compared(page, ticked)
    assert "Select 2 to 4 runs" in text(message)


def test_two_runs_have_a_chart_of_their_calls_over_time_and_others_a_sentence(page: Page, history: History) -> None:
    chart = chart_of(page, f"slower {ok_result().id}")
    assert chart["visible"] is True and len(chart["value"].data) == 4
    assert "Compare two runs" not in text(compared(page, f"slower {ok_result().id}")[0])
    one, failed = chart_of(page, f"slower {failed_result().id}"), failed_result(id="failed too")
    assert [line.name for line in one["value"].data] == ["B eager", "B compiled"]
    said = text(compared(page, f"slower {failed_result().id}")[0])
    assert "Without timed calls, so not in a chart of calls over time: A. " in said
    history.append(failed)
    assert "calls over time: A, B." in text("".join(comparison.comparison([failed_result(), failed], ENGLISH)))
    three = f"slower {failed_result().id} {ok_result().id}"
    assert chart_of(page, three)["visible"] is False
    assert "Compare two runs to see their calls over time in one chart." in text(compared(page, three)[0])


def test_a_list_that_follows_the_history_changes_nothing_but_the_list(page: Page) -> None:
    (event,) = [fn for fn in page.blocks.fns.values() if (tab(page).runs._id, "tick") in fn.targets]
    assert set(event.outputs) == {tab(page).runs, tab(page).more_button, tab(page).shown}


# ---- taking away


def test_an_export_holds_the_ticked_runs_or_all_that_the_search_leaves(page: Page) -> None:
    path, message = exported(page, "csv", "slower", "owlvit")
    assert list(pd.read_csv(path)["id"]) == ["slower"]
    assert Path(path).name == "worth-compiling-runs.csv" and "1 run written" in text(message)
    path, _ = exported(page, "csv", "", "owlvit")
    assert list(pd.read_csv(path)["id"]) == [failed_result().id]


def test_an_export_holds_the_newest_and_says_where_the_rest_is(
    page: Page, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_tab, "MAX_AT_ONCE", 2)
    path, message = exported(page, "csv", "", "")
    assert list(pd.read_csv(path)["id"]) == ["slower", failed_result().id]
    assert "2 runs written" in text(message) and "the newest of 3; on the command line" in text(message)
    _, message = exported(page, "csv", "", "owlvit")
    assert "newest" not in text(message)


def test_ticked_ids_are_read_once_each_and_not_without_end(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    get = History.get
    monkeypatch.setattr(History, "get", lambda self, id: read.append(id) or get(self, id))
    path, _ = exported(page, "csv", "slower " * 150_000, "")
    assert list(pd.read_csv(path)["id"]) == ["slower"] == read
    many = " ".join(map(str, range(history_tab.MAX_AT_ONCE + 1)))
    read.clear()
    with pytest.raises(gr.Error, match="At most 1000 runs at once"):
        exported(page, "csv", many, "")
    assert "At most 1000 runs at once" in text(compared(page, many)[1])
    assert "Selected: 5" in text(compared(page, "a b c d e")[1])
    sure, question, message = asked(page, many)
    assert sure["visible"] is False and question == "" and "At most 1000 runs at once" in text(message)
    assert read == []


def test_one_export_is_written_at_a_time(page: Page) -> None:
    buttons = {button._id for button in tab(page).exports.values()}
    writing = [fn for fn in page.blocks.fns.values() if fn.fn and fn.targets and fn.targets[0][0] in buttons]
    assert len(writing) == 3
    assert {fn.concurrency_id for fn in writing} == {"export"} and {fn.concurrency_limit for fn in writing} == {1}


def test_an_export_that_fails_is_a_sentence(page: Page, history: History) -> None:
    history.path.write_bytes(b"not a database, and long enough to be looked at" * 10)
    with pytest.raises(gr.Error, match="cannot be read"):
        exported(page, "csv", "", "")


# ---- deleting


def questioned(page: Page, ticked: str, language: str = "en") -> tuple[str, str]:
    """What the question before a deletion says, and the ids that the page then sends."""
    sure, html, _ = asked(page, ticked, language)
    assert sure["visible"] is True
    (ids,) = re.findall(r'data-runs="([^"]*)"', html)
    return text(html), ids


def test_deleting_asks_first_and_then_removes_what_the_question_named_only(page: Page, history: History) -> None:
    said, ids = questioned(page, "slower")
    assert "Delete 1 run?" in said and "shapes-vit" in said and "2026-11-21 10:00 UTC · slower" in said
    assert history.count() == 3
    sure, message, head, chart, figures, html, *_ = deleted(page, ids)
    assert sure["visible"] is False and "1 run deleted." in message
    assert head == figures == "" and chart["visible"] is False
    assert "slower" not in html
    assert [result.id for result in history.all()] == [failed_result().id, ok_result().id]


@pytest.mark.parametrize(
    ("language", "more"), [("en", "and 2 more"), ("ar", "و 2 غيرها"), ("ja", "ほか 2 件"), ("zh-CN", "以及另外 2 次")]
)
def test_of_many_runs_the_question_names_the_first_and_counts_the_others(
    language: str, more: str, page: Page, history: History
) -> None:
    many = [f"many{number}" for number in range(NAMED + 2)]
    for id in many:
        history.append(failed_result(id=id))
    said, ids = questioned(page, " ".join(many), language)
    assert ids.split() == many
    assert [id for id in many if id in said] == many[:NAMED]
    assert more in said.rpartition(many[NAMED - 1])[2]


def test_a_run_that_somebody_else_has_deleted_is_neither_named_nor_counted_as_deleted(
    page: Page, history: History
) -> None:
    history.delete(["slower"])
    said, ids = questioned(page, f"slower {ok_result().id}")
    assert "Delete 1 run?" in said and ids == ok_result().id
    history.delete([ok_result().id])
    message = deleted(page, f"{ids} {failed_result().id}")[1]
    assert "1 run deleted. 1 run had been deleted before." in text(message)


def test_deleting_nothing_says_what_to_tick(page: Page) -> None:
    sure, question, message = asked(page, " ")
    assert sure["visible"] is False and question == "" and "Select runs to delete" in message


def test_on_a_space_nothing_can_be_deleted_from_the_page(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    page = Page(FakeRunner(lambda *_: ok_result()), history=history)
    assert tab(page).delete_button.visible is False
    assert "No runs deleted." in text(deleted(page, "slower")[1])
    assert history.count() == 3


# ---- a list that stays open


def followed(page: Page, search: str, state: Any) -> tuple[str | None, Any]:
    """The new list, None where there is none, and what it was made from."""
    html, _, now = handler(page, of=(tab(page).runs, "tick"))(search, state)
    return (text(html), now) if isinstance(html, str) else (None, state)


def test_an_open_list_shows_what_others_store_and_delete_and_is_not_sent_again_without_need(
    page: Page, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = shown(page)[2]
    assert followed(page, "", state)[0] is None
    Journal(history).recover()
    history.all(), history.get("slower")  # reading changes nothing
    assert followed(page, "", state)[0] is None
    History(history.path).append(failed_result(id="another"))
    html, state = followed(page, "", state)
    assert html is not None and "4 runs" in html
    with monkeypatch.context() as closed:
        closed.setattr(History, "_database", None)  # where nothing was stored, the file is not even opened
        assert followed(page, "", state)[0] is None
    History(history.path).delete(["slower", "another"])
    html, state = followed(page, "", state)
    assert html is not None and "2 runs" in html


def test_a_list_follows_the_search_that_stands_in_the_field(page: Page, history: History) -> None:
    """The answer to an earlier word may come last."""
    state = shown(page, "owl")[2]
    html, state = followed(page, "slower", state)
    assert html is not None and "1 run " in html and "slower" in html
    assert followed(page, "slower", state)[0] is None
    history.append(failed_result(id="another"))
    assert "1 run " in str(followed(page, "slower", state)[0])


def test_no_run_leaves_an_open_list_because_another_has_come(
    page: Page, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = ListState(2, 3, "")
    history.append(ok_result(id="another", started_at="2026-11-22T10:00:00Z"))
    html, state = followed(page, "", state)
    assert state.most == 3 and "The newest 3 of 4 runs" in str(html) and "2.00× slower" in str(html)
    monkeypatch.setattr(history_tab, "MAX_AT_ONCE", 3)
    history.append(ok_result(id="one more"))
    assert followed(page, "", state)[1].most == 3


def test_a_list_that_cannot_be_read_is_said_once(page: Page, history: History) -> None:
    history.path.write_bytes(b"not a database, and long enough to be looked at" * 10)
    html, state = followed(page, "", shown(page)[2])
    assert html is None and "cannot be read" in text(shown(page)[0])
    history.path.unlink()
    assert "No runs yet" in str(followed(page, "", state)[0])
