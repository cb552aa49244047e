"""The fastest settings of one checkpoint and batch size that still agree with plain eager float32.

Every try is a run of its own, stored like any other. A run compares compiled with eager of the *same* settings, so it
does not say how much faster the winner is than plain eager. For that the two are run in alternation at the end, three
times each.

What the final interval covers: a rerun, as that of `--repeats` does (`stats.rerun_ratio`), since it comes from pairs
of whole runs that followed one another. With three pairs it is wide. These runs are new ones: the smallest of many
noisy times is biased low, so the times of the search are not used again.
What it does not cover: settings outside `candidates`; settings that are fast only where they are tried late, in one of
`LATE_MODES`, frozen, or built ahead of time.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demo.core import agreement, stats
from demo.core.errors import BadInput
from demo.core.machine import HostInfo
from demo.core.refusals import on_machine, refusal
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, RunSpec
from demo.core.speedup import ASSUMED
from demo.core.stats import Interval
from demo.runs.any_runner import AnyRunner
from demo.runs.precompiler import Precompiler
from demo.sweep.cells import Cell, make_cells
from demo.sweep.run_grid import Done, Event, run_cells

BUDGETS = (0.5, 1.5)
"""Seconds of timing in each of the two rungs of the search."""
KEPT = 3
"""One of this many candidates goes on to the last rung, the fastest (Jamieson and Talwalkar, 2016, keep half)."""
ROUNDS = 3
"""Final runs of the winner, and as many of plain eager."""
GPU_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")
CPU_MODES = ("default", "max-autotune-no-cudagraphs", "lite")
"""On a CPU, without CUDA graphs, the other two modes are the same as the first two of these."""
LATE_MODES = ("max-autotune", "max-autotune-no-cudagraphs")
"""Their compile tries kernels out, which takes minutes and cannot be done ahead, so only the last rung has them. So it
is with freezing and packages, which no compile cache holds."""


@dataclass(frozen=True)
class Try:
    """One run of the search: the compiled latency in seconds, and why these settings are out, if they are."""

    spec: RunSpec
    rung: int
    seconds: float | None
    dropped: str = ""
    run_id: str = ""


@dataclass(frozen=True)
class Answer:
    plain: RunSpec
    winner: RunResult | None
    """The winner's last run; None where nothing that was tried agrees."""
    ratio: Interval | None
    """The latency of plain eager float32 over the winner's; None where a final run failed."""
    tries: tuple[Try, ...]

    @property
    def verdict(self) -> stats.Verdict:
        return "unsure" if self.ratio is None else stats.verdict(self.ratio, None)

    @property
    def fullgraph(self) -> str:
        """What `fullgraph` would do. It changes no kernel and only refuses graph breaks, so no run is needed."""
        compilation = self.winner.compilation if self.winner else None
        if compilation is None:
            return ""
        if compilation.graph_breaks or compilation.graphs != 1:
            return "fullgraph would fail: the winner does not compile as one graph."
        return "fullgraph changes nothing: the winner compiles as one graph already."


@dataclass(frozen=True)
class Step:
    """An event of one of the runs, and the part of the search that the run belongs to."""

    what: str
    event: Event


def plain(spec: RunSpec, machine: HostInfo) -> RunSpec:
    """The spec without any setting that could make it faster."""
    defaults = {name: option.default for name, option in OPTIONS.items() if option.for_speed}
    return on_machine(dataclasses.replace(spec, **defaults), machine)


def candidates(spec: RunSpec, machine: HostInfo) -> list[RunSpec]:
    """All combinations of mode, dtype and memory format that differ on this machine; on a CPU each of mode default with
    freezing, too, and as a package of AOTInductor. Text generation has neither memory formats nor packages."""
    bare = plain(spec, machine)
    gpu = bare.device == "cuda"
    modes = GPU_MODES if gpu else CPU_MODES
    formats = (False, True) if spec.sees_picture else (False,)
    dtypes = ("float32", "tf32", "bfloat16", "float16")
    combined = [
        dataclasses.replace(bare, mode=mode, dtype=dtype, channels_last=last)
        for mode, dtype, last in itertools.product(modes, dtypes, formats)
    ]
    ways: list[dict[str, Any]] = [] if gpu else [{"freezing": True}]
    if not gpu and spec.sees_picture:
        ways.append({"compiler": "aot"})
    plainest = [one for one in combined if one.mode == bare.mode]
    combined += [dataclasses.replace(one, **way) for one, way in itertools.product(plainest, ways)]
    return [one for one in combined if refusal(one, machine) is None]


def planned(spec: RunSpec, chosen: Sequence[RunSpec], machine: HostInfo) -> tuple[list[RunSpec], list[RunSpec]]:
    """The runs of the search and the final runs, which are always new ones, for a forecast.

    Which candidates go on is not known, so the first ones stand for them. The late modes are counted as often as they
    can be at most.
    """
    bare = plain(spec, machine)
    first, late = _early_and_late(chosen)
    last = first[: math.ceil(len(first) / KEPT)]
    others = list(dict.fromkeys(map(_other_settings, late)))[: len(last)]
    last += _joining(others, late)
    rungs = [dataclasses.replace(one, most_seconds=BUDGETS[0]) for one in first]
    rungs += [dataclasses.replace(one, most_seconds=BUDGETS[-1]) for one in last]
    return [bare, *rungs], [bare, *last[:1]] * ROUNDS


def _early_and_late(chosen: Sequence[RunSpec]) -> tuple[list[RunSpec], list[RunSpec]]:
    """The candidates of the first rung, and those that may join in the last. If all are late, all are in the first."""
    late = [one for one in chosen if one.mode in LATE_MODES or not one.cached]
    early = [one for one in chosen if one not in late]
    return (early, late) if early else (late, [])


def _joining(fastest: Sequence[RunSpec], late: Sequence[RunSpec]) -> list[RunSpec]:
    """The candidates of `late` whose other settings are those of the fastest third in the last rung.

    Settings that are fast when tried late only are not found: trying them all would take the time that the rungs save.
    """
    settings = set(map(_other_settings, fastest[: math.ceil(len(fastest) / KEPT)]))
    return [one for one in late if _other_settings(one) in settings]


def _other_settings(spec: RunSpec) -> RunSpec:
    return dataclasses.replace(spec, mode="default", freezing=False, compiler="jit")


def run(
    spec: RunSpec,
    chosen: Sequence[RunSpec],
    runner: AnyRunner,
    machine: HostInfo,
    stored: Sequence[RunResult],
    picture: Path,
    cancel: threading.Event,
    precompiler: Precompiler | None = None,
) -> Generator[Step, None, Answer | None]:
    """Searches `chosen` and returns the answer; None when it was cancelled. Raises BadInput where plain eager fails.

    `stored` are earlier results, newest first: what is among them is not run again, except for the final runs.
    """
    bare = plain(spec, machine)
    search = _Search(runner, machine, stored, picture, cancel, precompiler)
    (reference,) = yield from search.measure("plain eager", search.cells([bare]))
    if cancel.is_set():
        return None
    if reference.result is None or reference.result.eager is None:
        raise BadInput(f"Plain eager float32 cannot be run, so there is nothing to compare with: {reference.value}")
    early, late = _early_and_late(chosen)
    fastest = yield from search.rung(reference.result, early, BUDGETS[0])
    fastest = fastest[: math.ceil(len(fastest) / KEPT)]
    fastest += _joining(fastest, late)
    if len(fastest) > 1:
        fastest = yield from search.rung(reference.result, fastest, BUDGETS[1])
    if cancel.is_set():
        return None
    if not fastest:
        return Answer(bare, None, None, tuple(search.tries))
    # Plain, winner, winner, plain, plain, winner: a drift of the machine affects both alike.
    is_plain = ([True, False, False, True] * ROUNDS)[: 2 * ROUNDS]
    turns = [Cell(bare if plain else fastest[0]) for plain in is_plain]
    cells = yield from search.measure("winner against plain eager", turns)
    if cancel.is_set():
        return None
    plains = [cell.result for cell, plain in zip(cells, is_plain, strict=True) if plain]
    winners = [cell.result for cell, plain in zip(cells, is_plain, strict=True) if not plain]
    return Answer(bare, winners[-1], _ratio(plains, winners), tuple(search.tries))


def _ratio(plains: Sequence[RunResult | None], winners: Sequence[RunResult | None]) -> Interval | None:
    """Plain eager's latency over the winner's, from pairs of runs; None where one of the runs failed."""
    ratios = []
    for one, other in zip(plains, winners, strict=True):
        slow, fast = _latency(one, "eager"), _latency(other, "compiled")
        if slow is None or fast is None:
            return None
        ratios.append(slow / fast)
    pairs = [Interval(one, one, one) for one in ratios]
    return stats.rerun_ratio(pairs, ASSUMED.deviation, ASSUMED.freedom or math.inf)


@dataclass
class _Search:
    """Runs settings on this machine and keeps every try."""

    runner: AnyRunner
    machine: HostInfo
    stored: Sequence[RunResult]
    picture: Path
    cancel: threading.Event
    precompiler: Precompiler | None
    tries: list[Try] = field(default_factory=list)
    rungs: int = 0

    def cells(self, specs: Iterable[RunSpec]) -> list[Cell]:
        return make_cells(specs, self.stored, self.machine, self.picture)

    def measure(
        self, what: str, cells: list[Cell], precompiler: Precompiler | None = None
    ) -> Generator[Step, None, list[Cell]]:
        """The cells with their values; some have none when the search was cancelled."""
        for event in run_cells(cells, self.runner, self.picture, self.cancel, precompiler):
            if isinstance(event, Done):
                cells[event.place] = event.cell
            yield Step(what, event)
        return cells

    def rung(
        self, reference: RunResult, settings: Sequence[RunSpec], budget: float
    ) -> Generator[Step, None, list[RunSpec]]:
        """The settings that agree with `reference`, the fastest first; none when the search was cancelled."""
        self.rungs += 1
        cells = self.cells(dataclasses.replace(one, most_seconds=budget) for one in settings)
        cells = yield from self.measure(f"rung {self.rungs}: {len(settings)} settings", cells, self.precompiler)
        if self.cancel.is_set():
            return []
        judged = [judge(cell, reference, self.rungs) for cell in cells]
        self.tries += judged
        seconds = {
            one: tried.seconds
            for one, tried in zip(settings, judged, strict=True)
            if tried.seconds is not None and not tried.dropped
        }
        return sorted(seconds, key=lambda one: seconds[one])


def judge(cell: Cell, reference: RunResult, rung: int) -> Try:
    """The try that one run of the search is.

    It must agree twice: its compiled with its own eager outputs, number by number; and its predictions with those of
    plain eager float32. With random weights there are no predictions, and only the first counts.
    """
    result = cell.result
    if result is None or result.failure is not None or result.compiled is None:
        return Try(cell.spec, rung, None, cell.value, result.id if result else "")
    dropped = agreement.with_own_eager(result.parity)
    if not dropped and reference.predictions and result.predictions:
        changed = agreement.difference(reference.predictions["eager"], result.predictions["compiled"])
        dropped = changed or ""
    return Try(cell.spec, rung, result.latencies["compiled"], dropped, result.id)


def _latency(result: RunResult | None, variant: str) -> float | None:
    return result.latencies.get(variant) if result is not None and result.failure is None else None
