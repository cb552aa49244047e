"""Two to four stored runs side by side: in what they differ, which is the fastest, and the figures of each."""

import html
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from demo.core import format as fmt, stats
from demo.core.result import FIRST_TOKEN, RunResult
from demo.core.spec import OPTIONS, unused_options
from demo.core.stats import Interval
from demo.present import naming, verdict
from demo.present.comparison_charts import RunInterval
from demo.present.markdown import escaped
from demo.store import export

MIN_COMPARED, MAX_COMPARED = 2, 4
LETTERS = "ABCD"
MAX_SHOWN = 120
"""Characters of a setting, such as a prompt."""


def outcome(result: RunResult) -> str:
    """The outcome of a run in a few words."""
    arrow = {"faster": " ▲", "slower": " ▼"}.get(verdict.outcome(result) or "", "")
    told = verdict.answer(result)
    return f"{fmt.capital(told)}{arrow}" if told else naming.status(result)


def answer(results: Sequence[RunResult]) -> str:
    """In which settings two to four runs differ, and which compiled model is the fastest; as Markdown."""
    runs = dict(zip(LETTERS, results, strict=False))
    texts = [_differences(results), _winner(runs)]
    return "\n\n".join([f"### {fmt.count(len(results), 'run')} compared", *filter(None, map(escaped, texts))])


def bars(results: Sequence[RunResult]) -> list[RunInterval]:
    """The speed-ups as `intervals` draws them, each with the settings that not all of them have."""
    apart = [naming.settings_apart(one.spec) for one in results]
    shown = []
    for letter, result, own in zip(LETTERS, results, apart, strict=False):
        known = result.speedup if result.failure is None else None
        settings = [part for part in own if not all(part in parts for parts in apart)]
        told = verdict.speedup(result) or naming.status(result)
        name = "  ".join([f"<b>{letter}  {told}</b>", html.escape(" · ".join(settings), quote=False)])
        shown.append(RunInterval(name, known, decided=known is not None and known.verdict != "unsure"))
    return shown


def lines(results: Sequence[RunResult]) -> tuple[str, list[list[str]]]:
    """The letters of the runs, and a line for each figure: its name and a cell for each run."""
    return LETTERS[: len(results)], [[name, *(cell or "–" for cell in cells)] for name, cells in _lines(results)]


def _differences(results: Sequence[RunResult]) -> str:
    """The names of the settings and machine facts in which the runs differ."""
    facts = list(map(_facts, results))
    alone = {name for result in results for name in unused_options(result.spec.task)}
    different = [_named(name) for name in facts[0] if name not in alone and len({each[name] for each in facts}) > 1]
    if not different:
        return "Same settings on the same machine each time."
    return f"They differ in: {', '.join(different)}."


def _winner(runs: dict[str, RunResult]) -> str:
    """Which compiled model is the fastest, and by how much, by the letters of the runs; '' where they do other work.

    Each pair is one question of several.
    """
    work = {(one.spec.checkpoint, one.spec.batch_size, one.spec.prompt, naming.where(one)) for one in runs.values()}
    speedups = {name: one.speedup for name, one in runs.items() if one.speedup is not None and one.failure is None}
    if len(work) > 1 or len(speedups) < len(runs):
        return ""
    times = {name: runs[name].latencies["compiled"] for name in speedups}
    winner, *others = sorted(times, key=lambda name: times[name])
    told = []
    for letter in others:
        found = _difference(times[letter] / times[winner], speedups[winner], speedups[letter], len(others))
        if found.verdict == "faster":
            told.append(f"{winner} is {verdict.figure(found).rstrip('×')} times as fast as {letter}.")
        elif found.verdict == "same":
            told.append(f"{winner} and {letter} are equally fast.")
        else:
            told.append(f"Whether {winner} or {letter} is faster is not known.")
    return " ".join(told)


def _difference(ratio: float, first: Interval, second: Interval, questions: int) -> stats.Difference:
    """Whether the compiled models of two runs differ; their latencies differ by chance as their speed-ups do."""
    noise = stats.quotient(first, second)
    around = Interval(ratio, ratio * noise.low / noise.ratio, ratio * noise.high / noise.ratio)
    return stats.compare(around, questions=questions)


def _facts(result: RunResult) -> dict[str, Any]:
    """Settings and machine of a run, as an export has them, and its picture; by their names."""
    row = export.row(result)
    known = ("spec.", "environment.")
    facts = {name: row[name] for name, (_, place) in export.EXPORTED.items() if place.startswith(known)}
    return facts | {"picture": f"{result.image.name}, {result.image.sha256[:8]}" if result.image else None}


def _named(fact: str) -> str:
    """The name of a fact in a sentence."""
    return OPTIONS[fact].label.lower() if fact in OPTIONS else fact.replace("_", " ")


_ALWAYS = ("checkpoint", "batch_size", "mode", "dtype", "weights", "protocol", "device_name", "torch")
"""The facts that the table always shows. Others appear where the runs differ."""


def _lines(results: Sequence[RunResult]) -> Iterator[tuple[str, list[str]]]:
    """A name and a cell for each run, '' for what was not measured."""
    yield "Started (UTC)", [fmt.minute(result.started_at) for result in results]
    facts = list(map(_facts, results))
    for name in facts[0]:
        values = [each[name] for each in facts]
        if name in _ALWAYS or len(set(values)) > 1:
            texts = [naming.shown_value(value) if value is not None else "" for value in values]
            yield fmt.capital(_named(name)), [fmt.shortened(text, MAX_SHOWN) for text in texts]
    for name, read in _FIGURES.items():
        values = [read(result) for result in results]
        if any(values):
            yield name, values


def _latency(result: RunResult, variant: str) -> str:
    seconds = result.latencies.get(variant)
    return fmt.latency(seconds) if seconds else ""


def _first_token(result: RunResult) -> Sequence[float]:
    first = result.comparisons.get(FIRST_TOKEN)
    return first.latencies if first is not None else ()


def _first_call(result: RunResult) -> str:
    cost = result.compilation
    if cost is None:
        return ""
    cache = "partly" if cost.partly else cost.cache
    told = "off" if cache == "off" else verdict.start(cost, cache)
    return f"{fmt.duration(cost.first_call_seconds)} ({told})"


def _outputs(result: RunResult) -> str:
    return result.parity.verdict if result.parity is not None else ""


_FIGURES: dict[str, Callable[[RunResult], str]] = {
    "Result": outcome,
    "Eager latency": partial(_latency, variant="eager"),
    "Compiled latency": partial(_latency, variant="compiled"),
    "Time to the first token": lambda result: fmt.latencies(_first_token(result)),
    "Whole answer": lambda result: fmt.latencies(result.answer_seconds or ()),
    "Speed-up": verdict.speedup,
    "95 % interval": verdict.interval,
    "First compiled call": _first_call,
    "When it pays": verdict.worth,
    "Outputs": _outputs,
}
"""By their names."""
