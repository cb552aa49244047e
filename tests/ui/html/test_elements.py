"""The small pieces of HTML that the page is made of."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from demo.ui.html.elements import esc


@pytest.mark.parametrize("text", ['a "quoted" name', "an 'other' one", "<b>", "&amp;", '" onerror="x'])
def test_a_text_from_outside_stays_one_text_in_an_attribute_and_between_tags(text: str) -> None:
    seen: list[tuple[str, list[tuple[str, str | None]]]] = []
    told: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append((tag, attrs))

        def handle_data(self, data: str) -> None:
            told.append(data)

    reader = Reader()
    reader.feed(f"""<i title="{esc(text)}" lang='{esc(text)}'>{esc(text)}</i>""")
    reader.close()
    assert seen == [("i", [("title", text), ("lang", text)])] and "".join(told) == text
