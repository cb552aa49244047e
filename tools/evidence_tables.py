"""What `tools.gpu_evidence` has measured so far: its book of cells, their tables, and a summary in Markdown.

    python -m tools.evidence_tables FOLDER      make the project's own tables of it

That command writes a short table for readers, benchmarks/results/gpu_evidence.md, and adds the rows of the guide's
table to the device's file in assets/measured/.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demo.core import agreement, stats
from demo.core import format as fmt
from demo.core.errors import BadInput
from demo.core.languages import ENGLISH
from demo.core.measurement import Roofline
from demo.core.result import STUDENT_REPEATS, RunResult
from demo.core.spec import RunSpec
from demo.present import section_texts, sentences
from demo.store import csv_text, measured

ROOT = Path(__file__).resolve().parent.parent


class Book:
    """Everything measured so far, a line of JSON each, packed one by one: a kill costs the last line at most."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.records: dict[str, dict[str, Any]] = {}
        torn = False
        if path.exists():
            try:
                with gzip.open(path, "rt", encoding="utf-8") as lines:
                    for line in lines:
                        self._remember(json.loads(line))
            except (EOFError, OSError, ValueError):
                torn = True
        if torn:
            known = (
                f", together {' to '.join(sentences.ends(interval.low, interval.high))} (95 % confidence, for a rerun)"
            )

    return (
        f"## The same cell again\n\n{results[0].spec.checkpoint}, batch 1, default: {len(speedups)} runs of "
        f"{len(results)} gave {' and '.join(sorted(verdicts))}; speed-up {min(ratios):.3f} to {max(ratios):.3f}×"
        f"{known}."
    )


def _reasons(book: Book) -> str:
    lines = []
    for record in book.of("table"):
        result = result_of(record)
        told = "; ".join(filter(None, (section_texts.why(result, ENGLISH), section_texts.ceiling(result, ENGLISH))))
        if told:
            lines.append(f"- {result.spec.checkpoint}, batch {result.spec.batch_size}, {result.spec.mode}: {told}")
    return "\n".join(["## Why\n", *sorted(lines)]) if lines else ""


# The project's own tables


def short_table(book: Book, commit: str | None, rows: str) -> str:
    """Means and extremes by batch and mode, short enough for the README; `rows` names the file that has every row."""
    lines = [
        "| batch | mode | speed-up, geometric mean | fastest | slowest |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (batch, mode), results in _by_batch_and_mode(book):
        ratios = _ratios(results)
        if not ratios:
            lines.append(f"| {batch} | {mode} | none of {len(results)} cells has one | – | – |")
            continue
        mean = f"{geometric_mean([ratio for ratio, _ in ratios]):.2f}× over {len(ratios)} of {len(results)}"
        ends = " | ".join(f"{ratio:.2f}× {checkpoint}" for ratio, checkpoint in (max(ratios), min(ratios)))
        lines.append(f"| {batch} | {mode} | {mean} | {ends} |")
    return "\n".join(
        [
            "# Evidence on a GPU",
            "",
            *_machine(book, commit),
            "",
            "torch.compile against eager in float32 without TF32, random weights, by this project's protocol "
            f"(`python -m tools.gpu_evidence`). Every row, with its interval: [{Path(rows).name}]({rows}).",
            "",
            *lines,
            "",
        ]
    )


def publish(folder: Path, root: Path = ROOT) -> list[Path]:
    """Writes both tables below `root` and gives their paths. Raises BadInput for what is no evidence of one GPU."""
    path = folder / "cells.jsonl.gz"
    if not path.exists():
        raise BadInput(f"{folder} holds no evidence: python -m tools.gpu_evidence {folder} makes some.")
    book = Book(path)
    results = _tables(book)
    devices = {result.environment.device_name for result in results if result.environment}
    if len(devices) != 1 or any(result.spec.device != "cuda" for result in results):
        raise BadInput(
            f"{folder} is no evidence of one GPU: its table is of {', '.join(sorted(devices)) or 'nothing'}."
        )
    commit = next((record["facts"].get("commit") for record in book.of("machine")), None)
    rows = root / "assets" / "measured" / measured.file_of(devices.pop())
    table = root / "benchmarks" / "results" / "gpu_evidence.md"
    measured.add_measured(results, rows, commit or "")
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text(short_table(book, commit, f"../../assets/measured/{rows.name}"), encoding="utf-8")
    return [rows, table]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Makes the project's own tables of what tools.gpu_evidence measured.")
    parser.add_argument("folder", type=Path, help="where the results lie")
    try:
        for path in publish(parser.parse_args(arguments).folder):
            print(f"written: {path}")
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
