"""Ranks the ways to run one model (eager, compiled, frozen, ...) by latency after the warm-up, and picks a winner.

The speed-up of a way is over plain eager: eager without any option for speed. Most runs time the way and plain eager in
turns, so that a slow machine slows both. But some ways, such as bfloat16, change eager too: their speed-up is over
plain eager as other processes timed it. Not covered: two ways combined, and single options of inductor.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..core import catalog, outputs, stats
from ..core.comparison import ProcessFigure
from ..core.machine import HostInfo
from ..core.options import CHANGES_EAGER, CUDA_GRAPH_MODES, OPTIONS, BadInput, OptionValues, RunSpec
from ..core.refusals import on_machine, refusal, resolve
from ..core.result import RunResult
from ..core.stats import Difference, Measured
from ..tasks.registry import BY_NAME

EAGER_WAY = "eager"
WAYS: dict[str, OptionValues] = {
    EAGER_WAY: {},
    "default": {},
    "freezing": {"freezing": True},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "layers": {"scope": "layers"},
    "channels_last": {"channels_last": True},
    "lite": {"mode": "lite"},
    "package": {"compiler": "aot"},
    "max-autotune-no-cudagraphs": {"mode": "max-autotune-no-cudagraphs"},
    "max-autotune": {"mode": "max-autotune"},
    "tf32": {"dtype": "tf32"},
    "bfloat16": {"dtype": "bfloat16"},
    "float16": {"dtype": "float16"},
}
"""The options of each way that differ from plain torch.compile.

A search tries the ways in this order: ways that time kernels while they compile take minutes and come late. Simple ways
come first: of equally fast ways, the first one wins.
"""
OTHER_FORMATS = ("tf32", "bfloat16", "float16")
"""Ways that change the outputs: a search tries them only on request."""


@dataclass(frozen=True)
class Way:
    name: str
    spec: RunSpec
    """The settings of a run that times the model in this way, and in eager. The way 'eager' gets no run of its own: the
    runs of other ways time eager, too."""
    refused: str = ""
    """A sentence that says why the model cannot be run in this way here; '' if it can."""

    @property
    def changes_eager(self) -> bool:
        """Whether an option of this way, such as bfloat16, also changes the eager calls in its runs."""
        return not WAYS[self.name].keys().isdisjoint(CHANGES_EAGER)


def plain_eager_spec(spec: RunSpec, machine: HostInfo) -> RunSpec:
    """Returns the spec with default values of all options for speed and timing, and without added graph breaks.

    The device 'auto' is resolved.
    """
    kept: OptionValues = {name: option.default for name, option in OPTIONS.items() if option.for_speed or option.timing}
    return on_machine(replace(spec, graph_break=False, **kept), machine)


def ways(spec: RunSpec, machine: HostInfo, other_formats: bool = False) -> list[Way]:
    """Returns the ways to run a model that a search tries, even those that cannot run here (`Way.refused`).

    Ways without any use are left out: on a CPU, TF32 and modes with CUDA graphs; also channels_last if the model has no
    picture or few convolutions. `other_formats` adds the ways that change the outputs (`OTHER_FORMATS`). Raises
    BadInput if eager cannot run.
    """
    bare, known = resolve(plain_eager_spec(spec, machine), machine), catalog.find(spec.checkpoint)
    listed = []
    for name, changes in WAYS.items():
        alike = bare.device == "cpu" and (changes.get("mode") in CUDA_GRAPH_MODES or name == "tf32")
        no_use = name == "channels_last" and not (bare.sees_picture and (known is None or known.convolutional))
        if alike or no_use or (name in OTHER_FORMATS and not other_formats):
            continue
        try:
            changed = replace(bare, **changes)
            listed.append(Way(name, changed, refusal(changed, machine)))
        except BadInput as error:  # the task cannot be run this way
            listed.append(Way(name, bare, str(error)))
    return listed


# The table

CLOSE_RATIO = 1.05
"""Ways of rank 1 count as equally fast if the lower ends of their speed-ups' intervals are within 5 % of the highest.
The simplest of these ways, the first in `WAYS`, wins."""
MIN_EAGERS = 3
"""Before a way that changes eager, such as bfloat16, is compared with plain eager, plain eager must have run in this
many processes, so that the spread between them can be estimated."""


@dataclass(frozen=True)
class WayResult:
    way: Way
    result: RunResult | None = None
    """The newest run in this way that other programs did not disturb, or else the newest. Its speed-up is pooled over
    earlier processes, too. None for eager, before any run, and if no run counts or the way is refused."""
    out: str = ""
    """Why this way to run the model cannot win, such as 'has no figures' for a run without a speed-up.

    '' if it can, or if it has not run yet and was not refused.
    """
    measured: Measured | None = None
    """Latency of plain eager divided by the latency in this way, without a verdict."""
    speedup: Difference | None = None
    """`measured` with a verdict, and an interval widened for the number of ways that are compared with eager."""
    seconds: float | None = None
    """Seconds of a call if the model is run in this way."""
    eager_seconds: float | None = None
    """The latency of plain eager in the same run; None if an option, such as bfloat16, changes the run's eager calls,
    too."""
    first_answers: Mapping[str, dict[str, float]] = field(default_factory=dict)
    """Seconds from a process's start to its first output, in the parts 'import', 'load', 'compile' and 'first run'.

    The outer key is 'cold' for an empty compile cache and 'warm' for one that an earlier process filled. A state
    that was not measured is missing.
    """
    memory_bytes: int | None = None
    rank: int | None = None
    """1 + the number of ways that are better; None if the way cannot win, or is not measured yet.

    A way that is not known to be faster than eager ranks below eager, and below all ways that are better than eager.
    """
    may_win: bool = False
    """Whether this way has a rank, and no other way is known to be better, so that more runs may make it the winner."""

    def first_answer(self, state: str) -> float | None:
        """Returns the seconds from a process's start to its first output; None if not known.

        `state`: of the compile cache, 'cold' (empty) or 'warm' (filled).
        """
        parts = self.first_answers.get(state)
        return None if parts is None else sum(parts.values())


@dataclass(frozen=True)
class BestTable:
    rows: tuple[WayResult, ...]
    """The best way first, ways without a rank last."""
    winner: WayResult | None
    """The row of the best way, or eager's if no way is known to be faster. None if nothing could be compared."""
    equals: tuple[WayResult, ...] = ()
    """The rows of rank 1 other than the winner's."""

    @property
    def disturbed(self) -> bool:
        """Whether other programs took CPU cores during the run of at least one ranked way."""
        ranked = [row.measured for row in self.rows if row.rank is not None and row.measured is not None]
        return any(measured.taken for measured in ranked)


def best_table(ways: Sequence[Way], results: Mapping[str, RunResult], refused: Mapping[str, str]) -> BestTable:
    """Returns the ranked table of `ways`.

    Both dicts have the way's name as key. `results`: one run of each way, the newest undisturbed or else the newest.
    `refused`: why a way has no run that counts, as a sentence.
    """
    plain_runs = [results[way.name] for way in ways if way.name in results and not way.changes_eager]
    eagers = [figure.eager_seconds for run in plain_runs for figure in _process_figures(run)]
    reference = next((run for run in plain_runs if run.predictions and "eager" in run.predictions), None)
    # All ways load the same libraries, so their import times differ by chance only: each way gets the median.
    starts = [
        start.import_seconds + start.gpu_seconds for run in results.values() if (start := run.start_up) is not None
    ]
    imports = statistics.median(starts) if starts else 0.0

    def row(way: Way) -> WayResult:
        result, refusal = results.get(way.name), way.refused or refused.get(way.name, "")
        if way.name == EAGER_WAY:
            return _eager_row(way, plain_runs, eagers, imports)
        if refusal or result is None:
            return WayResult(way, out=refusal)
        known = result.latencies if result.failure is None else {}
        return WayResult(
            way,
            result,
            why_out(result, reference),
            _over_plain_eager(way, result, eagers),
            seconds=known.get("compiled"),
            eager_seconds=None if way.changes_eager else known.get("eager"),
            first_answers=first_answers(result, imports),
            memory_bytes=result.compiled.peak_memory_bytes if result.compiled is not None else None,
        )

    return rank_rows([row(way) for way in ways])


def _eager_row(way: Way, runs: Sequence[RunResult], eagers: Sequence[float], imports: float) -> WayResult:
    """Returns the row of plain eager; without numbers if none of `runs` timed plain eager.

    `eagers`: the latency of plain eager in each undisturbed process, in seconds. If it is empty, the latencies in
    `runs` are taken.
    """
    measured = next((run for run in runs if run.eager is not None and run.eager.warmup_seconds), None)
    seconds = eagers or [run.latencies["eager"] for run in runs if run.speedup is not None]
    if not seconds or measured is None or measured.eager is None:
        return WayResult(way)
    answers: dict[str, dict[str, float]] = {}
    if measured.start_up is not None:
        parts = _parts(imports, measured.start_up.load_seconds, 0.0, measured.eager.warmup_seconds[0])
        answers = {"cold": parts, "warm": parts}
    return WayResult(
        way,
        measured=Measured(1.0, 1.0, 1.0),
        seconds=statistics.median(seconds),
        first_answers=answers,
        memory_bytes=measured.eager.peak_memory_bytes,
    )


def why_out(result: RunResult, reference: RunResult | None) -> str:
    """Returns why a way to run a model cannot win, such as 'has no figures'; '' if it can. `result`: the way's run.

    A way cannot win in these cases:
    - The run failed, or has no speed-up.
    - The compiled outputs are not known to agree with those of eager in the same run.
    - The predictions differ from those of plain eager in the run `reference`. None: this is not checked.
    """
    if result.failure is not None:
        return f"{result.status.replace('_', ' ')}: {result.failure.message}"
    if result.speedup is None:
        return "has no figures"
    own = outputs.difference_from_eager(result.parity)
    if own or reference is None or not reference.predictions or not result.predictions:
        return own
    return BY_NAME[result.spec.task].difference(reference.predictions["eager"], result.predictions["compiled"])


def _over_plain_eager(way: Way, result: RunResult, eagers: Sequence[float]) -> Measured | None:
    """Returns how many times faster a way's compiled model is than plain eager; None if that is not known.

    If the way also changes the eager model of its own run `result`, that model is not plain eager. The comparison is
    then with `eagers`, the latencies of plain eager in other processes; None if there are fewer than `MIN_EAGERS`.
    """
    speedup, own = result.speedup, _process_figures(result)
    if speedup is None:
        return None
    if not way.changes_eager:
        return speedup.pooled
    if not own or len(eagers) < MIN_EAGERS:
        return None
    ratio = stats.unpaired_ratio(eagers, [figure.compiled_seconds for figure in own], [figure.within for figure in own])
    return Measured(ratio.ratio, ratio.low, ratio.high, speedup.floor)


def _process_figures(result: RunResult) -> list[ProcessFigure]:
    return [next(iter(process.figures.values())) for process in result.as_processes()]


def first_answers(result: RunResult, imports: float) -> dict[str, dict[str, float]]:
    """Returns how many seconds each part of the time to a run's first output took, such as 'load'; {} if not known.

    The keys are those of `WayResult.first_answers`. `imports`: becomes the seconds of the part 'import'.
    """
    start, compilation = result.start_up, result.compilation
    if start is None or compilation is None:
        return {}
    costs = {"cold": compilation.cold, "warm": compilation.warm}
    answers = {}
    probe = compilation.instruction_probe.loaded_seconds or 0.0  # each process loads the programs of the probe
    for state, seconds in compilation.known_costs.items():
        cost = costs.get(state)
        run = cost.parts.get("first run", 0.0) if cost is not None else 0.0
        answers[state] = _parts(imports, start.load_seconds, probe + seconds - run, run)
    # If inductor cannot cache a way's code, the next process compiles again.
    if "warm" not in answers and answers and result.spec.compiler == "jit" and not result.spec.cached:
        answers["warm"] = next(iter(answers.values()))
    return {state: answers[state] for state in ("cold", "warm") if state in answers}


def _parts(imports: float, load: float, compiles: float, run: float) -> dict[str, float]:
    return {"import": imports, "load": load, "compile": compiles, "first run": run}


def rank_rows(rows: Sequence[WayResult]) -> BestTable:
    questions = sum(row.measured is not None and row.way.name != EAGER_WAY for row in rows)
    judged = [replace(row, speedup=row.measured.judge(questions)) if row.measured is not None else row for row in rows]
    known = {row.way.name: row.measured for row in judged if not row.out and row.measured is not None}
    if len(known) < 2 or EAGER_WAY not in known:  # eager alone is no answer
        return BestTable(tuple(judged), None)

    def better(way: str, rival: str) -> bool:
        return known[way].over(known[rival]).judge(questions).verdict == "faster"

    beaten = {name: {other for other in known if better(other, name)} for name in known}
    behind_eager = {name for name in known if name != EAGER_WAY and not better(name, EAGER_WAY)}
    before_these = {EAGER_WAY} | beaten[EAGER_WAY]
    ranks = {name: 1 + len(beaten[name] | (before_these if name in behind_eager else set())) for name in known}
    ranked = [
        replace(row, rank=ranks[name], may_win=not beaten[name]) if (name := row.way.name) in known else row
        for row in judged
    ]
    first = [row for row in ranked if row.rank == 1]
    winner = min(_nearly_surest(first), key=lambda row: list(WAYS).index(row.way.name))

    def order(row: WayResult) -> tuple[float, bool, float]:
        return row.rank or math.inf, row is not winner, -_sure(row) if row.rank else 0.0

    return BestTable(tuple(sorted(ranked, key=order)), winner, tuple(row for row in first if row is not winner))


def _sure(row: WayResult) -> float:
    """Returns the lower end of the interval of the way's speed-up; 0 if it has none."""
    return row.speedup.low if row.speedup is not None else 0.0


def _nearly_surest(first: Sequence[WayResult]) -> list[WayResult]:
    """Returns the ways in `first`, the rows of rank 1, whose speed-up is surely about as high as the best one.

    The lower ends of the speed-ups' intervals are compared. Each returned way has at least the highest of them, divided
    by `CLOSE_RATIO`.
    """
    highest = max(map(_sure, first))
    return [row for row in first if _sure(row) >= highest / CLOSE_RATIO]
