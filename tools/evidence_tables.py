"""Keeps the results of `tools.gpu_evidence` in a file, the book. Makes tables and a summary of these results.

    python3 -m tools.evidence_tables FOLDER      make this project's own tables from the book in FOLDER

The command writes three files:

- benchmarks/results/gpu_evidence.md, a short table for readers.
- The GPU's table in assets/measured/. Its first columns are those of the tables in the Transformers guide on
  torch.compile. It gets a row for each setting of a vision model with which a run has a valid speed-up or ran out of
  memory. Any other run that failed has no row.
- All raw times, beside that table.
"""

import argparse
import dataclasses
import gzip
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demo.core import format as fmt, stats
from demo.core.files import replacing
from demo.core.options import BadInput, RunSpec
from demo.core.result import FIRST_TOKEN, RunResult
from demo.core.result_json import from_json
from demo.present import markdown, naming
from demo.present.report import Report
from demo.store import export
from tools.measured_table import add_measured, table_of

MEASURED = "../../assets/measured"
"""The folder of this project's CSV tables, relative to benchmarks/results, whose pages link it."""
TABLES = {
    "table": "The table, float32 without TF32",
    "processes": "The same in further processes",
    "formats": "Other number formats",
    "autotune": "Mode max-autotune",
}
"""The title of each step's table in the summary."""
ROOT = Path(__file__).resolve().parent.parent


class Book:
    """All records of the evidence so far, in a file in which each record is a line of compressed JSON.

    If the program is killed, at most the last line is lost.
    """

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
        if torn:  # the readable records replace the file at once, since this process may be killed as well
            with replacing(path) as draft:
                for record in self.records.values():
                    draft.write(gzip.compress(_line(record)))

    def _remember(self, record: dict[str, Any]) -> None:
        self.records[record["key"]] = record

    def add(self, record: dict[str, Any]) -> None:
        self._remember(record)
        with self._path.open("ab") as file:
            file.write(gzip.compress(_line(record)))

    def of(self, step: str) -> list[dict[str, Any]]:
        return [record for record in self.records.values() if record["step"].split(" ")[0] == step]


def _line(record: dict[str, Any]) -> bytes:
    return (json.dumps(record, allow_nan=False) + "\n").encode()


def result_of(record: dict[str, Any]) -> RunResult:
    return from_json(record["result"])


def row(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the line of cells.csv for a record (one run): step, columns of an export, profiler's figures."""
    result = result_of(record)
    line = {"step": record["step"], **export.row(result)}
    for name, side in (("eager", result.eager), ("compiled", result.compiled)):
        line |= {
            f"{name}_kernels": side and side.profile and side.profile.kernels,
            f"{name}_busy_share": side and side.busy_share,
            f"{name}_launch_share": side and side.launch_share,
        }
    return line


def write_tables(folder: Path, book: Book, commit: str | None) -> None:
    if machine := book.records.get("machine"):
        (folder / "machine.json").write_text(json.dumps(machine["facts"], indent=1), encoding="utf-8")
    cells = [record for record in book.records.values() if "result" in record]
    if cells:
        lines = [row(record) for record in cells]
        text = export.csv_text(list(lines[0]), lines)
        (folder / "cells.csv").write_text(text, encoding="utf-8", newline="")
    if tables := _tables(book):
        add_measured(tables, folder / "measured.csv", commit or "")
    (folder / "summary.md").write_text(summary(book, commit), encoding="utf-8")


def _tables(book: Book) -> list[RunResult]:
    """Returns the results of the vision models, in all modes and number formats.

    Runs with the same settings are pooled into one result.
    """
    pooled: dict[RunSpec, RunResult] = {}
    for record in [entry for step in ("table", "processes", "formats", "autotune") for entry in book.of(step)]:
        result = result_of(record)
        spec = dataclasses.replace(result.spec, profile="auto")  # a repetition is not profiled
        if (before := pooled.get(spec)) is None:
            pooled[spec] = result
        elif result.status == "ok":
            earlier = before.as_processes()
            pooled[spec] = dataclasses.replace(result, earlier=earlier, spread=result.assumed_spread)
    return list(pooled.values())


def summary(book: Book, commit: str | None) -> str:
    """Returns everything that was measured so far, as Markdown."""
    parts = ["# Evidence\n"]
    parts += [f"{line}\n" for line in _machine(book, commit)]
    if tests := book.of("tests"):
        failed = "".join(f" {test['test']}: {test['said']}." for test in tests if test["said"] != "passed")
        parts.append(f"`tests/gpu`: {len(tests)} functions were called.{failed or ' All passed.'}\n")
    for step, title in TABLES.items():
        if cells := book.of(step):
            parts += [f"## {title}\n", _cells_table(cells), ""]
    if text := _text(book):
        parts += [text, ""]
    return "\n".join(parts)


def _machine(book: Book, commit: str | None) -> list[str]:
    """Returns one line about the machine, in a list; [] if the step 'machine' has not been measured yet."""
    names = "device_name driver cuda compute_capability torch transformers triton cpu platform".split()
    lines = []
    for record in book.of("machine"):
        environment = record["facts"]["environment"] or {}
        facts = ", ".join(f"{name} {environment[name]}" for name in names if environment.get(name))
        lines.append(f"{facts}; commit {commit or 'not known'}; {record['facts']['at']}.")
    return lines


def _cells_table(records: Sequence[dict[str, Any]]) -> str:
    results = [result_of(record) for record in sorted(records, key=lambda entry: entry["key"])]
    return markdown.of_cells((result.spec, result, naming.status_words(result)) for result in results)


def _text(book: Book) -> str:
    """Returns a table of the text models as Markdown; '' if there are none.

    Its times are those of a token, of the first token and of the whole answer.
    """
    records = book.of("text")
    return f"## Text generation, batch 1\n\n{_text_table(records)}" if records else ""


def _text_table(records: Sequence[dict[str, Any]]) -> str:
    header = ["checkpoint", "mode", "dtype", "a token", "speed-up", "first token", "whole answer"]
    header += ["parity", "CUDA graphs"]
    lines = [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    for result in map(result_of, records):
        spec, compiled = result.spec, result.compilation
        speedup = Report(result).ratio_in_full
        if result.status != "ok" or not speedup:
            speedup = f"**{naming.status_words(result)}**: {result.failure.message if result.failure else ''}"
        first = result.comparisons.get(FIRST_TOKEN)
        pairs = (first and first.latencies, result.answer_seconds)
        cells = [spec.checkpoint, spec.mode, spec.dtype, Report(result).times or "–", speedup]
        cells += [" → ".join(map(fmt.latency, pair)) if pair else "–" for pair in pairs]
        cells += [result.parity.verdict if result.parity else "–", compiled.cuda_graphs.state if compiled else "–"]
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines)


def _by_batch_and_mode(book: Book) -> list[tuple[tuple[int, str], list[RunResult]]]:
    """Returns the results in groups with the same batch size and mode: ((batch size, mode), results).

    The text of a mode also names the number format, unless it is float32.
    """
    groups: dict[tuple[int, str], list[RunResult]] = {}
    for result in _tables(book):
        spec = result.spec
        mode = spec.mode if spec.dtype == "float32" else f"{spec.mode}, {spec.dtype}"
        groups.setdefault((spec.batch_size, mode), []).append(result)
    return sorted(groups.items())


# The project's own tables


def short_table(book: Book, commit: str | None, rows: str) -> str:
    """Returns a page in Markdown with the speed-ups by checkpoint and mode, and their means.

    `rows`: the name of the CSV file that has all rows, for a link.
    """
    texts, groups = book.of("text"), dict(_by_batch_and_mode(book))
    modes = list(dict.fromkeys(mode for _, mode in groups))
    cells: dict[tuple[int, str], dict[str, str]] = {}
    for (batch, mode), results in groups.items():
        for result in results:
            speedup = Report(result).ratio_in_full if result.status == "ok" else ""
            if speedup:
                speedup += f", {fmt.count(len(result.earlier) + 1, 'process')}"
            cells.setdefault((batch, result.spec.checkpoint), {})[mode] = speedup or naming.status_words(result).lower()
        ratios = [result.speedup.ratio for result in results if result.status == "ok" and result.speedup]
        mean = f"{stats.geometric_mean(ratios):.2f}× over {len(ratios)}" if ratios else "none"
        cells.setdefault((batch, f"geometric mean of {len(results)}"), {})[mode] = mean
    lines = [f"| batch | checkpoint | {' | '.join(modes)} |", "|" + " --- |" * (2 + len(modes))]
    for (batch, checkpoint), by_mode in cells.items():
        lines.append(f"| {batch} | {checkpoint} | {' | '.join(by_mode.get(mode, '–') for mode in modes)} |")
    return "\n".join(
        [
            "# Evidence on a GPU",
            "",
            *_machine(book, commit),
            "",
            "torch.compile against eager, in float32 without TF32 unless a column says otherwise, with random weights, "
            "by this project's protocol (`python3 -m tools.gpu_evidence`). Eager depends on its host: only cells of "
            f"three processes and more may be compared. Every row: [{rows}]({MEASURED}/{rows}), all raw times: "
            f"[{raw_times(rows)}]({MEASURED}/{raw_times(rows)}).",
            "",
            *lines,
            "",
            *(["Text generation at batch 1, eager and then compiled:", "", _text_table(texts), ""] if texts else []),
        ]
    )


def raw_times(rows: str) -> str:
    """Returns the name of the file with all raw times, which lies in the folder of the CSV file `rows`."""
    return f"{Path(rows).stem}.jsonl.gz"


def publish(folder: Path, root: Path = ROOT) -> list[Path]:
    """Writes the table of all rows, the short table and the raw times below `root`. Returns the paths of these files.

    `folder`: the folder with the evidence. Raises BadInput unless all results are from one GPU.
    """
    path = folder / "cells.jsonl.gz"
    if not path.exists():
        raise BadInput(f"{folder} holds no evidence: python3 -m tools.gpu_evidence {folder} makes some.")
    book = Book(path)
    results = _tables(book)
    if any(result.spec.device != "cuda" for result in results):
        raise BadInput(f"{folder} is no evidence of a GPU: some of its runs used the CPU.")
    commit = next((record["facts"].get("commit") for record in book.of("machine")), None)
    rows = root / "assets" / "measured" / table_of(results).name
    table = root / "benchmarks" / "results" / "gpu_evidence.md"
    add_measured(results, rows, commit or "")
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text(short_table(book, commit, rows.name), encoding="utf-8")
    raw = rows.with_name(raw_times(rows.name))
    shutil.copyfile(path, raw)
    return [rows, table, raw]


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
