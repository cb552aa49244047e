"""What `tools.gpu_evidence` has measured so far: its book of cells, their tables, and a summary in Markdown.

    python3 -m tools.evidence_tables FOLDER      make the project's own tables of it

That command writes a short table for readers, benchmarks/results/gpu_evidence.md, and adds the rows of the guide's
table to the device's file in assets/measured/.
"""

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

from demo.core import format as fmt, outputs, stats
from demo.core.comparison import ASSUMED
from demo.core.files import replacing
from demo.core.measurement import Roofline
from demo.core.result import FIRST_TOKEN, RunResult
from demo.core.result_json import from_json
from demo.core.spec import BadInput, RunSpec
from demo.present import details, naming, verdict
from demo.store import export, published

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
        if torn:  # what can be read takes its place at once, since this process may be killed as well
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
    """One cell as a line of cells.csv: times in milliseconds, '' for what is not known."""
    result, recipe = result_of(record), record["recipe"] or {}
    spec, speedup, compiled, roofline = result.spec, result.speedup, result.compilation, result.roofline
    line: dict[str, Any] = {
        "step": record["step"],
        "checkpoint": spec.checkpoint,
        "batch_size": spec.batch_size,
        "mode": spec.mode,
        "dtype": spec.dtype,
        "channels_last": spec.channels_last,
        "status": result.status,
        "failure": result.failure.message if result.failure else "",
        "speedup": speedup.ratio if speedup else None,
        "speedup_low": speedup.low if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        "verdict": speedup.verdict if speedup else "",
        "speedup_basis": speedup.basis if speedup else "",
        "control": result.control.ratio if result.control else None,
        "parity": result.parity.verdict if result.parity else "",
        "max_abs_error": result.parity.max_abs_error if result.parity else None,
        "graphs": compiled.graphs if compiled else None,
        "graph_breaks": len(compiled.graph_breaks) if compiled else None,
        "cudagraphs": compiled.cudagraphs if compiled else "",
        "operations": roofline.operations if roofline else None,
        "least_bytes": roofline.least_bytes if roofline else None,
        "matrix_rate": roofline.matrix_rate if roofline else None,
        "copy_rate": roofline.copy_rate if roofline else None,
        "recipe_calls": recipe.get("calls"),
        "warnings": " ".join(result.warnings),
    }
    for name, side in (("eager", result.eager), ("compiled", result.compiled)):
        profile = side.profile if side else None
        device = side.median_device_seconds if side else None
        recipe_seconds = recipe.get(f"{name}_seconds")
        line |= {
            f"{name}_ms": result.latencies[name] * 1e3 if side else None,
            f"{name}_device_ms": None if device is None else device * 1e3,
            f"{name}_recipe_ms": None if recipe_seconds is None else recipe_seconds * 1e3,
            f"{name}_peak_bytes": side.peak_memory_bytes if side else None,
            f"{name}_kernels": profile.kernels if profile else None,
            f"{name}_busy_share": side.busy_share if side else None,
            f"{name}_roofline_share": result.roofline_share(side) if side else None,
        }
    return {name: "" if value is None else _short(value) for name, value in line.items()}


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def write_tables(folder: Path, book: Book, commit: str | None) -> None:
    if machine := book.records.get("machine"):
        (folder / "machine.json").write_text(json.dumps(machine["facts"], indent=1), encoding="utf-8")
    cells = [record for record in book.records.values() if "result" in record]
    if cells:
        lines = [row(record) for record in cells]
        text = export.csv_text(list(lines[0]), lines)
        (folder / "cells.csv").write_text(text, encoding="utf-8", newline="")
    if tables := _tables(book):
        published.add_measured(tables, folder / "measured.csv", commit)
    (folder / "summary.md").write_text(summary(book, commit), encoding="utf-8")


def _tables(book: Book) -> list[RunResult]:
    """The guide's table as it was measured, mode max-autotune included."""
    return [result_of(record) for record in (*book.of("table"), *book.of("autotune"))]


def summary(book: Book, commit: str | None) -> str:
    """All of it for a reader, in Markdown; steps that have not run yet are missing."""
    parts = ["# Evidence\n"]
    parts += [f"{told}\n" for told in _machine(book, commit)]
    if tests := book.of("tests"):
        failed = "".join(f" {one['test']}: {one['said']}." for one in tests if one["said"] != "passed")
        parts.append(f"`tests/gpu`: {len(tests)} functions were called.{failed or ' All passed.'}\n")
    for step, title in (
        ("table", "The table, float32 without TF32"),
        ("autotune", "Mode max-autotune"),
        ("best", "Other number formats"),
    ):
        if cells := book.of(step):
            parts += [f"## {title}\n", _cells_table(cells), ""]
    for telling in (_means, _text, _best, _fidelity, _repeat, _reasons):
        if told := telling(book):
            parts += [told, ""]
    return "\n".join(parts)


def _machine(book: Book, commit: str | None) -> list[str]:
    """What it was measured on, in one line; none where nobody has looked yet."""
    lines = []
    for record in book.of("machine"):
        known = record["facts"]["environment"] or {}
        names = (
            "device_name",
            "driver",
            "cuda",
            "compute_capability",
            "torch",
            "transformers",
            "triton",
            "cpu",
            "platform",
        )
        facts = ", ".join(f"{name} {known[name]}" for name in names if known.get(name))
        lines.append(f"{facts}; commit {commit or 'not known'}; {record['facts']['at']}.")
    return lines


def _cells_table(records: Sequence[dict[str, Any]]) -> str:
    header = ["checkpoint", "batch", "mode", "dtype", "eager", "compiled", "speed-up", "by the recipe", "parity"]
    header += ["breaks", "CUDA graphs"]
    lines = [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    for record in sorted(records, key=lambda one: one["key"]):
        result, recipe = result_of(record), record["recipe"]
        spec, compiled = result.spec, result.compilation
        dtype = spec.dtype + (" channels last" if spec.channels_last else "")
        cells = [spec.checkpoint, str(spec.batch_size), spec.mode, dtype]
        latencies = result.latencies
        cells += [fmt.latency(latencies[name]) if name in latencies else "–" for name in ("eager", "compiled")]
        told = verdict.speedup_in_full(result)
        if result.status != "ok" or not told:
            told = f"**{naming.status(result)}**: {result.failure.message if result.failure else ''}"
        cells.append(told)
        cells.append(
            f"{recipe['eager_seconds'] / recipe['compiled_seconds']:.2f}× of {recipe['calls']} calls" if recipe else "–"
        )
        cells.append(result.parity.verdict if result.parity else "–")
        cells.append(str(len(compiled.graph_breaks)) if compiled else "–")
        cells.append(compiled.cudagraphs if compiled else "–")
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines)


def _text(book: Book) -> str:
    """The steps of a text model, its first token and its whole answer."""
    records = book.of("text")
    return f"## Text generation, batch 1\n\n{_text_table(records)}" if records else ""


def _text_table(records: Sequence[dict[str, Any]]) -> str:
    header = ["checkpoint", "mode", "dtype", "a token", "speed-up", "first token", "whole answer"]
    header += ["parity", "CUDA graphs"]
    lines = [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    for result in map(result_of, records):
        spec, compiled = result.spec, result.compilation
        told = verdict.speedup_in_full(result)
        if result.status != "ok" or not told:
            told = f"**{naming.status(result)}**: {result.failure.message if result.failure else ''}"
        first = result.comparisons.get(FIRST_TOKEN)
        pairs = (first and first.latencies, result.answer_seconds)
        cells = [spec.checkpoint, spec.mode, spec.dtype, verdict.times(result) or "–", told]
        cells += [" → ".join(map(fmt.latency, pair)) if pair else "–" for pair in pairs]
        cells += [result.parity.verdict if result.parity else "–", compiled.cudagraphs if compiled else "–"]
        lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines)


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def _means(book: Book) -> str:
    """By batch and mode: the geometric mean of the speed-ups, and how many cells have none."""
    lines = []
    for (batch, mode), results in _by_batch_and_mode(book):
        ratios = [ratio for ratio, _ in _ratios(results)]
        if ratios:
            lines.append(
                f"- batch {batch}, {mode}: {geometric_mean(ratios):.3f}× over {len(ratios)} of {len(results)} cells"
            )
    return "\n".join(["## Geometric means of the speed-ups\n", *lines]) if lines else ""


def _by_batch_and_mode(book: Book) -> list[tuple[tuple[int, str], list[RunResult]]]:
    groups: dict[tuple[int, str], list[RunResult]] = {}
    for result in _tables(book):
        groups.setdefault((result.spec.batch_size, result.spec.mode), []).append(result)
    return sorted(groups.items())


def _ratios(results: Sequence[RunResult]) -> list[tuple[float, str]]:
    """The speed-ups there are, each with its checkpoint."""
    return [
        (result.speedup.ratio, result.spec.checkpoint) for result in results if result.status == "ok" and result.speedup
    ]


def _best(book: Book) -> str:
    """For each checkpoint and batch the fastest compiled cell against plain eager float32 of the table."""
    plain: dict[tuple[str, int], float] = {}
    rooflines: dict[tuple[str, int, str], Roofline] = {}
    """The operations, bytes and rates of a call do not depend on the mode, so a cell without a profile has them too."""
    fastest: dict[tuple[str, int], RunResult] = {}
    for record in (*book.of("table"), *book.of("autotune"), *book.of("best")):
        result = result_of(record)
        place = result.spec.checkpoint, result.spec.batch_size
        if result.roofline is not None:
            cell = (*place, result.spec.dtype)
            rooflines[cell] = result.roofline
        if result.status != "ok" or result.eager is None or result.compiled is None:
            continue
        if (result.spec.dtype, result.spec.mode) == ("float32", "default"):
            plain[place] = result.eager.median_seconds
        if outputs.with_own_eager(result.parity):
            continue  # faster is no merit where the answer is another one
        known = fastest.get(place)
        if known is None or known.compiled is None or result.compiled.median_seconds < known.compiled.median_seconds:
            fastest[place] = result
    asked = [result_of(record).spec for record in book.of("best")]
    tried = {(spec.checkpoint, spec.batch_size) for spec in asked}
    settings = dict.fromkeys(map(_setting, asked))
    lines, by_batch = [], {}  # type: ignore[var-annotated]
    for place in sorted(plain.keys() & tried & fastest.keys()):
        result = fastest[place]
        if result.compiled is None:
            continue
        ratio = plain[place] / result.compiled.median_seconds
        by_batch.setdefault(place[1], []).append(ratio)
        spec = result.spec
        share = dataclasses.replace(result, roofline=rooflines.get((*place, spec.dtype))).roofline_share(
            result.compiled
        )
        told = _setting(spec)
        roofline = "" if share is None else f", {fmt.percent(share)} of its own roofline"
        lines.append(f"- {place[0]}, batch {place[1]}: {ratio:.2f}× by {told}{roofline}")
    if not lines:
        return ""
    means = [
        f"- **batch {batch}: {geometric_mean(ratios):.2f}×** over {len(ratios)} checkpoints"
        for batch, ratios in sorted(by_batch.items())
    ]
    title = "## The best of the settings tried, against plain eager float32\n"
    note = (
        "Not a search but a fixed choice: the settings of the tables (with max-autotune where it was "
        f"measured), and {'; '.join(settings)}. Medians of different processes, so without an interval. Outputs were "
        "compared with eager's in the same number format, not with float32's; settings in which they differ, or cannot "
        "be compared, are left out.\n"
    )
    return "\n".join([title, note, *means, *lines])


def _setting(spec: RunSpec) -> str:
    return f"{spec.mode}, {spec.dtype}{', channels last' if spec.channels_last else ''}"


def _fidelity(book: Book) -> str:
    """Our median over the plain loop's, round by round."""
    found: dict[tuple[str, int], dict[str, tuple[float, float]]] = {}
    for record in book.of("fidelity"):
        checkpoint, *_, what, round = record["key"].split("|")
        if what == "loop" and record["loop"]:
            loop = record["loop"]
            found.setdefault((checkpoint, int(round)), {})[what] = loop["eager_seconds"], loop["compiled_seconds"]
        elif what == "run":
            result = result_of(record)
            if result.status == "ok" and result.eager and result.compiled:
                medians = result.eager.median_seconds, result.compiled.median_seconds
                found.setdefault((checkpoint, int(round)), {})[what] = medians
    lines = []
    for checkpoint in dict.fromkeys(place[0] for place in found):
        rounds = [pair for place, pair in found.items() if place[0] == checkpoint and len(pair) == 2]
        for index, variant in enumerate(("eager", "compiled")):
            ratios = [pair["run"][index] / pair["loop"][index] for pair in rounds]
            if ratios:
                lines.append(
                    f"- {checkpoint}, {variant}: {statistics.median(ratios):.3f} "
                    f"({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} rounds)"
                )
    return "\n".join(["## Our median over a plain loop's (aim: 0.98 to 1.02)\n", *lines]) if lines else ""


def _repeat(book: Book) -> str:
    results = [result_of(record) for record in book.of("repeat")]
    speedups = [result.speedup for result in results if result.status == "ok" and result.speedup]
    if not speedups:
        return ""
    verdicts = {one.verdict for one in speedups}
    ratios = [one.ratio for one in speedups]
    known = ""
    if len(ratios) > 1:
        processes = [one.within for one in speedups]
        interval = stats.rerun_ratio(processes, ASSUMED.deviation, ASSUMED.freedom or math.inf)
        known = f", together {fmt.ends(interval.low, interval.high)} (95 % confidence for a rerun)"
    return (
        f"## The same cell again\n\n{results[0].spec.checkpoint}, batch 1, default: {len(speedups)} runs of "
        f"{len(results)} gave {' and '.join(sorted(verdicts))}; speed-up {min(ratios):.3f} to {max(ratios):.3f}×"
        f"{known}."
    )


def _reasons(book: Book) -> str:
    lines = []
    for record in book.of("table"):
        result = result_of(record)
        why = details.why(result)
        if why is not None and why.table is not None:
            told = "; ".join(f"{name} {' → '.join(values)}" for name, *values in why.table[1])
            lines.append(f"- {result.spec.checkpoint}, batch {result.spec.batch_size}, {result.spec.mode}: {told}")
    return "\n".join(["## Why\n", *sorted(lines)]) if lines else ""


# The project's own tables


def short_table(book: Book, commit: str | None, rows: str) -> str:
    """The speed-ups by checkpoint and mode, with their means, short enough for the README; `rows` names the file that
    has every row."""
    texts, groups = book.of("text"), dict(_by_batch_and_mode(book))
    modes = list(dict.fromkeys(mode for _, mode in groups))
    told: dict[tuple[int, str], dict[str, str]] = {}
    for (batch, mode), results in groups.items():
        for result in results:
            speedup = verdict.speedup_in_full(result) if result.status == "ok" else ""
            told.setdefault((batch, result.spec.checkpoint), {})[mode] = speedup or naming.status(result).lower()
        ratios = [ratio for ratio, _ in _ratios(results)]
        mean = f"{geometric_mean(ratios):.2f}× over {len(ratios)}" if ratios else "none"
        told.setdefault((batch, f"geometric mean of {len(results)}"), {})[mode] = mean
    lines = [f"| batch | checkpoint | {' | '.join(modes)} |", "|" + " --- |" * (2 + len(modes))]
    for (batch, checkpoint), by_mode in told.items():
        lines.append(f"| {batch} | {checkpoint} | {' | '.join(by_mode.get(mode, '–') for mode in modes)} |")
    return "\n".join(
        [
            "# Evidence on a GPU",
            "",
            *_machine(book, commit),
            "",
            "torch.compile against eager in float32 without TF32, random weights, by this project's protocol "
            f"(`python3 -m tools.gpu_evidence`). Every row, with its interval: [{Path(rows).name}]({rows}).",
            "",
            *lines,
            "",
            *(["Text generation at batch 1, eager and then compiled:", "", _text_table(texts), ""] if texts else []),
        ]
    )


def publish(folder: Path, root: Path = ROOT) -> list[Path]:
    """Writes both tables below `root` and gives their paths. Raises BadInput for what is no evidence of one GPU."""
    path = folder / "cells.jsonl.gz"
    if not path.exists():
        raise BadInput(f"{folder} holds no evidence: python3 -m tools.gpu_evidence {folder} makes some.")
    book = Book(path)
    results = _tables(book)
    devices = {result.environment.device_name for result in results if result.environment}
    if len(devices) != 1 or any(result.spec.device != "cuda" for result in results):
        raise BadInput(
            f"{folder} is no evidence of one GPU: its table is of {', '.join(sorted(devices)) or 'nothing'}."
        )
    commit = next((record["facts"].get("commit") for record in book.of("machine")), None)
    rows = root / "assets" / "measured" / published.file_of(devices.pop())
    table = root / "benchmarks" / "results" / "gpu_evidence.md"
    published.add_measured(results, rows, commit or "")
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
