"""Stored runs as HTML: their list, and two to four side by side. Every text from outside is escaped."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

from demo.core import format as fmt
from demo.core import stats
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.spec import RunSpec, without_meaning
from demo.core.speedup import Speedup
from demo.present import same_answer, sentences, several_runs
from demo.ui.html.elements import esc, lane_name, percentage
from demo.ui.tabs.links import RUN

MIN_COMPARED, MAX_COMPARED = 2, 4
MAX_SHOWN = 120
"""Characters of a setting, such as a prompt."""
TICK_ROOM = 0.15
"""Share of the axis that a tick's words take on a phone."""
_TICKS = (0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0, 10.0, 20.0, 50.0)


def listing(results: Sequence[RunResult], stored: int, search: str, lang: Language) -> str:
    """The table of runs, newest first, each with a box and a link; `stored` counts all, listed or not."""
    if not results:
        searched = search.strip()
        nothing = lang.html("history_not_found", search=searched) if searched else lang.html("history_none")
        return f'<p class="none" role="status">{nothing}</p>'
    rows = "".join(_row(result, lang) for result in results)
    shown = (
        lang.marked(sentences.count(stored, "run", lang))
        if len(results) == stored
        else lang.html("runs_newest", count=len(results), stored=stored)
    )
    names = ("started", "run", "machine", "times", "outcome")
    head = "".join(f'<th scope="col">{lang.html(f"history_{name}")}</th>' for name in names)
    return (
        f'<table class="runs"><caption aria-live="polite">{shown}</caption>'
        f'<thead><tr><th scope="col"><span class="unseen">{lang.html("history_select")}</span></th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def confirm_delete(named: Sequence[RunResult], doomed: Sequence[str], lang: Language) -> str:
    """Asks whether to delete the runs of these ids, and holds the ids; `named` are the first of the runs."""
    asked = lang.html("delete_one" if len(doomed) == 1 else "delete_many", count=len(doomed))
    names = "".join(f"<li>{_name(result, lang)} · {lang.value(result.id)}</li>" for result in named)
    rest = len(doomed) - len(named)
    further = f"<li>{lang.html('delete_more', count=rest)}</li>" if rest else ""
    return f'<div role="alert" data-runs="{esc(" ".join(doomed))}"><p>{asked}</p><ul>{names}{further}</ul></div>'


def _name(result: RunResult, lang: Language) -> str:
    """Checkpoint, settings and time, as HTML."""
    asked = sentences.settings(result.spec, lang)
    when = f"{result.started_at[:16].replace('T', ' ')} UTC"
    return f"<b>{lang.value(result.spec.checkpoint)}</b> · {lang.marked(asked)} · {lang.value(when)}"


def _row(result: RunResult, lang: Language) -> str:
    when = result.started_at[:16].replace("T", " ")
    spec, machine = result.spec, result.environment
    asked = sentences.settings_apart(spec, lang)
    name = lang.marked(lang.listed([lang.plain_value(spec.checkpoint), *asked, lang.plain_value(when)]))
    return (
        f'<tr><td class="pick"><label><input type="checkbox" value="{esc(result.id)}">'
        f'<span class="unseen">{lang.composed("history_select_run", name=name)}</span></label></td>'
        f'<td class="when">{lang.value(when)}</td>'
        f'<td class="run"><a href="?{RUN}={quote(result.id, safe="")}" data-run="{esc(result.id)}">'
        f"{lang.value(spec.checkpoint)}</a><span>{lang.marked(' · '.join(asked))}</span></td>"
        f'<td class="where">{lang.value(machine.device_name if machine else spec.device)}</td>'
        f'<td class="times">{lang.value(sentences.times(result)) or "–"}</td>'
        f'<td class="outcome">{_outcome(result, lang)}</td></tr>'
    )


def _outcome(result: RunResult, lang: Language) -> str:
    span = _span(result.speedup, lang) if result.speedup and sentences.outcome(result) is not None else ""
    return f"<b>{_outcome_words(result, lang)}</b>" + (f"<span>{span}</span>" if span else "")


def _outcome_words(result: RunResult, lang: Language) -> str:
    """The outcome of a run in a few words, as HTML."""
    arrow = {"faster": " ▲", "slower": " ▼"}.get(sentences.outcome(result) or "", "")
    told = lang.marked(sentences.answer(result, lang))
    return f"{lang.capital(told)}{arrow}" if told else lang.html(f"status_{result.status}")


def _span(speedup: Speedup, lang: Language) -> str:
    """The interval of the speed-up, or of the slow-down."""
    slower = speedup.verdict == "slower"
    low, high = (
        sentences.ends(1 / speedup.high, 1 / speedup.low) if slower else sentences.ends(speedup.low, speedup.high)
    )
    return lang.html("history_slowdown" if slower else "history_speedup", low=low, high=high)


def comparison(results: Sequence[RunResult], lang: Language) -> tuple[str, str]:
    """Two to four runs: their speed-ups with intervals on one axis, and the figures in a table, a column each.

    The chart of calls over time stands between the two.
    """
    letters = "ABCD"[: len(results)]
    title = lang.marked(lang.composed("compared", runs=sentences.count(len(results), "run", lang)))
    head = _differences(results, lang) + _winner(results, letters, lang)
    head += _chart(results, letters, lang) + _untimed(results, letters, lang)
    return f'<section role="status"><h2>{title}</h2>{head}</section>', _table(results, letters, lang)


def _untimed(results: Sequence[RunResult], letters: str, lang: Language) -> str:
    """Why there is no chart of calls over time, or which run is not in it; '' where both are."""
    if len(results) != len(several_runs.LETTERS):
        return f'<p class="aside">{lang.html("compared_two")}</p>'
    without = [letter for letter, result in zip(letters, results, strict=True) if not several_runs.timeline(result)]
    names = lang.listed([lang.value(letter) for letter in without])
    return f'<p class="aside">{lang.composed("compared_untimed", names=names)}</p>' if without else ""


def _differences(results: Sequence[RunResult], lang: Language) -> str:
    """The names of the settings and machine facts in which the runs differ."""
    facts = {name: [value(result) for result in results] for name, value in _FACTS.items()}
    different = [lang.html(name).lower() for name, values in facts.items() if len(set(values)) > 1]
    if not different:
        return f'<p class="aside">{lang.html("compared_same" if _agree(results) else "compared_not_same")}</p>'
    return f'<p class="aside">{lang.composed("compared_differ", names=lang.listed(different))}</p>'


def _winner(results: Sequence[RunResult], letters: str, lang: Language) -> str:
    """Which compiled model is the fastest, by how much, and what its first call costs beside the second's.

    '' where the runs do other work.

    The latencies of two processes differ by chance as their speed-ups do, so the intervals of these decide.
    """
    work = {(one.spec.checkpoint, one.spec.batch_size, one.spec.prompt, _FACTS["row_machine"](one)) for one in results}
    known = [one.speedup is not None and one.failure is None and one.compilation is not None for one in results]
    if len(work) > 1 or not all(known):
        return ""
    order = sorted(zip(results, letters, strict=True), key=lambda one: one[0].latencies["compiled"])
    (best, winner), (other, _) = order[:2]
    equal, beaten = [winner], []
    for one, letter in order[1:]:
        ratio = one.latencies["compiled"] / best.latencies["compiled"]
        noise = math.hypot(*(math.log(run.speedup.high / run.speedup.low) / 2 for run in (best, one) if run.speedup))
        if math.log(ratio) <= noise:
            equal.append(letter)
        else:
            times = fmt.estimate(ratio, ratio / math.exp(noise), ratio * math.exp(noise)).rstrip("×")
            beaten.append(lang.html("compared_winner", winner=winner, other=letter, times=times))
    told = " ".join(beaten)
    if len(equal) > 1:
        names = lang.listed([lang.plain_value(letter) for letter in equal])
        return f"<p>{lang.marked(lang.composed('compared_equal', names=names))} {told}</p>"
    first = [one.compilation.known_costs for one in (best, other) if one.compilation is not None]
    if same := [cache for cache in first[0] if cache in first[1]]:
        told += " " + lang.html(
            "compared_first_call", winner=winner, times=f"{first[0][same[0]] / first[1][same[0]]:.2g}"
        )
    return f"<p>{told}</p>"


def _label(result: RunResult, results: Sequence[RunResult], lang: Language) -> str:
    """The settings that not all of the runs have, as HTML."""
    apart = [sentences.settings_apart(one.spec, lang) for one in results]
    own = [part for part in sentences.settings_apart(result.spec, lang) if not all(part in parts for parts in apart)]
    return f" <small>{lang.marked(' · '.join(own))}</small>" if own else ""


def _agree(results: Sequence[RunResult]) -> bool:
    """Whether noise explains how the answers of equal runs differ: they ended alike, and their intervals overlap.

    The interval of one process alone does not say where a rerun lies, so it is no ground to deny that.
    """
    speedups = [result.speedup for result in results if result.speedup is not None]
    rerun = [one for one in speedups if one.basis != "within one process"]
    overlap = not rerun or max(one.low for one in rerun) <= min(one.high for one in rerun)
    return overlap and len({result.status for result in results}) == 1


def _setting(name: str) -> Callable[[RunResult], str]:
    def value(result: RunResult) -> str:
        if name in without_meaning(result.spec.task):
            return ""
        asked = getattr(result.spec, name)
        if isinstance(asked, bool):
            return "✓" if asked else "–"
        text = ", ".join(asked) if isinstance(asked, tuple) else "" if asked is None else str(asked)
        return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"

    return value


def _machine_fact(name: str) -> Callable[[RunResult], str]:
    return lambda result: (getattr(result.environment, name) or "") if result.environment else ""


_FACTS: dict[str, Callable[[RunResult], str]] = {
    field.name: _setting(field.name) for field in dataclasses.fields(RunSpec)
} | {
    "picture": lambda result: f"{result.image.name}, {result.image.sha256[:8]}" if result.image else "",
    "row_machine": lambda result: result.environment.device_name if result.environment else result.spec.device,
    "row_cpu": _machine_fact("cpu"),
    "compared_torch": _machine_fact("torch"),
    "compared_transformers": _machine_fact("transformers"),
    "compared_driver": _machine_fact("driver"),
}
"""Settings and machine of a run, by the key of their name; a field of a spec has its name in the form."""
_ALWAYS = ("checkpoint", "batch_size", "mode", "dtype", "weights", "protocol", "row_machine", "compared_torch")
"""The facts that the table always shows. Others appear where the runs differ."""


def _chart(results: Sequence[RunResult], letters: str, lang: Language) -> str:
    """The interval of each run's speed-up on one logarithmic axis, with a mark at 1×."""
    speedups = [result.speedup for result in results if result.speedup is not None and result.failure is None]
    if not speedups:
        return f'<p class="aside">{lang.html("compared_none")}</p>'
    low = min(1.0, *(speedup.low for speedup in speedups)) / 1.04
    high = max(1.0, *(speedup.high for speedup in speedups)) * 1.04

    def place(value: float) -> str:
        return percentage(math.log(value / low) / math.log(high / low))

    one = f'<i class="one" style="left:{place(1.0)}"></i>'
    rows = []
    for letter, result in zip(letters, results, strict=True):
        speedup = result.speedup
        name = f"<b>{letter}</b>"
        if speedup is None or result.failure is not None:
            status = lang.html(f"status_{result.status}")
            rows.append(
                f'<div class="line">{name}<span class="axis">{one}</span><span class="value">{status}</span></div>'
            )
            continue
        width = percentage(math.log(speedup.high / speedup.low) / math.log(high / low))
        low_end, high_end = fmt.ratio_ends(speedup.low, speedup.high)
        spoken = f"{letter}: {lang.plain('history_speedup', low=low_end, high=high_end)}"
        stated = speedup.verdict != "unsure"  # a point on the axis would state a ratio
        point = f'<i class="point" style="left:{place(speedup.ratio)}"></i>' if stated else ""
        rows.append(
            f'<div class="line">{name}<span class="axis" role="img" aria-label="{esc(spoken)}">'
            f'{one}<i class="range" style="left:{place(speedup.low)};width:{width}"></i>'
            f"{point}</span>"
            f'<span class="value">{lang.marked(sentences.speedup(result, lang))}'
            f"{_label(result, results, lang)}</span></div>"
        )
    ticks: list[float] = []
    for tick in sorted(_TICKS, key=lambda tick: (tick != 1, tick in (0.8, 1.25))):
        apart = all(abs(math.log(tick / other)) >= TICK_ROOM * math.log(high / low) for other in ticks)
        if low <= tick <= high and apart:
            ticks.append(tick)
    ticks.sort()
    marks = "".join(f'<span style="left:{place(tick)}">{tick:g}×</span>' for tick in ticks)
    return (
        f'<figure class="speedups"><figcaption>{lang.marked(lang.plain("compared_chart"))}</figcaption>'
        f'<div{lang.ltr}>{"".join(rows)}<div class="line ticks"><span class="axis">{marks}</span></div></div></figure>'
    )


def _table(results: Sequence[RunResult], letters: str, lang: Language) -> str:
    head = "".join(f'<th scope="col">{letter}</th>' for letter in letters)
    rows = "".join(f'<tr><th scope="row">{label}</th>{_cells(values)}</tr>' for label, values in _lines(results, lang))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{esc(lang.plain("compared_table"))}">'
        f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _cells(values: Sequence[str]) -> str:
    """A cell for each run; one for all where they are the same."""
    if len(set(values)) == 1:
        return f'<td class="all" colspan="{len(values)}">{values[0] or "–"}</td>'
    return "".join(f"<td>{value or '–'}</td>" for value in values)


def _lines(results: Sequence[RunResult], lang: Language) -> Iterator[tuple[str, list[str]]]:
    """A name and a cell for each run, as HTML; '' for what was not measured."""

    def line(key: str, read: Callable[[RunResult], str]) -> tuple[str, list[str]]:
        return lang.marked(lang.plain(key)), [read(result) for result in results]

    def latency(result: RunResult, variant: str) -> str:
        seconds = result.latencies.get(variant)
        return lang.value(fmt.latency(seconds)) if seconds else ""

    def throughput(result: RunResult) -> str:
        seconds = result.latencies.get("compiled")
        return lang.marked(sentences.rate(result.spec.batch_size / seconds, result.spec, lang)) if seconds else ""

    yield line("history_started", lambda result: lang.value(result.started_at[:16].replace("T", " ")))
    for name, read in _FACTS.items():
        values = [read(result) for result in results]
        if name in _ALWAYS or len(set(values)) > 1:
            yield lang.html(name), [lang.value(value) for value in values]
    yield line("compared_outcome", lambda result: _outcome_words(result, lang))
    for variant in ("eager", "compiled"):
        name = lang.composed("row_latency", variant=lane_name(variant, lang))
        yield name, [latency(result, variant) for result in results]
    for key, both in (("row_first_token", _first_token), ("row_answer", _answer)):
        if any(map(both, results)):
            yield line(key, both)
    yield lang.composed("row_throughput", variant=lang.html("variant_compiled")), [throughput(one) for one in results]
    yield line("row_speedup", lambda result: lang.marked(sentences.speedup(result, lang)))
    yield line("compared_interval", lambda result: _interval(result, lang))
    yield line("row_noise_floor", lambda result: _floor(result, lang))
    yield line("row_first", lambda result: _first_call(result, lang))
    yield line("compared_pays", lambda result: _break_even(result, lang))
    yield line("compared_outputs", lambda result: lang.marked(same_answer.parity(result, lang)))


def _first_token(result: RunResult) -> str:
    return _pair(result.prefill_latencies)


def _answer(result: RunResult) -> str:
    return _pair(result.answer_seconds)


def _pair(both: tuple[float, float] | None) -> str:
    return "" if both is None else " → ".join(map(fmt.latency, both))


def _interval(result: RunResult, lang: Language) -> str:
    """The interval and what it rests on."""
    if result.speedup is None:
        return ""
    return lang.listed([_span(result.speedup, lang), lang.marked(sentences.basis(result, lang))])


def _floor(result: RunResult, lang: Language) -> str:
    return lang.value(fmt.percent(stats.noise_floor(result.control))) if result.control else ""


def _first_call(result: RunResult, lang: Language) -> str:
    cost = result.compilation
    if cost is None:
        return ""
    return lang.html(f"first_call_{sentences.cost_key(cost, cost.cache)}", time=fmt.duration(cost.first_call_seconds))


def _break_even(result: RunResult, lang: Language) -> str:
    outcome = sentences.outcome(result)
    if outcome in (None, "void"):
        return ""
    if outcome == "unsure":
        return lang.html("pays_unsure")
    return lang.marked(sentences.calls_to_pay(result.own_break_even, lang))
