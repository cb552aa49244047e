"""A comparison of two to four stored runs: how they differ, which is the fastest, and their values."""

import dataclasses
import html
from collections.abc import Callable, Sequence

from ...core import format as fmt
from ...core.comparison import Speedup
from ...core.options import CHANGES_EAGER, OPTIONS, OptionValues, unused_options
from ...core.result import FIRST_TOKEN, RunResult
from ...core.stats import TAKEN_FACTOR
from ...present import naming
from ...present.markdown import escape_markdown
from ...present.report import Report, start_name
from ...present.speedup_words import ratio_above_one
from ...store import export
from ...store.reruns import compiled_spec, versions

MIN_COMPARED, MAX_COMPARED = 2, 4
LETTERS = "ABCD"
MAX_LETTERS = 120
"""The most letters in a cell of the table. A longer text, such as a prompt, is shortened."""
ALWAYS = ("checkpoint", "batch_size", "mode", "dtype", "weights", "protocol", "device_name", "torch")
"""The settings and machine facts that always have a row. Any other has a row only if the runs differ in it."""


def in_words(report: Report) -> str:
    """Returns the result of a run in a few words: "2.00× faster ▲", "Out of memory"."""
    arrow = {"faster": " ▲", "slower": " ▼"}.get(report.kind or "", "")
    return f"{fmt.capital(report.answer)}{arrow}" if report.answer else naming.status_words(report.result)


def conclusion(reports: Sequence[Report]) -> str:
    """Returns, as Markdown, in which settings the runs differ, and which run's compiled model is the fastest."""
    results = [report.result for report in reports]
    runs = dict(zip(LETTERS, results, strict=False))
    texts = [_differences(results), _winner(runs)]
    return "\n\n".join([f"### {fmt.count(len(results), 'run')} compared", *filter(None, map(escape_markdown, texts))])


def bars(reports: Sequence[Report]) -> dict[str, Speedup | None]:
    """Returns each run's speed-up by the run's label in HTML; None for a run that failed or has no speed-up.

    A label has the run's letter, the speed-up in words, and the settings that are not the same in all runs.
    """
    apart = [naming.settings_list(report.result.spec) for report in reports]
    intervals = {}
    for letter, report, own in zip(LETTERS, reports, apart, strict=False):
        settings = [part for part in own if not all(part in parts for parts in apart)]
        text = report.ratio or naming.status_words(report.result)
        name = "  ".join([f"<b>{letter}  {text}</b>", html.escape(" · ".join(settings), quote=False)])
        intervals[name] = report.speedup
    return intervals


def rows(reports: Sequence[Report]) -> list[dict[str, str]]:
    """Returns the rows of the table as dicts by column title.

    A row is one figure or setting: its name, and its value in each run. A missing value is '–'.
    """
    results = [report.result for report in reports]
    table = [["Started (UTC)", *(fmt.minute(result.started_at) for result in results)]]
    facts = list(map(_facts, results))
    for name in facts[0]:
        values = [each[name] for each in facts]
        if name in ALWAYS or len(set(values)) > 1:
            texts = [naming.value_text(value) if value is not None else "" for value in values]
            table.append([fmt.capital(_label(name)), *(fmt.shorten(text, MAX_LETTERS) for text in texts)])
    for name, figure in FIGURES.items():
        cells = [figure(report) for report in reports]
        if any(cells):
            table.append([name, *cells])
    titles = ("Figure", *LETTERS)
    return [dict(zip(titles, (cell or "–" for cell in row), strict=False)) for row in table]


def _differences(results: Sequence[RunResult]) -> str:
    facts = list(map(_facts, results))
    alone = {name for result in results for name in unused_options(result.spec.task)}
    different = [_label(name) for name in facts[0] if name not in alone and len({each[name] for each in facts}) > 1]
    if not different:
        return "Same settings on the same machine each time."
    return f"They differ in: {', '.join(different)}."


def _winner(runs: dict[str, RunResult]) -> str:
    """Returns sentences that compare the fastest compiled model with each of the others.

    `runs`: the compared runs by their letter, such as 'A'. Returns '' if a run failed or has no speed-up, or if
    checkpoint, batch size, prompt or machine differ.
    """
    work = {(run.spec.checkpoint, run.spec.batch_size, run.spec.prompt, naming.where(run)) for run in runs.values()}
    speedups = {name: run.speedup for name, run in runs.items() if run.speedup is not None and run.failure is None}
    if len(work) > 1 or len(speedups) < len(runs):
        return ""
    alike = len({_eager_settings(run) for run in runs.values()}) == 1
    times = {name: 1 / speedup.ratio if alike else speedup.compiled_seconds for name, speedup in speedups.items()}
    winner, *others = sorted(times, key=lambda name: times[name])
    sentences = []
    for letter in others:
        measured = speedups[winner].pooled.over(speedups[letter].pooled)
        # Runs with unlike eager are compared by their latencies, with an interval as wide as that of the speed-ups.
        difference = measured.around(times[letter] / times[winner]).judge(len(others))
        if difference.verdict == "faster":
            sentences.append(f"{winner} is {ratio_above_one(difference).rstrip('×')} times as fast as {letter}.")
        elif difference.verdict == "same":
            sentences.append(f"{winner} and {letter} are equally fast.")
        else:
            sentences.append(f"Whether {winner} or {letter} is faster is not known.")
    if any(speedup.pooled.taken for speedup in speedups.values()):
        sentences.append(f"Other programs took cores: this allows for a factor of {TAKEN_FACTOR:g}.")
    return " ".join(sentences)


def _eager_settings(result: RunResult) -> tuple[object, ...]:
    """Returns everything that eager's latency depends on.

    If all compared runs agree in this, the run with the highest speed-up has the fastest compiled model. Otherwise the
    latencies of the compiled models are compared.
    """
    compiled_only = [name for name, option in OPTIONS.items() if option.for_speed and name not in CHANGES_EAGER]
    same: OptionValues = {
        name: OPTIONS[name].default for name in (*compiled_only, "threads")
    }  # `versions` has the threads used
    return dataclasses.replace(compiled_spec(result.spec), **same), versions(result)


def _facts(result: RunResult) -> dict[str, object]:
    """Returns a run's settings and facts about its machine, by the column names of an export.

    An entry "picture" is added: name and hash of the run's picture, or None.
    """
    row = export.row(result)
    names = [name for name, (_, place) in export.EXPORTED.items() if place.startswith(("spec.", "environment."))]
    picture = f"{result.image.name}, {result.image.sha256[:8]}" if result.image else None
    return {name: row[name] for name in names} | {"picture": picture}


def _label(fact: str) -> str:
    return OPTIONS[fact].label.lower() if fact in OPTIONS else fact.replace("_", " ")


def _latency(result: RunResult, variant: str) -> str:
    seconds = result.latencies.get(variant)
    return fmt.latency(seconds) if seconds else ""


def _first_token(result: RunResult) -> str:
    first = result.comparisons.get(FIRST_TOKEN)
    return fmt.latencies(first.latencies) if first is not None else ""


def _first_call(result: RunResult) -> str:
    cost = result.compilation
    if cost is None:
        return ""
    cache = "partly" if cost.partly else cost.cache
    start = "off" if cache == "off" else start_name(cost, cache)
    return f"{fmt.duration(cost.first_call_seconds)} ({start})"


FIGURES: dict[str, Callable[[Report], str]] = {
    "Result": in_words,
    "Eager latency": lambda report: _latency(report.result, "eager"),
    "Compiled latency": lambda report: _latency(report.result, "compiled"),
    "Time to the first token": lambda report: _first_token(report.result),
    "Whole answer": lambda report: fmt.latencies(report.result.answer_seconds or ()),
    "95 % interval": lambda report: report.interval_and_basis,
    "First compiled call": lambda report: _first_call(report.result),
    "When it pays": lambda report: report.pays,
    "Outputs": lambda report: report.result.parity.verdict if report.result.parity is not None else "",
}
"""Maps a row's name to the function that returns a run's cell; '' for a value that was not measured."""
