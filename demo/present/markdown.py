"""Writes results as GitHub's Markdown: one run with all its details, or several runs as a table."""

import re
from collections.abc import Iterable, Sequence

from ..core import format as fmt
from ..core.options import RunSpec
from ..core.result import RunResult
from . import details, naming
from .details import Section
from .report import Report


def of_run(report: Report) -> str:
    """Returns a run as Markdown: its verdict with all details, or why it has no verdict."""
    result = report.result
    if report.kind is None:
        failure, paid = result.failure, []
        texts = (failure.message, failure.remedy) if failure else ()
        answer = [f"**{naming.status_words(result)}.**", *map(escape_markdown, texts)]
    else:
        verdict = f"{report.ratio_in_full}, 95 % confidence, {report.basis}."
        more = [report.noise, report.without_breaks, report.quality_line]
        answer = [verdict, *(escape_markdown(fmt.sentence(text)) for text in more if text)]
        paid = [escape_markdown(f"{text}.") for text in (report.pays, report.request, report.start_times) if text]
    settings = ", ".join([naming.run_line(result), *naming.machine_words(result), result.started_at[:10]])
    below = [f"{escape_markdown(settings)}.", *map(escape_markdown, of_predictions(report))]
    sections = [of_section(section) for fold in details.tree(report).values() for section in fold]
    return "\n\n".join(filter(None, [*map(" ".join, (answer, paid, below)), *sections])) + "\n"


def of_predictions(report: Report) -> list[str]:
    """Returns sentences: whether eager and compiled predict the same, and `Report.prediction_notes`."""
    return [*([f"{report.agreement}."] if report.agreement else []), *report.prediction_notes]


def of_section(section: Section) -> str:
    """Returns a section of a run's details as Markdown: heading, sentences, table, and a list item for each fact."""
    pieces = [f"#### {escape_markdown(section.title)}"]
    pieces += [escape_markdown(fmt.capital(text)) for text in section.sentences if text]
    if section.table is not None:
        heads, lines = section.table
        cells = [list(map(escape_markdown, line)) for line in lines]
        pieces.append(_table(list(map(escape_markdown, heads)), cells, "l" + "r" * (len(heads) - 1)))
    facts = []
    for fact in section.facts:
        shown = f"[{fact.value}]({fact.url})" if fact.url else fact.value and f"**{escape_markdown(fact.value)}**"
        why = escape_markdown(fact.why)
        facts.append(f"- {escape_markdown(fact.name)}: {' · '.join(filter(None, [shown, why]))}")
    return "\n\n".join(filter(None, [*pieces, "\n".join(facts)]))


def of_cells(cells: Iterable[tuple[RunSpec, RunResult | None, str]]) -> str:
    """Returns a Markdown table with a line for each run, and below it machines, versions and days.

    `cells`: for each run its spec, its result (None before the run), and a text such as 'OOM' in place of a missing
    speed-up.
    """
    head = ("checkpoint", "settings", "eager", "compiled", "speed-up")
    rows, places = [], []
    for spec, result, value in cells:
        report = Report(result) if result is not None else None
        figures = report if report is not None and report.kind is not None else None
        times = map(fmt.latency, figures.result.latencies.values()) if figures else ("", "")
        answer = figures.ratio_in_full if figures else escape_markdown(value)
        rows.append((escape_markdown(naming.model(spec)), escape_markdown(naming.settings(spec)), *times, answer))
        if result is not None and (machine := naming.machine_words(result)):
            places.append(", ".join([*machine, result.started_at[:10]]))
    below = [f"{escape_markdown(place)}." for place in dict.fromkeys(places)]
    return "\n".join([_table(head, rows, "llrrr"), "", *below, ""])


def escape_markdown(text: str) -> str:
    """Returns `text` on one line, escaped so that Markdown does not read it as HTML, a list, a formula or a link."""
    # no-break spaces (U+00A0, U+202F) stay, since `fmt.group_thousands` puts them into '18 000'
    line = re.sub(r"([\\`*_{}\[\]<>|#~&$@])", r"\\\1", re.sub(r"[^\S\u00a0\u202f]+", " ", text).strip())
    line = re.sub(r":(?=//)", r"\\:", re.sub(r"(?i)\b(www)\.", r"\1\\.", line))
    return re.sub(r"^(\d*)([-+=.)])(?=\s|$)", r"\1\\\2", line)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], columns: str) -> str:
    """Returns a Markdown table. `columns` has the alignment of each column, left or right: 'lrr'."""
    rules = ["--:" if column == "r" else "---" for column in columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rules, *rows))
