"""How a run ended, and its phases."""

from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["ok", "out_of_memory", "compile_failed", "timed_out", "crashed", "cancelled", "interrupted", "failed"]
"""'interrupted': the program ended before the run did."""
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
