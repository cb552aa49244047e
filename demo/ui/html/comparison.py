"""Stored runs as HTML: their list, and two to four side by side."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from markupsafe import Markup

from demo.core import format as fmt, stats
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.spec import RunSpec, without_meaning
from demo.present import sentences
from demo.ui.html.elements import Axis, drawn

MIN_COMPARED, MAX_COMPARED = 2, 4
MAX_SHOWN = 120
"""Characters of a setting, such as a prompt."""


def listing(results: Sequence[RunResult], stored: int, search: str, lang: Language) -> Markup:
    """The table of runs, newest first, each with a box and a link; `stored` counts all, listed or not."""
    if not results:
        searched = search.strip()
        nothing = lang.plain("history_not_found", search=searched) if searched else lang.plain("history_none")
        return drawn("comparison.empty", lang, nothing)
    shown = sentences.count(stored, "run", lang)
    if len(results) < stored:
        shown = lang.plain("runs_newest", count=len(results), stored=stored)
    return drawn("comparison.listing", lang, shown, [(result, _outcome(result, lang)) for result in results])


def confirm_delete(named: Sequence[RunResult], doomed: Sequence[str], lang: Language) -> Markup:
    """Asks whether to delete the runs of these ids, and holds the ids; `named` are the first of the runs."""
    asked = lang.composed("delete_runs", runs=sentences.count(len(doomed), "run", lang))
    return drawn("comparison.confirm_delete", lang, asked, named, doomed)


def _outcome(result: RunResult, lang: Language) -> str:
    """The outcome of a run in a few words."""
    arrow = {"faster": " ▲", "slower": " ▼"}.get(sentences.outcome(result) or "", "")
    told = sentences.answer(result, lang)
    return f"{lang.capital(told)}{arrow}" if told else sentences.status(result, lang)


def comparison(results: Sequence[RunResult], lang: Language) -> Markup:
    """Two to four runs: their speed-ups with intervals on one axis, and the figures in a table, a column each."""
    runs = dict(zip("ABCD", results, strict=False))
    known = [one.speedup for one in results if one.speedup is not None and one.failure is None]
    apart = [sentences.settings_apart(one.spec, lang) for one in results]  # of each the settings that not all have
    head = drawn(
        "comparison.head",
        lang,
        title=lang.composed("compared", runs=sentences.count(len(results), "run", lang)),
        differences=_differences(results, lang),
        winner=_winner(runs, lang),
        runs=runs,
        labels=[" · ".join(part for part in own if not all(part in parts for parts in apart)) for own in apart],
        axis=Axis([end for one in known for end in (one.low, one.high)]) if known else None,
    )
    return head + drawn("comparison.table", lang, runs, list(_lines(results, lang)))


def _differences(results: Sequence[RunResult], lang: Language) -> str:
    """The names of the settings and machine facts in which the runs differ."""
    facts = list(map(_facts, results))
    different = [lang.plain(name).lower() for name in facts[0] if len({each[name] for each in facts}) > 1]
    if not different:
        return lang.plain("compared_same" if _agree(results) else "compared_not_same")
    return lang.composed("compared_differ", names=lang.listed(different))


def _winner(runs: dict[str, RunResult], lang: Language) -> str:
    """Which compiled model is the fastest, and by how much, by the letters of the runs; '' where they do other work.

    The latencies of two processes differ by chance as their speed-ups do, so the intervals of these decide.
    """
    work = {(one.spec.checkpoint, one.spec.batch_size, one.spec.prompt, sentences.where(one)) for one in runs.values()}
    speedups = {name: one.speedup for name, one in runs.items() if one.speedup is not None and one.failure is None}
    if len(work) > 1 or len(speedups) < len(runs):
        return ""
    times = {name: runs[name].latencies["compiled"] for name in speedups}
    half_widths = {name: math.log(speedup.high / speedup.low) / 2 for name, speedup in speedups.items()}
    winner, *others = sorted(times, key=lambda name: times[name])
    told = []
    for letter in others:
        ratio = times[letter] / times[winner]
        noise = math.hypot(half_widths[winner], half_widths[letter])
        if math.log(ratio) <= noise:
            told.append(lang.composed("compared_equal", names=lang.listed([winner, letter])))
        else:
            shown = fmt.estimate(ratio, ratio / math.exp(noise), ratio * math.exp(noise)).rstrip("×")
            told.append(lang.plain("compared_winner", winner=winner, other=letter, times=shown))
    return " ".join(told)


def _agree(results: Sequence[RunResult]) -> bool:
    """Whether noise explains how the answers of equal runs differ: they ended alike, and their intervals overlap; those
    of one process alone do not say where a rerun lies, and are no ground to deny that."""
    speedups = [result.speedup for result in results if result.speedup is not None]
    rerun = [one for one in speedups if one.basis != "within one process"]
    overlap = not rerun or max(one.low for one in rerun) <= min(one.high for one in rerun)
    return overlap and len({result.status for result in results}) == 1


def _facts(result: RunResult) -> dict[str, str]:
    """Settings and machine of a run, by the key of their name; a field of a spec has its name in the form."""
    spec, image, machine, versions = result.spec, result.image, result.environment, []
    if machine is not None:
        versions = [f"transformers {machine.transformers}", f"Python {machine.python}"]
        versions += [f"driver {machine.driver}"] if machine.driver else []
    hidden = without_meaning(spec.task)
    settings = [field.name for field in dataclasses.fields(RunSpec)]
    return {name: "" if name in hidden else _shown(getattr(spec, name)) for name in settings} | {
        "picture": f"{image.name}, {image.sha256[:8]}" if image else "",
        "row_machine": sentences.where(result),
        "row_cpu": machine.cpu if machine else "",
        "compared_torch": machine.torch if machine else "",
        "row_versions": ", ".join(versions),
    }


def _shown(asked: object) -> str:
    """The value of a setting."""
    if isinstance(asked, bool):
        return "✓" if asked else "–"
    text = ", ".join(asked) if isinstance(asked, tuple) else "" if asked is None else str(asked)
    return fmt.shortened(text, MAX_SHOWN)


_ALWAYS = ("checkpoint", "batch_size", "mode", "dtype", "weights", "protocol", "row_machine", "compared_torch")
"""The facts that the table always shows. Others appear where the runs differ."""


def _lines(results: Sequence[RunResult], lang: Language) -> Iterator[tuple[str, list[str]]]:
    """A name and a cell for each run, '' for what was not measured; the name of a latency is its variant."""
    yield lang.plain("history_started"), [lang.plain_value(fmt.minute(result.started_at)) for result in results]
    facts = list(map(_facts, results))
    for name in facts[0]:
        values = [each[name] for each in facts]
        if name in _ALWAYS or len(set(values)) > 1:
            yield lang.plain(name), list(map(lang.plain_value, values))
    for name, read in _FIGURES.items():
        values = [read(result, lang) for result in results]
        if any(values):
            variant = lang.plain("variant_compiled")  # that of the throughput
            yield (lang.composed(name, variant=variant) if name in lang.texts else name), values


def _latency(result: RunResult, lang: Language, variant: str) -> str:
    seconds = result.latencies.get(variant)
    return lang.plain_value(fmt.latency(seconds)) if seconds else ""


def _throughput(result: RunResult, lang: Language) -> str:
    spec, seconds = result.spec, result.latencies.get("compiled")
    return lang.plain(f"rate_{spec.unit}", rate=fmt.rate(spec.batch_size / seconds)) if seconds else ""


def _floor(result: RunResult, lang: Language) -> str:
    return lang.plain_value(fmt.percent(stats.noise_floor(result.control))) if result.control else ""


def _first_call(result: RunResult, lang: Language) -> str:
    cost = result.compilation
    if cost is None:
        return ""
    cache = "partly" if cost.partly else cost.cache
    told = lang.plain("choice_off") if cache == "off" else sentences.cache_state(cost, cache, lang)
    return f"{lang.plain_value(fmt.duration(cost.first_call_seconds))} ({told})"


def _outputs(result: RunResult, lang: Language) -> str:
    return sentences.worker_word("parity", result.parity.verdict, lang) if result.parity is not None else ""


def _break_even(result: RunResult, lang: Language) -> str:
    outcome = sentences.outcome(result)
    if outcome in (None, "void"):
        return ""
    if outcome == "unsure":
        return lang.capital(lang.plain("answer_unsure"))
    return sentences.calls_to_pay(result.own_break_even, lang)


_FIGURES: dict[str, Callable[[RunResult, Language], str]] = {
    "history_outcome": _outcome,
    "eager": partial(_latency, variant="eager"),
    "compiled": partial(_latency, variant="compiled"),
    "row_first_token": lambda result, _: sentences.times_of(result.prefill_latencies or ()),
    "row_answer": lambda result, _: sentences.times_of(result.answer_seconds or ()),
    "row_throughput": _throughput,
    "row_speedup": sentences.speedup,
    "compared_interval": sentences.interval,
    "row_noise_floor": _floor,
    "row_first": _first_call,
    "compared_pays": _break_even,
    "compared_outputs": _outputs,
}
"""By the key of their name."""
