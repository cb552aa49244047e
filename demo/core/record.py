"""What is stored of a run, and its progress: frozen dataclasses of plain values, in seconds and bytes.

Raw times are stored. What follows from them is a property of `demo.core.result.RunResult`: a better statistic needs no
new run.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from demo.core.caveat import Caveat
from demo.core.comparison import Comparison, ProcessResult, Spread
from demo.core.machine import Environment, HostSample
from demo.core.measurement import Compilation, Measurement, Pair, Roofline, StartUp
from demo.core.outputs import EndToEnd, ImageInfo, Parity, Predictions
from demo.core.spec import RunSpec

SCHEMA_VERSION = 3
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


@dataclass(frozen=True)
class RunRecord:
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
    further: dict[str, Pair] = field(default_factory=dict)
    """What else was timed of both, by the name of its comparison: 'first_token', the call that reads a prompt."""
    prompt_tokens: int | None = None
    """Of a text model."""
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
    spread: Spread | None = None
    """None before a result is completed from the history."""
    earlier: tuple[ProcessResult, ...] = ()
    """The processes before this one that the answer rests on, too: all that the history had when the run ended."""
    without_breaks: Comparison | None = None
    """With added graph breaks: the latest answer that the history had for these settings without them."""
    schema_version: int = SCHEMA_VERSION
