"""Results as GitHub's Markdown: one run as a table of its two variants, several as a table with a line each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from demo.core import format as fmt
from demo.core import stats
from demo.core.languages import ENGLISH
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present import advice, sentences


def of_run(result: RunResult) -> str:
    """The two variants side by side, then settings and machine. Raises ValueError for a run without figures."""
    spec, compiled = result.spec, result.compilation
    if result.speedup is None:
        raise ValueError("only a run with figures has a table")
    sides = {name: getattr(result, name) for name in result.latencies}
    answers = {"first token": result.prefill_latencies, "whole answer": result.answer_seconds}
    rows = [
        ("latency", *map(fmt.latency, result.latencies.values())),
        ("median", *(fmt.latency(side.median_seconds) for side in sides.values())),
        ("95th percentile", *(fmt.latency(side.p95_seconds) for side in sides.values())),
        (f"{spec.unit}s per second", *(fmt.rate(spec.batch_size / seconds) for seconds in result.latencies.values())),
        *((name, *map(fmt.latency, both)) for name, both in answers.items() if both is not None),
        ("first compiled call", "", fmt.duration(compiled.first_call_seconds) if compiled else ""),
        ("speed-up", "", speedup(result)),
    ]
    if result.own_break_even is not None:
        rows.append(("pays for itself after", "", sentences.calls_to_pay(result.own_break_even, ENGLISH)))
    if result.control is not None:
        rows.append(("noise floor", "", fmt.percent(stats.noise_floor(result.control))))
    rests = f"95 % confidence, {sentences.basis(result, ENGLISH)}"
    notes = [rests, sentences.break_cost(result, ENGLISH), *sentences.compiled_first(result, ENGLISH)]
    notes.append(advice.worth(result, ENGLISH))
    notes += [step.words for step in advice.next_steps(result, ENGLISH)]
    below = " ".join(
        [f"{belongs_to(result)}.", *(escaped(ENGLISH.sentence(note.rstrip("."))) for note in notes if note)]
    )
    return "\n".join([*_table(("", "eager", "compiled"), rows, "lrr"), "", below, ""])


def belongs_to(result: RunResult) -> str:
    """Checkpoint, settings, machine, versions and date in one line."""
    machine = result.environment
    where = [machine.device_name, f"torch {machine.torch}", f"transformers {machine.transformers}"] if machine else []
    return ", ".join(map(escaped, [sentences.asked(result.spec, ENGLISH), *where, result.started_at[:10]]))


def speedup(result: RunResult) -> str:
    """'**1.44×** (1.41 to 1.45×)': bold only where it is faster or slower; '' without figures."""
    text = sentences.speedup_in_full(result, ENGLISH)
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
        rows.append((escaped(spec.checkpoint), escaped(sentences.settings(spec, ENGLISH)), *times, answer))
        if result is not None and (machine := result.environment) is not None:
            day = result.started_at[:10]
            places.append(f"{machine.device_name}, torch {machine.torch}, transformers {machine.transformers}, {day}")
    below = [f"{escaped(place)}." for place in dict.fromkeys(places)]
    return "\n".join([*_table(head, rows, "llrrr"), "", *below, ""])


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(text.split()))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], columns: str) -> list[str]:
    """`columns` has an 'l' or an 'r' for each column: its alignment."""
    rules = ["--:" if column == "r" else "---" for column in columns]
    return [f"| {' | '.join(cells)} |" for cells in (head, rules, *rows)]
