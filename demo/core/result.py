"""The stored result of a run, and the values that follow from its times: speed-ups, latencies, the break-even.

A run's own times are stored raw, in seconds. Its statistics are computed from these times, so a better statistic
needs no new run. Of earlier processes, whose speed-ups are pooled with its own, the result has only the figures.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from . import stats
from .caveat import NOTHING_DONE, Caveat, note
from .comparison import (
    WITHIN,
    BreakEven,
    ProcessFigure,
    ProcessResult,
    Speedup,
    Spread,
    WayCost,
    WholeWork,
    assumed_spread,
    compare_variants,
    first_call_duration,
    way_costs,
    whole_work,
)
from .machine import Environment, HostSample
from .measurement import Compilation, Measurement, Pair, Roofline, StartUp
from .options import OptionValues, RunSpec
from .outputs import EndToEnd, ImageInfo, Parity, Predictions
from .stats import Duration, Interval

SCHEMA_VERSION = 3
FIRST_TOKEN = "first_token"
HOST_TAKEN = 0.05
"""A GPU run whose eager calls wait for the host has a caveat if other programs kept the main thread from running for
more than this share of the timing. This thread launches eager's kernels one by one: if it is kept from running for
5 % of the time, eager is about 5 % slower."""
Status = Literal["ok", "out_of_memory", "compile_failed", "timed_out", "crashed", "cancelled", "interrupted", "failed"]
"""How a run ended. 'interrupted' means that the program ended before the run did."""


@dataclass(frozen=True)
class Failure:
    """Why a run failed, and what to do."""

    stage: str
    """Phase in which the run failed: one of `progress.PHASES`."""
    message: str
    remedy: str
    change: OptionValues = field(default_factory=dict)
    """Fields of `RunSpec` that the remedy names, with new values. Changing one of the fields may be enough."""


@dataclass(frozen=True)
class RunResult:
    """The result of a run that has ended, successfully or not. None in a field: not measured or not known."""

    id: str
    started_at: str
    """When the run started, in UTC: '2026-11-21T09:00:00Z'."""
    status: Status
    spec: RunSpec
    failure: Failure | None = None
    environment: Environment | None = None
    eager: Measurement | None = None
    compiled: Measurement | None = None
    control_times: Measurement | None = None
    """A second series of eager calls, timed between those of `eager`, to see how far equal calls differ."""
    further: dict[str, Pair] = field(default_factory=dict)
    """Times of other kinds of calls. For a text model: of calls that read the prompt, under the key 'first_token'."""
    prompt_tokens: int | None = None
    start_up: StartUp | None = None
    compilation: Compilation | None = None
    parity: Parity | None = None
    predictions: dict[str, Predictions] | None = None
    """Predictions of 'eager' and 'compiled', or of eager alone if the run then failed.

    None for random weights, because they would mean nothing, and for a user's own model."""
    image: ImageInfo | None = None
    end_to_end: EndToEnd | None = None
    roofline: Roofline | None = None
    machine_states: tuple[HostSample, ...] = ()
    interleaved: bool = True
    """Whether eager and compiled were timed in turns; False if they did not fit in memory together."""
    timing_seconds: float | None = None
    """Wall time from the first timed call to the last, without pauses of the process."""
    caveats: tuple[Caveat, ...] = ()
    elapsed_seconds: float = 0.0
    """Wall time of this process of the run, including loading and compiling."""
    spread: Spread | None = None
    """How far speed-ups vary between processes on this machine. None until `demo.store.reruns` adds the spread."""
    earlier: tuple[ProcessResult, ...] = ()
    """Earlier processes with the same settings, none of them disturbed. The speed-up is pooled over these and this
    run's own process. If the own process is `set_aside`, the earlier processes may have another number of threads."""
    first_calls: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Seconds of first calls in earlier runs with the same settings, by state of the compile cache: 'cold', 'warm'.

    The first calls in `compilation` are left out."""
    without_breaks: Speedup | None = None
    """For a run with added graph breaks: the latest stored speed-up of the same settings without these breaks."""
    schema_version: int = SCHEMA_VERSION

    @cached_property
    def own_figures(self) -> dict[str, ProcessFigure]:
        """Times and speed-ups that this run's own process measured, under 'call', or 'token' and 'first_token'.

        {} if nothing was compiled, if too few calls were timed, or if the timed calls computed nothing.
        """
        if any(caveat.key in NOTHING_DONE for caveat in self.caveats):
            return {}
        figures: dict[str, ProcessFigure | None] = {}
        if self.eager is not None and self.compiled is not None:
            calls = Pair(self.eager, self.compiled, self.control_times)
            if min(self.eager.blocks, self.compiled.blocks) >= 2:
                figures[self.main] = _from_blocks(calls) if self.in_turns else _from_means(calls)
        figures |= {name: _from_blocks(pair) for name, pair in self.further.items()}
        return {name: figure for name, figure in figures.items() if figure is not None}

    @cached_property
    def comparisons(self) -> dict[str, Speedup]:
        """Speed-ups pooled over this run's own process and the `earlier` ones, one for each quantity that was timed.

        The key is 'call'; a text model has 'token', for a decoding step, and 'first_token', for reading the prompt.
        {} if this run's own process measured no speed-up.
        """
        return {
            name: compare_variants(
                own,
                [run.figures[name] for run in self.earlier if name in run.figures],
                self.spread or (self.assumed_spread if self.earlier else WITHIN),
                taken=self.oversubscribed,
                recompiled=self.void,
            )
            for name, own in self.own_figures.items()
        }

    @property
    def assumed_spread(self) -> Spread:
        """How far the speed-up is assumed to vary between processes until runs have been repeated on this machine."""
        return assumed_spread(self.spec.device, self.host_bound)

    @property
    def is_spread_assumed(self) -> bool:
        """Whether the interval rests more on a spread between processes that was assumed than on the measured one."""
        spread = self.spread or self.assumed_spread
        return spread.basis != "this machine" and (spread.freedom is None or len(self.earlier) < spread.freedom)

    @property
    def host_bound(self) -> bool | None:
        """Whether the GPU waits in an eager call for the host to launch kernels; None on a CPU, or if not known."""
        return None if self.eager is None else self.eager.host_bound

    @property
    def host_taken(self) -> float | None:
        """Share of the timing, 0 to 1, in which other programs kept the thread that launches kernels from running.

        None on a CPU, or if not known.
        """
        taken = [state.host_taken for state in self.machine_states if state.host_taken is not None]
        return sum(taken) / len(taken) if taken else None

    @property
    def host_disturbed(self) -> bool:
        """Whether eager's time depends on the host's CPU (`host_bound`), and other programs disturbed that CPU.

        Disturbed: for more than 5 % of the timing they kept the thread that launches kernels from running.
        """
        return bool(self.host_bound) and (self.host_taken or 0.0) > HOST_TAKEN

    @property
    def in_turns(self) -> bool:
        return self.interleaved and self.spec.protocol == "interleaved"

    @property
    def main(self) -> str:
        """The key of the main speed-up in `comparisons`: 'token' for a text model, else 'call'."""
        return "token" if self.spec.unit == "token" else "call"

    @property
    def speedup(self) -> Speedup | None:
        return self.comparisons.get(self.main)

    @property
    def latencies(self) -> dict[str, float]:
        """Seconds of one call: {'eager': 0.03, 'compiled': 0.02}.

        If the run has a speed-up, the times are means over the same processes as the speed-up. Else they are medians of
        this run's calls, and 'eager' or 'compiled' is missing if it was not timed.
        """
        if self.speedup is not None:
            return dict(zip(("eager", "compiled"), self.speedup.latencies, strict=True))
        sides = {"eager": self.eager, "compiled": self.compiled}
        return {name: side.median_seconds for name, side in sides.items() if side is not None and side.wall_seconds}

    @property
    def answer_seconds(self) -> tuple[float, float] | None:
        """Seconds in which a text model generates the whole text, (eager, compiled); None if not measured."""
        first, step = self.comparisons.get(FIRST_TOKEN), self.speedup
        if first is None or step is None:
            return None
        steps = self.spec.tokens - 1
        return first.eager_seconds + steps * step.eager_seconds, first.compiled_seconds + steps * step.compiled_seconds

    @property
    def threads(self) -> int | None:
        """Threads that torch used during the timing; None if the run ended before its settings were known."""
        return None if self.environment is None else self.environment.threads

    @property
    def void(self) -> bool:
        """Whether the model was compiled again during the timing, so that its times mean nothing."""
        return self.compilation is not None and self.compilation.recompiles_while_timing > 0

    @property
    def outputs_differ(self) -> bool:
        """Whether compiled's outputs are known to be wrong. False if the outputs could not be compared."""
        return self.parity is not None and self.parity.verdict == "differ"

    @property
    def outputs_unknown(self) -> bool:
        """Whether it is not known if compiled's outputs are right: no comparison, or an undecided one."""
        return self.parity is None or self.parity.unknown

    @property
    def oversubscribed(self) -> bool:
        """Whether torch used more threads during the timing than there were free cores."""
        return self.environment is not None and self.environment.oversubscribed(self.machine_states)

    @property
    def others_share(self) -> float | None:
        """Share of the cores, 0 to 1, that other programs used during the timing; None if not known."""
        shares = [state.foreign_cpu for state in self.machine_states if state.foreign_cpu is not None]
        return sum(shares) / len(shares) if shares else None

    @property
    def set_aside(self) -> bool:
        """Whether the pooled speed-up leaves out this run's own process.

        That is so if torch used more threads than there were free cores, and `earlier` is not empty.
        """
        return self.oversubscribed and bool(self.earlier)

    @property
    def own_process(self) -> ProcessResult | None:
        """The figures of this run's own process, which later runs with the same settings pool with their own.

        None if they must not be pooled: the run failed, the process was disturbed, the model was recompiled while it
        was timed, or the outputs differ.
        """
        if self.speedup is None or self.void or self.oversubscribed or self.outputs_differ or self.status != "ok":
            return None
        return ProcessResult(self.id, self.own_figures, self.threads)

    def as_processes(self) -> tuple[ProcessResult, ...]:
        """Returns the processes that later runs may pool with their own: those in `earlier`, then this run's own.

        If the speed-up leaves out this run's own process (`set_aside`), only `earlier` is returned. () if no process
        may be pooled.
        """
        if self.own_process is not None:
            return (*self.earlier, self.own_process)
        return self.earlier if self.set_aside and self.speedup is not None and not self.void else ()

    @cached_property
    def starts(self) -> dict[str, Duration]:
        """Seconds of a process's first compiled call, by the state of the compile cache when the process starts.

        - 'cold': empty. 'partly': with some of the model's code. 'warm': with all of it. A state whose time is not
          known is missing.
        - 'cold' and 'warm' are pooled over runs with the same settings. 'partly' is of this run alone, with an interval
          as wide as that of one 'cold' call.
        """
        known = self.compilation.known_costs if self.compilation is not None else {}
        runs = {state: (*self.first_calls.get(state, ()), seconds) for state, seconds in known.items()}
        if self.set_aside:
            runs = {state: self.first_calls.get(state, seconds) for state, seconds in runs.items()}
        return {state: first_call_duration(state, seconds) for state, seconds in runs.items()}

    @property
    def tokens_a_call(self) -> int:
        """How many tokens a decoding step of a text model gives: one for each text of a batch. 1 for other models."""
        return self.spec.batch_size if self.spec.unit == "token" else 1

    def costs(self, state: str) -> tuple[WayCost, WayCost] | None:
        """Returns, for eager and for compiled, the time of a process's first call, and of each later call or token.

        - `state`: the state of the compile cache when the process starts: 'cold', 'partly' or 'warm'.
        - If the verdict is 'same', each later compiled call is given the time of an eager call.
        - Returns None without a speed-up, if the outputs differ, or if the first call's time is not known for `state`.
        """
        speedup, first = self.speedup, self.starts.get(state)
        if speedup is None or first is None or self.outputs_differ:
            return None
        return way_costs(speedup.eager_seconds / self.tokens_a_call, speedup, first)

    def whole_work(self, calls: int) -> dict[str, WholeWork]:
        """Returns how long eager and compiled take for a whole process, by the state of the compile cache at its start.

        - `calls`: how many calls the process makes; for a text model, how many tokens it generates.
        - The keys are 'cold', 'partly' and 'warm', as far as the time of the first call is known.
        - Returns {} without a speed-up, if the outputs differ, if the model was recompiled while it was timed, or if
          compiled reads the prompt so slowly that generating a whole text takes as long as in eager, or longer.
        """
        if self.void or self._prompt_outweighs:
            return {}
        costs = {state: self.costs(state) for state in self.starts}
        return {state: whole_work(calls, *both) for state, both in costs.items() if both is not None}

    @property
    def _prompt_outweighs(self) -> bool:
        """Whether compiled is faster at each decoding step, but takes at least as long as eager for the whole text.

        The reason is then the first token, because compiled reads the prompt more slowly.
        """
        whole, steps = self.answer_seconds, self.speedup
        return whole is not None and steps is not None and steps.ratio > 1 and whole[0] <= whole[1]

    def break_even(self, state: str) -> BreakEven | None:
        """Returns the number of calls after which compiled has made up for its first call, which compiles.

        - `state`: the state of the compile cache when the process starts: 'cold', 'partly' or 'warm'.
        - Returns None without a speed-up, if the outputs differ, or if the first call's time is not known for `state`.
        """
        costs = self.costs(state)
        if costs is None:
            return None
        eager, compiled = costs
        tokens, first = self.tokens_a_call, compiled.first
        saved = stats.difference(eager.call, compiled.call)
        saved = Duration(saved.seconds * tokens, saved.low * tokens, saved.high * tokens)
        needed, low, high = stats.calls_to_pay(first, saved)
        if self._prompt_outweighs:
            needed = None
        answers = None
        if self.answer_seconds is not None:
            answers = stats.break_even_calls(first.seconds, *self.answer_seconds)
        return BreakEven(
            calls=needed,
            low=low,
            high=high,
            images=None if needed is None else needed * self.spec.batch_size,
            seconds=None if needed is None else compiled.first.seconds + needed * tokens * compiled.call.seconds,
            answers=answers,
        )

    def roofline_share(self, measured: Measurement) -> float | None:
        """Returns the roofline's least time of a call, divided by the median time of the calls in `measured`.

        0.6 means that a call reaches 60 % of the possible speed. None without a roofline.
        """
        return None if self.roofline is None else self.roofline.least_seconds / measured.median_seconds

    @property
    def request_seconds(self) -> tuple[float, float] | None:
        """Seconds of a request, from decoding pictures to predictions: (eager, compiled); None if not measured."""
        parts, batch, calls = self.end_to_end, self.spec.batch_size, tuple(self.latencies.values())
        if parts is None or len(calls) < 2:
            return None
        around = parts.copy_seconds + batch * (parts.preprocess_seconds + parts.postprocess_seconds)
        return around + calls[0], around + calls[1]

    def with_note(self, sentence: str) -> "RunResult":
        """Returns the result with `sentence` as a further caveat. Folders of this machine are removed from it."""
        return replace(self, caveats=(*self.caveats, note(sentence).redact()))

    @property
    def warnings(self) -> list[str]:
        return list(dict.fromkeys(map(str, self.caveats)))


def _from_means(pair: Pair) -> ProcessFigure:
    eager, compiled = pair.eager, pair.compiled
    ratio = stats.mean_ratio(eager.wall_seconds, compiled.wall_seconds)
    return ProcessFigure(eager.mean_seconds, compiled.mean_seconds, ratio, _control(pair))


def _from_blocks(pair: Pair) -> ProcessFigure | None:
    sides = stats.side_by_side(pair.eager.wall_seconds, pair.compiled.wall_seconds, pair.eager.calls_per_block)
    if len(sides[0]) < 2:
        return None
    return ProcessFigure(*stats.paired_seconds(*sides), stats.paired_ratio(*sides), _control(pair))


def _control(pair: Pair) -> Interval | None:
    eager, again = pair.eager, pair.control_times
    if again is None:
        return None
    return stats.control_ratio(eager.wall_seconds, again.wall_seconds, eager.calls_per_block, again.blocks_apart)
