"""The state of a run while it goes on."""

from dataclasses import dataclass

from demo.core.result import RunResult
from demo.core.stats import Interval


@dataclass(frozen=True)
class Progress:
    """The state of a run at one moment. Where there is a speed-up, it is `eager_seconds` over `compiled_seconds`."""

    phase: str
    """One of `record.PHASES`."""
    fraction: float
    """Share of the whole run that is over, 0 to 1; an estimate."""
    elapsed_seconds: float
    remaining_seconds: float | None = None
    code: str = ""
    """What the worker does beyond its phase, the end of a text's key: 'explain'; '' where the phase says it all."""
    eager_seconds: float | None = None
    compiled_seconds: float | None = None
    racing_seconds: float | None = None
    """Since the compile began, which is when eager's first times are known; None before."""
    first_seconds: float | None = None
    """What compiling and its warm-up took, once that is over."""
    compile_steps: tuple[tuple[str, float], ...] = ()
    """The parts of the compile so far, as in `CompileCost.parts`, and at which of the `racing_seconds` each began."""
    graphs: int = 0
    breaks: int = 0
    """Graphs that were captured, and graph breaks, when the last part began."""
    speedup: Interval | None = None
    repeat: int = 1
    repeats: int = 1
    """Which of how many processes goes on."""
    answer: RunResult | None = None
    """All but the later start, once only that is still measured."""
