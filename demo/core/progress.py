"""The state of a run while it goes on."""

from dataclasses import dataclass

from .result import RunResult
from .stats import Interval

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
"""The phases of a run in order, each with its word for sentences such as 'Cancelled while compiling.'"""
PHASES = tuple(PHASE_DOING)


@dataclass(frozen=True)
class Progress:
    """The state of a run at one moment, for display while it goes on. Times are in seconds."""

    phase: str
    fraction: float
    """Estimated share of the run that is over, 0 to 1."""
    elapsed_seconds: float
    remaining_seconds: float | None = None
    code: str = ""
    """The step within the phase, such as 'float64' within 'check'; '' if the phase has no steps."""
    eager_seconds: float | None = None
    compiled_seconds: float | None = None
    racing_seconds: float | None = None
    """Seconds since compiling began; None before."""
    eager_line: tuple[tuple[float, float, float], ...] = ()
    compiled_line: tuple[tuple[float, float, float], ...] = ()
    """`eager_line` and `compiled_line`: the two lines of the chart of finished calls over time, in straight parts.

    A part is (seconds since compiling began, calls finished until then, seconds of each further call). A new estimate
    of a call's time begins a new part, so that the number of calls never falls."""
    first_seconds: float | None = None
    """Seconds of compiling together with the warm-up that follows; None until both are over."""
    compile_steps: tuple[tuple[str, float], ...] = ()
    """(name, start) of each compile step, such as 'inductor', that has begun; start: seconds since compiling began."""
    graphs: int = 0
    breaks: int = 0
    """`graphs` and `breaks`: number of compiled graphs and of graph breaks when the latest compile step began."""
    speedup: Interval | None = None
    """Time of an eager call divided by that of a compiled call, from the calls so far; None while they are too few."""
    exceeded_seconds: float | None = None
    """The estimate, in seconds, that the compile or the whole run has exceeded; None if neither has."""
    repeat: int = 1
    repeats: int = 1
    """Number of fresh processes that the run asked for; `repeat` is the number of the current one, from 1."""


@dataclass(frozen=True, kw_only=True)
class Provisional(Progress):
    """The state of a run whose speed-up is known. Only a first call with a filled compile cache is left to time."""

    result: RunResult
    """The result so far. It stays the run's result if timing the first call fails, or if the run is cancelled."""
