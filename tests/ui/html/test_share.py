"""The line under an answer, and the title of the window."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_runner import MACHINE
from page_support import (
    answering,
    opened,
)
from samples import failed_result, ok_result

from demo.core.languages import ENGLISH, LANGUAGES
from demo.store.history import History
from demo.ui.page import Page, masthead


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "history.sqlite3")
    history.append(ok_result())
    history.append(failed_result())
    return history


def test_a_shared_run_says_when_and_where_it_was_measured_in_every_language(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(answering(ok_result()), history=history)
    takeaway = page.run_tab.pane.folds[-1].html["takeaway"]
    for code in LANGUAGES:
        (shown,) = opened(page, run=ok_result().id, lang=code)
        html = shown[page.run_tab.pane.share]["value"]
        assert "2026-11-21 09:00 UTC" in html and "Example CPU" in html
        assert "{ADDRESS}/?run=20261121T090000-abcdef</code>" in html
        assert f'href="{{ADDRESS}}/card/{ok_result().id}.png"' in html
        assert f"]({{ADDRESS}}/badge/{ok_result().id}.svg)]" in shown[takeaway]["value"]
    lost = takeaway.share(ok_result(id="lost"), stored=False, lang=ENGLISH)
    assert "<button" not in lost and "/card/" not in lost and "Measured 2026-11-21 09:00 UTC" in lost
    monkeypatch.setenv("SPACE_ID", "me/page")
    assert "https://huggingface.co/spaces/me/page?run=" in takeaway.share(ok_result(), stored=True, lang=ENGLISH)
    assert "https://huggingface.co/spaces/me/page?duplicate=true" in masthead(MACHINE, ENGLISH)
    monkeypatch.setenv("SPACE_HOST", "me-page.hf.space,my.example")  # huggingface.co has no badge of a Space
    space = "https://huggingface.co/spaces/me/page"
    says = "torch.compile: 2.00× faster on Example CPU"
    image = f"![{says}](https://me-page.hf.space/badge/{ok_result().id}.svg)"
    assert takeaway.badge(ok_result()) == f"[{image}]({space}?run={ok_result().id})"
    assert 'data-address="https://huggingface.co/spaces/me/page"' in masthead(MACHINE, ENGLISH)
    monkeypatch.delenv("SPACE_ID")
    assert "duplicate" not in masthead(MACHINE, ENGLISH) and 'data-address=""' in masthead(MACHINE, ENGLISH)
