"""Stored runs as HTML: their list, and two to four side by side."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

from markupsafe import Markup

from demo.core import format as fmt
from demo.core import stats
from demo.core.languages import Language
from demo.core.machine import Environment
from demo.core.result import RunResult
from demo.core.spec import RunSpec, without_meaning
from demo.present import sentences, upgrade, why_parts
from demo.ui.html.elements import drawn
from demo.ui.tabs.links import RUN

MIN_COMPARED, MAX_COMPARED = 2, 4
MAX_SHOWN = 120
"""Characters of a setting, such as a prompt."""
TICK_ROOM = 0.15
"""Share of the axis that a tick's words take on a phone."""
_TICKS = (0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0, 10.0, 20.0, 50.0)


def listing(results: Sequence[RunResult], stored: int, search: str, lang: Language) -> Markup:
    """The table of runs, newest first, each with a box and a link; `stored` counts all, listed or not."""
    if not results:
        searched = search.strip()
        nothing = lang.plain("history_not_found", search=searched) if searched else lang.plain("history_none")
        return drawn("comparison.empty", lang, nothing)
    shown = (
        sentences.count(stored, "run", lang)
        if len(results) == stored
        else lang.plain("runs_newest", count=len(results), stored=stored)
    )
    return drawn("comparison.listing", lang, shown, [_row(result, lang) for result in results])


def _row(result: RunResult, lang: Language) -> dict[str, object]:
    """A line of the list, as plain text."""
    spec, when = result.spec, lang.plain_value(_minute(result))
    asked = sentences.settings_apart(spec, lang)
    name = lang.listed([lang.plain_value(spec.checkpoint), *asked, when])
    known = result.speedup if sentences.outcome(result) is not None else None
    return {
        "id": result.id,
        "link": f"?{RUN}={quote(result.id, safe='')}",
        "select": lang.composed("history_select_run", name=name),
        "when": when,
        "checkpoint": spec.checkpoint,
        "asked": " · ".join(asked),
        "where": sentences.where(result),
        "times": sentences.times(result),
        "outcome": _outcome(result, lang),
        "interval": sentences.range_of(known, known.verdict == "slower", lang) if known is not None else "",
    }


def _minute(result: RunResult) -> str:
    return result.started_at[:16].replace("T", " ")


def confirm_delete(named: Sequence[RunResult], doomed: Sequence[str], lang: Language) -> Markup:
    """Asks whether to delete the runs of these ids, and holds the ids; `named` are the first of the runs."""
    asked = lang.composed("delete_runs", runs=sentences.count(len(doomed), "run", lang))
    runs = [(one.spec.checkpoint, sentences.settings(one.spec, lang), f"{_minute(one)} UTC", one.id) for one in named]
    return drawn("comparison.confirm_delete", lang, asked, runs, " ".join(doomed), len(doomed) - len(named))


def _outcome(result: RunResult, lang: Language) -> str:
    """The outcome of a run in a few words."""
    arrow = {"faster": " ▲", "slower": " ▼"}.get(sentences.outcome(result) or "", "")
    told = sentences.answer(result, lang)
    return f"{lang.capital(told)}{arrow}" if told else sentences.status(result, lang)


def comparison(results: Sequence[RunResult], lang: Language) -> Markup:
    """Two to four runs: their speed-ups with intervals on one axis, and the figures in a table, a column each."""
    letters = "ABCD"[: len(results)]
    head = drawn(
        "comparison.head",
        lang,
        title=lang.composed("compared", runs=sentences.count(len(results), "run", lang)),
        differences=_differences(results, lang),
        winner=_winner(results, letters, lang),
        chart=_chart(results, letters, lang),
    )
    return head + drawn("comparison.table", lang, letters, list(_lines(results, lang)))


def _differences(results: Sequence[RunResult], lang: Language) -> str:
    """The names of the settings and machine facts in which the runs differ."""
    facts = list(map(_facts, results))
    different = [lang.plain(name).lower() for name in facts[0] if len({each[name] for each in facts}) > 1]
    if not different:
        return lang.plain("compared_same" if _agree(results) else "compared_not_same")
    return lang.composed("compared_differ", names=lang.listed(different))


def _winner(results: Sequence[RunResult], letters: str, lang: Language) -> str:
    """Which compiled model is the fastest, by how much, and what its first call costs beside the second's.

    Of one spec in two environments it is the verdict of `upgrade`. '' where the runs do other work.

    The latencies of two processes differ by chance as their speed-ups do, so the intervals of these decide.
    """
    if len(results) == 2 and (verdict := upgrade.told(results[0], results[1], (letters[0], letters[1]), lang)):
        return verdict
    work = {(one.spec.checkpoint, one.spec.batch_size, one.spec.prompt, sentences.where(one)) for one in results}
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
            beaten.append(lang.plain("compared_winner", winner=winner, other=letter, times=times))
    told = " ".join(beaten)
    if len(equal) > 1:
        names = lang.listed([lang.plain_value(letter) for letter in equal])
        return f"{lang.composed('compared_equal', names=names)} {told}".strip()
    first = [one.compilation.known_costs for one in (best, other) if one.compilation is not None]
    if same := [cache for cache in first[0] if cache in first[1]]:
        times = f"{first[0][same[0]] / first[1][same[0]]:.2g}"
        told += " " + lang.plain("compared_first_call", winner=winner, times=times)
    return told


def _label(result: RunResult, results: Sequence[RunResult], lang: Language) -> str:
    """The settings that not all of the runs have."""
    apart = [sentences.settings_apart(one.spec, lang) for one in results]
    own = [part for part in sentences.settings_apart(result.spec, lang) if not all(part in parts for parts in apart)]
    return " · ".join(own)


def _agree(results: Sequence[RunResult]) -> bool:
    """Whether noise explains how the answers of equal runs differ: they ended alike, and their intervals overlap.

    The interval of one process alone does not say where a rerun lies, so it is no ground to deny that.
    """
    speedups = [result.speedup for result in results if result.speedup is not None]
    rerun = [one for one in speedups if one.basis != "within one process"]
    overlap = not rerun or max(one.low for one in rerun) <= min(one.high for one in rerun)
    return overlap and len({result.status for result in results}) == 1


def _facts(result: RunResult) -> dict[str, str]:
    """Settings and machine of a run, by the key of their name; a field of a spec has its name in the form."""
    image, machine = result.image, result.environment
    return {field.name: _setting(result.spec, field.name) for field in dataclasses.fields(RunSpec)} | {
        "picture": f"{image.name}, {image.sha256[:8]}" if image else "",
        "row_machine": sentences.where(result),
        "row_cpu": machine.cpu if machine else "",
        "compared_torch": machine.torch if machine else "",
        "row_versions": _further_versions(machine) if machine else "",
    }


def _further_versions(machine: Environment) -> str:
    known = [f"transformers {machine.transformers}", f"Python {machine.python}"]
    known += [f"driver {machine.driver}"] if machine.driver else []
    return ", ".join([*known, *filter(None, [machine.interpreter])])


def _setting(spec: RunSpec, name: str) -> str:
    """'' where the setting has no meaning for the task."""
    if name in without_meaning(spec.task):
        return ""
    asked = getattr(spec, name)
    if isinstance(asked, bool):
        return "✓" if asked else "–"
    text = ", ".join(asked) if isinstance(asked, tuple) else "" if asked is None else str(asked)
    return fmt.shortened(text, MAX_SHOWN)


_ALWAYS = ("checkpoint", "batch_size", "mode", "dtype", "weights", "protocol", "row_machine", "compared_torch")
"""The facts that the table always shows. Others appear where the runs differ."""


def _chart(results: Sequence[RunResult], letters: str, lang: Language) -> Markup:
    """The interval of each run's speed-up on one logarithmic axis, with a mark at 1×; empty without any speed-up."""
    speedups = [result.speedup for result in results if result.speedup is not None and result.failure is None]
    if not speedups:
        return Markup()
    low = min(1.0, *(speedup.low for speedup in speedups)) / 1.04
    high = max(1.0, *(speedup.high for speedup in speedups)) * 1.04

    def place(value: float) -> float:
        return math.log(value / low) / math.log(high / low)

    lines: list[dict[str, object]] = []
    for letter, result in zip(letters, results, strict=True):
        speedup = result.speedup
        if speedup is None or result.failure is not None:
            lines.append({"letter": letter, "value": sentences.status(result, lang)})
            continue
        low_end, high_end = fmt.ratio_ends(speedup.low, speedup.high)
        stated = speedup.verdict != "unsure"  # a point on the axis would state a ratio
        lines.append(
            {
                "letter": letter,
                "value": sentences.speedup(result, lang),
                "spoken": f"{letter}: {lang.plain('history_speedup', low=low_end, high=high_end)}",
                "left": place(speedup.low),
                "width": place(speedup.high) - place(speedup.low),
                "point": place(speedup.ratio) if stated else None,
                "label": _label(result, results, lang),
            }
        )
    ticks: list[float] = []
    for tick in sorted(_TICKS, key=lambda tick: (tick != 1, tick in (0.8, 1.25))):
        apart = all(abs(math.log(tick / other)) >= TICK_ROOM * math.log(high / low) for other in ticks)
        if low <= tick <= high and apart:
            ticks.append(tick)
    marks = [(place(tick), f"{tick:g}×") for tick in sorted(ticks)]
    return drawn("comparison.chart", lang, lines, place(1.0), marks)


def _lines(results: Sequence[RunResult], lang: Language) -> Iterator[tuple[str, list[str]]]:
    """A name and a cell for each run, as plain text; '' for what was not measured.

    The latency of a variant has the variant as its name, which the template writes in its colour.
    """

    def line(name: str, read: Callable[[RunResult], str]) -> tuple[str, list[str]]:
        return name, [read(result) for result in results]

    def value(text: str) -> str:
        return lang.plain_value(text) if text else ""

    yield line(lang.plain("history_started"), lambda one: value(_minute(one)))
    facts = list(map(_facts, results))
    for name in facts[0]:
        values = [each[name] for each in facts]
        if name in _ALWAYS or len(set(values)) > 1:
            yield lang.plain(name), list(map(value, values))
    yield line(lang.plain("history_outcome"), lambda one: _outcome(one, lang))
    for variant in ("eager", "compiled"):
        seconds = [result.latencies.get(variant) for result in results]
        yield variant, [value(fmt.latency(one)) if one else "" for one in seconds]
    for key, pairs in (
        ("row_first_token", [result.prefill_latencies for result in results]),
        ("row_answer", [result.answer_seconds for result in results]),
    ):
        if any(pairs):
            yield lang.plain(key), [sentences.times_of(both) if both else "" for both in pairs]
    throughput = lang.composed("row_throughput", variant=lang.plain("variant_compiled"))
    yield line(throughput, lambda one: _throughput(one, lang))
    yield line(lang.plain("row_speedup"), lambda one: sentences.speedup(one, lang))
    yield line(lang.plain("compared_interval"), lambda one: _interval(one, lang))
    yield line(lang.plain("row_noise_floor"), lambda one: value(_floor(one)))
    yield line(lang.plain("row_first"), lambda one: _first_call(one, lang))
    yield line(lang.plain("compared_pays"), lambda one: _break_even(one, lang))
    yield line(lang.plain("compared_outputs"), lambda one: why_parts.parity(one, lang))


def _throughput(result: RunResult, lang: Language) -> str:
    seconds = result.latencies.get("compiled")
    return sentences.rate(result.spec.batch_size / seconds, result.spec, lang) if seconds else ""


def _interval(result: RunResult, lang: Language) -> str:
    """The interval and what it rests on."""
    if result.speedup is None:
        return ""
    span = sentences.range_of(result.speedup, result.speedup.verdict == "slower", lang)
    return lang.listed([span, sentences.basis(result, lang)])


def _floor(result: RunResult) -> str:
    return fmt.percent(stats.noise_floor(result.control)) if result.control else ""


def _first_call(result: RunResult, lang: Language) -> str:
    cost = result.compilation
    if cost is None:
        return ""
    cache = sentences.cost_key(cost, cost.cache)
    told = lang.plain("choice_off" if cache == "off" else f"head_{cache}")
    return f"{lang.plain_value(fmt.duration(cost.first_call_seconds))} ({told})"


def _break_even(result: RunResult, lang: Language) -> str:
    outcome = sentences.outcome(result)
    if outcome in (None, "void"):
        return ""
    if outcome == "unsure":
        return lang.capital(lang.plain("answer_unsure"))
    return sentences.calls_to_pay(result.own_break_even, lang)
