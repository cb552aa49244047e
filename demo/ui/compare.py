"""Stored runs as HTML: the list of them, and two to four side by side. Every text from outside goes through `esc`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from urllib.parse import quote

from demo import format as fmt
from demo import stats, words
from demo.languages import ENGLISH, Language
from demo.schema import RunResult, RunSpec
from demo.ui.links import RUN
from demo.ui.parts import esc, lane_name, percentage

FEWEST, MOST = 2, 4
_TICKS = (0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0, 10.0, 20.0, 50.0)


def listing(results: Sequence[RunResult], stored: int, search: str, say: Language = ENGLISH) -> str:
    """The table of runs, newest first, a box and a link in each row; `stored` counts those that were not listed too."""
    if not results:
        searched = search.strip()
        told = say.html("history_not_found", search=searched) if searched else say.html("history_none")
        return f'<p class="none" role="status">{told}</p>'
    rows = "".join(_row(result, say) for result in results)
    shown = (
        say.marked(words.count(stored, "run", say))
        if len(results) == stored
        else say.html("runs_newest", count=len(results), stored=stored)
    )
    names = ("started", "run", "machine", "times", "outcome")
    head = "".join(f'<th scope="col">{say.html(f"history_{name}")}</th>' for name in names)
    return (
        f'<table class="runs"><caption aria-live="polite">{shown}</caption>'
        f'<thead><tr><th scope="col"><span class="unseen">{say.html("history_select")}</span></th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _row(result: RunResult, say: Language) -> str:
    when = result.started_at[:16].replace("T", " ")
    spec, machine = result.spec, result.environment
    _, _, asked = words.asked(spec, say).partition(" · ")
    name = say.marked(say.listed([say.plain_value(spec.checkpoint), *asked.split(" · "), say.plain_value(when)]))
    return (
        f'<tr><td class="pick"><label><input type="checkbox" value="{esc(result.id)}">'
        f'<span class="unseen">{say.composed("history_select_run", name=name)}</span></label></td>'
        f'<td class="when">{say.value(when)}</td>'
        f'<td class="run"><a href="?{RUN}={quote(result.id, safe="")}" data-run="{esc(result.id)}">'
        f"{say.value(spec.checkpoint)}</a><span>{say.marked(asked)}</span></td>"
        f'<td class="where">{say.value(machine.device_name if machine else spec.device)}</td>'
        f'<td class="times">{say.value(words.times(result)) or "–"}</td>'
        f'<td class="outcome">{_outcome(result, say)}</td></tr>'
    )


def _outcome(result: RunResult, say: Language) -> str:
    outcome, speedup = words.outcome(result), result.speedup
    if outcome is None or speedup is None:
        return f"<b>{say.html(f'status_{result.status}')}</b>"
    match outcome:
        case "faster":
            told = f"{say.html('answer_faster', ratio=fmt.ratio(speedup.ratio))} ▲"
        case "slower":
            told = f"{say.html('answer_slower', ratio=fmt.ratio(1 / speedup.ratio))} ▼"
        case "same":
            told = say.html("answer_same")
        case _:
            told = f"{say.html(f'{outcome}_figure')} {say.html(f'{outcome}_after')}"
    low, high = speedup.low, speedup.high
    if speedup.verdict == "slower":
        low, high = 1 / high, 1 / low
    least, most = words.ends(low, high)
    key = "history_slowdown" if speedup.verdict == "slower" else "history_speedup"
    return f"<b>{told}</b><span>{say.html(key, low=least, high=most)}</span>"


def comparison(results: Sequence[RunResult]) -> str:
    """Two to four runs: their speed-ups with intervals on one axis, and the figures in a table, a column each."""
    letters = "ABCD"[: len(results)]
    table = _table(results, letters)
    return (
        f'<section class="comparison" role="status"><h2>{words.count(len(results), "run")} compared</h2>'
        f"{_differences(results)}{_chart(results, letters)}{table}</section>"
    )


def _differences(results: Sequence[RunResult]) -> str:
    """What the runs do not have in common: without that, their figures cannot be compared."""
    facts = {name: [value(result) for result in results] for name, value in _FACTS.items()}
    different = [name.lower() for name, values in facts.items() if len(set(values)) > 1]
    if not different:
        return '<p class="aside">The same was asked each time, on the same machine: what differs is noise.</p>'
    return f'<p class="aside">They differ in: {esc(", ".join(different))}.</p>'


_NAMES = {
    "mode": "Compile mode",
    "dtype": "Number format",
    "fullgraph": "Full graph only",
    "text": "What to look for",
    "iterations": "Timed calls of each",
    "most_seconds": "Seconds of timing",
    "cache": "Compile cache",
}
"""Of the fields of a spec that the page calls by another name than their own."""


def _asked(name: str) -> Callable[[RunResult], str]:
    def value(result: RunResult) -> str:
        asked = getattr(result.spec, name)
        return ", ".join(asked) if isinstance(asked, tuple) else "" if asked is None else str(asked)

    return value


def _known(name: str) -> Callable[[RunResult], str]:
    return lambda result: (getattr(result.environment, name) or "") if result.environment else ""


_FACTS: dict[str, Callable[[RunResult], str]] = {
    _NAMES.get(field.name, field.name.replace("_", " ").capitalize()): _asked(field.name)
    for field in dataclasses.fields(RunSpec)
} | {
    "Picture": lambda result: f"{result.image.name}, {result.image.sha256[:8]}" if result.image else "",
    "Machine": lambda result: result.environment.device_name if result.environment else result.spec.device,
    "CPU": _known("cpu"),
    "torch": _known("torch"),
    "transformers": _known("transformers"),
    "Driver": _known("driver"),
}
"""What was asked, and where."""
_ALWAYS = ("Checkpoint", "Batch size", "Compile mode", "Number format", "Weights", "Protocol", "Machine", "torch")
"""The facts that the table shows; of the others only those that differ."""


def _chart(results: Sequence[RunResult], letters: str) -> str:
    """A line from low to high for each run on a logarithmic axis that all share; 1× is where nothing is gained."""
    known = [result.speedup for result in results if result.speedup is not None and result.failure is None]
    if not known:
        return '<p class="aside">None of them has a speed-up.</p>'
    low = min(1.0, *(speedup.low for speedup in known)) / 1.04
    high = max(1.0, *(speedup.high for speedup in known)) * 1.04

    def place(value: float) -> str:
        return percentage(math.log(value / low) / math.log(high / low))

    one = f'<i class="one" style="left:{place(1.0)}"></i>'
    rows = []
    for letter, result in zip(letters, results, strict=True):
        speedup = result.speedup
        name = f"<b>{letter}</b>"
        if speedup is None or result.failure is not None:
            told = words.status(result)
            rows.append(
                f'<div class="line">{name}<span class="axis">{one}</span><span class="value">{esc(told)}</span></div>'
            )
            continue
        width = percentage(math.log(speedup.high / speedup.low) / math.log(high / low))
        said = f"{letter}: speed-up {fmt.ratio_interval(speedup.low, speedup.high)}"
        rows.append(
            f'<div class="line">{name}<span class="axis" role="img" aria-label="{said}">'
            f'{one}<i class="range" style="left:{place(speedup.low)};width:{width}"></i>'
            f'<i class="point" style="left:{place(speedup.ratio)}"></i></span>'
            f'<span class="value">{fmt.ratio(speedup.ratio)}</span></div>'
        )
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    if len(ticks) > 1 or low < 1 < high:
        ticks = sorted({*ticks, 1.0})
    marks = "".join(f'<span style="left:{place(tick)}">{tick:g}×</span>' for tick in ticks)
    return (
        '<figure class="speedups"><figcaption>Speed-up with its 95 % interval; right of 1× compiled is faster'
        f'</figcaption>{"".join(rows)}<div class="line ticks"><span class="axis">{marks}</span></div></figure>'
    )


def _table(results: Sequence[RunResult], letters: str) -> str:
    head = "".join(f'<th scope="col">{letter}</th>' for letter in letters)
    rows = "".join(
        f'<tr><th scope="row">{label}</th>' + "".join(f"<td>{esc(value)}</td>" for value in values) + "</tr>"
        for label, values in _lines(results)
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="The figures of each run">'
        f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _lines(results: Sequence[RunResult]) -> list[tuple[str, list[str]]]:
    def line(label: str, *values: str) -> tuple[str, list[str]]:
        return label, [value or "–" for value in values]

    def latency(result: RunResult, variant: str) -> str:
        measured = getattr(result, variant)
        return fmt.latency(measured.median_seconds) if measured and measured.wall_seconds else ""

    def rate(result: RunResult) -> str:
        measured = result.compiled
        return (
            words.rate(result.spec.batch_size / measured.median_seconds) if measured and measured.wall_seconds else ""
        )

    lines = [line("Started (UTC)", *(result.started_at[:16].replace("T", " ") for result in results))]
    facts = {name: [value(result) for result in results] for name, value in _FACTS.items()}
    lines += [line(name, *values) for name, values in facts.items() if name in _ALWAYS or len(set(values)) > 1]
    lines += [
        line("Outcome", *(words.status(result) for result in results)),
        line(f"{lane_name('eager')} latency", *(latency(result, "eager") for result in results)),
        line(f"{lane_name('compiled')} latency", *(latency(result, "compiled") for result in results)),
        line("Compiled throughput", *map(rate, results)),
        line("Speed-up", *(fmt.ratio(found.ratio) if (found := result.speedup) else "" for result in results)),
        line("95 % interval", *(words.interval(result).replace(", 95 % confidence", "") for result in results)),
        line(
            "Noise floor",
            *(f"±{fmt.percent(stats.noise_floor(result.control))}" if result.control else "" for result in results),
        ),
        line(
            "First compiled call",
            *(
                f"{fmt.duration(cost.first_call_seconds)} ({cost.cache})" if (cost := result.compilation) else ""
                for result in results
            ),
        ),
        line("Pays for itself after", *map(_break_even, results)),
        line("Outputs", *(result.parity.verdict if result.parity else "" for result in results)),
    ]
    return lines


def _break_even(result: RunResult) -> str:
    if result.speedup is None:
        return ""
    return words.count(result.break_even_calls, "call") if result.break_even_calls is not None else "never"
