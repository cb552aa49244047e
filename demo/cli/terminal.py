"""What the command line shows: progress on one line, a result as a report, tables of plain text."""

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from demo.cli.summary import summary
from demo.core import format as fmt
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.present import details, markdown, naming, verdict
from demo.present.details import Part
from demo.present.script import change

MAX_PREDICTIONS = 5
WIDEST = 100


class ProgressLine:
    """Progress on a stream: one line that rewrites itself on a terminal, a line for each phase anywhere else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._phase = ""

    def show(self, progress: Progress) -> None:
        if self._stream.isatty():
            columns = shutil.get_terminal_size().columns
            self._write(f"\r\x1b[K{progress_text(progress)[: columns - 1]}")
        elif progress.phase != self._phase:
            self._phase = progress.phase
            self._write(f"{progress_text(progress)}\n")

    def end(self) -> None:
        """Wipes the rewritten line, so that what follows starts on a clean one."""
        if self._stream.isatty():
            self._write("\r\x1b[K")

    def say(self, text: str) -> None:
        """Prints a line that stays."""
        self.end()
        print(text, file=self._stream, flush=True)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def progress_text(progress: Progress) -> str:
    """'42 %  run 2 of 3 · time · 3.2 s, about 12 s left · eager 1.47 ms, compiled 1.02 ms'."""
    waited = fmt.duration(progress.elapsed_seconds)
    if progress.remaining_seconds is not None:
        waited += f", about {fmt.rounded_duration(progress.remaining_seconds)} left"
    repeat = [f"run {progress.repeat} of {progress.repeats}"] if progress.repeats > 1 else []
    parts = [*repeat, progress.phase, waited]
    if progress.code:
        parts.append(naming.worker_word(progress.code))
    latencies = ("eager", progress.eager_seconds), ("compiled", progress.compiled_seconds)
    figures = [f"{name} {fmt.latency(seconds)}" for name, seconds in latencies if seconds is not None]
    if figures:
        parts.append(", ".join(figures))
    return f"{progress.fraction * 100:3.0f} %  " + " · ".join(parts)


def report(result: RunResult) -> str:
    """A result for somebody who reads it once: its summary, what the model saw, why, the cost, what to take along."""
    started, image = f"Started {fmt.minute(result.started_at)} UTC", result.image
    place = f"{started}. Picture: {image.name}, {image.width} × {image.height}" if image else started
    short = summary(result)
    sections = [[short, f"  {place}"]]
    for variant, one in (result.predictions or {}).items():
        seen = "; ".join(one.lines()[:MAX_PREDICTIONS]) or "nothing"
        sections.append(hanging(f"{variant}: ", seen))
    sections += [hanging("", text) for text in markdown.of_predictions(result) if text.rstrip(".") not in short]
    for parts in details.tree(result).values():
        sections += [_part(part) for part in parts if part.sentences or part.table or part.rows]
    if verdict.outcome(result) == "faster":
        lines = [f"  {line}" for line in change(result.spec).splitlines()]
        sections.append(["In your own code:", *lines])
    sections.append([verdict.in_one_line(result)])
    # A prompt, or the text that a model writes, may hold what a terminal obeys.
    return fmt.printable("\n\n".join(filter(None, map("\n".join, sections))))


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
    wrapper = textwrap.TextWrapper(WIDEST, start, " " * len(start), break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text)
