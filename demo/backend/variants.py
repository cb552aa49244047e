"""What the phases 'warm up' and 'compile' hand to the later ones: the calls to time, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from demo.backend import timing
from demo.backend.memory_and_throughput import Peak
from demo.core.measurement import Compilation


@dataclass(frozen=True)
class Variant:
    """One way to call the model, and the seconds of the calls before its timing, the first call first."""

    call: timing.Call
    warmup: list[float]
    model: Any
    """What `call` calls."""


@dataclass(frozen=True)
class Eager(Variant):
    outputs: Any
    """Outputs of one call, cloned."""
    untouched: Any
    """A twin of the model from before its first call; None where it cannot be copied."""
    first_call_changed_model: bool
    peak: Peak | None = None
    """Of memory on a GPU, from before the compile; None on a CPU, where it is measured after the timing."""


@dataclass(frozen=True)
class Variants:
    """What is timed, after its warm-up."""

    eager: Eager
    compiled: Variant
    eager_warmup_again: list[float]
    """After compiling, which has filled the caches with other things and warmed the machine."""
    fit_together: bool
    """Whether eager and compiled fit in memory together, as far as the warm-up tells."""
    compilation: Compilation | None = None
    """What was compiled, where it had to be read before it was compiled again for fewer threads."""
    with_break: Variant | None = None
    """The compiled model with added graph breaks."""
