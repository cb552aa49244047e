"""A grid of runs, such as 2 checkpoints x 3 batch sizes. Each cell of the grid is one run.

A sweep keeps no state of its own: a cell counts as done if its result is stored.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..core import catalog, format as fmt, hub, program
from ..core.catalog import Checkpoint
from ..core.files import replacing
from ..core.machine import HostInfo
from ..core.options import OPTIONS, TEXT_GENERATION, BadInput, OptionValues, RunSpec, unused_options
from ..core.refusals import on_machine
from ..core.result import RunResult
from ..present.report import Report
from ..store import export

AXES = {"checkpoints": "checkpoint", "batch_sizes": "batch_size", "modes": "mode", "dtypes": "dtype"}
"""{name of a list of values in a grid: the field of `RunSpec` that gets one of these values}"""
SETTINGS = tuple(name for name in OPTIONS if name not in AXES.values())
PICTURE = program.ASSETS / "examples" / "shapes-scene-1.png"
"""The default picture: a drawn scene, 4:3."""
MAX_CELLS = 2000
PRESETS: dict[str, OptionValues] = {
    "published": {
        "checkpoints": [checkpoint.id for checkpoint in catalog.PUBLISHED],
        "batch_sizes": [1, 4, 16],
        "modes": ["default", "reduce-overhead"],
        "dtypes": ["float32"],
        "text": catalog.QUERIES,
    },
    "smoke": {
        "checkpoints": [checkpoint.id for checkpoint in catalog.CHECKPOINTS if checkpoint.bundled],
        "batch_sizes": [1],
        "modes": ["default"],
        "dtypes": ["float32"],
        "prompt": catalog.PROMPT,
    },
}
"""'published' covers the Transformers guide's tables, 'smoke' the checkpoints in this repository."""


def make_specs(grid: Mapping[str, object], where: str = "The sweep", folders: bool = False) -> tuple[RunSpec, ...]:
    """Returns one spec for each cell of a grid, checkpoint by checkpoint, without duplicates.

    - `grid`: has 'checkpoints' and, if wanted, further lists (`AXES`), options (`SETTINGS`) and 'task'. A checkpoint
      gets only those options that it uses.
    - `where`: the grid's name in error messages. `folders`: whether checkpoints may be local folders.
    - Raises BadInput for a wrong entry, too many cells, or a cell that can never run.
    """
    allowed = (*AXES, *SETTINGS, "task")
    if unknown := [name for name in grid if name not in allowed]:
        what = f"{where} has the entry {unknown[0]!r}, which means nothing. Allowed: {', '.join(allowed)}."
        raise BadInput(f"{what}{fmt.did_you_mean(unknown[0], allowed)}")
    lists = {AXES[name]: _axis(name, grid[name]) for name in AXES if name in grid}
    if "checkpoint" not in lists:
        raise BadInput("The sweep has no checkpoints. Give one at least.")
    if (count := math.prod(map(len, lists.values()))) > MAX_CELLS:
        raise BadInput(f"A sweep has at most {MAX_CELLS} cells. Given: {count}.")
    settings = {name: grid[name] for name in grid if name not in AXES}
    cells = (dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values()))
    return tuple(dict.fromkeys(_make_spec(cell, settings, folders) for cell in cells))


def _axis(name: str, values: object) -> list[object]:
    name = name.replace("_", " ")
    several = values if isinstance(values, list | tuple) else [values]
    if not several:
        raise BadInput(f"The sweep has no {name}. Give one at least.")
    try:
        return list(dict.fromkeys(several))
    except TypeError:
        raise BadInput(f"The sweep's {name} must be single values, and no lists of them.") from None


def _make_spec(cell: OptionValues, settings: OptionValues, folders: bool) -> RunSpec:
    known = catalog.find(cell["checkpoint"])
    task = known.task if known is not None else settings.get("task", "")
    unused = [] if task == TEXT_GENERATION else [*unused_options(task)]
    if known is not None:
        unused += ["task"] if known.takes_text else ["task", "text"]
    used = {name: value for name, value in settings.items() if name not in unused}
    return catalog.make_spec(**cell, **used, folders=folders)


# The cells

FINAL = ("ok", "out_of_memory", "compile_failed", "failed")
"""Statuses that another run would only repeat. A cell that crashed, timed out, was cancelled or interrupted (the app
ended) is run again."""


@dataclass(frozen=True)
class GridRun:
    """The cell of a grid: one run. If it has neither `result` nor `refused`, it is still to be run."""

    spec: RunSpec
    result: RunResult | None = None
    refused: str = ""
    """A sentence that says why the run could not start; '' if it could."""
    stored: bool = False
    """Whether the result is older than this sweep."""
    gpu_type: str = ""
    """The type of GPU to run on, on a cluster; '' for any."""

    @property
    def done(self) -> bool:
        return self.result is not None or bool(self.refused)

    @property
    def value(self) -> str:
        """The cell's text: '1.44×', 'too noisy to tell (0.90 to 1.90×)', 'OOM'; '' before the run."""
        if self.result is None:
            return f"refused: {self.refused}" if self.refused else ""
        if self.result.status == "out_of_memory":
            return "OOM"
        if self.result.failure is not None:
            return f"{self.result.status.replace('_', ' ')}: {self.result.failure.message}"
        report = Report(self.result)
        return (report.ratio if report.decided else report.ratio_in_full) or "no figures"


def make_cells(
    specs: Iterable[RunSpec], stored: Sequence[RunResult], machine: HostInfo, picture: Path, fresh: bool = False
) -> list[GridRun]:
    """Returns a cell (a run of the grid) for each spec, with a stored result if a new run would only repeat it.

    `stored`: results, newest first; with `fresh` they are ignored. A successful result is not used if it is from fewer
    processes than the spec's `repeats`.
    """
    specs = [on_machine(spec, machine) for spec in specs]
    results: dict[RunSpec, RunResult] = {}
    for result in valid_results([] if fresh else stored, {spec.checkpoint for spec in specs}, machine, picture):
        results.setdefault(dataclasses.replace(result.spec, repeats=1), result)
    cells = []
    for spec in specs:
        known = results.get(dataclasses.replace(spec, repeats=1))
        enough = known is not None and (known.status != "ok" or max(1, len(known.as_processes())) >= spec.repeats)
        cells.append(GridRun(spec, known, stored=True) if enough else GridRun(spec))
    return cells


def valid_results(
    stored: Iterable[RunResult], checkpoints: Iterable[str], machine: HostInfo, picture: Path
) -> Iterator[RunResult]:
    """Yields those results of `stored`, in their order, that a new run on `machine` would only repeat.

    - The checkpoint is one of `checkpoints`, and the status is in `FINAL`.
    - Device and versions are those of `machine`. If the model uses a picture, it was the file `picture`.
    - No file of a local checkpoint was written since the run.
    """
    digest = hashlib.sha256(picture.read_bytes()).hexdigest()
    written = {checkpoint: _last_written(checkpoint) for checkpoint in checkpoints}
    for result in stored:
        saw = result.image.sha256 if result.image is not None else None
        same_picture = saw == digest or not result.spec.sees_picture
        if result.status in FINAL and is_from_machine(result, machine) and same_picture:
            if result.spec.checkpoint in written and result.started_at >= written[result.spec.checkpoint]:
                yield result


def _last_written(checkpoint: str) -> str:
    """Returns when the newest file of a local checkpoint was written: '2026-11-21T09:30:00Z'; '' for a Hub id."""
    files = Path(checkpoint).rglob("*") if os.path.isabs(checkpoint) else ()
    newest = max((os.path.getmtime(file) for file in files if os.path.isfile(file)), default=None)
    return "" if newest is None else datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_from_machine(result: RunResult, machine: HostInfo) -> bool:
    """Returns whether the result has the machine's device and versions; on a GPU also its driver and Triton."""
    then, on_gpu = result.environment, result.spec.device == "cuda"
    if then is None:
        return False
    device = (then.device_name, then.driver, then.triton) if on_gpu else then.device_name
    here = (machine.gpu, machine.driver, machine.triton) if on_gpu else machine.cpu
    versions = (then.torch, then.transformers) == (machine.torch, machine.transformers)
    return versions and device == here


def specs_to_run(cells: Iterable[GridRun]) -> list[RunSpec]:
    return [cell.spec for cell in cells if not cell.done]


def downloads(cells: Iterable[GridRun]) -> list[Checkpoint]:
    """Returns the checkpoints of the catalogue whose weights have to be downloaded for unfinished cells."""
    needed = dict.fromkeys(spec.checkpoint for spec in specs_to_run(cells) if spec.weights == "pretrained")
    listed = [entry for name in needed if (entry := catalog.find(name)) is not None and not entry.bundled]
    return [entry for entry in listed if not hub.holds_weights(entry.id)]


# The table

TABLE_ENDINGS = (".csv", ".json", ".parquet")
_COLUMNS = {"model": "string", **export.COLUMN_TYPES, "value": "string"}


def table_row(cell: GridRun) -> dict[str, object]:
    """Returns the values of a finished cell (run) by column.

    The columns are those of an export, 'model' (the model's family) and 'value' (the speed-up or the status as text).
    """
    known = catalog.find(cell.spec.checkpoint)
    result = cell.result or RunResult("", "", "failed", cell.spec)
    return {
        "model": known.family if known else cell.spec.checkpoint,
        **export.row(result),
        "status": "refused" if cell.refused else result.status,
        "value": cell.value,
    }


def check_table(path: Path) -> None:
    if path.suffix not in TABLE_ENDINGS:
        raise BadInput(f"The name of the table must end in one of {', '.join(TABLE_ENDINGS)}. Given: {str(path)!r}.")
    export.check_place(path, "table")


def write_table(path: Path, cells: Iterable[GridRun]) -> None:
    """Writes a row for each finished cell, in the format of the path's ending. An error leaves no partial file."""
    records = [table_row(cell) for cell in cells if cell.done]
    with replacing(path) as draft:
        if path.suffix == ".json":
            draft.write(json.dumps(records, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace"))
        else:
            export.write_rows(records, _COLUMNS, path.suffix.removeprefix("."), draft)
