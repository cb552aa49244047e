"""Stored runs as HTML: the list of them, and two to four side by side. Every text from outside goes through `esc`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

from demo.core import format as fmt
from demo.core import stats
from demo.core.languages import ENGLISH, Language
from demo.core.result import RunResult, RunSpec, Speedup
from demo.present import section_texts as words
from demo.ui.html.elements import esc, lane_name, percentage
from demo.ui.tabs.links import RUN

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
            told = say.capital(say.html("answer_same"))
        case _:
            told = f"{say.html(f'{outcome}_figure')} {say.html(f'{outcome}_after')}"
    return f"<b>{told}</b><span>{_span(speedup, say)}</span>"


def _span(speedup: Speedup, say: Language) -> str:
    """The interval of the speed-up, or of the slow-down."""
    slower = speedup.verdict == "slower"
    low, high = words.ends(1 / speedup.high, 1 / speedup.low) if slower else words.ends(speedup.low, speedup.high)
    return say.html("history_slowdown" if slower else "history_speedup", low=low, high=high)


def comparison(results: Sequence[RunResult], say: Language = ENGLISH) -> str:
    """Two to four runs: their speed-ups with intervals on one axis, and the figures in a table, a column each."""
    letters = "ABCD"[: len(results)]
    title = say.marked(say.composed("compared", runs=words.count(len(results), "run", say)))
    return (
        f'<section class="comparison" role="status"><h2>{title}</h2>'
        f"{_differences(results, say)}{_chart(results, letters, say)}{_table(results, letters, say)}</section>"
    )


def _differences(results: Sequence[RunResult], say: Language) -> str:
    """What the runs do not have in common: without that, their figures cannot be compared."""
    facts = {name: [value(result) for result in results] for name, value in _FACTS.items()}
    different = [say.html(name).lower() for name, values in facts.items() if len(set(values)) > 1]
    if not different:
        return f'<p class="aside">{say.html("compared_same")}</p>'
    return f'<p class="aside">{say.composed("compared_differ", names=say.listed(different))}</p>'


def _asked(name: str) -> Callable[[RunResult], str]:
    def value(result: RunResult) -> str:
        asked = getattr(result.spec, name)
        return ", ".join(asked) if isinstance(asked, tuple) else "" if asked is None else str(asked)

    return value


def _known(name: str) -> Callable[[RunResult], str]:
    return lambda result: (getattr(result.environment, name) or "") if result.environment else ""


_FACTS: dict[str, Callable[[RunResult], str]] = {
    field.name: _asked(field.name) for field in dataclasses.fields(RunSpec)
} | {
    "picture": lambda result: f"{result.image.name}, {result.image.sha256[:8]}" if result.image else "",
    "row_machine": lambda result: result.environment.device_name if result.environment else result.spec.device,
    "row_cpu": _known("cpu"),
    "compared_torch": _known("torch"),
    "compared_transformers": _known("transformers"),
    "compared_driver": _known("driver"),
}
"""What was asked, and where, by the key of its name: a field of a spec is called as in the form."""
_ALWAYS = ("checkpoint", "batch_size", "mode", "dtype", "weights", "protocol", "row_machine", "compared_torch")
"""The facts that the table shows; of the others only those that differ."""


def _chart(results: Sequence[RunResult], letters: str, say: Language) -> str:
    """A line from low to high for each run on a logarithmic axis that all share; 1× is where nothing is gained."""
    known = [result.speedup for result in results if result.speedup is not None and result.failure is None]
    if not known:
        return f'<p class="aside">{say.html("compared_none")}</p>'
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
            told = say.html(f"status_{result.status}")
            rows.append(
                f'<div class="line">{name}<span class="axis">{one}</span><span class="value">{told}</span></div>'
            )
            continue
        width = percentage(math.log(speedup.high / speedup.low) / math.log(high / low))
        low_end, high_end = fmt.ratio_ends(speedup.low, speedup.high)
        said = f"{letter}: {say.plain('history_speedup', low=low_end, high=high_end)}"
        rows.append(
            f'<div class="line">{name}<span class="axis" role="img" aria-label="{esc(said)}">'
            f'{one}<i class="range" style="left:{place(speedup.low)};width:{width}"></i>'
            f'<i class="point" style="left:{place(speedup.ratio)}"></i></span>'
            f'<span class="value">{say.value(fmt.ratio(speedup.ratio))}</span></div>'
        )
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    if len(ticks) > 1 or low < 1 < high:
        ticks = sorted({*ticks, 1.0})
    marks = "".join(f'<span style="left:{place(tick)}">{tick:g}×</span>' for tick in ticks)
    return (
        f'<figure class="speedups"><figcaption>{say.marked(say.plain("compared_chart"))}</figcaption>'
        f'<div{say.ltr}>{"".join(rows)}<div class="line ticks"><span class="axis">{marks}</span></div></div></figure>'
    )


def _table(results: Sequence[RunResult], letters: str, say: Language) -> str:
    head = "".join(f'<th scope="col">{letter}</th>' for letter in letters)
    rows = "".join(
        f'<tr><th scope="row">{label}</th>' + "".join(f"<td>{value or '–'}</td>" for value in values) + "</tr>"
        for label, values in _lines(results, say)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{esc(say.plain("compared_table"))}">'
        f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _lines(results: Sequence[RunResult], say: Language) -> Iterator[tuple[str, list[str]]]:
    """A name and a cell for each run, as HTML; '' for what was not measured."""

    def line(key: str, read: Callable[[RunResult], str]) -> tuple[str, list[str]]:
        return say.marked(say.plain(key)), [read(result) for result in results]

    def latency(result: RunResult, variant: str) -> str:
        measured = getattr(result, variant)
        return say.value(fmt.latency(measured.median_seconds)) if measured and measured.wall_seconds else ""

    def throughput(result: RunResult) -> str:
        measured = result.compiled
        if measured is None or not measured.wall_seconds:
            return ""
        return say.marked(words.rate(result.spec.batch_size / measured.median_seconds, say))

    yield line("history_started", lambda result: say.value(result.started_at[:16].replace("T", " ")))
    for name, read in _FACTS.items():
        values = [read(result) for result in results]
        if name in _ALWAYS or len(set(values)) > 1:
            yield say.html(name), [say.value(value) for value in values]
    yield line("compared_outcome", lambda result: say.html(f"status_{result.status}"))
    for variant in ("eager", "compiled"):
        name = say.composed("row_latency", variant=lane_name(variant, say))
        yield name, [latency(result, variant) for result in results]
    yield say.composed("row_throughput", variant=say.html("variant_compiled")), [throughput(one) for one in results]
    yield line("row_speedup", lambda result: say.value(fmt.ratio(result.speedup.ratio)) if result.speedup else "")
    yield line("compared_interval", lambda result: _span(result.speedup, say) if result.speedup else "")
    yield line("row_noise_floor", lambda result: _floor(result, say))
    yield line("row_first", lambda result: _first_call(result, say))
    yield line("compared_pays", lambda result: _break_even(result, say))
    yield line("compared_outputs", lambda result: say.marked(words.parity(result, say)))


def _floor(result: RunResult, say: Language) -> str:
    return say.value(f"±{fmt.percent(stats.noise_floor(result.control))}") if result.control else ""


def _first_call(result: RunResult, say: Language) -> str:
    cost = result.compilation
    return say.html(f"first_call_{cost.cache}", time=fmt.duration(cost.first_call_seconds)) if cost else ""


def _break_even(result: RunResult, say: Language) -> str:
    outcome = words.outcome(result)
    if outcome in (None, "void"):
        return ""
    if outcome == "unsure":
        return say.html("pays_unsure")
    calls = result.break_even_calls if outcome == "faster" else None
    return say.marked(words.count(calls, "call", say) if calls is not None else say.plain("never"))
