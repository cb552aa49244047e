"""The tab of stored runs without a browser: its handlers, and the HTML that they send."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import gradio as gr
import pandas as pd
import pytest
from fake_runner import FakeRunner
from page_support import HOSTILE, Tags, cancel, handler, press, pressed, stage_of, visitor
from samples import ENVIRONMENT, failed_result, measurement, ok_result

from demo.core.catalog import PROMPT
from demo.core.comparison import Spread
from demo.core.result import Failure
from demo.core.spec import TEXT_GENERATION, RunSpec, without_meaning
from demo.store.history import History
from demo.ui.html import comparison
from demo.ui.page import Page
from demo.ui.tabs import history_tab
from demo.ui.tabs.history_tab import PAGE

SLOWER = ok_result(id="slower", compiled=measurement(0.004), started_at="2026-11-21T10:00:00Z")


@pytest.fixture
def history(history: History) -> History:
    for result in (ok_result(), failed_result(), SLOWER):
        history.append(result)
    return history


@pytest.fixture
def page(history: History) -> Page:
    return Page(FakeRunner(lambda *_: ok_result(), seconds=60), history=history)


def shown(page: Page, search: str = "") -> tuple[str, Any, Any]:
    """The list for this search, the button for more of it, and what it was made from."""
    tab = page.history_tab
    return handler(page, changes=tab.runs, of=(tab.search, "change"))(search)


def compared(page: Page, ticked: str) -> tuple[Any, str]:
    """The comparison of the ticked runs, and a message."""
    html, _, message = press(page, page.history_tab.compare_button, ticked)
    return html, message


def exported(page: Page, ticked: str, search: str = "") -> tuple[Any, str]:
    """The path of the export, and a message."""
    return press(page, page.history_tab.exports["csv"], ticked, search)


def asked(page: Page, ticked: str) -> tuple[Any, str, str]:
    """Whether the question before a deletion is shown, the question, and a message."""
    return press(page, page.history_tab.delete_button, ticked)


def deleted(page: Page, ids: str) -> tuple[Any, ...]:
    """What the page shows after the deletion was confirmed: question, message, the comparison and its link, list."""
    return press(page, page.history_tab.for_good_button, ids, "")


def opened(page: Page, data: Any) -> dict[Any, Any]:
    return press(page, page.history_tab.runs, visitor("one"), event="select", data=data)


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


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
    nothing, *_ = shown(page, HOSTILE)
    assert text(nothing).startswith("No stored run holds") and not Tags(nothing).runs_script


def test_a_long_history_is_shown_piece_by_piece(page: Page, history: History) -> None:
    for number in range(PAGE):
        history.append(failed_result(id=f"n{number}"))
    html, button, state = shown(page)
    assert f"The newest {PAGE} of {PAGE + 3} runs" in html
    assert button["visible"] is True
    html, button, _ = press(page, page.history_tab.more_button, "", state)
    assert f"{PAGE + 3} runs" in html
    assert button["visible"] is False


def test_texts_from_outside_cannot_become_html() -> None:
    hostile = ok_result(
        id=HOSTILE,
        spec=RunSpec(f"{HOSTILE}/model", "image-classification"),
        environment=dataclasses.replace(ENVIRONMENT, device_name=HOSTILE, torch=HOSTILE),
    )
    failed = failed_result(id='"><b>', failure=Failure("load", HOSTILE, HOSTILE))
    for html in (
        comparison.listing([hostile, failed], 2, HOSTILE),
        comparison.comparison([hostile, failed]),
    ):
        assert not Tags(html).runs_script
        assert HOSTILE not in html


def test_opening_a_run_shows_it_in_the_run_tab_and_says_so_where_it_is_gone(page: Page) -> None:
    updates = opened(page, {"run": ok_result().id})
    assert updates[page.history_tab.tabs]["selected"] == "run"
    assert "2.00×" in stage_of(page, updates)
    assert updates[page.run_tab.opened] == ok_result().id
    for data in (None, [], {}, *({"run": id} for id in ("gone", None, {"a": 1}, HOSTILE))):
        assert "Run not found" in stage_of(page, opened(page, data))


def test_a_run_that_goes_on_keeps_the_stage(page: Page) -> None:
    running = pressed(page)
    next(running)
    updates = opened(page, {"run": ok_result().id})
    assert "going on" in updates[page.history_tab.message]
    assert page.run_tab.pane.top not in updates
    cancel(page, "one")
    list(running)
    assert "2.00×" in stage_of(page, opened(page, {"run": ok_result().id}))


def test_two_to_four_runs_and_no_other_number_are_compared_oldest_first(page: Page, history: History) -> None:
    html, message = compared(page, f"slower {failed_result().id} {ok_result().id}")
    said = text(html)
    assert message == ""
    assert "3 runs compared" in said
    assert "They differ in: checkpoint, task, batch size, device, what to look for, picture." in said
    assert said.index("2026-11-21 09:00") < said.index("2026-11-21 09:01") < said.index("2026-11-21 10:00")
    assert re.search(r"A 2\.00× .*B Out of memory C 0\.50×", said)
    for id in "abcde":
        history.append(failed_result(id=id))
    for ticked, here in (("", 0), ("slower", 1), ("slower gone", 1), ("gone lost", 0), ("a b c d e", 5)):
        assert f"Select 2 to 4 runs to compare. Selected: {here}." in text(compared(page, ticked)[1])


OTHERWISE: dict[str, Any] = {
    "checkpoint": "shapes-segformer", "task": "image-segmentation", "batch_size": 2, "mode": "lite", "fullgraph": True,
    "dtype": "bfloat16", "device": "cuda", "weights": "random", "text": ("a lion",), "iterations": 10,
    "protocol": "as published", "precision": 0.02, "most_seconds": 9.0, "channels_last": True, "attention": "eager",
    "threads": 1, "cache": "empty", "graph_break": True, "profile": "on", "repeats": 3,
    "compiler": "aot", "scope": "layers", "freezing": True, "dynamic": "on",
    "prompt": "Another", "tokens": 8,
}  # fmt: skip


def test_runs_of_which_anything_else_was_asked_are_not_said_to_differ_by_noise_only() -> None:
    for field in [field.name for field in dataclasses.fields(RunSpec)]:
        spec = ok_result().spec
        if field in without_meaning("image-classification"):
            spec = RunSpec("shapes-gemma", TEXT_GENERATION, prompt=PROMPT, device="cpu")
        result, other = ok_result(spec=spec), dataclasses.replace(spec, **{field: OTHERWISE[field]})
        html = comparison.comparison([result, ok_result(id="other", spec=other)])
        assert "the differences are noise" not in html and "They differ in: " in html


def test_equal_runs_whose_answers_differ_too_much_are_not_said_to_differ_by_noise() -> None:
    known = Spread("this machine", 0.03, 20)
    fast, slow = ok_result(spread=known), ok_result(id="slow", compiled=measurement(0.004), spread=known)
    near = ok_result(id="near", compiled=measurement(0.00101), spread=known)
    for results, noise in (
        ([fast, near], True),
        ([fast, slow], False),
        ([fast, ok_result(id="lost", status="cancelled", eager=None, compiled=None)], False),
    ):
        html = comparison.comparison(results)
        assert ("the differences are noise" in html) is noise
        assert ("differ by more than noise" in html) is not noise


def linked(page: Page, query: str, chosen: str = "") -> tuple[Any, str, Any]:
    """The comparison that a link brings to a page that shows the one of `chosen`, its query, and a message."""
    return handler(page, takes=page.history_tab.asked, changes=page.history_tab.compared)(query, chosen)


def test_a_link_shows_the_comparison_that_it_was_copied_from_or_says_that_runs_are_not_here(page: Page) -> None:
    ids = f"slower {ok_result().id}"
    head, chosen, _ = press(page, page.history_tab.compare_button, ids)
    assert chosen == f"history_compare={ids.replace(' ', '+')}"
    assert linked(page, f"?tab=history&{chosen}&lang=en") == (head, chosen, "")
    stays = gr.skip()
    assert linked(page, f"?{chosen}", chosen) == (stays, stays, stays)  # as when the tab is opened again
    assert linked(page, "?tab=history", chosen) == ("", "", "")
    for ids in ("gone+slower", "a+b+c+d+e", "%3Cscript%3E", "+".join(map(str, range(2000)))):
        head, now, message = linked(page, f"?tab=history&history_compare={ids}", "history_compare=slower+slower2")
        assert (head, now) == ("", "")
        assert "The runs that this link compares are not all stored here." in message


def test_an_export_holds_what_is_ticked_or_found_up_to_a_limit(page: Page, monkeypatch) -> None:
    path, message = exported(page, "slower", "owlvit")
    assert list(pd.read_csv(path)["id"]) == ["slower"]
    assert Path(path).name == "worth-compiling-runs.csv" and "1 run written" in text(message)
    path, _ = exported(page, "", "owlvit")
    assert list(pd.read_csv(path)["id"]) == [failed_result().id]
    monkeypatch.setattr(history_tab, "MAX_AT_ONCE", 2)
    path, message = exported(page, "")
    assert list(pd.read_csv(path)["id"]) == ["slower", failed_result().id]
    assert "2 runs written" in text(message) and "the newest of 3; on the command line" in text(message)
    _, message = exported(page, "", "owlvit")
    assert "newest" not in text(message)


def test_ticked_ids_are_read_once_each_and_not_without_end(page: Page, monkeypatch) -> None:
    read: list[str] = []
    get = History.get
    monkeypatch.setattr(History, "get", lambda self, id: read.append(id) or get(self, id))
    path, _ = exported(page, "slower " * 150_000)
    assert list(pd.read_csv(path)["id"]) == ["slower"] == read
    many = " ".join(map(str, range(history_tab.MAX_AT_ONCE + 1)))
    read.clear()
    with pytest.raises(gr.Error, match="At most 1000 runs at once"):
        exported(page, many)
    assert "At most 1000 runs at once" in text(compared(page, many)[1])
    assert "Selected: 5" in text(compared(page, "a b c d e")[1])
    sure, question, message = asked(page, many)
    assert sure["visible"] is False and question == "" and "At most 1000 runs at once" in text(message)
    assert read == []


def test_deleting_asks_first_and_then_removes_what_the_question_named_only(page: Page, history: History) -> None:
    sure, question, _ = asked(page, "slower")
    (ids,) = re.findall(r'data-runs="([^"]*)"', question)
    said = text(question)
    assert sure["visible"] is True and "Delete 1 run?" in said
    assert "shapes-vit" in said and "2026-11-21 10:00 UTC · slower" in said
    assert history.count() == 3
    sure, message, compared, _, html, *_ = deleted(page, ids)
    assert sure["visible"] is False and "1 run deleted." in message
    assert compared == "" and "slower" not in html
    assert [result.id for result in history.all()] == [failed_result().id, ok_result().id]
    sure, question, message = asked(page, " ")
    assert sure["visible"] is False and question == "" and "Select runs to delete" in message


def test_on_a_space_nothing_can_be_deleted_from_the_page(history: History, monkeypatch) -> None:
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    page = Page(FakeRunner(lambda *_: ok_result()), history=history)
    assert page.history_tab.delete_button.visible is False
    assert "0 runs deleted." in text(deleted(page, "slower")[1])
    assert history.count() == 3


def followed(page: Page, search: str, state: Any) -> tuple[str | None, Any]:
    """The new list, None where there is none, and what it was made from."""
    html, _, now = press(page, page.history_tab.runs, search, state, event="tick")
    return (text(html), now) if isinstance(html, str) else (None, state)


def test_an_open_list_shows_what_others_store_and_delete_and_is_not_sent_again_without_need(
    page: Page, history: History, monkeypatch
) -> None:
    state = shown(page)[2]
    assert followed(page, "", state)[0] is None
    history.recover()
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
