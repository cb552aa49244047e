"""The ways to run a model that "Find the best way" tries, and why a machine or a model leaves some out.

Covered: each way alone, everything else as asked. Not covered: ways joined, such as freezing with the channels last,
and settings inside a way, such as single options of inductor.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from demo.core import catalog
from demo.core.machine import HostInfo
from demo.core.refusals import on_machine, refusal
from demo.core.spec import CUDA_GRAPH_MODES, OPTIONS, BadInput, RunSpec

EAGER, DEFAULT = "eager", "default"
WAYS: dict[str, dict[str, Any]] = {
    EAGER: {},
    DEFAULT: {},
    "freezing": {"freezing": True},
    "package": {"compiler": "aot"},
    "layers": {"scope": "layers"},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "channels_last": {"channels_last": True},
    "lite": {"mode": "lite"},
    "max-autotune-no-cudagraphs": {"mode": "max-autotune-no-cudagraphs"},
    "max-autotune": {"mode": "max-autotune"},
    "tf32": {"dtype": "tf32"},
    "bfloat16": {"dtype": "bfloat16"},
    "float16": {"dtype": "float16"},
}
"""The options in which a way departs from plain torch.compile, by the way's name. A search tries them in this order:
those that try kernels out while they compile take minutes, and come late."""
OTHER_FORMATS = ("tf32", "bfloat16", "float16")
"""Ways in another number format. They change the outputs, so they are tried only where they are asked for."""
SIMPLEST = (EAGER, DEFAULT, "reduce-overhead", "layers", "channels_last", "freezing", "lite", "package")
"""Which of two equal ways is taken: the one that asks least of the code around it. Those that are not listed come last,
in the order of `WAYS`."""


@dataclass(frozen=True)
class Way:
    name: str
    """A key of `WAYS`."""
    spec: RunSpec
    """What is run for it. Eager needs no run of its own: every run measures it."""
    refused: str = ""
    """Why it cannot be run here, as a sentence; '' where it can."""

    @property
    def simplicity(self) -> int:
        """The lower, the simpler."""
        names = [*SIMPLEST, *(name for name in WAYS if name not in SIMPLEST)]
        return names.index(self.name)

    @property
    def changes_eager(self) -> bool:
        """Whether its runs time another eager than the plain one, so that their own speed-up is over that one."""
        return not WAYS[self.name].keys().isdisjoint(("channels_last", "dtype"))


def plain(spec: RunSpec, machine: HostInfo) -> RunSpec:
    """The spec on its device, without any setting that could make it faster, timed in the usual manner."""
    kept = {name: option.default for name, option in OPTIONS.items() if option.for_speed or option.timing}
    return on_machine(dataclasses.replace(spec, graph_break=False, **kept), machine)


def ways(spec: RunSpec, machine: HostInfo, other_formats: bool = False) -> list[Way]:
    """Every way for this model, input and batch size, refused ones too. Raises BadInput where not even eager can run.

    Left out because they would change nothing: on a CPU the modes that differ by their CUDA graphs alone; the channels
    last for a model without pictures, or one that is known to do little in convolutions.
    """
    bare = plain(spec, machine)
    if refused := refusal(bare, machine):
        raise BadInput(str(refused))
    return [_way(name, bare, machine) for name in _names(bare, other_formats)]


def _names(bare: RunSpec, other_formats: bool) -> Iterator[str]:
    known = catalog.find(bare.checkpoint)
    for name, changes in WAYS.items():
        alike = bare.device == "cpu" and (changes.get("mode") in CUDA_GRAPH_MODES or name == "tf32")
        no_use = name == "channels_last" and not (bare.sees_picture and (known is None or known.convolutional))
        if not alike and not no_use and (other_formats or name not in OTHER_FORMATS):
            yield name


def _way(name: str, bare: RunSpec, machine: HostInfo) -> Way:
    try:
        spec = dataclasses.replace(bare, **WAYS[name])
    except BadInput as refused:  # what torch, or this program, does not have for the task
        return Way(name, bare, str(refused))
    refused_here = refusal(spec, machine)
    return Way(name, spec, "" if refused_here is None else str(refused_here))
