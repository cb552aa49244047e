"""Which settings a machine cannot run, by what a worker reports of it.

The worker refuses by it before it loads a model; the form's forecast, `doctor`, and the search for the best way
read it. Covered: what is certain before anything is loaded. What is unknown of a machine refuses nothing. Not
covered: memory beyond that of the weights, kernels that a model alone needs, and on a CPU everything about GPUs.
"""

from typing import Any, NamedTuple

from demo.core import catalog, format as fmt
from demo.core.machine import HostInfo
from demo.core.spec import CUDA_GRAPH_MODES, OPTIONS, BadInput, RunSpec

TRITON, AMPERE = (7, 0), (8, 0)
"""Compute capabilities: the least that Triton compiles for, and the first with TensorFloat-32 and bfloat16."""
AGAIN = "Run it again."

BYTES = {"float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2}


class Refusal(NamedTuple):
    name: str
    what: str
    remedy: str = ""

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


def refusal(spec: RunSpec, machine: HostInfo) -> Refusal | None:
    """Why the machine cannot run the spec, whose device is 'cpu' or 'cuda'; None where nothing is in the way."""
    on_gpu = spec.device == "cuda"
    if machine.compile_problem is not None:
        return Refusal("cannot compile", machine.compile_problem)
    if spec.mode not in machine.modes:
        what = f"This torch ({machine.torch}) has no mode {spec.mode!r}."
        return Refusal("no mode", what, f"Allowed: {', '.join(machine.modes)}.")
    if on_gpu and machine.gpu is None:
        problem = machine.gpu_problem or "this machine has no GPU that torch can use"
        what = f"Device cuda was asked for, but {problem}."
        return Refusal("no gpu", what, "Choose device cpu or auto.")
    has = f"and the {machine.gpu} has {machine.compute_capability}."
    if on_gpu and below(machine, TRITON):
        what = f"torch.compile needs a GPU of compute capability 7.0 or more, {has}"
        return Refusal("no triton", what, "Choose device cpu.")
    if spec.dtype == "tf32" and (not on_gpu or below(machine, AMPERE)):
        what = (
            "dtype tf32 is a format of NVIDIA GPUs of compute capability 8.0 or more, and this run uses the "
            f"{machine.gpu if on_gpu else 'CPU'}."
        )
        return Refusal("no tf32", what, "Choose dtype float32.")
    # Inductor compiles, and then skips every graph with bfloat16 among its inputs or outputs: nothing is compiled.
    if on_gpu and spec.dtype == "bfloat16" and below(machine, AMPERE):
        what = f"torch.compile leaves bfloat16 to eager on GPUs below compute capability 8.0, {has}"
        return Refusal("no bfloat16", what, "Choose dtype float16 or float32.")
    # Each layer's call begins a new generation of CUDA graphs, which frees the output that the next layer reads.
    if on_gpu and spec.scope == "layers" and spec.mode in CUDA_GRAPH_MODES:
        what = (
            "With scope layers each layer would overwrite the CUDA graph's output that the next one reads, so mode "
            f"{spec.mode} fails there."
        )
        return Refusal("layers with CUDA graphs", what, "Choose scope model, or mode default.")
    if on_gpu and spec.compiler == "aot" and machine.cuda_toolkit is None:
        what = "A package of AOTInductor for a GPU is built with NVIDIA's CUDA toolkit, and its headers were not found."
        remedy = "Install the toolkit of torch's CUDA version and set CUDA_HOME to it, or choose compiler jit."
        return Refusal("no CUDA toolkit", what, remedy)
    needs = weights_bytes(spec)
    weights = f"The weights of {spec.checkpoint} take {fmt.size(needs)} in {spec.dtype}, more than"
    smaller = "Choose another dtype or a smaller checkpoint."
    if on_gpu and 0 < (machine.gpu_memory_bytes or 0) < needs:
        return Refusal("weights over the GPU's memory", f"{weights} the {machine.gpu} has.", smaller)
    if 0 < machine.memory_bytes < needs:
        what = f"{weights} this machine's memory, through which they are loaded."
        return Refusal("weights over the memory", what, smaller)
    return None


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
