"""A grid of runs: its specs, its cells and which of them the history answers already, and their table.

A sweep keeps no state of its own: a cell is done when the history holds its result. So whatever ends a sweep costs at
most the run in progress.
"""

import dataclasses
import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo.core import catalog, hub
from demo.core.catalog import Checkpoint
from demo.core.comparison import ProcessResult
from demo.core.files import replacing
from demo.core.machine import HostInfo
from demo.core.refusals import on_machine
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, TEXT_GENERATION, BadInput, RunSpec, unused_options
from demo.present import verdict
from demo.store import export, published

AXES = {"checkpoints": "checkpoint", "batch_sizes": "batch_size", "modes": "mode", "dtypes": "dtype"}
"""A grid's lists, and the field of a spec that each of them fills."""
SETTINGS = tuple(name for name in OPTIONS if name not in AXES.values())
"""What is the same in every cell."""
PICTURE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
"""What the cells look at where no picture was given: a drawn scene, 4:3."""
MAX_CELLS = 2000


@dataclass(frozen=True)
class Grid:
    """Checkpoints x batch sizes x modes x dtypes, and the settings that all cells share."""

    checkpoints: tuple[str, ...]
    batch_sizes: tuple[int, ...] = (1,)
    modes: tuple[str, ...] = ("default",)
    dtypes: tuple[str, ...] = ("float32",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """By the names of `SETTINGS`. `text` goes to the checkpoints that take one, `prompt` and `tokens` to those that
    generate text."""

    def specs(self, folders: bool = False) -> tuple[RunSpec, ...]:
        """One spec a cell, checkpoint by checkpoint, each once. Raises BadInput for a cell that can never run."""
        axes = [_each_once(name.replace("_", " "), getattr(self, name)) for name in AXES]
        count = math.prod(map(len, axes))
        if count > MAX_CELLS:
            raise BadInput(f"A sweep has at most {MAX_CELLS} cells. Given: {count}.")
        cells = (dict(zip(AXES.values(), values, strict=True)) for values in itertools.product(*axes))
        return tuple(dict.fromkeys(self._spec(cell, folders) for cell in cells))

    def _spec(self, cell: dict[str, Any], folders: bool) -> RunSpec:
        known = catalog.find(cell["checkpoint"])
        task = known.task if known is not None else self.settings.get("task", "")
        unused = [] if task == TEXT_GENERATION else [*unused_options(task)]
        if known is not None:  # the list's own checkpoints know their task
            unused += ["task"] if known.takes_text else ["task", "text"]
        settings = {name: value for name, value in self.settings.items() if name not in unused}
        return catalog.make_spec(**cell, **settings, folders=folders)


PRESETS = {
    "published": Grid(
        tuple(checkpoint.id for checkpoint in catalog.PUBLISHED),
        (1, 4, 16),
        ("default", "reduce-overhead"),
        settings={"text": catalog.QUERIES},
    ),
    "smoke": Grid(
        tuple(checkpoint.id for checkpoint in catalog.CHECKPOINTS if checkpoint.bundled),
        settings={"prompt": catalog.PROMPT},
    ),
}
"""'published' is what the guide's tables hold, 'smoke' the checkpoints that ship with the project."""


def read_grid(given: Mapping[str, Any], where: str) -> Grid:
    """A grid from the lists and settings of a file or a form; a single value stands for a list of one.

    Raises BadInput for a name that means nothing; what the values mean is for `Grid.specs` to check.
    """
    allowed = (*AXES, *SETTINGS, "task")
    unknown = [name for name in given if name not in allowed]
    if unknown:
        raise BadInput(f"{where} has the entry {unknown[0]!r}, which means nothing. Allowed: {', '.join(allowed)}.")
    lists: dict[str, Any] = {"checkpoints": ()}
    for name in (name for name in AXES if name in given):
        lists[name] = tuple(given[name]) if isinstance(given[name], list | tuple) else (given[name],)
    return Grid(**lists, settings={name: given[name] for name in given if name not in AXES})


def _each_once(name: str, values: Sequence[Any]) -> tuple[Any, ...]:
    if not values:
        raise BadInput(f"The sweep has no {name}. Give one at least.")
    try:
        return tuple(dict.fromkeys(values))
    except TypeError:
        raise BadInput(f"The sweep's {name} must be single values, and no lists of them.") from None


# The cells

FINAL = ("ok", "out_of_memory", "compile_failed", "failed")
"""Statuses that another run would only repeat. A cell that crashed, timed out or was cancelled is run again."""


@dataclass(frozen=True)
class Cell:
    """One place of the grid. Without result and refusal it has yet to be run."""

    spec: RunSpec
    result: RunResult | None = None
    refused: str = ""
    """Why the run could not even start: a sentence."""
    stored: bool = False
    """The result was in the history before this sweep."""
    gpu_type: str = ""
    """On a cluster: the type of GPU to run on, '' for any."""
    earlier: tuple[ProcessResult, ...] = ()
    """Processes of the same settings that the run's answer rests on, too."""

    @property
    def done(self) -> bool:
        return self.result is not None or bool(self.refused)

    @property
    def value(self) -> str:
        """The cell's text in a table: '1.44×', 'too noisy to tell (0.90 to 1.90×)', 'OOM'; '' before the run."""
        if self.result is None:
            return f"refused: {self.refused}" if self.refused else ""
        if self.result.status == "out_of_memory":
            return "OOM"
        if self.result.failure is not None:
            return f"{self.result.status.replace('_', ' ')}: {self.result.failure.message}"
        if verdict.outcome(self.result) in ("faster", "slower"):
            return verdict.speedup(self.result)
        return verdict.speedup_in_full(self.result) or "no figures"


def make_cells(
    specs: Iterable[RunSpec], stored: Sequence[RunResult], machine: HostInfo, picture: Path, fresh: bool = False
) -> list[Cell]:
    """One cell for each spec on this machine, with its result if the history has one; without results if `fresh`.

    A stored result counts if it has the same spec, picture (if the model sees one), versions (torch, transformers,
    triton) and device (its name, and a GPU's driver), and no file of a local checkpoint was written after it. `stored`
    is newest first; the newest counts. A cell of which too few repeats are stored is run.
    """
    specs = [on_machine(spec, machine) for spec in specs]
    results: dict[RunSpec, RunResult] = {}
    for result in valid_results([] if fresh else stored, {spec.checkpoint for spec in specs}, machine, picture):
        results.setdefault(dataclasses.replace(result.spec, repeats=1), result)
    cells = []
    for spec in specs:
        found = results.get(dataclasses.replace(spec, repeats=1))
        enough = found is not None and (found.status != "ok" or max(1, len(found.as_processes())) >= spec.repeats)
        cells.append(Cell(spec, found, stored=True) if enough else Cell(spec))
    return cells


def valid_results(
    stored: Iterable[RunResult], checkpoints: Iterable[str], machine: HostInfo, picture: Path
) -> Iterator[RunResult]:
    """The results of these checkpoints that another run here would only repeat: see `make_cells`."""
    digest = hashlib.sha256(picture.read_bytes()).hexdigest()
    written = {checkpoint: _last_written(checkpoint) for checkpoint in checkpoints}
    for result in stored:
        saw = result.image.sha256 if result.image is not None else None
        same_picture = saw == digest or not result.spec.sees_picture
        if result.status in FINAL and measured_on(result, machine) and same_picture:
            if result.spec.checkpoint in written and result.started_at >= written[result.spec.checkpoint]:
                yield result


def _last_written(checkpoint: str) -> str:
    """When the newest file of a local folder was written, as `RunResult.started_at`; '' for any other checkpoint."""
    files = Path(checkpoint).rglob("*") if os.path.isabs(checkpoint) else ()
    newest = max((os.path.getmtime(file) for file in files if os.path.isfile(file)), default=None)
    return "" if newest is None else datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def measured_on(result: RunResult, machine: HostInfo) -> bool:
    """Whether the result was measured on this machine with the versions that it has now."""
    then, on_gpu = result.environment, result.spec.device == "cuda"
    if then is None:
        return False
    device = (then.device_name, then.driver, then.triton) if on_gpu else then.device_name
    here = (machine.gpu, machine.driver, machine.triton) if on_gpu else machine.cpu
    versions = (then.torch, then.transformers) == (machine.torch, machine.transformers)
    return versions and device == here


def unfinished(cells: Iterable[Cell]) -> list[RunSpec]:
    """The specs of the cells that are still to be run."""
    return [cell.spec for cell in cells if not cell.done]


def downloads(cells: Iterable[Cell]) -> list[Checkpoint]:
    """The catalogue's checkpoints whose weights the unfinished cells need and the local cache does not hold."""
    needed = dict.fromkeys(spec.checkpoint for spec in unfinished(cells) if spec.weights == "pretrained")
    listed = [entry for name in needed if (entry := catalog.find(name)) is not None and not entry.bundled]
    return [entry for entry in listed if not hub.holds_weights(entry.id)]


# The table

KINDS = (".csv", ".json", ".parquet")


def record(cell: Cell) -> dict[str, Any]:
    """A cell that is done as one row: the columns of an export, and the cell's value. None for what is not known."""
    known = catalog.find(cell.spec.checkpoint)
    result = cell.result or RunResult("", "", "failed", cell.spec)
    return {
        "model": known.family if known else cell.spec.checkpoint,
        **export.row(result),
        "status": "refused" if cell.refused else result.status,
        "value": cell.value,
    }


def write_device_table(cells: Iterable[Cell], folder: Path | None = None) -> Path:
    """Adds the results to this project's own table of their device, `assets/measured/<device>.csv`; returns its path.

    Raises BadInput if no result belongs into a table, the results are of several devices, or the earlier table cannot
    be read; OSError if it cannot be written.
    """
    results = [cell.result for cell in cells if cell.result is not None]
    devices = {result.environment.device_name for result in results if result.environment is not None}
    if len(devices) != 1:
        reason = f"The results are of {', '.join(sorted(devices))}" if devices else "No cell has a result yet"
        raise BadInput(f"{reason}: a measured table belongs to one device.")
    path = (folder or published.MEASURED_FOLDER) / published.file_of(devices.pop())
    if len(published.add_measured(results, path)) == len(results):
        raise BadInput("None of the results has a speed-up or ran out of memory: there is nothing to put into a table.")
    return path


def check_table(path: Path) -> None:
    """Raises BadInput, before anything is run, where `write_table` would have to refuse."""
    if path.suffix not in KINDS:
        raise BadInput(f"The table's kind is told by its ending: {', '.join(KINDS)}. Given: {str(path)!r}.")
    export.check_place(path, "table")


def write_table(path: Path, cells: Iterable[Cell]) -> None:
    """Writes a row for each cell with a value, as the ending says. The file is whole or not there. Raises OSError."""
    records = [record(cell) for cell in cells if cell.done]
    with replacing(path) as draft:
        if path.suffix == ".csv":
            columns = list(records[0]) if records else []
            draft.write(export.csv_text(columns, records).encode())
        elif path.suffix == ".json":
            draft.write(json.dumps(records, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace"))
        else:
            import pandas  # takes a second, which the others need not wait for

            pandas.DataFrame(records).to_parquet(draft, index=False)
