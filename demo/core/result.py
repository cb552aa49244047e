"""The result of a run, its progress, and all figures derived from the stored times.

Frozen dataclasses of plain values, in seconds and bytes; milliseconds only in the derived part of the JSON. Raw times
are stored, everything that can be computed from them is a property: a better statistic needs no new run.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from demo.core import stats
from demo.core.caveat import Caveat
from demo.core.codec import load, plain
from demo.core.format import milliseconds
from demo.core.machine import Environment, HostSample
from demo.core.measurement import Compilation, Generation, Measurement, Prefill, Roofline, StartUp
from demo.core.outputs import EndToEnd, ImageInfo, Parity, Predictions
from demo.core.spec import TEXT_GENERATION, RunSpec

SCHEMA_VERSION = 3
Status = Literal["ok", "out_of_memory", "compile_failed", "timed_out", "crashed", "cancelled", "interrupted", "failed"]
"""'interrupted': the program ended before the run did."""
STATUSES: tuple[Status, ...] = get_args(Status)
PHASE_DOING = {
    "start": "starting",
    "load": "loading the model",
    "prepare": "preparing the inputs",
    "warm up": "warming up",
    "compile": "compiling",
    "time": "timing",
    "check": "checking the outputs",
    "done": "finishing",
}
"""What a sentence says of a phase, 'Cancelled while compiling.', in the order of the phases."""
PHASES = tuple(PHASE_DOING)


@dataclass(frozen=True)
class Failure:
    stage: str
    """One of `PHASES`."""
    message: str
    remedy: str
    change: dict[str, Any] = field(default_factory=dict)
    """The settings that the remedy names, by the fields of `RunSpec`: any one of them may be the way out."""


@dataclass(frozen=True)
class Progress:
    """The state of a run at one moment. Where there is a speed-up, it is `eager_seconds` over `compiled_seconds`."""

    phase: str
    """One of `PHASES`."""
    fraction: float
    """Share of the whole run that is over, 0 to 1; an estimate."""
    elapsed_seconds: float
    remaining_seconds: float | None = None
    code: str = ""
    """What the worker does beyond its phase, the end of a text's key: 'explain'; '' where the phase says it all."""
    calls: int = 0
    """Timed calls of each variant so far."""
    eager_seconds: float | None = None
    compiled_seconds: float | None = None
    speedup: stats.Interval | None = None
    timing_done: float | None = None
    """Share of the timing that is over, 0 to 1; an estimate. None before it."""
    repeat: int = 1
    repeats: int = 1
    """Which of how many processes goes on."""
    answer: "RunResult | None" = None
    """All but the later start, once only that is still measured."""


@dataclass(frozen=True)
class BreakEven:
    """When compiling has paid for itself, in calls and in the time that they take. None: never."""

    calls: int | None
    low: int | None
    high: int | None
    """From the speed-up's 95 % interval; `high` is None where the interval holds no gain at all."""
    images: int | None
    """Images, or tokens of a text model: calls times the batch size."""
    seconds: float | None
    """Seconds of work until then: the first call, which compiles, and `calls` compiled ones. Eager works as long for as
    many calls, up to the rounding to whole calls."""
    answers: int | None = None
    """Whole answers of a text model, the calls that read their prompts counted in; None of other models."""


@dataclass(frozen=True)
class RunResult:
    """A finished run. Of one that failed, `failure` says in which phase and what to do."""

    id: str
    started_at: str
    """UTC, ISO 8601: '2026-11-21T09:00:00Z'."""
    status: Status
    spec: RunSpec
    failure: Failure | None = None
    environment: Environment | None = None
    eager: Measurement | None = None
    compiled: Measurement | None = None
    control_times: Measurement | None = None
    """Eager timed against eager in the same blocks: the A/A control."""
    prefill: Prefill | None = None
    """A text model's prompt, whose other figures are those of one step: one token at this batch."""
    generation: Generation | None = None
    interleaved: bool = True
    """False where the two did not fit in memory together and were timed one after the other."""
    start_up: StartUp | None = None
    compilation: Compilation | None = None
    parity: Parity | None = None
    predictions: dict[str, Predictions] | None = None
    """'eager' and 'compiled'. None with random weights on a hub checkpoint: they would mean nothing."""
    image: ImageInfo | None = None
    end_to_end: EndToEnd | None = None
    roofline: Roofline | None = None
    machine_states: tuple[HostSample, ...] = ()
    timing_seconds: float | None = None
    """Wall clock of the timing, calls and what lies between them."""
    caveats: tuple[Caveat, ...] = ()
    elapsed_seconds: float = 0.0
    """Wall clock of the whole run, loading and compiling included."""
    spread: stats.Spread | None = None
    """None before a result is completed from the history."""
    earlier: tuple[stats.ProcessResult, ...] = ()
    """The processes before this one that the answer rests on, too: all that the history had when the run ended."""
    without_breaks: stats.Speedup | None = None
    """With added graph breaks: the latest answer that the history had for these settings without them."""
    rough: bool = False
    """A caveat of the machine applies, such as other programs that kept it busy."""
    schema_version: int = SCHEMA_VERSION

    @cached_property
    def _estimate(self) -> tuple[stats.Interval, float, float] | None:
        """The speed-up, and the seconds of an eager and of a compiled call, whose quotient it is."""
        return self._compared(self.eager, self.compiled)

    def _compared(
        self, slow: Measurement | None, fast: Measurement | None, paired: bool = False
    ) -> tuple[stats.Interval, float, float] | None:
        """How many times longer `slow` takes than `fast`, by the statistics of the run's protocol.

        Behind it the seconds of one call of each, from the same calls, so that their quotient is the estimate. `paired`
        blocks were timed in turns whatever the protocol.
        """
        if slow is None or fast is None:
            return None
        slow_blocks, fast_blocks = slow.blocks, fast.blocks
        if min(len(slow_blocks), len(fast_blocks)) < 2:
            return None
        if self.spec.protocol == "as published" and not paired:
            interval = stats.mean_ratio(slow.wall_seconds, fast.wall_seconds)
            return interval, slow.mean_seconds, fast.mean_seconds
        if self.interleaved or paired:
            both = slow.beside(fast)
            return stats.paired_ratio(*both), *stats.paired_seconds(*both)
        interval = stats.unpaired_ratio(slow_blocks, fast_blocks)
        return interval, stats.trimmed_seconds(slow_blocks), stats.trimmed_seconds(fast_blocks)

    @property
    def latencies(self) -> dict[str, float]:
        """Seconds of one call, 'eager' and 'compiled', wherever one figure stands for all calls of a variant.

        Where there is a speed-up, it is their quotient: geometric means over the processes, weighted as the estimate.
        Without one, the median of those variants that were timed.
        """
        if self._estimate is not None and self.speedup is not None:
            known = [(run.eager_seconds, run.compiled_seconds) for run in self.earlier]
            return dict(zip(("eager", "compiled"), _pooled(self._estimate, known, self.speedup), strict=True))
        sides = {"eager": self.eager, "compiled": self.compiled}
        return {name: side.median_seconds for name, side in sides.items() if side is not None and side.wall_seconds}

    @property
    def threads(self) -> int | None:
        """Threads of torch in the timing; None where the run did not come so far."""
        return None if self.environment is None else self.environment.threads

    @property
    def void(self) -> bool:
        """Whether the model was recompiled while it was timed: the figures then mean nothing."""
        return self.compilation is not None and self.compilation.recompiles_while_timing > 0

    @cached_property
    def control(self) -> stats.Interval | None:
        """Eager over eager by the same protocol: the ratio that this machine shows where the true one is 1."""
        return _control(self.eager, self.control_times)

    @cached_property
    def speedup(self) -> stats.Speedup | None:
        within = self._estimate[0] if self._estimate is not None else None
        return self._judged(within, [run.within for run in self.earlier], self.pooled_control)

    @cached_property
    def pooled_control(self) -> stats.Interval | None:
        """Over the processes: noise falls out with their number, what this machine does to each of them stays."""
        controls = [one for one in (*(run.control for run in self.earlier), self.control) if one is not None]
        return stats.rerun_ratio(controls, 0.0, math.inf) if controls else None

    @cached_property
    def _prefill_estimate(self) -> tuple[stats.Interval, float, float] | None:
        return self._compared(self.prefill.eager, self.prefill.compiled, paired=True) if self.prefill else None

    @cached_property
    def prefill_speedup(self) -> stats.Speedup | None:
        """The speed-up of a text model's time to the first token."""
        if self._prefill_estimate is None or self.prefill is None:
            return None
        control = _control(self.prefill.eager, self.prefill.control_times)
        return self._judged(self._prefill_estimate[0], [run.prefill for run in self.earlier], control or self.control)

    @property
    def prefill_latencies(self) -> tuple[float, float] | None:
        """Seconds to the first token, eager and compiled, whose quotient is the estimate; None where not measured."""
        if self._prefill_estimate is None or self.prefill_speedup is None:
            return None
        return _pooled(self._prefill_estimate, [run.prefill_seconds for run in self.earlier], self.prefill_speedup)

    @property
    def answer_seconds(self) -> tuple[float, float] | None:
        """Seconds of a text model's whole answer, eager and compiled: its prompt, and a step for each further token."""
        if self.prefill_latencies is None or len(self.latencies) < 2:
            return None
        (eager, compiled), steps = self.prefill_latencies, self.spec.tokens - 1
        return eager + steps * self.latencies["eager"], compiled + steps * self.latencies["compiled"]

    @property
    def oversubscribed(self) -> bool:
        """Whether torch's threads had fewer free cores than threads while they were timed: no interval shows that."""
        return self.environment is not None and self.environment.oversubscribed(self.machine_states)

    def _judged(
        self,
        within: stats.Interval | None,
        earlier: Sequence[stats.Interval | None],
        control: stats.Interval | None,
    ) -> stats.Speedup | None:
        """For a rerun, with its verdict: from this process's own interval and those of the processes before it."""
        why: stats.OpenBecause = "recompiled" if self.void else "machine" if self.oversubscribed else ""
        return None if within is None else stats.judged(within, [*filter(None, earlier)], self.spread, control, why)

    def as_processes(self) -> tuple[stats.ProcessResult, ...]:
        """The processes that the answer rests on, this run's own last; empty where this one has no answer."""
        if self._estimate is None or self.void or self.oversubscribed or self.status != "ok":
            return ()
        if self.parity is not None and self.parity.verdict == "differ":
            return ()
        within, eager, compiled = self._estimate
        first = self._prefill_estimate
        prefill, seconds = (first[0], first[1:]) if first is not None else (None, None)
        own = stats.ProcessResult(self.id, eager, compiled, within, self.threads, prefill, seconds, self.control)
        return (*self.earlier, own)

    def break_even(self, compile_seconds: float) -> BreakEven | None:
        """When a first call of so many seconds has paid for itself; None where there is no speed-up."""
        interval = self.speedup
        if interval is None:
            return None
        eager, compiled = self.latencies.values()

        def calls(ratio: float) -> int | None:
            return stats.break_even_calls(compile_seconds, eager, eager / ratio)

        needed, answers = calls(interval.ratio), None
        if self.answer_seconds is not None:
            answers = stats.break_even_calls(compile_seconds, *self.answer_seconds)
            needed = needed if answers is not None else None  # what a faster step gains, a slower prompt may lose
        return BreakEven(
            calls=needed,
            low=calls(interval.high),
            high=calls(interval.low),
            images=None if needed is None else needed * self.spec.batch_size,
            seconds=None if needed is None else compile_seconds + needed * compiled,
            answers=answers,
        )

    @cached_property
    def own_break_even(self) -> BreakEven | None:
        """When this run's own first compiled call has paid; None where compiled is not known to be faster."""
        if self.compilation is None or self.speedup is None or self.speedup.verdict != "faster":
            return None
        return self.break_even(self.compilation.first_call_seconds)

    def roofline_share(self, measured: Measurement) -> float | None:
        """The least time that a call could take here over the one it takes, by the wall clock."""
        return None if self.roofline is None else self.roofline.least_seconds / measured.median_seconds

    @property
    def request_seconds(self) -> tuple[float, float] | None:
        """Seconds of a whole request, eager and compiled: pictures, or prompts with their answers, from end to end."""
        parts, batch = self.end_to_end, self.spec.batch_size
        calls = self.answer_seconds if self.spec.task == TEXT_GENERATION else tuple(self.latencies.values())
        if parts is None or calls is None or len(calls) < 2:
            return None
        around = parts.copy_seconds + batch * (parts.preprocess_seconds + parts.postprocess_seconds)
        return around + calls[0], around + calls[1]

    @property
    def warnings(self) -> list[str]:
        """The texts of the caveats, each once."""
        return list(dict.fromkeys(map(str, self.caveats)))

    def to_json(self) -> dict[str, Any]:
        """The documented JSON: every stored field, and the figures derived from them.

        `break_even_calls` and `break_even_seconds` are null unless compiled is faster, `end_to_end_speedup` where the
        verdict is 'unsure'.
        """
        data = plain(self)
        rate = f"{self.spec.unit}s_per_second"
        for variant in ("eager", "compiled"):
            seconds = self.latencies.get(variant)
            data[f"{variant}_ms"] = milliseconds(seconds) if seconds is not None else None
            measured: Measurement | None = getattr(self, variant)
            if measured is not None:
                data[variant] |= {
                    "median_ms": milliseconds(measured.median_seconds),
                    "mean_ms": milliseconds(measured.mean_seconds),
                    "p95_ms": milliseconds(measured.p95_seconds),
                    rate: self.spec.batch_size / self.latencies[variant],
                    "launch_ms": None if measured.launch_seconds is None else milliseconds(measured.launch_seconds),
                }
                if measured.profile is not None:
                    data[variant] |= {
                        "busy_share": measured.busy_share,
                        "roofline_share": self.roofline_share(measured),
                    }
                if run := measured.back_to_back:
                    data[variant] |= {f"{rate}_back_to_back": run.calls * self.spec.batch_size / run.seconds}
        data["speedup"] = plain(self.speedup)
        pool = self.as_processes()
        data["repeats"] = [run.id for run in pool]
        data["process"] = plain(pool[-1]) if pool else None
        data["control"] = plain(self.control)
        paid = self.own_break_even
        data |= {"break_even_calls": paid and paid.calls, "break_even_seconds": paid and paid.seconds}
        data["break_even"] = {
            cache: plain(self.break_even(cost.first_call_seconds))
            for cache in ("cold", "warm")
            if self.compilation is not None and (cost := getattr(self.compilation, cache)) is not None
        }
        requests = self.request_seconds if self.speedup is not None and self.speedup.verdict != "unsure" else None
        data["end_to_end_speedup"] = requests[0] / requests[1] if requests else None
        data["caveats"] = [plain(one) | {"text": str(one)} for one in self.caveats]
        data["warnings"] = self.warnings
        if self.spec.task == TEXT_GENERATION:
            data |= self._text_figures(data)
        return data

    def _text_figures(self, data: dict[str, Any]) -> dict[str, Any]:
        """The parts of the JSON that only a text model's run has; `data` are the others."""
        names = ("eager", "compiled")
        decode = {name: {"ms": data[f"{name}_ms"]} for name in names} | {"speedup": data["speedup"]}
        prefill = data["prefill"]
        if prefill is not None:
            latencies = self.prefill_latencies or (None, None)
            for name, seconds in zip(names, latencies, strict=True):
                prefill[name] |= {"ms": None if seconds is None else milliseconds(seconds)}
            prefill |= {"speedup": plain(self.prefill_speedup)}
        answer, paid = self.answer_seconds, self.own_break_even
        both = answer and dict(zip(names, map(milliseconds, answer), strict=True))
        return {"decode": decode, "prefill": prefill, "answer_ms": both, "break_even_answers": paid and paid.answers}

    def dumps(self) -> str:
        """One line of strict JSON. NaN and infinity raise ValueError: they are programming mistakes."""
        return json.dumps(self.to_json(), allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "RunResult":
        """Reads what `to_json` wrote. Raises ValueError for another version, and for a missing or wrong key."""
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version != SCHEMA_VERSION:
            raise ValueError(f"a result has schema_version {SCHEMA_VERSION}, this has {version}")
        return load(cls, data)


def _pooled(
    own: tuple[stats.Interval, float, float], earlier: Sequence[tuple[float, float] | None], speedup: stats.Speedup
) -> tuple[float, float]:
    """Seconds of eager and of compiled over all processes, weighted as the speed-up; `own` is this run's estimate."""
    eager, compiled = zip(*filter(None, [*earlier, own[1:]]), strict=True)
    return stats.geometric_mean(eager, speedup.weights), stats.geometric_mean(compiled, speedup.weights)


def _control(eager: Measurement | None, again: Measurement | None) -> stats.Interval | None:
    if eager is None or again is None:
        return None
    return stats.control_ratio(eager.wall_seconds, again.wall_seconds, eager.calls_per_block, again.blocks_apart)
