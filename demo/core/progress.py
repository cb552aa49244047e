"""The state of a run while it goes on."""

from dataclasses import dataclass

from demo.core.result import RunResult
from demo.core.stats import Interval

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
"""The phases of a run in their order, each with its word for sentences such as 'Cancelled while compiling.'"""
PHASES = tuple(PHASE_DOING)


@dataclass(frozen=True)
class Progress:
    """The state of a run at one moment. `speedup`, if any, is `eager_seconds` over `compiled_seconds`."""

    phase: str
    """One of `PHASES`."""
    fraction: float
    """Estimated share of the whole run that is over, 0 to 1."""
    elapsed_seconds: float
    remaining_seconds: float | None = None
    code: str = ""
    """The step of the worker within its phase: 'explain'; '' if the phase has no steps."""
    eager_seconds: float | None = None
    compiled_seconds: float | None = None
    racing_seconds: float | None = None
    """Seconds since the compile began; None before. The page then races eager against the compile."""
    first_seconds: float | None = None
    """Seconds that compiling and the warm-up behind it took; None until both are over."""
    compile_steps: tuple[tuple[str, float], ...] = ()
    """The parts of the compile so far, named as in `CompileCost.parts`, each with the `racing_seconds` at its
    begin."""
    graphs: int = 0
    breaks: int = 0
    """Number of graph breaks, as `graphs` is that of compiled graphs, when the last part of the compile began."""
    speedup: Interval | None = None
    repeat: int = 1
    repeats: int = 1
    """Number of processes that the run was asked for. `repeat` is the current one, from 1."""
    answer: RunResult | None = None
    """The result, complete but for the warm first call, while that call is still measured; None before."""
