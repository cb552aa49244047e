"""A result in at most twelve lines, in the manner of hyperfine: what a run prints."""

import statistics
from collections.abc import Iterator

from demo.core import format as fmt
from demo.core.measurement import Measurement
from demo.core.quality import quality
from demo.core.result import RunResult
from demo.present import details, naming, verdict

COLOURS = {"bold": "1", "faint": "2", "eager": "33", "compiled": "34", "faster": "1;32", "slower": "1;31"}
"""Codes of ANSI terminals."""
REMEDIES = {"": "", "repeat": "; --repeats 3 would tell more", "quiet": "; run it again when they are gone"}


def summary(result: RunResult, colour: bool = False) -> str:
    """Both latencies with spread and range, the speed-up, what it pays, agreement, graphs and quality.

    `colour` adds the codes of an ANSI terminal. Text of a model or a file is made harmless for a terminal.
    """
    lines = [_painted(part, colour) for part in _lines(result)]
    return "\n".join(lines)


_Line = list[tuple[str, str]]
"""Pieces of a line: a text and a key of `COLOURS`, '' for plain."""


def _painted(line: _Line, colour: bool) -> str:
    def piece(text: str, kind: str) -> str:
        safe = fmt.printable(text)
        return f"\x1b[{COLOURS[kind]}m{safe}\x1b[0m" if colour and kind else safe

    return "".join(piece(*one) for one in line).rstrip()


def _lines(result: RunResult) -> Iterator[_Line]:
    yield [(naming.run_line(result), "bold"), (f" · {naming.where(result)}", "")]
    if result.failure is not None:
        yield [(f"  {verdict.headline(result)}", "slower")]
        yield [(f"  {result.failure.remedy}", "")]
        return
    for name, shown, side in naming.variants(result):
        if side.wall_seconds:
            yield [(f"  {shown:<10}", name), *_times(result.latencies[name], side)]
    outcome = verdict.outcome(result)
    answer = " ".join(filter(None, verdict.headline_parts(result) or ()))
    yield [(f"  {answer or verdict.headline(result)}", outcome if outcome in ("faster", "slower") else "bold")]
    if result.speedup is not None:
        yield [(f"    {verdict.interval(result)}", "faint")]
    plain = [verdict.worth(result), details.agreement(result).removesuffix("."), _graphs(result)]
    mark = verdict.quality_line(result).removesuffix(".")
    if known := quality(result):
        mark += REMEDIES[known.remedy]
    plain += [verdict.without_breaks(result), mark, verdict.caveat(result)]
    for text in filter(None, plain):
        yield [(f"  {text}", "")]


def _times(latency: float, side: Measurement) -> _Line:
    """The latency and the spread of the calls, the range, and how many there were."""
    spread = fmt.latency(statistics.pstdev(side.wall_seconds))
    low, high = fmt.latency(min(side.wall_seconds)), fmt.latency(max(side.wall_seconds))
    calls = fmt.count(len(side.wall_seconds), "call")
    return [(f"{fmt.latency(latency):>9}", "bold"), (f" ± {spread}", ""), (f"   {low} … {high}, {calls}", "faint")]


def _graphs(result: RunResult) -> str:
    """'1 graph, 0 breaks, first call 18 s'."""
    found = result.compilation
    if found is None:
        return ""
    breaks = fmt.count(len(found.graph_breaks), "break")
    first = fmt.start_time(found.first_call_seconds)
    return f"{fmt.count(found.graphs, 'graph')}, {breaks}, first call {first}"
