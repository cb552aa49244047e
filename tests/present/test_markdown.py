"""A run as Markdown: sections whose titles answer, everything that was measured behind them, and nothing that becomes
HTML or a link."""

import dataclasses
import re
from typing import Any

import pytest
from support.page_support import HOSTILE
from support.samples import ENVIRONMENT, failed_result, full_result, measurement, ok_result, plain

from demo.core.machine import GpuSample, HostSample
from demo.core.measurement import Compilation, CompileCost, GraphBreak
from demo.core.result import Failure, RunResult
from demo.present import details, markdown

WHY = next(iter(details.FOLDS))
LINKS = "[a](https://example.org) https://example.org www.example.org WWW.EXAMPLE.ORG me@example.org <https://a.b>"


def shown(result: RunResult) -> dict[str, str]:
    """The words of every section, by the name of its part."""
    parts = {name: part for fold in details.tree(result).values() for name, part in fold.items()}
    return {name: plain(markdown.section(part)) for name, part in parts.items()}


def test_the_export_is_the_answer_and_the_sections_that_the_page_shows() -> None:
    text, result = markdown.of_run(full_result()), full_result()
    assert text.startswith("**2.00×** (1.993 to 2.007×)") and "Pays after " in text
    assert "| A call | 12.2 ms | 6.12 ms |" in text
    for fold in details.tree(result).values():
        assert all(markdown.section(part) in text for part in fold.values())


@pytest.mark.parametrize(
    "hostile", [HOSTILE, LINKS, "- a *b* `c` | d $$e$$ &lt; _f_ # g"], ids=["HTML", "links", "signs"]
)
def test_a_text_from_outside_is_shown_as_it_is(hostile: str) -> None:
    escaped = markdown.escaped(hostile)
    assert plain(escaped) == hostile
    assert not re.search(r"(?<!\\)(?:[\[<*`|$&@#_]|:(?=//))|(?i:www)\.|^[-+]", escaped)


def test_texts_from_models_and_machines_cannot_become_html_or_links() -> None:
    hostile = f"{HOSTILE} {LINKS}"
    places = (GraphBreak(hostile, hostile, (hostile,), hostile),)
    good = full_result()
    result = dataclasses.replace(
        good,
        environment=dataclasses.replace(ENVIRONMENT, device_name=hostile, cpu=hostile, compiler=hostile),
        compilation=dataclasses.replace(good.compilation, graph_breaks=places, recompiles=places, fallbacks=places),
        machine_states=(HostSample(0.0, 0.0, GpuSample(None, None, (hostile,))),),
    )
    failed = failed_result(failure=Failure("load", hostile, hostile))
    for text in (markdown.of_run(result), markdown.of_run(failed)):
        assert hostile in plain(text)
        assert not re.search(r"(?<!\\)(<img|\[a\]|@)|https://example|(?i:www)\.", text)


def compilation(**changes: object) -> RunResult:
    good = full_result()
    return full_result(compilation=dataclasses.replace(good.compilation, **changes))  # type: ignore[arg-type]


def test_a_run_without_figures_has_only_the_machine_to_tell_of() -> None:
    failed = failed_result(spec=ok_result().spec)
    assert list(shown(failed)) == ["machine"]
    assert shown(dataclasses.replace(failed, environment=None)) == {}


FELL_BACK = (GraphBreak("an unsupported call", "a.py:1 in forward"),)


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"graphs": 0, "graph_breaks": ()}, "No: torch.compile captured no graph"),
        ({"fallbacks": FELL_BACK}, "Partly: 1 frame of it fell back"),
        ({}, "Partly: 2 graphs with 1 break between"),
        ({"graphs": 1, "graph_breaks": ()}, "Yes: the whole model is one graph"),
        ({"graphs": 2, "graph_breaks": ()}, "Yes: 2 graphs, no breaks"),
    ],
)
def test_the_title_answers_whether_it_really_compiled(changes: dict[str, Any], answer: str) -> None:
    assert shown(compilation(**changes))["compiled"].startswith(f"Did it really compile? {answer}")


@pytest.mark.parametrize(
    ("compiled", "costs"),
    [
        (Compilation(0.5, "warm", 1, cold=CompileCost(6.0, {})), {"cold": 6.0, "warm": 0.5}),
        (Compilation(5.5, "off", 1), {"cold": 5.5}),
        (Compilation(4.5, "cold", 1, partly=True, warm=CompileCost(0.5, {})), {"partly": 4.5, "warm": 0.5}),
        (Compilation(4.5, "cold", 1, partly=True, cold=CompileCost(17.0, {})), {"cold": 17.0}),
    ],
    ids=["kept", "no cache", "partly filled", "partly filled, and known from nothing"],
)
def test_a_run_s_own_first_call_counts_if_nothing_else_was_measured(
    compiled: Compilation, costs: dict[str, float]
) -> None:
    assert compiled.known_costs == costs


def test_memory_is_shown_where_it_differs_with_what_was_reserved() -> None:
    text = shown(full_result())["memory"]
    assert text.startswith("Memory: 620 MB → 540 MB") and "reserved 744 MB 648 MB" in text
    alike = ok_result(eager=measurement(0.002, peak=491_000_000), compiled=measurement(0.001, peak=500_000_000))
    assert "memory" not in shown(alike)  # at most 2 % more


def test_the_machine_says_what_disturbed_it() -> None:
    hot = GpuSample(900e6, 1_590e6, ("thermal",), 1)
    assert "GPU throttled: thermal" in shown(full_result(machine_states=(HostSample(0.0, 0.0, hot),)))["machine"]


def test_below_breaks_stands_once_what_torch_says_may_help_and_its_page() -> None:
    hints = ("Remove the call.", "Or move it.")
    breaks = tuple(GraphBreak("print", f"a.py:{line}", hints, "GB0059") for line in (1, 2))
    result = compilation(graph_breaks=(*breaks, GraphBreak("unknown", "a.py:3")))
    page = "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html"
    told = markdown.section(details.tree(result)[WHY]["compiled"])
    assert told.count("Remove the call. Or move it.") == 1 and told.count(f"[GB0059]({page})") == 1
    assert told.index("a.py:1") < told.index("Remove") < told.index("a.py:2")
    assert GraphBreak("print", "", number="GB0059/../x").page == ""
