"""Short sentences about a result, the same ones on the page, in the terminal and in an export.

All are plain text.
"""

from collections.abc import Iterable
from typing import Any, Literal

from demo.core import format as fmt, stats
from demo.core.caveat import IMPORTANT
from demo.core.comparison import BreakEven, Comparison
from demo.core.measurement import Compilation, Measurement
from demo.core.quality import quality
from demo.core.result import FIRST_TOKEN, RunResult
from demo.core.spec import OPTIONS, RunSpec

HEADLINES: dict[str, tuple[str, str, str]] = {
    "faster": ("Compiled is", "{ratio}", "faster"),
    "slower": ("Compiled is", "{ratio}", "slower"),
    "same": ("Compiled makes", "no difference", ""),
    "narrow": ("", "No clear difference", ""),
    "unsure": ("", "Too noisy", "to tell"),
    "busy": ("", "Too busy", "to tell"),
    "void": ("", "Void:", "recompiled while timed"),
}
"""What stands before a large figure, the figure, and what stands after it, by `_kind`."""
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
OPEN_BECAUSE = {
    "interval": "The range holds 1, so a gain and a loss are both possible.",
    "control": (
        "Eager timed against itself differed by {floor} on this machine: a difference of this size says nothing here."
    ),
    "machine": "Other programs took the cores while it was timed.",
}
CACHE_STATES = {
    "cold": "empty cache",
    "warm": "filled cache",
    "partly": "partly filled cache",
    "built": "built",
    "loaded": "loaded",
}
WORKER_WORDS = {
    "fewer_threads": "Another program took a core: timing again with fewer threads",
    "explain": "Looking for the reason: kernels, operations, bytes",
    "compile_again": "Compiling once more, in a further process, from the cache",
    "capture": "Capturing the model as it is before its first eager call",
    "unclear": "Not clear yet: timing goes on",
    "prefill": "Timing how long the prompt takes",
    "generate": "Timing the whole of generate()",
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


Outcome = Literal["void", "faster", "slower", "same", "unsure"]
WIDE = 0.1
"""From this half-width of the interval on an open verdict is told as noise."""
Three = tuple[str, str, str]
"""The text before a large figure, the figure, and the text after it."""


def outcome(result: RunResult) -> Outcome | None:
    """The verdict that the headline states; None for a run without a speed-up."""
    if result.failure is not None or result.speedup is None:
        return None
    return "void" if result.void else result.speedup.verdict


def headline(result: RunResult) -> str:
    """The result in one sentence: 'Compiled is 1.44× faster, 3.87 ms → 2.69 ms'; or the failure's message."""
    parts = headline_parts(result)
    if parts is None:
        return result.failure.message if result.failure else "The run gave no figures."
    return f"{' '.join(filter(None, parts))}, {times(result)}"


def headline_parts(result: RunResult) -> Three | None:
    """The headline as (text before, the figure, text after); None for a run without a speed-up."""
    speedup = _decided_speedup(result)
    if speedup is None:
        return None
    before, shown, after = HEADLINES[_kind(speedup)]
    if result.spec.graph_break:
        after = f"{after} (with added graph breaks)".strip()
    return before, shown.format(ratio=figure(speedup)), after


def _decided_speedup(result: RunResult) -> Comparison | None:
    """The speed-up of a run that has an outcome."""
    return result.speedup if outcome(result) is not None else None


def figure(speedup: stats.Interval) -> str:
    """How many times faster, or slower where it is, with the digits that its interval allows."""
    if speedup.ratio < 1:
        return fmt.estimate(1 / speedup.ratio, 1 / speedup.high, 1 / speedup.low)
    return fmt.estimate(speedup.ratio, speedup.low, speedup.high)


def _kind(speedup: Comparison) -> str:
    """The verdict; of an open one what it tells: 'narrow', 'unsure', 'busy' or 'void'."""
    if speedup.open_because == "recompiled":
        return "void"
    if speedup.verdict != "unsure":
        return speedup.verdict
    if speedup.open_because == "machine":
        return "busy"
    return "narrow" if speedup.open_because == "interval" and speedup.half_width <= WIDE else "unsure"


def answer(result: RunResult) -> str:
    """The answer in short: '1.5× faster', '3× faster (rough)', 'no difference', 'too noisy to tell'; '' without one."""
    speedup = _decided_speedup(result)
    if speedup is None:
        return ""
    known = quality(result)
    rough = known is not None and known.mark == "rough" and speedup.verdict != "unsure"
    return f"{_answer(speedup)} (rough)" if rough else _answer(speedup)


def _answer(speedup: Comparison) -> str:
    _, shown, after = HEADLINES[_kind(speedup)]
    told = f"{shown.format(ratio=figure(speedup))} {after}".strip()
    return told[:1].lower() + told[1:]


def quality_line(result: RunResult) -> str:
    """'Fair: it rests on 1 process.'; '' without an answer."""
    known = quality(result)
    return f"{known.mark.capitalize()}: {known.reason}." if known is not None else ""


def caveat(result: RunResult) -> str:
    """The caveat that a reader must not miss: the first of `IMPORTANT` that the result has; '' without one."""
    texts = {one.key: str(one) for one in reversed(result.caveats)}
    return next((texts[key] for key in IMPORTANT if key in texts), "")


def speedup(result: RunResult) -> str:
    """The speed-up in short where it is known: '1.44×', of a loss '0.80×'; else `answer`."""
    known = _decided_speedup(result)
    if known is not None and outcome(result) in ("faster", "slower"):
        return _ratio(known)
    return answer(result)


def _ratio(known: stats.Interval) -> str:
    return fmt.estimate(known.ratio, known.low, known.high)


def without_breaks(result: RunResult) -> str:
    """'Without the added breaks, stored: 1.45× (1.41 to 1.49×)'; '' if the history had no such run."""
    known = result.without_breaks
    if known is None:
        return ""
    told = _ratio(known) if known.verdict in ("faster", "slower") else _answer(known)
    return f"Without the added breaks, stored: {with_ends(told, known)}"


def speedup_in_full(result: RunResult) -> str:
    """'1.44× (1.41 to 1.45×)', 'too noisy to tell (0.90 to 1.90×)'; '' without one."""
    interval = _decided_speedup(result)
    return "" if interval is None else with_ends(speedup(result), interval)


def with_ends(told: str, interval: stats.Interval) -> str:
    """'1.44× (1.41 to 1.45×)'."""
    low, high = map(str, ends(interval.low, interval.high))
    return f"{told} ({low} to {high})"


def summary(result: RunResult) -> str:
    """'shapes-vit on AMD EPYC: 1.25× (1.24 to 1.26×), compiled against eager (from 3 processes)', or ''."""
    answer = speedup_in_full(result)
    about = f"{result.spec.checkpoint} on {where(result)}"
    compiled = "compiled with added graph breaks" if result.spec.graph_break else "compiled"
    return answer and f"{about}: {answer}, {compiled} against eager ({basis(result)})"


def short(checkpoint: str) -> str:
    """A Hub id without its owner, for sentences."""
    return checkpoint.rsplit("/", 1)[-1]


def where(result: RunResult) -> str:
    """The name of the device that ran it; without one, the device that was asked for."""
    return result.environment.device_name if result.environment else result.spec.device


def machine(result: RunResult) -> list[str]:
    """The device, torch and transformers with their versions; nothing where the run did not get so far."""
    known = result.environment
    return [known.device_name, f"torch {known.torch}", f"transformers {known.transformers}"] if known else []


def status(result: RunResult) -> str:
    """'Finished', 'Out of memory'."""
    return STATUSES[result.status]


def settings_line(spec: RunSpec) -> str:
    """'shapes-vit · batch 4 · default · float32', then the options that `settings_apart` lists."""
    return f"{spec.checkpoint} · {settings(spec)}"


def settings(spec: RunSpec) -> str:
    """'batch 4 · default · float32': `settings_line` without the checkpoint."""
    return " · ".join(settings_apart(spec))


def run_line(result: RunResult) -> str:
    """'shapes-vit · batch 4 · default · float32 · 2 threads': `settings_line` with the threads that were used."""
    return f"{result.spec.checkpoint} · {run_settings(result)}"


def run_settings(result: RunResult) -> str:
    """'batch 4 · default · float32 · 2 threads'."""
    used = result.threads if result.spec.threads is None and result.spec.device == "cpu" else None
    return " · ".join([*settings_apart(result.spec), *([count(used, "thread")] if used else [])])


def settings_apart(spec: RunSpec) -> list[str]:
    """Batch, mode and number format, then what is not at its default: options choices, switches."""
    parts = [f"batch {spec.batch_size}"] if spec.unit != "call" else []
    parts += [spec.mode, spec.dtype]
    for option in sorted(OPTIONS.values(), key=lambda option: option.kind == "switch"):
        value = getattr(spec, option.name)
        if value == option.default:
            continue
        if option.name == "threads":
            parts.append(count(value, "thread"))
        elif option.kind == "switch":
            parts.append(option.label.lower())
        elif option.kind == "choice" and option.name not in ("mode", "dtype", "device"):
            parts.append(f"{option.label.lower()} {value}")
        elif option.name == "repeats":
            parts.append(f"{value} repeats")
    return parts


def times(result: RunResult) -> str:
    """'329 ms → 144 ms': a call, eager then compiled."""
    return times_of(result.latencies.values()) if len(result.latencies) == 2 else ""


def times_of(seconds: Iterable[float]) -> str:
    return " → ".join(map(fmt.latency, seconds))


def interval(result: RunResult) -> str:
    """'speed-up 1.41 to 1.45×, 95 % confidence, from 3 processes'; '' without a speed-up."""
    return ", ".join([interval_alone(result), basis(result)]) if result.speedup is not None else ""


def interval_alone(result: RunResult) -> str:
    """'speed-up 1.41 to 1.45×, 95 % confidence'; '' without a speed-up."""
    speedup = result.speedup
    if speedup is None:
        return ""
    return f"{range_of(speedup, speedup.verdict == 'slower')}, 95 % confidence"


def range_of(interval: stats.Interval, slower: bool) -> str:
    """'speed-up 1.41 to 1.45×'; where it is `slower` the slow-down, which has more digits than 0.10×."""
    low, high = ends(1 / interval.high, 1 / interval.low) if slower else ends(interval.low, interval.high)
    return f"slow-down {low} to {high}" if slower else f"speed-up {low} to {high}"


def basis(result: RunResult) -> str:
    """What the interval rests on: 'from 3 processes, how they differ counted in'; '' without a speed-up."""
    speedup = result.speedup
    if speedup is None:
        return ""
    if speedup.basis == "within one process":
        return "within one process: a rerun may lie outside"
    processes = count(speedup.processes, "process")
    if speedup.processes > 1:
        return f"from {processes}, how they differ counted in"
    return f"from {processes}; that others differ by about {fmt.percent(speedup.deviation)} is counted in"


def decided(result: RunResult) -> str:
    """What left the verdict open, and whether this process disagrees with those before it; '' where neither is so."""
    speedup = _decided_speedup(result)
    if speedup is None:
        return ""
    texts = []
    if speedup.open_because in OPEN_BECAUSE:
        texts.append(OPEN_BECAUSE[speedup.open_because].format(floor=fmt.percent(speedup.floor)))
    if speedup.widened:
        texts.append("This process lies so far from the ones before it that the range grew.")
    return " ".join(texts)


def ends(low: float, high: float) -> tuple[str, str]:
    """'1.41' and '1.45×'; with a third decimal where the ends are closer than 0.02."""
    return (f"{low:.3f}", f"{high:.3f}×") if high - low < 0.02 else fmt.ratio_ends(low, high)


def noise_floor(result: RunResult) -> str:
    """The A/A control: how far eager differs from itself on this machine."""
    known = result.speedup
    if known is None or known.control is None:
        return "eager was not timed against itself"
    return f"eager timed against itself: {fmt.percent(known.floor)} apart"


def back_to_back(result: RunResult) -> str:
    """A sentence where calls queued behind each other were slower than one by one; '' elsewhere."""
    slower = [
        shown
        for name, shown, side in variants(result)
        if (run := side.back_to_back) is not None and run.seconds / run.calls > result.latencies[name] * 1.02
    ]
    if not slower:
        return ""
    return (
        f"Back to back was slower than one by one ({', '.join(slower)}): it was timed later, in one pass, "
        "so the machine's speed at that moment counts."
    )


def compiled_first(result: RunResult) -> list[str]:
    """Graphs and breaks of compiling before any eager call, where they differ, and what to do; else empty."""
    here = result.compilation
    if here is None or (first := here.compiled_first) is None:
        return []
    found = [count(first.graphs, "graph"), count(len(first.graph_breaks), "break")]
    texts = [
        (
            f"Compiled before any eager call, this model becomes {', '.join(found)}, and its first call "
            "takes another time"
        )
    ]
    if (len(first.graph_breaks), first.graphs) > (len(here.graph_breaks), here.graphs):
        texts.append("Call the model once in eager before compiling")
    return [fmt.sentence(text) for text in texts]


def count(number: int, thing: str) -> str:
    """'0 breaks', '1 break', '1 200 calls'."""
    ending = "" if number == 1 else "es" if thing.endswith("s") else "s"
    return f"{fmt.grouped(number)} {thing}{ending}"


def calls_to_pay(even: BreakEven | None) -> str:
    """'10 000 to 140 000 calls', 'about 20 000 calls', of a text model tokens, by the interval's ends; 'never'."""
    if even is None or even.calls is None or even.low is None:
        return "never"
    thing, each = ("call", 1.0) if even.answers is None else ("token", (even.images or 0) / max(even.calls, 1))
    low = fmt.two_digits(even.low * each)
    if even.high is None:
        return f"{count(low, thing)} or more"
    high = fmt.two_digits(even.high * each)
    if low == high:
        return f"about {count(low, thing)}"
    return f"{fmt.grouped(low)!s} to {count(high, thing)}"


def variant_name(name: str, spec: RunSpec) -> str:
    """The name of 'eager' or 'compiled' at the head of a column: 'Compiled', 'Compiled, with breaks'."""
    broken = name == "compiled" and spec.graph_break
    return "Compiled, with breaks" if broken else name.capitalize()


def out_of_memory() -> str:
    """'out of memory', in place of a figure."""
    return "out of memory"


def enumerated(phrases: Iterable[str]) -> str:
    """'1', '1 and 4', '1, 4 and 16'; of whatever phrases."""
    *most, last = phrases
    return f"{', '.join(most)} and {last}" if most else last


def variants(result: RunResult) -> list[tuple[str, str, Measurement]]:
    """('eager', 'Eager', its measurement) and the same of 'compiled', where measured."""
    sides = (("eager", result.eager), ("compiled", result.compiled))
    return [(name, variant_name(name, result.spec), side) for name, side in sides if side is not None]


def worker_word(word: str) -> str:
    """The words for a code that a worker sends; an unknown code, as of a newer worker, stands as it is."""
    return WORKER_WORDS.get(word, word)


def cost_key(compiled: Compilation, cache: str) -> str:
    """The key of a first call in `CACHE_STATES`: 'cold' or 'warm'; 'built' or 'loaded' where it is of a package."""
    return {"cold": "built", "warm": "loaded"}.get(cache, cache) if compiled.package_bytes is not None else cache


def cache_state(compiled: Compilation, cache: str) -> str:
    """The state of the compile cache, or of a package, before a first call: 'empty cache'."""
    return CACHE_STATES[cost_key(compiled, cache)]


def rounded_duration(seconds: float) -> str:
    """An estimate's precision: whole seconds up to 10 s, steps of 5 s up to 90 s, then whole minutes, then hours."""
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    return f"{round(seconds / 60)} min" if seconds < 2 * 3600 else f"{round(seconds / 3600)} h"


def label(name: str) -> str:
    """An option's name in the form; any other name in words."""
    return OPTIONS[name].label if name in OPTIONS else name.replace("_", " ").capitalize()


def named_setting(name: str, value: Any) -> str:
    """An option and its value as the form names them: 'Freezing: on'."""
    return f"{label(name)}: {shown_value(value)}"


def shown_value(value: Any) -> str:
    """An option's value as the form names it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
