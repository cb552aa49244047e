"""A result in at most twelve lines, in the manner of hyperfine: what a run prints."""

import statistics

from demo.core import format as fmt
from demo.core.measurement import Measurement
from demo.core.quality import quality
from demo.core.result import RunResult
from demo.present import details, naming, verdict

COLOURS = {"bold": "1", "eager": "33", "compiled": "34", "faster": "1;32", "slower": "1;31"}
"""Codes of ANSI terminals."""
REMEDIES = {"": "", "repeat": "; --repeats 3 would tell more", "quiet": "; run it again when they are gone"}


def summary(result: RunResult, colour: bool = False) -> str:
    """Both latencies with spread and range, the speed-up, what it pays, agreement, graphs and quality.

    `colour` adds the codes of an ANSI terminal. Text of a model or a file is made harmless for a terminal.
    """
    title = f"{naming.run_line(result)} · {naming.where(result)}"
    if result.failure is not None:
        lines = [(title, "bold"), (f"  {verdict.headline(result)}", "slower"), (f"  {result.failure.remedy}", "")]
    else:
        lines = [(title, "bold"), *((f"  {text}", kind) for text, kind in _figures(result) if text)]
    texts = [(fmt.printable(text).rstrip(), kind) for text, kind in lines]
    return "\n".join(f"\x1b[{COLOURS[kind]}m{text}\x1b[0m" if colour and kind else text for text, kind in texts if text)


def _figures(result: RunResult) -> list[tuple[str, str]]:
    """Each line with a key of `COLOURS`, '' for plain."""
    outcome = verdict.outcome(result)
    answer = " ".join(filter(None, verdict.headline_parts(result) or ())) or verdict.headline(result)
    interval, mark = verdict.interval(result), verdict.quality_line(result).removesuffix(".")
    if known := quality(result):
        mark += REMEDIES[known.remedy]
    return [
        *((_times(shown, result.latencies[name], side), name) for name, shown, side in naming.variants(result)),
        (answer, outcome if outcome in ("faster", "slower") else "bold"),
        (f"  {interval}" if interval else "", ""),
        (verdict.worth(result), ""),
        (details.agreement(result).removesuffix("."), ""),
        (_graphs(result), ""),
        (verdict.without_breaks(result), ""),
        (mark, ""),
        (verdict.caveat(result), ""),
    ]


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
