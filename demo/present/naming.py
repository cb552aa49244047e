"""Names of a run's settings, machine and status as plain text, the same on the page and in the terminal."""

from ..core import catalog, format as fmt
from ..core.measurement import InstructionProbe, Measurement
from ..core.options import OPTIONS, OWN_MODEL, RunSpec
from ..core.progress import Progress
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
    "float64": "Outputs are not equal: computing them in float64, to see which are nearer",
    "eager_again": "Outputs do not match: calling eager again, to see whether it repeats itself",
    "explain": "Looking for the reason: kernels, operations, bytes",
    "compile_again": "Compiling once more, in a further process, from the cache",
    "unclear": "Not clear yet: timing goes on",
    "prefill": "Timing how long the prompt takes",
    "dynamo": "tracing Python (dynamo)",
    "aot_autograd": "lowering (AOTAutograd)",
    "inductor": "generating code (inductor)",
    "instruction probe": "trying the processor's vector instructions (inductor's probe, once for a compile cache)",
    "backend compile": "waiting for the C++ or Triton compiler",
    "first run": "the run itself, and time of no other part",
    "export": "capturing the graph (torch.export)",
    "build": "generating and compiling code (AOTInductor)",
    "load": "loading the package",
}
"""{code of the step that a worker process has begun: text for the user}. The codes from 'dynamo' on are steps of a
first call."""


def short(checkpoint: str) -> str:
    """Returns a checkpoint's short name: its Hub id without the owner, or the last part of its path."""
    return checkpoint.rsplit("/", 1)[-1]


def model(spec: RunSpec) -> str:
    """Returns the checkpoint's name. Of a local path only the last part, because results are shown to other people."""
    local = spec.task == OWN_MODEL or catalog.is_folder(spec.checkpoint)
    return short(spec.checkpoint) if local else spec.checkpoint


def where(result: RunResult) -> str:
    """Returns the device's name, 'Tesla T4'. If the run ended too early to know it: 'cuda', 'cpu' or 'auto'."""
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
    return f"{model(result.spec)} · {run_settings(result)}"


def run_settings(result: RunResult) -> str:
    """Returns the settings and, on a CPU, the threads used: 'batch 4 · default · float32 · 2 threads'."""
    used = result.threads if result.spec.threads is None and result.spec.device == "cpu" else None
    return " · ".join([*settings_list(result.spec), *([fmt.count(used, "thread")] if used else [])])


def settings_list(spec: RunSpec) -> list[str]:
    """Returns texts: batch size, mode and dtype, then most other options not at their default, switches last.

    The batch size of a user's own model is left out: its inputs decide it.
    """
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


def longer_than(progress: Progress) -> str:
    """Returns 'longer than the 30 s that were estimated'; '' for a run that has not exceeded an estimate."""
    if progress.exceeded_seconds is None:
        return ""
    return f"longer than the {fmt.rounded_duration(progress.exceeded_seconds)} that were estimated"


def probe(instruction_probe: InstructionProbe) -> str:
    """Returns 'inductor's instruction probe, 17 s once for a compile cache, 0.8 s in each process'.

    Returns '' if neither time is known. The probe tests which vector instructions the C++ compiler can use.
    """
    times = {
        "once for a compile cache": instruction_probe.built_seconds,
        "in each process": instruction_probe.loaded_seconds,
    }
    known = [f"{fmt.duration(seconds)} {when}" for when, seconds in times.items() if seconds]
    return ", ".join(["inductor's instruction probe", *known]) if known else ""


def not_counted(result: RunResult) -> str:
    """Returns '; not counted: inductor's instruction probe, ...', to be put after the time of a first call.

    Returns '' if the times of the probe (see `probe`) are not known.
    """
    sentence = probe(result.compilation.instruction_probe) if result.compilation is not None else ""
    return f"; not counted: {sentence}" if sentence else ""


def without_probe(result: RunResult) -> str:
    """Returns ', without 17 s of the machine's probe', to be put after the number of calls after which compiling pays.

    Returns '' if the time of the probe (inductor's test for vector instructions) is not known.
    """
    built = result.compilation.instruction_probe.built_seconds if result.compilation is not None else None
    return f", without {fmt.duration(built)} of the machine's probe" if built else ""


def value_text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def variant_name(name: str, spec: RunSpec) -> str:
    """Returns the column title for 'eager' or 'compiled'; 'Compiled, with breaks' if the run adds graph breaks."""
    broken = name == "compiled" and spec.graph_break
    return "Compiled, with breaks" if broken else name.capitalize()


def variants(result: RunResult) -> list[tuple[str, str, Measurement]]:
    """Returns (key, name, measurement) of eager and of compiled: ('eager', 'Eager', ...).

    A variant that was not timed is left out.
    """
    sides = (("eager", result.eager), ("compiled", result.compiled))
    return [
        (name, variant_name(name, result.spec), side) for name, side in sides if side is not None and side.wall_seconds
    ]


def worker_word(word: str) -> str:
    """Returns the text for a code that a worker sent, from `WORKER_WORDS`; an unknown code is returned unchanged."""
    return WORKER_WORDS.get(word, word)
