"""Links that are followed inside the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from page_support import answering, cancel, handler, pressed, stage_of, visitor
from samples import ok_result

from demo.store.history import History
from demo.ui.page import Page


def follow(page: Page, data: Any, session: str = "one") -> dict[Any, Any]:
    following = handler(page, changes=page.following.way)
    updates: dict[Any, Any] = following(visitor(session), "shapes-vit", "image-classification", data=data)
    return updates


def test_a_link_inside_the_page_fills_the_form_presses_run_or_goes_back_to_a_run(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    history.append(ok_result())
    page = Page(answering(ok_result(), seconds=60), history=history)
    way, tab = page.following.way, page.run_tab
    filled = follow(page, {"query": "?checkpoint=microsoft%2Fresnet-50&batch_size=4", "way": "run"})
    assert filled[way] == "run" and filled[tab.form.inputs["batch_size"]]["value"] == 4
    refused = follow(page, {"query": "?batch_size=0", "way": "run"})
    assert refused[way] == "" and "Batch size must be" in stage_of(page, refused)
    assert tab.pane.top not in refused  # what was shown is shown still
    back = follow(page, {"query": f"?run={ok_result().id}&tab=history", "way": "back"})
    assert back[tab.opened] == ok_result().id and "2.00×" in stage_of(page, back)
    before = follow(page, {"query": "", "way": "back"})
    assert before[tab.opened] == "" and "Is it worth compiling" in stage_of(page, before)
    for data in (None, [], {"way": "run"}, {"query": 3, "way": "fly"}, {"query": "?run=%00&run", "way": "back"}):
        assert set(follow(page, data)) <= {way, *tab.showing}
    next(iter(pressed(page)))
    assert follow(page, {"query": "?batch_size=4", "way": "run"}) == {way: ""}  # the run that goes on is not touched
    cancel(page, "one")
