"""What the command line shows: progress on one line, a result as a report, tables of plain text."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, TextIO

from demo.core import format as fmt
from demo.core.languages import ENGLISH
from demo.core.result import Checkpoint, Machine, Predictions, Progress, RunResult
from demo.present import section_texts as words
from demo.present.guide_comparison import beside, sentences_of
from demo.store import published

if TYPE_CHECKING:
    from demo.cli.diagnosis import Diagnosis

SPARSE_SECONDS = 10.0
"""In a log file, a phase that lasts says so this often."""
MOST_PREDICTIONS = 5
WIDEST = 100


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

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._write = lambda text: None  # type: ignore[method-assign]


def progress_text(progress: Progress) -> str:
    """'42 %  time · 3.2 s, about 12 s left · eager 1.47 ms, compiled 1.02 ms, 1.44×'."""
    waited = fmt.duration(progress.elapsed_seconds)
    if progress.remaining_seconds is not None:
        waited += f", about {fmt.duration(progress.remaining_seconds)} left"
    parts = [progress.phase, waited]
    if progress.message:
        parts.append(progress.message)
    figures = [
        f"{name} {fmt.latency(seconds)}"
        for name, seconds in (("eager", progress.eager_seconds), ("compiled", progress.compiled_seconds))
        if seconds is not None
    ]
    if progress.speedup is not None:
        figures.append(f"{fmt.ratio(progress.speedup.ratio)} ±{fmt.percent(progress.speedup.half_width)}")
    if figures:
        parts.append(", ".join(figures))
    return f"{progress.fraction * 100:3.0f} %  " + " · ".join(parts)


def report(result: RunResult) -> str:
    """A result for somebody who reads it once: the answer, how sure it is, the details, what the model saw."""
    sections = [[words.headline(result)]]
    if result.failure is not None:
        sections[0].append(result.failure.remedy)
    else:
        sections[0] += [words.interval(result), words.noise_floor(result)]
    told = (ENGLISH.plain("row_speedup"), ENGLISH.plain("row_noise_floor"))
    sections.append(table((name, value) for name, value, _ in words.details(result) if name not in told))
    if result.predictions:
        sections.append([*_side_by_side(result.predictions), words.agreement(result)])
    if found := beside(result, published.rows()):
        sections.append([line for text in sentences_of(found) for line in _bullet(text)])
    if result.warnings:
        sections.append([line for warning in result.warnings for line in _bullet(warning)])
    return "\n\n".join("\n".join(line for line in lines if line) for lines in sections)


def _side_by_side(predictions: dict[str, Predictions]) -> list[str]:
    columns = [[f"{variant} sees", *_seen(predictions[variant])] for variant in predictions]
    return table(zip_longest(*columns, fillvalue=""))


def _seen(predictions: Predictions) -> list[str]:
    if predictions.labels is not None:
        lines = [f"{item.label} {fmt.percent(item.score)}" for item in predictions.labels]
    elif predictions.boxes is not None:
        lines = [
            f"{item.label} {fmt.percent(item.score)} at {', '.join(f'{edge:.0f}' for edge in item.box)}"
            for item in predictions.boxes
        ]
    else:
        lines = [f"{item.label}, {fmt.percent(item.area)} of the picture" for item in predictions.segments or ()]
    if not lines:
        return ["nothing"]
    more = len(lines) - MOST_PREDICTIONS
    return lines[:MOST_PREDICTIONS] + ([f"and {more} more"] if more > 0 else [])


def checkpoint_table(checkpoints: Iterable[Checkpoint]) -> str:
    """`list`: one line a checkpoint."""
    head = ("checkpoint", "task", "model", "parameters", "input", "", "licence")
    rows = [
        (
            checkpoint.id,
            checkpoint.task,
            checkpoint.title,
            fmt.parameters(checkpoint.parameters),
            f"{checkpoint.input_size[0]}x{checkpoint.input_size[1]}",
            "bundled" if checkpoint.bundled else "needs --text" if checkpoint.takes_text else "",
            checkpoint.licence,
        )
        for checkpoint in checkpoints
    ]
    return "\n".join(table([head, *rows]))


def history_table(results: Sequence[RunResult]) -> str:
    """`history`: one line a result, as the store gives them, newest first."""
    head = ("started (UTC)", "checkpoint", "batch", "mode", "dtype", "device", "status", "result", "id")
    rows = [
        (
            result.started_at.replace("T", " ").rstrip("Z"),
            result.spec.checkpoint,
            str(result.spec.batch_size),
            result.spec.mode,
            result.spec.dtype,
            result.environment.device_name if result.environment else result.spec.device,
            result.status,
            f"{fmt.ratio(result.speedup.ratio)} {result.speedup.verdict}" if result.speedup else "",
            result.id,
        )
        for result in results
    ]
    return "\n".join(table([head, *rows]))


def _gpu(machine: Machine) -> str:
    memory = f", {fmt.size(machine.gpu_memory_bytes)} of memory" if machine.gpu_memory_bytes else ""
    return f"{machine.gpu}{memory}, driver {machine.driver or 'not known'}"


def doctor_report(found: Diagnosis) -> str:
    """`doctor`: what is there, then whether a run would work, then what to do."""
    rows: list[tuple[str, str]] = []
    if machine := found.machine:
        rows += [
            ("versions", f"torch {machine.torch}, transformers {machine.transformers}, Python {machine.python}"),
            ("processor", f"{machine.cpu}, {fmt.size(machine.memory_bytes)} of memory"),
            ("gpu", _gpu(machine) if machine.gpu else "none that torch can use"),
            ("triton", machine.triton or "not installed"),
            ("c++ compiler", machine.compiler or "not found"),
            ("modes", ", ".join(machine.modes)),
        ]
    rows.append(("hub", f"{found.hub}, {'reachable' if found.hub_reachable else 'not reachable'}"))
    rows.append(("in its cache", ", ".join(found.cached) or "no checkpoint of the list"))
    for name, folder in (("hub cache", found.hub_cache), ("compile cache", found.inductor_cache)):
        if folder is not None:
            rows.append((name, f"{folder.path}, {fmt.size(folder.bytes)}"))
    if found.results:
        rows.append(("results", f"{found.results}, {found.stored} stored"))
    lines = [line for name, value in rows for line in _hanging(f"{name:<14}", value)]
    lines += ["", "A run would fail here:" if found.problems else "A run would work here."]
    lines += [line for problem in found.problems for line in _bullet(f"{problem.what} {problem.remedy}")]
    if found.notes:
        lines += ["", "To know:"]
        lines += [line for note in found.notes for line in _bullet(f"{note.what} {note.remedy}")]
    return "\n".join(lines)


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Left-aligned columns, two spaces between them."""
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _bullet(text: str) -> list[str]:
    return _hanging("- ", text)


def _hanging(start: str, text: str) -> list[str]:
    width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
    return textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
