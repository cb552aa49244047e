"""The cells of a grid, and which of them the history answers already.

A sweep keeps no state of its own: a cell is done when the history holds its result. So whatever ends a sweep costs at
most the run in progress.
"""

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from demo.core import catalog, hub
from demo.core.catalog import Checkpoint
from demo.core.languages import ENGLISH
from demo.core.machine import HostInfo
from demo.core.refusals import on_machine
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import ProcessResult
from demo.present import sentences

FINAL = ("ok", "out_of_memory", "compile_failed", "failed")
"""Statuses that another run would only repeat. A cell that crashed, timed out or was cancelled is run again."""


@dataclass(frozen=True)
class Cell:
    """One place of the grid. Without result and refusal it has yet to be run."""

    spec: RunSpec
    result: RunResult | None = None
    refused: str = ""
    """Why the run could not even start, such as a checkpoint that is not available: a sentence."""
    stored: bool = False
    """The result was in the history before this sweep."""
    gpu_type: str = ""
    """On a cluster: the type of GPU it is to be run on, '' for any."""
    python: str = ""
    """Of two environments side by side: the interpreter that runs it, as it was given; '' for the program's own."""
    earlier: tuple[ProcessResult, ...] = ()
    """The first of its repeats, where the history has those and not all: the run goes on from them."""

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
        if sentences.outcome(self.result) in ("faster", "slower"):
            return sentences.speedup(self.result, ENGLISH)
        return sentences.speedup_in_full(self.result, ENGLISH) or "no figures"


def make_cells(
    specs: Iterable[RunSpec], stored: Sequence[RunResult], machine: HostInfo, picture: Path, fresh: bool = False
) -> list[Cell]:
    """One cell for each spec on this machine, with its result where the history has one; without results if `fresh`.

    A stored result counts if it has the same spec, picture (where the model sees one), versions (torch, transformers,
    triton), environment (`--python`) and device (its name, and a GPU's driver), and no file of a local checkpoint was
    written after it. Of several the newest counts; `stored` is newest first, as `History.all` returns it. Of a cell
    with repeats the first ones may be stored: it goes on from them, or is done where the last of them failed for good.
    """
    specs = [on_machine(spec, machine) for spec in specs]
    if fresh:
        return [Cell(spec) for spec in specs]
    results: dict[RunSpec, RunResult] = {}
    for result in still_true(stored, {spec.checkpoint for spec in specs}, machine, picture):
        results.setdefault(dataclasses.replace(result.spec, repeats=1), result)
    return [_cell(spec, results) for spec in specs]


def still_true(
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


def _cell(spec: RunSpec, results: Mapping[RunSpec, RunResult]) -> Cell:
    """Done where a run failed for good, or its answer rests on as many processes as are asked for."""
    found = results.get(dataclasses.replace(spec, repeats=1))
    if found is None:
        return Cell(spec)
    processes = found.as_processes()
    if found.status != "ok" or len(processes) >= spec.repeats or spec.repeats == 1:
        return Cell(spec, found, stored=True)
    return Cell(spec, earlier=processes)


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
    versions = (then.torch, then.transformers, then.interpreter)
    device = (then.device_name, then.driver, then.triton) if on_gpu else then.device_name
    here = (machine.gpu, machine.driver, machine.triton) if on_gpu else machine.cpu
    return versions == (machine.torch, machine.transformers, machine.interpreter) and device == here


def unfinished(cells: Iterable[Cell]) -> list[RunSpec]:
    """The specs of the cells that are still to be run."""
    return [cell.spec for cell in cells if not cell.done]


def downloads(cells: Iterable[Cell]) -> list[Checkpoint]:
    """The catalogue's checkpoints whose weights the unfinished cells need and the local cache does not hold."""
    needed = dict.fromkeys(spec.checkpoint for spec in unfinished(cells) if spec.weights == "pretrained")
    listed = [entry for name in needed if (entry := catalog.find(name)) is not None and not entry.bundled]
    return [entry for entry in listed if not hub.holds_weights(entry.id)]
