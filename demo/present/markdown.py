"""Results as GitHub's Markdown: one run as a table of its two variants, several as a table with a line each."""

import re
from collections.abc import Iterable, Sequence

from demo.core import format as fmt
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present import advice, details, sentences


def of_run(result: RunResult) -> str:
    """The verdict, both variants side by side, settings and machine. Raises ValueError for a run without figures."""
    timed = details.calls(result)
    if timed is None or timed.table is None:
        raise ValueError("only a run with figures has a table")
    heads, lines = timed.table
    notes = [
        sentences.quality_line(result),
        sentences.noise_floor(result),
        *advice.when_it_pays(result),
        sentences.without_breaks(result),
        *sentences.compiled_first(result),
    ]
    settings = sentences.run_line(result)
    place = escaped(", ".join([settings, *sentences.machine(result), result.started_at[:10]]))
    told = [escaped(fmt.sentence(note.rstrip("."))) for note in notes if note]
    below = " ".join([f"{place}.", *told])
    worth = [advice.worth(result), advice.worth_why(result)]
    pays = " ".join(escaped(fmt.sentence(text)) for text in worth if text)
    answer = f"{speedup(result)}, 95 % confidence, {sentences.basis(result)}."
    return "\n".join([answer, "", pays, "", *_table(heads, lines, "lrr"), "", below, ""])


def speedup(result: RunResult) -> str:
    """'**1.44×** (1.41 to 1.45×)': bold only where it is faster or slower; '' without figures."""
    text = sentences.speedup_in_full(result)
    if sentences.outcome(result) in ("faster", "slower"):
        ratio, _, interval = text.partition(" ")
        return f"**{ratio}** {interval}"
    return text


def of_cells(cells: Iterable[tuple[RunSpec, RunResult | None, str]]) -> str:
    """A line for each cell of a grid: its spec, its result, and the text of a cell without figures, such as 'OOM'."""
    head = ("checkpoint", "settings", "eager", "compiled", "speed-up")
    rows, places = [], []
    for spec, result, value in cells:
        figures = result if result is not None and sentences.outcome(result) is not None else None
        times = map(fmt.latency, figures.latencies.values()) if figures else ("", "")
        answer = speedup(figures) if figures else escaped(value)
        rows.append((escaped(spec.checkpoint), escaped(sentences.settings(spec)), *times, answer))
        if result is not None and (machine := sentences.machine(result)):
            places.append(", ".join([*machine, result.started_at[:10]]))
    below = [f"{escaped(place)}." for place in dict.fromkeys(places)]
    return "\n".join([*_table(head, rows, "llrrr"), "", *below, ""])


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(text.split()))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], columns: str) -> list[str]:
    """`columns` has an 'l' or an 'r' for each column: its alignment."""
    rules = ["--:" if column == "r" else "---" for column in columns]
    return [f"| {' | '.join(cells)} |" for cells in (head, rules, *rows)]
