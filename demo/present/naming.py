"""Names of a run's settings, machine and status as plain text, the same on the page and in the terminal."""

from ..core import format as fmt
from ..core.measurement import Measurement
from ..core.options import OPTIONS, OWN_MODEL, RunSpec
from ..core.result import FIRST_TOKEN, RunResult

COMPARISONS = {"call": "A call", "token": "A token", FIRST_TOKEN: "Time to the first token"}
"""What readers see for a key of `RunResult.comparisons`."""
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
    "wait_for_core": "Another program uses a core: waiting for it, five seconds at most",
    "fewer_threads": "Another program keeps a core: compiling again for fewer threads, then timing",
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
"""The texts for codes: what the process that runs torch is doing and, from 'dynamo' on, the parts of a first call."""


def short(checkpoint: str) -> str:
    """Returns a Hub id without its owner, 'vit-base-patch16-224', or the last part of a path."""
    return checkpoint.rsplit("/", 1)[-1]


def where(result: RunResult) -> str:
    """Returns the device's name: 'Tesla T4'; 'cuda', 'cpu' or 'auto' if the run ended before the name was known."""
    return result.environment.device_name if result.environment else result.spec.device


def machine_words(result: RunResult) -> list[str]:
    """Returns ['Tesla T4', 'torch 2.13.0', 'transformers 5.23.0']; [] if the run ended before these were known."""
    known = result.environment
    return [known.device_name, f"torch {known.torch}", f"transformers {known.transformers}"] if known else []


def status_words(result: RunResult) -> str:
    return STATUSES[result.status]


def settings(spec: RunSpec) -> str:
    """Returns the settings in one line: 'batch 4 · default · float32'."""
    return " · ".join(settings_list(spec))


def run_line(result: RunResult) -> str:
    """Returns checkpoint and settings: 'shapes-vit · batch 4 · default · float32 · 2 threads'."""
    name = result.spec.checkpoint
    return f"{short(name) if result.spec.task == OWN_MODEL else name} · {run_settings(result)}"


def run_settings(result: RunResult) -> str:
    """Returns the settings and, on a CPU, the threads used: 'batch 4 · default · float32 · 2 threads'."""
    used = result.threads if result.spec.threads is None and result.spec.device == "cpu" else None
    return " · ".join([*settings_list(result.spec), *([fmt.count(used, "thread")] if used else [])])


def settings_list(spec: RunSpec) -> list[str]:
    """Returns batch size, mode and dtype, then most options not at their default, switches last."""
    parts = [f"batch {spec.batch_size}"] if spec.unit != "call" else []
    parts += [spec.mode, spec.dtype]
    switches = []
    for name, value in spec.departures().items():
        kind, label = OPTIONS[name].kind, OPTIONS[name].label.lower()
        if name in ("threads", "repeats"):
            parts.append(fmt.count(value, label.removesuffix("s")))
        elif kind == "switch":
            switches.append(label)
        elif kind == "choice" and name not in ("mode", "dtype", "device"):
            parts.append(f"{label} {value}")
    return parts + switches


def value_text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def variant_name(name: str, spec: RunSpec) -> str:
    """Returns the column head for 'eager' or 'compiled': 'Eager', 'Compiled', or 'Compiled, with breaks'."""
    broken = name == "compiled" and spec.graph_break
    return "Compiled, with breaks" if broken else name.capitalize()


def variants(result: RunResult) -> list[tuple[str, str, Measurement]]:
    """Returns (key, name, measurement) of eager and of compiled: ('eager', 'Eager', ...). Untimed ones are left out."""
    sides = (("eager", result.eager), ("compiled", result.compiled))
    return [
        (name, variant_name(name, result.spec), side) for name, side in sides if side is not None and side.wall_seconds
    ]


def worker_word(word: str) -> str:
    """Returns the text in `WORKER_WORDS` for a code; an unknown code comes back unchanged."""
    return WORKER_WORDS.get(word, word)
