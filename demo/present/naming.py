"""What the settings of a run, its variants, its machine and its status are called, the same everywhere. Plain text."""

from typing import Any

from demo.core import format as fmt
from demo.core.measurement import Measurement
from demo.core.result import FIRST_TOKEN, RunResult
from demo.core.spec import OPTIONS, RunSpec

COMPARISONS = {"call": "A call", "token": "A token", FIRST_TOKEN: "Time to the first token"}
"""What is compared, by the names of `RunResult.comparisons`."""
STATUSES = {
    "ok": "Finished",
    "out_of_memory": "Out of memory",
    "compile_failed": "Did not compile",
    "timed_out": "Took too long",
    "crashed": "Crashed",
    "cancelled": "Cancelled",
    "interrupted": "Interrupted",
    "failed": "Failed",
}
WORKER_WORDS = {
    "fewer_threads": "Another program took a core: timing again with fewer threads",
    "explain": "Looking for the reason: kernels, operations, bytes",
    "compile_again": "Compiling once more, in a further process, from the cache",
    "unclear": "Not clear yet: timing goes on",
    "prefill": "Timing how long the prompt takes",
    "dynamo": "tracing Python (dynamo)",
    "aot_autograd": "lowering (AOTAutograd)",
    "inductor": "generating code (inductor)",
    "instruction probe": "trying the processor's vector instructions (only a process's first compile pays)",
    "backend compile": "waiting for the C++ or Triton compiler",
    "first run": "the run itself, and time of no other part",
    "export": "capturing the graph (torch.export)",
    "build": "generating and compiling code (AOTInductor)",
    "load": "loading the package",
}
"""What the worker's codes mean: what it is doing, and the parts of a first call."""


def short(checkpoint: str) -> str:
    """A Hub id without its owner, for sentences."""
    return checkpoint.rsplit("/", 1)[-1]


def where(result: RunResult) -> str:
    """The name of the device that ran it; of a run that ended too early to know, the kind of device."""
    return result.environment.device_name if result.environment else result.spec.device


def machine(result: RunResult) -> list[str]:
    """The device, torch and transformers with their versions; nothing of a run that ended too early to know."""
    known = result.environment
    return [known.device_name, f"torch {known.torch}", f"transformers {known.transformers}"] if known else []


def status(result: RunResult) -> str:
    """'Finished', 'Out of memory'."""
    return STATUSES[result.status]


def settings(spec: RunSpec) -> str:
    """'batch 4 · default · float32', then the options that `settings_list` has."""
    return " · ".join(settings_list(spec))


def run_line(result: RunResult) -> str:
    """'shapes-vit · batch 4 · default · float32 · 2 threads': the checkpoint and `run_settings`."""
    return f"{result.spec.checkpoint} · {run_settings(result)}"


def run_settings(result: RunResult) -> str:
    """'batch 4 · default · float32 · 2 threads': `settings` with the threads that were used."""
    used = result.threads if result.spec.threads is None and result.spec.device == "cpu" else None
    return " · ".join([*settings_list(result.spec), *([fmt.count(used, "thread")] if used else [])])


def settings_list(spec: RunSpec) -> list[str]:
    """Batch, mode and number format, then what is not at its default: options with choices, switches."""
    parts = [f"batch {spec.batch_size}"] if spec.unit != "call" else []
    parts += [spec.mode, spec.dtype]
    for option in sorted(OPTIONS.values(), key=lambda option: option.kind == "switch"):
        value = getattr(spec, option.name)
        if value == option.default:
            continue
        if option.name == "threads":
            parts.append(fmt.count(value, "thread"))
        elif option.name == "repeats":
            parts.append(f"{value} repeats")
        elif option.kind == "switch":
            parts.append(option.label.lower())
        elif option.kind == "choice" and option.name not in ("mode", "dtype", "device"):
            parts.append(f"{option.label.lower()} {value}")
    return parts


def value_text(value: Any) -> str:
    """An option's value as the form names it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def variant_name(name: str, spec: RunSpec) -> str:
    """The name of 'eager' or 'compiled' at the head of a column: 'Compiled', 'Compiled, with breaks'."""
    broken = name == "compiled" and spec.graph_break
    return "Compiled, with breaks" if broken else name.capitalize()


def variants(result: RunResult) -> list[tuple[str, str, Measurement]]:
    """('eager', 'Eager', its measurement) and the same of 'compiled', if timed."""
    sides = (("eager", result.eager), ("compiled", result.compiled))
    return [
        (name, variant_name(name, result.spec), side) for name, side in sides if side is not None and side.wall_seconds
    ]


def worker_word(word: str) -> str:
    """The words for a code that a worker sends. A code without words stands as it is."""
    return WORKER_WORDS.get(word, word)
