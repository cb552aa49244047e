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
    """The step within the phase, such as 'explain'; '' if the phase has no steps."""
    eager_seconds: float | None = None
    compiled_seconds: float | None = None
    racing_seconds: float | None = None
    """Seconds since compiling began; None before."""
    eager_line: tuple[tuple[float, float, float], ...] = ()
    compiled_line: tuple[tuple[float, float, float], ...] = ()
    """Calls that each would have answered, in straight parts: seconds since compiling began, calls by then, and seconds
    of each further call. A later estimate of a call begins another part, so that the number of calls never falls."""
    first_seconds: float | None = None
    """Seconds of compiling together with the warm-up that follows; None until both are over."""
    compile_steps: tuple[tuple[str, float], ...] = ()
    """Parts of the compile that have begun: a name of `CompileCost.parts`, and seconds from the compile's start."""
    graphs: int = 0
    breaks: int = 0
    """Number of graph breaks when the latest part of the compile began. `graphs`: compiled graphs at that time."""
    speedup: Interval | None = None
    """Eager over compiled in the calls timed so far; None while there are too few."""
    exceeded_seconds: float | None = None
    """The estimate of the compile, or of the whole run, that has been exceeded; None if none has."""
    repeat: int = 1
    repeats: int = 1
    """Number of fresh processes that the run asked for; `repeat` is the number of the current one, from 1."""


@dataclass(frozen=True, kw_only=True)
class Provisional(Progress):
    """The state of a run whose speed-up is known. Only a first call with a filled compile cache is left to time."""

    result: RunResult
    """The result without that call. It is the run's result if that call fails, or if the run is cancelled."""
