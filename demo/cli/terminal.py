"""The texts of the command line: progress in one line, a result in short and in full, and plain text tables."""

import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TextIO

import numpy as np

from ..core import format as fmt
from ..core.progress import Progress
from ..core.result import RunResult
from ..present import details, naming, whole_work
from ..present.details import Section
from ..present.report import Report
from ..present.script import change
from ..sweep.run_grid import Done, Event, Timing

MAX_PREDICTIONS = 5
WIDTH = 100
ANSI_CODES = {"bold": "1", "eager": "33", "compiled": "34", "faster": "1;32", "slower": "1;31"}
SIGN_OF_LIFE_SECONDS = 30.0
"""In a log file, where the progress line cannot be rewritten, a command prints a new line at least this often."""
LATE_FACTOR = 1.5
"""A sweep says that it takes longer than estimated if it takes this many times the estimate."""
REMEDIES = {"": "", "repeat": "; --repeats 3 would tell more", "quiet": "; run it again when they are gone"}
"""{`Quality.remedy`: advice at the end of the line on a result's quality}. 'They' are programs that the line names."""


def obeys_codes(stream: TextIO) -> bool:
    """Returns whether `stream` is a terminal that obeys control codes. One with TERM=dumb, as in Emacs, prints them."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class ProgressLine:
    """Shows progress: on a terminal as one line that is rewritten, otherwise as lines that stay."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._print = partial(print, end="", file=stream, flush=True)
        self._last = (0, "")
        """The process of the run, and its phase, at the last progress."""
        self._said_at = time.monotonic()

    def show(self, progress: Progress, each_phase: bool = True) -> None:
        """Shows the progress.

        Without a terminal, prints a line only after `SIGN_OF_LIFE_SECONDS` without one, and, if `each_phase`, when a
        process or phase of the run begins.
        """
        if obeys_codes(self._stream):
            columns = shutil.get_terminal_size().columns
            text = fmt.printable(progress_text(progress), kept="")
            self._print(f"\r\x1b[K{text[: columns - 1]}")
        elif (self._begins(progress) and each_phase) or time.monotonic() - self._said_at > SIGN_OF_LIFE_SECONDS:
            self.say(progress_text(progress))

    def _begins(self, progress: Progress) -> bool:
        """Returns whether a process or phase of the run has begun since the last progress."""
        before, self._last = self._last, (progress.repeat, progress.phase)
        return self._last != before

    def end(self) -> None:
        """Clears the line, so that the next output starts at the beginning of an empty line."""
        if obeys_codes(self._stream):
            self._print("\r\x1b[K")

    def say(self, text: str) -> None:
        """Prints a line that is not rewritten."""
        self.end()
        self._said_at = time.monotonic()
        self._print(f"{fmt.printable(text)}\n")


@contextmanager
def progress_line(stopped: str = "", line: ProgressLine | None = None) -> Iterator[ProgressLine]:
    """Yields a line that shows progress, `line` or a new one on standard error, and clears it at the end.

    After Ctrl-C, prints `stopped`.
    """
    line = line or ProgressLine(sys.stderr)
    try:
        yield line
    except KeyboardInterrupt:
        if stopped:
            line.say(stopped)
        raise
    finally:
        line.end()


def follow(
    events: Generator[Event, None, None],
    text_of: Callable[[Done], str],
    stop: threading.Event,
    goes_on: bool,
    expected_seconds: float | None = None,
) -> None:
    """Shows several runs on standard error: a line for each finished run, and signs of life of the current run.

    - `text_of`: returns the line for a finished run. `stop`: the event that ends the runs early.
    - `goes_on`: whether the same command, started again, would run only what is left. If True, the line that
      is printed after a stop says so.
    - `expected_seconds`: the estimate that the user was told. If the runs take much longer, a line says so.
    """
    began = time.monotonic()
    with progress_line() as line, closing(events):
        for event in events:
            passed = time.monotonic() - began
            if expected_seconds is not None and passed > LATE_FACTOR * expected_seconds:
                estimate = fmt.rounded_duration(expected_seconds)
                line.say(
                    f"This takes longer than about {estimate}, as it was estimated: {fmt.duration(passed)} so far."
                )
                expected_seconds = None
            if isinstance(event, Done):
                line.say(text_of(event))
            elif isinstance(event, Timing):
                line.show(event.progress, each_phase=False)
        if stop.is_set():
            then = ", and another start goes on from there" if goes_on else ""
            line.say(f"Stopped. What is done is stored{then}.")


def progress_text(progress: Progress) -> str:
    """Returns '42 %  run 2 of 3 · time · 3.2 s, about 10 s left · eager 1.47 ms, compiled 1.02 ms'."""
    waited = fmt.duration(progress.elapsed_seconds)
    if progress.remaining_seconds is not None:
        waited += f", about {fmt.rounded_duration(progress.remaining_seconds)} left"
    if late := naming.longer_than(progress):
        waited += f", {late}"
    repeat = f"run {progress.repeat} of {progress.repeats}" if progress.repeats > 1 else ""
    latencies = ("eager", progress.eager_seconds), ("compiled", progress.compiled_seconds)
    figures = ", ".join(f"{name} {fmt.latency(seconds)}" for name, seconds in latencies if seconds is not None)
    parts = (repeat, progress.phase, waited, naming.worker_word(progress.code), figures)
    return f"{progress.fraction * 100:3.0f} %  {' · '.join(filter(None, parts))}"


def measured_so_far(progress: Progress) -> str:
    """Returns 'Measured so far: eager 1.63 ms, compiled 1.44 ms, speed-up 1.13× (1.02 to 1.24×).', as a sentence."""
    sides = ("eager", progress.eager_seconds), ("compiled", progress.compiled_seconds)
    figures = [f"{name} {fmt.latency(seconds)}" for name, seconds in sides if seconds is not None]
    if (known := progress.speedup) is not None:
        figures.append(f"speed-up {fmt.ratio(known.ratio)} ({fmt.ends(known.low, known.high)})")
    return f"Measured so far: {', '.join(figures) or 'nothing'}."


# A result


def summary(report: Report, colour: bool = False, calls: int | None = None) -> str:
    """Returns a result in about a dozen lines, with ANSI colour codes if `colour`.

    `calls`: a number of calls that a process makes between two restarts. A further line says what compiling saves for
    this number.
    """
    result = report.result
    known = result.environment
    cores = f", {fmt.count(known.cpu_count, 'core')}" if known is not None and result.spec.device == "cpu" else ""
    title = (f"{naming.run_line(result)} · {naming.where(result)}{cores}", "bold")
    if result.failure is not None:
        lines = [title, (f"  {report.headline}", "slower"), (f"  {result.failure.remedy}", "")]
    else:
        lines = [title, *((f"  {line}", kind) for line, kind in _figures(report, calls))]
    # A prompt, or the text that a model writes, may hold control codes that a terminal obeys.
    texts = [(fmt.printable(line).rstrip(), kind) for line, kind in lines]
    return "\n".join(
        f"\x1b[{ANSI_CODES[kind]}m{text}\x1b[0m" if colour and kind else text for text, kind in texts if text
    )


def _figures(report: Report, calls: int | None) -> Iterator[tuple[str, str]]:
    """Yields (key, line) for the lines of a successful result. The key is one of `ANSI_CODES`, or '' for no colour.

    `calls`: as in `summary`.
    """
    result = report.result
    width = 2 + max((len(title) for _, title, _ in naming.variants(result)), default=0)
    for name, title, side in naming.variants(result):
        seconds = side.wall_seconds
        # Not ± a deviation: one slow call makes it larger than the median, and calls take no negative time.
        low, *half, high = map(fmt.latency, np.quantile(seconds, [0, 0.25, 0.75, 1]))
        timed = fmt.count(len(seconds), "disturbed call" if report.disturbed else "call")
        spread = f"middle half {' … '.join(half)}, all {low} … {high}, {timed}"
        if result.set_aside:  # the calls of this process are not those of the answer
            spread = "in the processes that count"
        yield f"{title:<{width}}{fmt.latency(result.latencies[name]):>9}   {spread}", name
    yield report.sentence, report.kind if report.kind in ("faster", "slower") else "bold"
    if report.interval_and_basis:
        yield f"  {report.interval_and_basis}", ""
    plain = [
        report.pays,
        whole_work.calls_sentence(report, calls) if calls is not None else "",
        report.request,
        report.agreement,
    ]
    if (compiled := result.compilation) is not None:
        breaks = fmt.count(len(compiled.graph_breaks), "break")
        first = fmt.duration(compiled.first_call_seconds)
        beside = naming.not_counted(result) if compiled.probe is not None else ""
        plain.append(f"{fmt.count(compiled.graphs, 'graph')}, {breaks}, first call {first}{beside}")
    if report.launching:
        plain.append(f"{report.launching}: --mode reduce-overhead")
    plain.append(report.without_breaks)
    if report.quality is not None:
        plain.append(report.quality_line + REMEDIES[report.quality.remedy])
    yield from ((line, "") for line in [*plain, report.caveat])


def in_full(report: Report, calls: int | None = None) -> str:
    """Returns a result in full, as text: summary, the first `MAX_PREDICTIONS` predictions, and all details.

    If compiled is faster, the lines for a user's own code follow. `calls`: as in `summary`.
    """
    result = report.result
    place, image = f"  Started {fmt.minute(result.started_at)} UTC", result.image
    if image is not None:
        place += f". Picture: {image.name}, {image.width} × {image.height}"
    sections = [[summary(report, calls=calls), place]]
    for variant, predictions in (result.predictions or {}).items():
        sections.append(hanging(f"{variant}: ", "; ".join(predictions.lines()[:MAX_PREDICTIONS]) or "nothing"))
    if result.failure is not None and report.agreement:  # of a successful run it stands in the summary
        sections.append(hanging("", f"{report.agreement}."))
    sections += [hanging("", text) for text in report.prediction_notes]
    for fold in details.tree(report).values():
        sections += [_section(section) for section in fold if section.sentences or section.table or section.facts]
    if report.kind == "faster":
        sections.append(["In your own code:", textwrap.indent(change(result.spec), "  ").rstrip()])
    sections.append([report.summary if report.kind is not None else ""])
    return fmt.printable("\n\n".join(filter(None, map("\n".join, sections))))


def _section(section: Section) -> list[str]:
    lines = [section.title, *(line for text in section.sentences if text for line in hanging("  ", text))]
    if section.table is not None:
        heads, cells = section.table
        lines += [f"  {line}" for line in table([heads, *cells])]
    width = max((len(fact.name) for fact in section.facts), default=0)
    for fact in section.facts:
        text = " · ".join(filter(None, (fact.value, fact.why, fact.url)))
        lines += hanging(f"  {fact.name:<{width}}  ", text)
    return lines


# Tables


def history_table(results: Sequence[RunResult]) -> str:
    rows = [("started (UTC)", "checkpoint", "settings", "device", "status", "result", "id")]
    for result in results:
        started, settings = result.started_at.replace("T", " ").rstrip("Z"), naming.run_settings(result)
        answer = (naming.where(result), result.status, Report(result).answer, result.id)
        rows.append((started, result.spec.checkpoint, settings, *answer))
    return "\n".join(table(rows))


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    cells = [[fmt.printable(cell, kept="") for cell in row] for row in rows]  # a folder's name may hold control codes
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def hanging(start: str, text: str) -> list[str]:
    """Returns `text` wrapped to lines of `WIDTH` characters. `start` begins the first line; the others are indented."""
    wrapper = textwrap.TextWrapper(WIDTH, start, " " * len(start), break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text)
