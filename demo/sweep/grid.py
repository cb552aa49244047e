"""A grid of runs: every cell is one run by the same runner into the same history, and what is stored is not run again.

A failure is a cell's value and never the end of a sweep. A sweep keeps no state of its own: what is done is what the
history holds, so whatever kills it costs at most the run in hand.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import itertools
import math
import os
import statistics
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from demo.core import catalog
from demo.core import format as fmt
from demo.core.result import BadInput, Checkpoint, Environment, Machine, Progress, RunResult, RunSpec
from demo.runs.precompiler import Precompiler
from demo.store import measured
from demo.store.export import check_place

AXES = {"checkpoints": "checkpoint", "batch_sizes": "batch_size", "modes": "mode", "dtypes": "dtype"}
"""A grid's lists, and the field of a spec that each of them fills."""
SETTINGS = tuple(f.name for f in dataclasses.fields(RunSpec) if f.name not in (*AXES.values(), "task"))
"""What is the same in every cell."""
PICTURE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
"""What the cells look at where no picture was given: a drawn scene, 4:3."""
QUERIES = ("a cat", "a remote control")
"""For a zero-shot detector in a preset: what lies on the guide's picture."""
FINAL = ("ok", "out_of_memory", "compile_failed", "failed")
"""Statuses that a further run would only repeat. What crashed, timed out or was cancelled is tried again."""
MOST_CELLS = 2000
ROUGH_SECONDS, ROUGH_SECONDS_A_MILLION = 25.0, 0.6
"""A cold run's wall time where nothing alike was run before: so much, and so much more a million parameters.

From the bundled checkpoints and the guide's on two CPU cores (a ViT of 87 M parameters 77 s); a guess, and called one.
"""


@dataclass(frozen=True)
class Grid:
    """Checkpoints x batch sizes x modes x dtypes, and the settings that all cells share."""

    checkpoints: tuple[str, ...]
    batch_sizes: tuple[int, ...] = (1,)
    modes: tuple[str, ...] = ("default",)
    dtypes: tuple[str, ...] = ("float32",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """By the names of `SETTINGS`. `text` goes to the checkpoints that take one."""

    def specs(self, folders: bool = False) -> tuple[RunSpec, ...]:
        """One spec a cell, checkpoint by checkpoint, each once. Raises BadInput for a cell that can never run."""
        axes = [getattr(self, name) for name in AXES]
        if not all(axes):
            missing = next(name for name in AXES if not getattr(self, name))
            raise BadInput(f"The sweep has no {missing.replace('_', ' ')}. Give one at least.")
        axes = [_each_once(name, values) for name, values in zip(AXES, axes, strict=True)]
        count = math.prod(map(len, axes))
        if count > MOST_CELLS:
            raise BadInput(f"A sweep has at most {MOST_CELLS} cells. Given: {count}.")
        cells = (dict(zip(AXES.values(), values, strict=True)) for values in itertools.product(*axes))
        return tuple(dict.fromkeys(self._spec(cell, folders) for cell in cells))

    def _spec(self, cell: dict[str, Any], folders: bool) -> RunSpec:
        settings = dict(self.settings)
        known = catalog.find(cell["checkpoint"])
        if known is not None:
            settings.pop("task", None)  # the list's own checkpoints know theirs
            if not known.takes_text:
                settings.pop("text", None)
        return catalog.make_spec(**cell, **settings, folders=folders)


PRESETS = {
    "published": Grid(
        tuple(checkpoint.id for checkpoint in catalog.CHECKPOINTS if not checkpoint.bundled),
        (1, 4, 16),
        ("default", "reduce-overhead"),
        settings={"text": QUERIES},
    ),
    "smoke": Grid(tuple(checkpoint.id for checkpoint in catalog.CHECKPOINTS if checkpoint.bundled)),
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
    lists = {name: _listed(given[name]) for name in AXES if name in given}
    return Grid(**{"checkpoints": (), **lists}, settings={name: given[name] for name in given if name not in AXES})


def _each_once(name: str, values: Iterable[Any]) -> tuple[Any, ...]:
    try:
        return tuple(dict.fromkeys(values))
    except TypeError:
        raise BadInput(f"The sweep's {name.replace('_', ' ')} must be single values, and no lists of them.") from None


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


@dataclass(frozen=True)
class Cell:
    """One place of the grid. Without result and refusal it has yet to be run."""

    spec: RunSpec
    result: RunResult | None = None
    refused: str = ""
    """Why the run could not even start, such as a checkpoint that is not to be had: a sentence."""
    stored: bool = False
    """The result was there before this sweep."""
    gpu_type: str = ""
    """On a cluster: the type of GPU it is to be run on, '' for any."""

    @property
    def done(self) -> bool:
        return self.result is not None or bool(self.refused)

    @property
    def value(self) -> str:
        """What a table writes into the cell: '1.44×', 'OOM', 'compile failed: ...', '' before the run."""
        if self.result is None:
            return f"refused: {self.refused}" if self.refused else ""
        if self.result.status == "out_of_memory":
            return "OOM"
        if self.result.failure is not None:
            return f"{self.result.status.replace('_', ' ')}: {self.result.failure.message}"
        speedup = self.result.speedup
        if speedup is None:
            return "no figures"
        return fmt.ratio(speedup.ratio) + (" unsure" if speedup.verdict == "unsure" else "")


def cells(
    specs: Iterable[RunSpec], stored: Sequence[RunResult], machine: Machine, picture: Path, fresh: bool = False
) -> list[Cell]:
    """The grid on this machine: cells that the store answers already have their results, unless `fresh`.

    A stored result answers for a cell with the same spec, picture, versions (torch, transformers, triton) and device
    (its name, and a GPU's driver); of several the newest does. `stored` is newest first, as `History.all` gives it.
    A checkpoint's folder must not have been written to since.
    """
    digest = hashlib.sha256(picture.read_bytes()).hexdigest()
    specs = [on_machine(spec, machine) for spec in specs]
    if fresh:
        return [Cell(spec) for spec in specs]
    written = {spec.checkpoint: _last_written(spec.checkpoint) for spec in specs}
    known: dict[RunSpec, RunResult] = {}
    for result in stored:
        if result.status in FINAL and measured_on(result, machine) and result.image and result.image.sha256 == digest:
            if result.started_at >= written.get(result.spec.checkpoint, ""):
                known.setdefault(result.spec, result)
    return [Cell(spec, known.get(spec), stored=spec in known) for spec in specs]


def _last_written(checkpoint: str) -> str:
    """When the newest file of a local folder was written, as `RunResult.started_at`; '' for any other checkpoint."""
    files = Path(checkpoint).rglob("*") if os.path.isabs(checkpoint) else ()
    newest = max((os.path.getmtime(file) for file in files if os.path.isfile(file)), default=None)
    return "" if newest is None else datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def on_machine(spec: RunSpec, machine: Machine) -> RunSpec:
    """The spec with the device that 'auto' means on this machine."""
    return spec.on("cuda" if machine.gpu else "cpu") if spec.device == "auto" else spec


def measured_on(result: RunResult, machine: Machine) -> bool:
    """Whether this machine, with its versions as they are now, gave the result."""
    environment = result.environment
    return environment is not None and _identity(environment, result.spec.device) == (
        machine.torch,
        machine.transformers,
        *((machine.gpu, machine.driver, machine.triton) if result.spec.device == "cuda" else (machine.cpu, None, None)),
    )


def _identity(environment: Environment, device: str) -> tuple[str | None, ...]:
    card = (environment.driver, environment.triton) if device == "cuda" else (None, None)
    return (environment.torch, environment.transformers, environment.device_name, *card)


@dataclass(frozen=True)
class Forecast:
    """How long the cells that are still to be run will take, one after another."""

    cells: int
    seconds: float
    guessed: int
    """Cells for which nothing alike was run on this device before: their share is a rough guess."""


def forecast(grid: Sequence[Cell], stored: Sequence[RunResult], machine: Machine) -> Forecast:
    """From the wall times of earlier runs on this device: of the same checkpoint, the more alike the better."""
    here = [result for result in stored if result.elapsed_seconds and _same_device(result, machine)]
    todo = [cell.spec for cell in grid if not cell.done]
    alike = [_seconds_alike(spec, here) for spec in todo]
    guesses = [_rough_seconds(spec) for spec, seconds in zip(todo, alike, strict=True) if seconds is None]
    return Forecast(len(todo), sum(seconds for seconds in alike if seconds) + sum(guesses), len(guesses))


def _same_device(result: RunResult, machine: Machine) -> bool:
    name = machine.gpu if result.spec.device == "cuda" else machine.cpu
    return result.status in FINAL and result.environment is not None and result.environment.device_name == name


def _seconds_alike(spec: RunSpec, earlier: Sequence[RunResult]) -> float | None:
    """The median wall time of the most alike runs of the checkpoint; None where it was never run."""
    runs = [
        result for result in earlier if (result.spec.checkpoint, result.spec.device) == (spec.checkpoint, spec.device)
    ]
    for names in (("mode", "batch_size", "dtype"), ("mode", "batch_size"), ("mode",), ()):
        alike = [run for run in runs if all(getattr(run.spec, name) == getattr(spec, name) for name in names)]
        if alike:
            return statistics.median(run.elapsed_seconds for run in alike)
    return None


def _rough_seconds(spec: RunSpec) -> float:
    known = catalog.find(spec.checkpoint)
    return ROUGH_SECONDS + ROUGH_SECONDS_A_MILLION * (known.parameters if known else 50_000_000) / 1e6


class AnyRunner(Protocol):
    def run(
        self, spec: RunSpec, image: Path, cancel: threading.Event | None = None
    ) -> Iterator[Progress | RunResult]: ...


@dataclass(frozen=True)
class Waiting:
    """Others use the machine: so many are ahead."""

    ahead: int


@dataclass(frozen=True)
class Precompiling:
    """The coming cells are being compiled side by side; nothing is timed meanwhile."""

    done: int
    of: int


@dataclass(frozen=True)
class Timing:
    place: int
    """Of the cell in the grid."""
    progress: Progress


@dataclass(frozen=True)
class Done:
    place: int
    cell: Cell


Event = Waiting | Precompiling | Timing | Done
Turn = Callable[[], AbstractContextManager[Iterable[int]]]
"""Entered, it gives the number of those ahead until this one's turn has come; left, the next may have it."""


def run(
    grid: Sequence[Cell],
    runner: AnyRunner,
    picture: Path,
    cancel: threading.Event,
    precompiler: Precompiler | None = None,
    turn: Turn = lambda: nullcontext(()),
) -> Generator[Event, None, None]:
    """Runs the cells that have no value yet, in lots: compiled side by side first, then timed one after another.

    Ends early, without an event for the cell in hand, when `cancel` is set. Closing the generator ends the run in
    hand too.
    """
    todo = [(place, cell.spec) for place, cell in enumerate(grid) if not cell.done]
    size = precompiler.lot if precompiler else 1
    for lot in (todo[start : start + size] for start in range(0, len(todo), size)):
        if precompiler is not None:
            with turn() as waiting:
                yield from map(Waiting, _until(cancel, waiting))
                for done, of in _until(cancel, precompiler.compile([spec for _, spec in lot], picture)):
                    yield Precompiling(done, of)
        for place, spec in lot:
            with turn() as waiting:
                yield from map(Waiting, _until(cancel, waiting))
                if cancel.is_set():
                    return
                yield from _one(place, spec, runner, picture, cancel)


def _until(cancel: threading.Event, items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if cancel.is_set():
            return
        yield item


def _one(
    place: int, spec: RunSpec, runner: AnyRunner, picture: Path, cancel: threading.Event
) -> Iterator[Timing | Done]:
    try:
        for event in runner.run(spec, picture, cancel):
            if isinstance(event, Progress):
                yield Timing(place, event)
            elif event.status != "cancelled":
                yield Done(place, Cell(spec, event))
    except BadInput as refused:
        yield Done(place, Cell(spec, refused=str(refused)))


def record(cell: Cell) -> dict[str, Any]:
    """A cell as one row of an export; None for what is not known. The whole result stays in the store, under `id`."""
    spec, result = cell.spec, cell.result
    known: Checkpoint | None = catalog.find(spec.checkpoint)
    shared: dict[str, Any] = {
        "model": known.family if known else spec.checkpoint,
        **{f.name: getattr(spec, f.name) for f in dataclasses.fields(spec)},
        "text": ", ".join(spec.text) or None,
        "status": "refused" if cell.refused else result.status if result else None,
        "value": cell.value or None,
    }
    figures: dict[str, Any] = dict.fromkeys(FIGURES)
    if result is not None:
        data = result.to_json()
        for name, path in FIGURES.items():
            found: Any = data
            for key in path:
                found = found.get(key) if isinstance(found, dict) else None
            figures[name] = found
    return shared | figures


FIGURES = {
    "eager_median_ms": ("eager", "median_ms"),
    "compiled_median_ms": ("compiled", "median_ms"),
    "eager_mean_ms": ("eager", "mean_ms"),
    "compiled_mean_ms": ("compiled", "mean_ms"),
    "speedup": ("speedup", "ratio"),
    "speedup_low": ("speedup", "low"),
    "speedup_high": ("speedup", "high"),
    "verdict": ("speedup", "verdict"),
    "control_low": ("control", "low"),
    "control_high": ("control", "high"),
    "first_call_seconds": ("compilation", "first_call_seconds"),
    "compile_cache": ("compilation", "cache"),
    "break_even_calls": ("break_even_calls",),
    "eager_peak_memory_bytes": ("eager", "peak_memory_bytes"),
    "compiled_peak_memory_bytes": ("compiled", "peak_memory_bytes"),
    "parity": ("parity", "verdict"),
    "device_name": ("environment", "device_name"),
    "torch": ("environment", "torch"),
    "transformers": ("environment", "transformers"),
    "driver": ("environment", "driver"),
    "elapsed_seconds": ("elapsed_seconds",),
    "started_at": ("started_at",),
    "id": ("id",),
}
"""Columns of an export, and where each stands in a result's JSON."""


def keep_as_measured(grid: Iterable[Cell], folder: Path | None = None) -> Path:
    """Makes the sweep this project's own table of its device, beside the guide's: `assets/measured/<device>.csv`.

    Of an earlier table of that device the rows stay that this sweep does not measure again. Raises BadInput where there
    is nothing to put into it, the results are of several devices, or the earlier table cannot be read; OSError where it
    cannot be written.
    """
    results = [cell.result for cell in grid if cell.result is not None]
    devices = {result.environment.device_name for result in results if result.environment is not None}
    if len(devices) != 1:
        said = f"The results are of {', '.join(sorted(devices))}" if devices else "No cell has a result yet"
        raise BadInput(f"{said}: a measured table belongs to one device.")
    path = (folder or measured.FOLDER) / measured.file_of(devices.pop())
    if len(measured.add_measured(results, path)) == len(results):
        raise BadInput("None of the results has a speed-up or ran out of memory: there is nothing to put into a table.")
    return path


KINDS = (".csv", ".json", ".parquet")


def check_table(path: Path) -> None:
    """Raises BadInput, before anything is run, where `write_table` would have to refuse."""
    if path.suffix not in KINDS:
        raise BadInput(f"The table's kind is told by its ending: {', '.join(KINDS)}. Given: {str(path)!r}.")
    check_place(path, "table")
    if path.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise BadInput("A Parquet file needs pyarrow: pip install -r requirements-sweep.txt, or give a .csv or .json.")


def write_table(path: Path, grid: Iterable[Cell]) -> None:
    """The cells that have a value, one row each, as CSV, JSON or Parquet by the file's ending. Raises OSError.

    The file is complete or not there: it is written beside its place and then put there.
    """
    import pandas  # a second that only an export should cost

    table = pandas.DataFrame([record(cell) for cell in grid if cell.done])
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.suffix == ".csv":
            table.to_csv(aside, index=False)
        elif path.suffix == ".json":
            table.to_json(aside, orient="records", indent=2, force_ascii=False, double_precision=15)
        else:
            table.to_parquet(aside, index=False)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
