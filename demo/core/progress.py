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
"""The phases in their order, each as a sentence names it: 'Cancelled while compiling.'"""
PHASES = tuple(PHASE_DOING)


@dataclass(frozen=True)
class Progress:
    """The state of a run at one moment. `speedup`, if any, is `eager_seconds` over `compiled_seconds`."""

    phase: str
    """One of `PHASES`."""
    fraction: float
    """Share of the whole run that is over, 0 to 1; an estimate."""
    elapsed_seconds: float
    remaining_seconds: float | None = None
    code: str = ""
    """What the worker does within its phase, such as 'explain'; '' if the phase says it all."""
    eager_seconds: float | None = None
    compiled_seconds: float | None = None
    racing_seconds: float | None = None
    """Since the compile began, when eager's first times are known; None before."""
    first_seconds: float | None = None
    """What compiling and its warm-up took, once that is over."""
    compile_steps: tuple[tuple[str, float], ...] = ()
    """The parts of the compile so far, as in `CompileCost.parts`, and at which of the `racing_seconds` each began."""
    graphs: int = 0
    breaks: int = 0
    """Captured graphs and graph breaks when the last part began."""
    speedup: Interval | None = None
    repeat: int = 1
    repeats: int = 1
    """Number of the current process, and of all processes."""
    answer: RunResult | None = None
    """The result without the warm start, while only that is still measured."""
