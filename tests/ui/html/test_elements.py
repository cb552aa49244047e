"""Text from outside in HTML: escaped wherever it stands. And the buttons for the next step after a run."""

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

from support.page_support import HOSTILE, asked_by
from support.samples import failed_result, ok_result

from demo.core import format as fmt
from demo.core.caveat import Caveat
from demo.core.record import Failure
from demo.core.spec import RunSpec
from demo.present import naming, verdict
from demo.ui.html import results
from demo.ui.html.elements import drawn
from demo.ui.tabs import links, tables

QUOTED = f"""{HOSTILE} "quoted" 'one' &amp;"""
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
    reader.feed(tables.status(QUOTED))
    reader.feed(drawn("elements.lane", QUOTED, QUOTED))
    reader.close()
    assert [tag for tag, _ in seen] == ["p", "span", "i"] and ("class", f"lane-name {QUOTED}") in seen[1][1]
    assert "".join(told) == QUOTED * 2


def test_no_template_calls_a_text_safe_each_attribute_is_quoted_and_each_function_that_is_called_is_there() -> None:
    templates = [file.read_text(encoding="utf-8") for file in TEMPLATES.glob("*.html")]
    assert templates and not any(re.search(r"\|\s*safe|autoescape|=\s*\{\{", text) for text in templates)
    for module, name in re.findall(r"\b(fmt|naming|verdict)\.(\w+)", "".join(templates)):
        assert hasattr({"fmt": fmt, "naming": naming, "verdict": verdict}[module], name)


def test_of_many_caveats_the_most_important_stands_beside_the_answer() -> None:
    caveats = (Caveat("random_weights"), Caveat("breaks", {"breaks": 2, "graphs": 3}), Caveat("no_graph"))
    html = results.headline(ok_result(caveats=caveats))
    assert str(caveats[2]) in html and not any(str(one) in html for one in caveats[:2])


def test_a_remedy_that_names_a_setting_is_a_button_that_runs_with_it() -> None:
    for change, words in [
        ({"weights": "random"}, "Weights: random"),
        ({"batch_size": 64, "dtype": "bfloat16"}, "Batch size: 64"),
        ({"fullgraph": False}, "Full graph only: off"),
        ({"mode": "default"}, "Compile mode: default"),
    ]:
        spec = RunSpec("microsoft/resnet-50", "image-classification", 256, "max-autotune", fullgraph=True)
        failure = Failure("load", "It failed.", "Do something else.", change)
        html = results.failure(failed_result(spec=spec, failure=failure))
        assert words in html
        repeated = [links.spec_of(query, "shapes-vit") for query in asked_by(html)]
        assert repeated == [dataclasses.replace(spec, **{name: value}) for name, value in change.items()]


def test_a_stored_change_that_is_no_setting_gives_no_button() -> None:
    for change in ({"nothing": 1}, {"batch_size": 0}, {"checkpoint": []}, {"mode": HOSTILE}, {"text": 3}):
        failure = Failure("load", "It failed.", "Do something else.", change)
        assert asked_by(results.failure(failed_result(failure=failure))) == []
