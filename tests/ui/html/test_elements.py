"""Text from outside in HTML: escaped wherever it stands."""

import re
from html.parser import HTMLParser
from pathlib import Path

from demo.core import format as fmt
from demo.core.languages import LANGUAGES
from demo.present import sentences
from demo.ui.html.elements import drawn

HOSTILE = """<img src=x onerror=alert(1)> "quoted" 'one' &amp;"""
TEMPLATES = Path(__file__).parents[3] / "demo" / "ui" / "templates"


def test_a_text_from_outside_stays_one_text_in_an_attribute_and_between_tags() -> None:
    seen: list[tuple[str, list[tuple[str, str | None]]]] = []
    told: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append((tag, attrs))

        def handle_data(self, data: str) -> None:
            told.append(data)

    reader = Reader()
    reader.feed(drawn("comparison.message", LANGUAGES["ar"], HOSTILE))
    reader.feed(drawn("outputs.image", LANGUAGES["ar"], HOSTILE, HOSTILE))
    reader.close()
    pictures = [("src", HOSTILE), ("alt", HOSTILE), ("draggable", "false")]
    assert seen == [("p", [("role", "status")]), ("img", pictures)] and "".join(told) == HOSTILE


def test_no_template_says_that_a_text_is_safe_and_each_attribute_is_quoted() -> None:
    templates = [file.read_text(encoding="utf-8") for file in TEMPLATES.glob("*.html")]
    assert templates and not any(re.search(r"\|\s*safe|autoescape|=\s*\{\{", text) for text in templates)


def test_each_function_of_a_module_that_a_template_calls_is_there() -> None:
    called = [
        re.findall(r"\b(fmt|sentences)\.(\w+)", file.read_text(encoding="utf-8")) for file in TEMPLATES.glob("*.html")
    ]
    assert all(
        hasattr({"fmt": fmt, "sentences": sentences}[module], name) for calls in called for module, name in calls
    )
