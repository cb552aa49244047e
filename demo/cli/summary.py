"""A result in at most twelve lines, in the manner of hyperfine: what a run prints."""

import statistics

from demo.core import format as fmt
from demo.core.measurement import Measurement
from demo.core.quality import quality
from demo.core.result import RunResult
from demo.present import details, naming, verdict

REMEDIES = {"": "", "repeat": "; --repeats 3 would tell more", "quiet": "; run it again when they are gone"}


def summary(result: RunResult, bold: bool = False) -> str:
    """Both latencies with spread and range, the speed-up, what it pays, agreement, graphs and quality.

    `bold` makes the answer so on an ANSI terminal. Text of a model or a file is made harmless for a terminal.
    """
    title = f"{naming.run_line(result)} · {naming.where(result)}"
    if result.failure is not None:
        return fmt.printable(f"{title}\n  {verdict.headline(result)}\n  {result.failure.remedy}".rstrip())
    variants = [one for one in naming.variants(result) if one[2].wall_seconds]
    times = [_times(shown, result.latencies[name], side) for name, shown, side in variants]
    answer = " ".join(filter(None, verdict.headline_parts(result) or ())) or verdict.headline(result)
    mark = verdict.quality_line(result).removesuffix(".")
    if known := quality(result):
        mark += REMEDIES[known.remedy]
    below = [
        verdict.interval(result) and f"  {verdict.interval(result)}",
        verdict.worth(result),
        details.agreement(result).removesuffix("."),
        _graphs(result),
        verdict.without_breaks(result),
        mark,
        verdict.caveat(result),
    ]
    before, after = ("\x1b[1m", "\x1b[0m") if bold else ("", "")
    lines = [fmt.printable(f"  {text}") for text in (*times, answer, *filter(None, below))]
    lines[len(times)] = f"{before}{lines[len(times)]}{after}"
    return "\n".join([fmt.printable(title), *lines])


def _times(shown: str, latency: float, side: Measurement) -> str:
    """The latency and the spread of the calls, the range, and how many there were."""
    spread = fmt.latency(statistics.pstdev(side.wall_seconds))
    low, high = fmt.latency(min(side.wall_seconds)), fmt.latency(max(side.wall_seconds))
    calls = fmt.count(len(side.wall_seconds), "call")
    return f"{shown:<10}{fmt.latency(latency):>9} ± {spread}   {low} … {high}, {calls}"


def _graphs(result: RunResult) -> str:
    """'1 graph, 0 breaks, first call 18 s'."""
    found = result.compilation
    if found is None:
        return ""
    breaks = fmt.count(len(found.graph_breaks), "break")
    first = fmt.start_time(found.first_call_seconds)
    return f"{fmt.count(found.graphs, 'graph')}, {breaks}, first call {first}"
