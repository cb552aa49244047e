"""Tests of a run as Markdown: verdict and details, and no text from outside that becomes HTML or a link."""

import dataclasses
import re

import pytest
from support.page_support import HOSTILE
from support.samples import ENVIRONMENT, failed_result, full_result, plain

from demo.core.machine import GpuSample, HostSample
from demo.core.measurement import GraphBreak
from demo.core.result import Failure
from demo.present import details, markdown
from demo.present.report import Report

LINKS = "[a](https://example.org) https://example.org www.example.org WWW.EXAMPLE.ORG me@example.org <https://a.b>"


def test_the_export_is_the_answer_and_the_sections_of_the_page() -> None:
    report = Report(full_result())
    text = markdown.of_run(report)
    assert text.startswith("2.00× (1.993 to 2.007×)") and "Pays after " in text
    assert "| A call, trimmed mean | 12.2 ms | 6.12 ms |" in text
    for sections in details.tree(report).values():
        assert all(markdown.of_section(section) in text for section in sections)


@pytest.mark.parametrize("hostile", [HOSTILE, LINKS, "- a *b* `c` | d $$e$$ &lt; _f_ # g"])
def test_a_text_from_outside_is_shown_as_it_is(hostile: str) -> None:
    escaped = markdown.escape_markdown(hostile)
    assert plain(escaped) == hostile
    assert not re.search(r"(?<!\\)(?:[\[<*`|$&@#_]|:(?=//))|(?i:www)\.|^[-+]", escaped)


def test_texts_from_models_and_machines_cannot_become_html_or_links() -> None:
    hostile = f"{HOSTILE} {LINKS}"
    places = (GraphBreak(hostile, hostile, (hostile,), hostile),)
    good = full_result()
    names = {"device_name": hostile, "cpu": "https://example.org/gb1.html", "compiler": hostile}
    result = full_result(
        environment=dataclasses.replace(ENVIRONMENT, **names),
        compilation=dataclasses.replace(good.compilation, graph_breaks=places, recompiles=places, fallbacks=places),
        machine_states=(HostSample(0.0, 0.0, GpuSample(None, None, (hostile,))),),
    )
    failed = failed_result(failure=Failure("load", hostile, hostile))
    for text in (markdown.of_run(Report(result)), markdown.of_run(Report(failed))):
        assert hostile in plain(text)
        assert not re.search(r"(?<!\\)(<img|\[a\]|@)|https://example|(?i:www)\.", text)
