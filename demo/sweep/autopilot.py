"""The fastest setting of one checkpoint and batch that still agrees with plain eager float32.

Every try is a run of its own, stored like any other. A run compares compiled with eager of the *same* settings; the
question here is another one, so at the end the winner and plain eager are run in alternation, three times each, and
their medians compared from run to run. They come from different processes, so their calls cannot be paired; what can be
are whole runs that followed one another. That interval is wide with few runs, and holds what differs from process to
process, which the many calls of a single run know nothing of. Those runs are new ones: the times that made the winner
win are not used again, since the smallest of many noisy times flatters.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from demo.core import agreement, stats
from demo.core.result import BadInput, Machine, RunResult, RunSpec
from demo.core.stats import Interval
from demo.runs.precompiler import Precompiler
from demo.sweep import grid as sweep
from demo.sweep import halving as search
from demo.sweep.grid import AnyRunner, Cell, Done

BUDGETS = (0.5, 1.5)
"""Seconds of timing in each rung of the search."""
ROUNDS = 3
GPU_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")
CPU_MODES = ("default", "max-autotune-no-cudagraphs", "lite")
"""Without CUDA graphs the other two are the first two of these."""
LATE_MODES = ("max-autotune", "max-autotune-no-cudagraphs")
"""Their compile tries kernels out, which takes minutes and cannot be done ahead: only the last rung tries them."""
ATTENTIONS = ("sdpa", "eager")


@dataclass(frozen=True)
class Try:
    """One setting that was tried: its compiled time, and why it is out if it is."""

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
    """How many times longer plain eager float32 takes than the winner; None where the last runs gave no times."""
    tries: tuple[Try, ...]

    @property
    def verdict(self) -> stats.Verdict:
        return "unsure" if self.ratio is None else stats.verdict(self.ratio, None)

    @property
    def fullgraph(self) -> str:
        """What `fullgraph` would do: it changes no kernel, only refuses graph breaks, so no run is needed to know."""
        compilation = self.winner.compilation if self.winner else None
        if compilation is None:
            return ""
        if compilation.graph_breaks or compilation.graphs != 1:
            return "fullgraph would fail: the winner does not compile as one graph."
        return "fullgraph changes nothing: the winner compiles as one graph already."


@dataclass(frozen=True)
class Step:
    """What is going on, for whoever watches."""

    what: str
    event: sweep.Event


def plain(spec: RunSpec, machine: Machine) -> RunSpec:
    """The same question without any setting that could make it faster."""
    bare = dataclasses.replace(
        spec, mode="default", dtype="float32", channels_last=False, attention="auto", fullgraph=False
    )
    return sweep.on_machine(bare, machine)


def candidates(spec: RunSpec, machine: Machine) -> list[RunSpec]:
    """Mode x number format x memory format x attention, as far as they differ on this machine."""
    bare = plain(spec, machine)
    gpu = bare.device == "cuda"
    modes = [mode for mode in (GPU_MODES if gpu else CPU_MODES) if mode in machine.modes]
    dtypes = ["float32", *(["tf32"] if gpu else []), "bfloat16", "float16"]
    return [
        dataclasses.replace(bare, mode=mode, dtype=dtype, channels_last=last, attention=attention)
        for mode, dtype, last, attention in itertools.product(modes, dtypes, (False, True), ATTENTIONS)
    ]


def planned(spec: RunSpec, chosen: Sequence[RunSpec], machine: Machine) -> tuple[list[RunSpec], list[RunSpec]]:
    """The runs of the search, and those after it that are always new ones, for a forecast.

    Who goes on is not known, so the first ones stand for them; the late modes are counted as often as they can be at
    most.
    """
    bare = plain(spec, machine)
    first, late = _early_and_late(chosen)
    last = first[: math.ceil(len(first) / search.KEPT)]
    others = list(dict.fromkeys(map(_other_settings, late)))[: len(last)]
    last += _joining(others, late)
    rungs = [dataclasses.replace(one, most_seconds=BUDGETS[0]) for one in first]
    rungs += [dataclasses.replace(one, most_seconds=BUDGETS[-1]) for one in last]
    return [bare, *rungs], [bare, *last[:1]] * ROUNDS


def _early_and_late(chosen: Sequence[RunSpec]) -> tuple[list[RunSpec], list[RunSpec]]:
    """Who is in the search from the first rung on, and who may join in the last; where all would wait, nobody does."""
    late = [one for one in chosen if one.mode in LATE_MODES]
    early = [one for one in chosen if one.mode not in LATE_MODES]
    return (early, late) if early else (late, [])


def _joining(fastest: Sequence[RunSpec], late: Sequence[RunSpec]) -> list[RunSpec]:
    """Those of `late` that have the other settings of the fastest third of those that reached the last rung.

    So a setting that is fast in a late mode only is not found: trying it would cost what the rungs are there to save.
    """
    settings = set(map(_other_settings, fastest[: math.ceil(len(fastest) / search.KEPT)]))
    return [one for one in late if _other_settings(one) in settings]


def _other_settings(spec: RunSpec) -> RunSpec:
    return dataclasses.replace(spec, mode="default")


def run(
    spec: RunSpec,
    chosen: Sequence[RunSpec],
    runner: AnyRunner,
    machine: Machine,
    stored: Sequence[RunResult],
    picture: Path,
    cancel: threading.Event,
    precompiler: Precompiler | None = None,
) -> Generator[Step, None, Answer | None]:
    """Searches `chosen` and returns the answer; None when it was cancelled. Raises BadInput where plain eager fails.

    `stored` are earlier results, newest first: a try that is among them is not run again.
    """
    bare = plain(spec, machine)

    def measured(what: str, cells: list[Cell], ahead: Precompiler | None) -> Generator[Step, None, list[Cell]]:
        for event in sweep.run(cells, runner, picture, cancel, ahead):
            if isinstance(event, Done):
                cells[event.place] = event.cell
            yield Step(what, event)
        return cells

    (reference,) = yield from measured("plain eager", sweep.cells([bare], stored, machine, picture), None)
    if cancel.is_set():
        return None
    if reference.result is None or reference.result.eager is None:
        raise BadInput(f"Plain eager float32 cannot be run, so there is nothing to compare with: {reference.value}")
    tries: list[Try] = []
    early, late = _early_and_late(chosen)
    rungs = search.successive_halving(early, BUDGETS, lambda fastest: _joining(fastest, late))
    last: tuple[RunSpec, ...] = ()
    rung, answer = 0, None
    while True:
        try:
            left, budget = rungs.send(answer)  # type: ignore[arg-type]  # None starts it
        except StopIteration as stopped:
            last = stopped.value
            break
        rung += 1
        asked = [dataclasses.replace(candidate, most_seconds=budget) for candidate in left]
        cells = sweep.cells(asked, stored, machine, picture)
        cells = yield from measured(f"rung {rung}: {len(left)} settings", cells, precompiler)
        if cancel.is_set():
            return None
        judged = [judge(cell, reference.result, rung) for cell in cells]
        tries += judged
        answer = {c: t.seconds for c, t in zip(left, judged, strict=True) if t.seconds is not None and not t.dropped}
    if not last:
        return Answer(bare, None, None, tuple(tries))
    # plain, winner, winner, plain, plain, winner: drift of the machine falls on both
    order = [bare, last[0], last[0], bare] * ROUNDS
    cells = yield from measured("winner against plain eager", [Cell(one) for one in order[: 2 * ROUNDS]], None)
    if cancel.is_set():
        return None
    slow = [_median(cell.result, "eager") for cell in cells if cell.spec == bare]
    fast = [_median(cell.result, "compiled") for cell in cells if cell.spec == last[0]]
    times = [second for second in (*slow, *fast) if second is not None]
    ratio = stats.paired_ratio(times[:ROUNDS], times[ROUNDS:]) if len(times) == 2 * ROUNDS else None
    return Answer(bare, [cell.result for cell in cells if cell.spec == last[0]][-1], ratio, tuple(tries))


def judge(cell: Cell, reference: RunResult, rung: int) -> Try:
    """What the search learns from one run: its compiled time, and whether it still agrees.

    Twice: compiled with eager of its own settings, number by number; and what it sees with what plain eager float32
    sees. With random weights there is nothing to see, and only the first holds.
    """
    result = cell.result
    if result is None or result.failure is not None or result.compiled is None:
        return Try(cell.spec, rung, None, cell.value, result.id if result else "")
    dropped = agreement.with_own_eager(result.parity)
    if not dropped and reference.predictions and result.predictions:
        changed = agreement.difference(reference.predictions["eager"], result.predictions["compiled"])
        dropped = changed or ""
    return Try(cell.spec, rung, result.compiled.median_seconds, dropped, result.id)


def _median(result: RunResult | None, variant: str) -> float | None:
    measurement = getattr(result, variant) if result is not None and result.failure is None else None
    return measurement.median_seconds if measurement is not None else None
