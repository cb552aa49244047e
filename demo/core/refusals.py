"""Which settings a machine cannot run: one table over a spec and what a worker reports of its machine.

The worker refuses by it before it loads a model; the form's forecast, `doctor`, and the search for the best way
read it. Covered: what is certain before anything is loaded. What is unknown of a machine refuses nothing. Not
covered: memory beyond that of the weights, kernels that a model alone needs, and on a CPU everything about GPUs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from demo.core import catalog, format as fmt
from demo.core.machine import HostInfo
from demo.core.spec import CUDA_GRAPH_MODES, OPTIONS, BadInput, RunSpec

TRITON, AMPERE = (7, 0), (8, 0)
"""Compute capabilities: the least that Triton compiles for, and the first with TensorFloat-32 and bfloat16."""
AGAIN = "Run it again."

BYTES = {"float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Rule:
    """Settings that some machines cannot run. `refusal` fills in {spec}, {machine} and other words of its sentences."""

    name: str
    applies: Callable[[RunSpec, HostInfo], bool]
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}".strip()


def below(machine: HostInfo, capability: tuple[int, int]) -> bool:
    """Whether the GPU's compute capability is known to be lower."""
    own = machine.compute_capability
    return own is not None and tuple(map(int, own.split("."))) < capability


def weights_bytes(spec: RunSpec) -> int:
    """Of a checkpoint of the catalogue, in the spec's number format; 0 where the parameters were not counted."""
    known = catalog.find(spec.checkpoint)
    return known.parameters * BYTES[spec.dtype] if known is not None else 0


def _on_gpu(spec: RunSpec) -> bool:
    return spec.device == "cuda"


RULES = (
    Rule(
        "cannot compile",
        lambda spec, machine: machine.compile_problem is not None,
        "{machine.compile_problem}",
        "",
    ),
    Rule(
        "no mode",
        lambda spec, machine: spec.mode not in machine.modes,
        "This torch ({machine.torch}) has no mode {spec.mode!r}.",
        "Allowed: {modes}.",
    ),
    Rule(
        "no gpu",
        lambda spec, machine: _on_gpu(spec) and machine.gpu is None,
        "Device cuda was asked for, but {problem}.",
        "Choose device cpu or auto.",
    ),
    Rule(
        "no triton",
        lambda spec, machine: _on_gpu(spec) and below(machine, TRITON),
        "torch.compile needs a GPU of compute capability 7.0 or more, and the {machine.gpu} has "
        "{machine.compute_capability}.",
        "Choose device cpu.",
    ),
    Rule(
        "no tf32",
        lambda spec, machine: spec.dtype == "tf32" and (not _on_gpu(spec) or below(machine, AMPERE)),
        "dtype tf32 is a format of NVIDIA GPUs of compute capability 8.0 or more, and this run uses the {device}.",
        "Choose dtype float32.",
    ),
    # Inductor compiles, and then skips every graph with bfloat16 among its inputs or outputs: nothing is compiled.
    Rule(
        "no bfloat16",
        lambda spec, machine: _on_gpu(spec) and spec.dtype == "bfloat16" and below(machine, AMPERE),
        "torch.compile leaves bfloat16 to eager on GPUs below compute capability 8.0, and the {machine.gpu} has "
        "{machine.compute_capability}.",
        "Choose dtype float16 or float32.",
    ),
    # Each layer's call begins a new generation of CUDA graphs, which frees the output that the next layer reads.
    Rule(
        "layers with CUDA graphs",
        lambda spec, machine: _on_gpu(spec) and spec.scope == "layers" and spec.mode in CUDA_GRAPH_MODES,
        "With scope layers each layer would overwrite the CUDA graph's output that the next one reads, so mode "
        "{spec.mode} fails there.",
        "Choose scope model, or mode default.",
    ),
    Rule(
        "no CUDA toolkit",
        lambda spec, machine: _on_gpu(spec) and spec.compiler == "aot" and machine.cuda_toolkit is None,
        "A package of AOTInductor for a GPU is built with NVIDIA's CUDA toolkit, and its headers were not found.",
        "Install the toolkit of torch's CUDA version and set CUDA_HOME to it, or choose compiler jit.",
    ),
    Rule(
        "weights over the GPU's memory",
        lambda spec, machine: _on_gpu(spec) and 0 < (machine.gpu_memory_bytes or 0) < weights_bytes(spec),
        "The weights of {spec.checkpoint} take {needs} in {spec.dtype}, more than the {machine.gpu} has.",
        "Choose another dtype or a smaller checkpoint.",
    ),
    Rule(
        "weights over the memory",
        lambda spec, machine: 0 < machine.memory_bytes < weights_bytes(spec),
        "The weights of {spec.checkpoint} take {needs} in {spec.dtype}, more than this machine's memory, through which "
        "they are loaded.",
        "Choose another dtype or a smaller checkpoint.",
    ),
)
"""The first one that applies is told."""


def refusal(spec: RunSpec, machine: HostInfo) -> Rule | None:
    """Why the machine cannot run the spec, whose device is 'cpu' or 'cuda'; None where nothing is in the way."""
    rule = next((rule for rule in RULES if rule.applies(spec, machine)), None)
    if rule is None:
        return None
    words = {
        "spec": spec,
        "machine": machine,
        "modes": ", ".join(machine.modes),
        "needs": fmt.size(weights_bytes(spec)),
        "device": machine.gpu if _on_gpu(spec) else "CPU",
        "problem": machine.gpu_problem or "this machine has no GPU that torch can use",
    }
    return replace(rule, what=rule.what.format(**words), remedy=rule.remedy.format(**words))


def on_machine(spec: RunSpec, machine: HostInfo) -> RunSpec:
    """The spec with the device that 'auto' means on this machine."""
    return spec.on("cuda" if machine.gpu else "cpu") if spec.device == "auto" else spec


def checked(spec: RunSpec, machine: HostInfo) -> RunSpec:
    """The spec on its device of this machine. Raises BadInput where the machine cannot run it."""
    placed = on_machine(spec, machine)
    if refused := refusal(placed, machine):
        raise BadInput(str(refused))
    return placed


def less_memory(spec: RunSpec) -> tuple[str, dict[str, Any]]:
    """What to try where memory ran out: a sentence, and the setting that it names."""
    change: dict[str, Any] = {}
    if spec.batch_size > 1:
        change["batch_size"] = max(1, spec.batch_size // 4)
    elif BYTES[spec.dtype] == 4:
        change["dtype"] = "bfloat16" if spec.device == "cpu" else "float16"  # which every GPU computes in
    tries = [f"{name.replace('_', ' ')} {value}" for name, value in change.items()]
    return f"Try {tries[0] if tries else 'a smaller model'}.", change


def other_way_to_compile(spec: RunSpec) -> tuple[str, dict[str, Any]]:
    """What to try where compiling fails: a sentence, and the options that it names, at their defaults.

    'Without freezing or dtype float16 it may work.'; '' and {} where nothing was asked for that could be the cause.
    """
    asked = {
        name: value
        for name, value in spec.departures().items()
        if name == "mode"
        or (name == "dtype" and BYTES[value] == 2)
        or (OPTIONS[name].fold == "compile" and not OPTIONS[name].timing)
    }
    if not asked:
        return "", {}
    words = [name.replace("_", " ") if value is True else f"{name} {value}" for name, value in asked.items()]
    change = {name: OPTIONS[name].default for name in asked}
    return f"Without {' or '.join(words)} it may work.", change
