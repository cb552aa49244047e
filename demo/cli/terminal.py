"""What the command line shows: progress on one line, a result as a report, tables of plain text."""

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TextIO

from demo.core import format as fmt
from demo.core.outputs import Predictions
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.present import details, markdown, naming, verdict
from demo.present.details import Part
from demo.present.script import change

SPARSE_SECONDS = 10.0
"""In a log file, a phase that lasts says so this often."""
MAX_PREDICTIONS = 5
WIDEST = 100
TEXT_WIDTH = 48
"""Columns of each of two texts side by side."""


class ProgressLine:
    """Progress on a stream: one line that rewrites itself on a terminal, now and then a line anywhere else.

    A stream that is gone (closed, or a reader that left) is given up silently: showing a run must not end it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rewrites = stream.isatty()
        self._phase = ""
        self._next_seconds = 0.0
        self._open = False

    def show(self, progress: Progress) -> None:
        text = progress_text(progress)
        if self._rewrites:
            columns = shutil.get_terminal_size().columns
            self._write(f"\r\x1b[K{text[: columns - 1]}")
            self._open = True
        elif progress.phase != self._phase or progress.elapsed_seconds >= self._next_seconds:
            self._phase = progress.phase
            self._next_seconds = progress.elapsed_seconds + SPARSE_SECONDS
            self._write(text + "\n")

    def end(self) -> None:
        """Wipes the rewritten line, so that what follows starts on a clean one."""
        if self._open:
            self._write("\r\x1b[K")
            self._open = False

    def say(self, text: str) -> None:
        """Prints a line that stays."""
        self.end()
        print(text, file=self._stream, flush=True)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._write = lambda text: None  # type: ignore[method-assign]


def progress_text(progress: Progress) -> str:
    """'42 %  run 2 of 3 · time · 3.2 s, about 12 s left · eager 1.47 ms, compiled 1.02 ms, 1.44× ±1.2 % in this
    process'."""
    waited = fmt.duration(progress.elapsed_seconds)
    if progress.remaining_seconds is not None:
        waited += f", about {fmt.rounded_duration(progress.remaining_seconds)} left"
    repeat = [f"run {progress.repeat} of {progress.repeats}"] if progress.repeats > 1 else []
    parts = [*repeat, progress.phase, waited]
    if progress.code:
        parts.append(naming.worker_word(progress.code))
    latencies = ("eager", progress.eager_seconds), ("compiled", progress.compiled_seconds)
    figures = [f"{name} {fmt.latency(seconds)}" for name, seconds in latencies if seconds is not None]
    if (interval := progress.speedup) is not None:
        ratio = fmt.estimate(interval.ratio, interval.low, interval.high)
        known = f"{ratio} ±{fmt.percent(interval.half_width)} in this process"
        figures.append("too early to tell the speed-up" if interval.too_wide else known)
    if figures:
        parts.append(", ".join(figures))
    return f"{progress.fraction * 100:3.0f} %  " + " · ".join(parts)


def report(result: RunResult) -> str:
    """A result for somebody who reads it once: the verdict, what the model saw, why, the cost, what to take along."""
    sections = [[verdict.headline(result), verdict.worth(result), verdict.worth_why(result)]]
    if result.failure is not None:
        sections[0].append(result.failure.remedy)
    else:
        sections.append([verdict.interval(result), verdict.without_breaks(result)])
        if known := result.speedup:
            sections[-1] += [verdict.doubts(known) or verdict.noise_floor(known), verdict.quality_line(result)]
    sections.append(table(_asked(result)))
    if result.predictions:
        said = [line for text in markdown.of_predictions(result) for line in hanging("", text)]
        sections.append([*_side_by_side(result.predictions), *said])
    for parts in details.tree(result).values():
        sections += [_part(part) for part in parts.values() if part.sentences or part.table or part.rows]
    if verdict.outcome(result) == "faster":
        lines = [f"  {line}" for line in change(result.spec).splitlines()]
        sections.append(["In your own code:", *lines])
    if last := verdict.in_one_line(result):
        sections.append([last])
    # A prompt, or the text that a model writes, may hold what a terminal obeys.
    texts = ["\n".join(filter(None, lines)) for lines in sections]
    return fmt.printable("\n\n".join(filter(None, texts)))


def _part(part: Part) -> list[str]:
    lines = [part.title, *(line for text in part.sentences if text for line in hanging("  ", text))]
    if part.table is not None:
        heads, cells = part.table
        lines += [f"  {line}" for line in table([heads, *cells])]
    helps = "What may help"
    width = max((len(name) for name, _, _ in part.rows), default=0)
    for name, value, why in part.rows:
        lines += hanging(f"  {name:<{width}}  ", f"{why} {value}" if name == helps else value)
    return lines


def _asked(result: RunResult) -> list[tuple[str, str]]:
    """What a reader who gets nothing but the report has to know of it."""
    image = result.image
    rows = [("Run", naming.run_line(result)), ("Started", f"{fmt.minute(result.started_at)} UTC")]
    return [*rows, ("Picture", f"{image.name}, {image.width} × {image.height}")] if image else rows


def _side_by_side(predictions: dict[str, Predictions]) -> list[str]:
    does = "writes" if any(one.text is not None for one in predictions.values()) else "sees"
    columns = [[f"{variant} {does}", *_seen(predictions[variant].lines())] for variant in predictions]
    return table(zip_longest(*columns, fillvalue=""))


def _seen(things: list[str]) -> list[str]:
    if not things:
        return ["nothing"]
    more = len(things) - MAX_PREDICTIONS
    lines = [line for thing in things[:MAX_PREDICTIONS] for line in textwrap.wrap(thing, TEXT_WIDTH)]
    return lines + ([f"and {more} more"] if more > 0 else [])


def history_table(results: Sequence[RunResult]) -> str:
    """`history`: one line a result, as the store gives them, newest first."""
    rows = [("started (UTC)", "checkpoint", "settings", "device", "status", "result", "id")]
    for result in results:
        started, settings = result.started_at.replace("T", " ").rstrip("Z"), naming.run_settings(result)
        answer = (naming.where(result), result.status, verdict.answer(result), result.id)
        rows.append((started, result.spec.checkpoint, settings, *answer))
    return "\n".join(table(rows))


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Left-aligned columns, two spaces between them."""
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def hanging(start: str, text: str) -> list[str]:
    width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
    wrapper = textwrap.TextWrapper(width, start, " " * len(start), break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text)
