"""Refuses settings that a machine cannot run, before the model is loaded. Advises what to change after a failure.

A fact that is not known about a machine is no reason to refuse. Memory is considered for the weights of the catalogue's
checkpoints only. Kernels that only some models need are not considered.
"""

from collections.abc import Collection

from . import catalog, format as fmt
from .machine import HostInfo
from .options import CUDA_GRAPH_MODES, OPTIONS, BadInput, OptionValues, RunSpec

TRITON, AMPERE = (7, 0), (8, 0)
"""Compute capabilities of GPUs: the least for which Triton compiles, and the least with TensorFloat-32 and bfloat16."""
AGAIN = "Run it again."
BYTES = {"float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of one weight, by number format."""


def refusal(spec: RunSpec, machine: HostInfo) -> str:
    """Returns sentences that say why the machine cannot run the spec, and what to do; '' if it can.

    The spec's device must be 'cpu' or 'cuda': `on_machine` replaces 'auto'.
    """
    if machine.compile_problem is not None:
        return machine.compile_problem
    if spec.mode not in machine.modes:
        return f"This torch ({machine.torch}) has no mode {spec.mode!r}. Allowed: {', '.join(machine.modes)}."
    if spec.device == "cuda":
        return _on_gpu(spec, machine) or _weights_over_memory(spec, machine)
    if spec.dtype == "tf32":
        return _no_tf32("CPU")
    return _weights_over_memory(spec, machine)


def _on_gpu(spec: RunSpec, machine: HostInfo) -> str:
    if machine.gpu is None:
        problem = machine.gpu_problem or "this machine has no GPU that torch can use"
        return f"Device cuda was asked for, but {problem}. Choose device cpu or auto."
    own = machine.compute_capability
    capability = tuple(map(int, own.split("."))) if own is not None else AMPERE
    has = f"and the {machine.gpu} has {own}."
    if capability < TRITON:
        return f"torch.compile needs a GPU of compute capability 7.0 or more, {has} Choose device cpu."
    if spec.dtype == "tf32" and capability < AMPERE:
        return _no_tf32(machine.gpu)
    # Inductor skips every graph with bfloat16 among its inputs or outputs: in the end nothing would be compiled.
    if spec.dtype == "bfloat16" and capability < AMPERE:
        what = f"torch.compile leaves bfloat16 to eager on GPUs below compute capability 8.0, {has}"
        return f"{what} Choose dtype float16 or float32."
    # Each layer's call begins a new generation of CUDA graphs, which frees the output that the next layer reads.
    if spec.scope == "layers" and spec.mode in CUDA_GRAPH_MODES:
        return (
            "With scope layers each layer would overwrite the CUDA graph's output that the next one reads, so mode "
            f"{spec.mode} fails there. Choose scope model, or mode default."
        )
    if spec.compiler == "aot" and machine.cuda_toolkit is None:
        return (
            "A package of AOTInductor for a GPU is built with NVIDIA's CUDA toolkit, and its headers were not found. "
            "Install the toolkit of torch's CUDA version and set CUDA_HOME to it, or choose compiler jit."
        )
    return ""


def _no_tf32(used: str) -> str:
    what = "dtype tf32 is a format of NVIDIA GPUs of compute capability 8.0 or more"
    return f"{what}, and this run uses the {used}. Choose dtype float32."


def _weights_over_memory(spec: RunSpec, machine: HostInfo) -> str:
    checkpoint = catalog.find(spec.checkpoint)
    needs = checkpoint.parameters * BYTES[spec.dtype] if checkpoint is not None else 0
    what = f"The weights of {spec.checkpoint} take {fmt.size(needs)} in {spec.dtype}, more than"
    remedy = "Choose another dtype or a smaller checkpoint."
    if spec.device == "cuda" and 0 < (machine.gpu_memory_bytes or 0) < needs:
        return f"{what} the {machine.gpu} has. {remedy}"
    if 0 < machine.memory_bytes < needs:
        return f"{what} this machine's memory, through which they are loaded. {remedy}"
    return ""


def on_machine(spec: RunSpec, machine: HostInfo) -> RunSpec:
    """Returns the spec with device 'cuda' or 'cpu' in place of 'auto'."""
    return spec.on("cuda" if machine.gpu else "cpu") if spec.device == "auto" else spec


def resolve(spec: RunSpec, machine: HostInfo) -> RunSpec:
    """Returns the spec with device 'cuda' or 'cpu' in place of 'auto'. Raises BadInput if the machine cannot run it."""
    placed = on_machine(spec, machine)
    if reason := refusal(placed, machine):
        raise BadInput(reason)
    return placed


def less_memory(spec: RunSpec, compiled: bool = False, half: str = "") -> tuple[str, OptionValues]:
    """Returns advice after memory ran out, and the options to change: ('Try batch size 4.', {'batch_size': 4}).

    The dict is empty if only a smaller model can help.

    - `compiled`: whether memory ran out while compiling or in the compiled model. The mode may then be the cause.
    - `half`: a number format of two bytes that is known to be fast on the device; '' if there is none.
    """
    change: OptionValues = {}
    if compiled and spec.mode != OPTIONS["mode"].default:  # it keeps memory of CUDA graphs, or tries out kernels
        change["mode"] = OPTIONS["mode"].default
    if spec.batch_size > 1:
        change["batch_size"] = max(1, spec.batch_size // 4)
    elif BYTES[spec.dtype] == 4 and half:
        change["dtype"] = half
    if not change:
        return "Try a smaller model.", {}
    words = [f"{name.replace('_', ' ')} {value}" for name, value in change.items()]
    return f"Try {' or '.join(words)}.", change


def other_way_to_compile(spec: RunSpec, not_it: Collection[str] = ()) -> tuple[str, OptionValues]:
    """Returns advice after a failed compile, and the options to set back to their defaults.

    Example: ('Without freezing it may work.', {'freezing': False}). If no option can be the cause: ('', {}).

    `not_it`: names of options that are known not to be the cause.
    """
    causes = {
        name: value
        for name, value in spec.departures().items()
        if name not in not_it
        and (
            name == "mode"
            or (name == "dtype" and BYTES[value] == 2)
            or (OPTIONS[name].fold == "compile" and not OPTIONS[name].timing)
        )
    }
    if not causes:
        return "", {}
    words = [name.replace("_", " ") if value is True else f"{name} {value}" for name, value in causes.items()]
    return f"Without {' or '.join(words)} it may work.", {name: OPTIONS[name].default for name in causes}
