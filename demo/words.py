"""Sentences about a result, the same ones on the page, in the terminal and in an export."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from demo import format as fmt
from demo import stats
from demo.forecast import Range
from demo.schema import BreakEven, Compilation, GpuState, RunResult, RunSpec


def headline(result: RunResult) -> str:
    """One sentence for somebody who reads nothing else; a loss is told as plainly as a win."""
    parts = headline_parts(result)
    if parts is None:
        return result.failure.message if result.failure else "The run gave no figures."
    return f"{' '.join(filter(None, parts))}, {times(result)}"


Outcome = Literal["void", "faster", "slower", "same", "unsure"]


def outcome(result: RunResult) -> Outcome | None:
    """What the headline has to say; None where there is no figure to tell."""
    if result.failure is not None or result.speedup is None:
        return None
    if result.compilation is not None and result.compilation.recompiles_while_timing:
        return "void"
    return result.speedup.verdict


def headline_parts(result: RunResult) -> tuple[str, str, str] | None:
    """The headline as (before, what is written very large, after); None where there is no figure to tell."""
    speedup = result.speedup
    said = outcome(result)
    if said is None or speedup is None:
        return None
    match said:
        case "void":
            return "", "Void:", "the model was recompiled while timed"
        case "faster":
            return "Compiled is", fmt.ratio(speedup.ratio), "faster"
        case "slower":
            return "Compiled is", fmt.ratio(1 / speedup.ratio), "slower"
        case "same":
            return "Compiled makes", "no difference", ""
        case _:
            return "", "Too noisy", "to tell"


def asked(spec: RunSpec) -> str:
    """'shapes-vit · batch 4 · default · float32', and whatever else was asked that is not the default."""
    parts = [spec.checkpoint, f"batch {spec.batch_size}", spec.mode, spec.dtype]
    if spec.weights == "random":
        parts.append("random weights")
    if spec.protocol != "interleaved":
        parts.append(spec.protocol)
    if spec.attention != "auto":
        parts.append(f"{spec.attention} attention")
    if spec.threads is not None:
        parts.append(count(spec.threads, "thread"))
    if spec.cache == "empty":
        parts.append("empty cache")
    switches = {"fullgraph": "full graph only", "channels_last": "channels last", "graph_break": "a graph break put in"}
    return " · ".join([*parts, *(said for name, said in switches.items() if getattr(spec, name))])


def times(result: RunResult) -> str:
    """'329 ms → 144 ms': the median call, eager then compiled."""
    if result.eager is None or result.compiled is None:
        return ""
    return f"{fmt.latency(result.eager.median_seconds)} → {fmt.latency(result.compiled.median_seconds)}"


def interval(result: RunResult) -> str:
    """'speed-up 1.41 to 1.45×, 95 % confidence'; of a loss the slow-down, so that its digits tell something."""
    speedup = result.speedup
    if speedup is None:
        return ""
    if speedup.verdict == "slower":
        return f"slow-down {_range(1 / speedup.high, 1 / speedup.low)}, 95 % confidence"
    return f"speed-up {_range(speedup.low, speedup.high)}, 95 % confidence"


def _range(low: float, high: float) -> str:
    return " to ".join(ends(low, high))


def ends(low: float, high: float) -> tuple[str, str]:
    """'1.41' and '1.45×'; with a third decimal where two would make both ends the same."""
    return (f"{low:.3f}", f"{high:.3f}×") if high - low < 0.02 else fmt.ratio_ends(low, high)


def _exact(value: float) -> str:
    """Three digits that count: '2.30', '0.0984'."""
    return f"{value:#.3g}" if value < 100 else f"{value:.0f}"


def noise_floor(result: RunResult) -> str:
    """What the A/A control answers: how far eager differs from itself on this machine."""
    if result.control is None:
        return "noise floor not measured"
    return f"noise floor ±{fmt.percent(stats.noise_floor(result.control))}: eager timed against itself"


STATUS_WORDS: dict[str, str] = {
    "ok": "Finished",
    "out_of_memory": "Out of memory",
    "compile_failed": "Did not compile",
    "timed_out": "Took too long",
    "crashed": "Crashed",
    "cancelled": "Cancelled",
    "interrupted": "Interrupted",
    "failed": "Failed",
}


def agreement(result: RunResult) -> str:
    """Do the two see the same? One sentence from the task-level parity, '' where nothing was compared."""
    parity = result.parity
    if parity is None or parity.verdict == "not comparable":
        return ""
    same = "Eager and compiled agree" if parity.verdict == "match" else "Eager and compiled differ"
    seen = (result.predictions or {}).values()
    if seen and all(one.boxes == () or one.segments == () for one in seen):
        return f"{same}: neither finds anything."
    shares = [_share(name, share) for name, share in parity.task.items()]
    told = ", ".join(filter(None, shares))
    return f"{same}: {told}." if told else f"{same}."


LEAST_SCORE, LEAST_PIXELS = 0.005, 0.0005
"""Smaller differences of scores, and shares of the pixels, are not worth a word."""


def _share(name: str, share: float) -> str:
    """A task-level figure of parity in words; '' for one that says nothing more."""
    whole = round(share, 3) == 1
    match name:
        case "top5_agreement":
            return (
                "the five likeliest labels are the same" if whole else f"{fmt.percent(share)} of the labels are shared"
            )
        case "matched_boxes":
            return "every box has its match" if whole else f"{fmt.percent(share)} of the boxes match"
        case "mask_iou":
            return "the masks are the same" if whole else f"the masks overlap by {fmt.percent(share)}"
        case "score_difference":
            return f"scores differ by at most {share:.2g}" if share >= LEAST_SCORE else ""
        case "changed_pixels":
            return f"{fmt.percent(share)} of the pixels changed" if share >= LEAST_PIXELS else ""
        case _:
            return ""


def details(result: RunResult) -> list[tuple[str, str, str]]:
    """Everything an engineer asks next, as (name, value, explanation in one line). Only what was measured."""
    return [
        *_latencies(result),
        *_reasons(result),
        *_compilation(result),
        *_correctness(result),
        *_surroundings(result),
    ]


def _latencies(result: RunResult) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    for name, measured in (("Eager", result.eager), ("Compiled", result.compiled)):
        if measured is None:
            continue
        median = measured.median_seconds
        rows.append(
            (
                f"{name} latency",
                f"{fmt.latency(median)} median, {fmt.latency(measured.p95_seconds)} p95",
                f"Wall time of a synchronised call, {len(measured.wall_seconds)} timed; 1 in 20 takes longer than p95.",
            )
        )
        rate = fmt.rate(result.spec.batch_size / median)
        rows.append((f"{name} rate", rate, f"Batch size {result.spec.batch_size} divided by the median latency."))
        if run := measured.back_to_back:
            rows.append(
                (
                    f"{name} throughput",
                    fmt.rate(run.calls * result.spec.batch_size / run.seconds),
                    f"{run.calls} calls back to back, none waiting for the one before.",
                )
            )
            if run.energy_joules is not None:
                joules = run.energy_joules / (run.calls * result.spec.batch_size)
                rows.append(
                    (f"{name} energy", f"{joules:.3g} J an image", "By the GPU's own counter, over those calls.")
                )
        if measured.median_device_seconds is not None:
            rows.append(
                (
                    f"{name} time on the GPU",
                    fmt.latency(measured.median_device_seconds),
                    "Further calls by CUDA events, with their launches queued ahead: the work alone.",
                )
            )
        if measured.peak_memory_bytes is not None:
            reserved = f", {fmt.size(measured.peak_reserved_bytes)} reserved" if measured.peak_reserved_bytes else ""
            rows.append(
                (
                    f"{name} peak memory",
                    f"{fmt.size(measured.peak_memory_bytes)}{reserved}",
                    "Most memory held at once during one call, weights included, in a pass of its own."
                    if reserved
                    else "Largest resident set of the whole process during one call, in a pass of its own.",
                )
            )
    if told := launch_overhead(result):
        rows.append(
            ("Launch overhead", told, "Wall time of a call minus its time on the GPU: what CUDA graphs can remove.")
        )
    speedup = result.speedup
    if speedup is not None:
        rows.append(
            (
                "Speed-up",
                f"{_exact(speedup.ratio)}× ({_exact(speedup.low)} to {_exact(speedup.high)}×)",
                "Eager time divided by compiled time; above 1 compiled is faster. From paired blocks, 95 % confidence.",
            )
        )
    if result.control is not None:
        rows.append(
            (
                "Noise floor",
                f"±{fmt.percent(stats.noise_floor(result.control))}",
                "Eager timed against eager in the same blocks: a smaller difference than this means nothing here.",
            )
        )
    if not result.interleaved:
        rows.append(
            (
                "Order",
                "one after the other",
                "The two did not fit in memory together, so drift of the machine does not cancel.",
            )
        )
    return rows


def launch_overhead(result: RunResult) -> str:
    """'58 % of eager's time is launching kernels: CUDA graphs can remove it.'; '' where there is one clock only."""
    shares = {
        name: measured.launch_seconds / measured.median_seconds
        for name, measured in (("eager", result.eager), ("compiled", result.compiled))
        if measured is not None and measured.launch_seconds is not None
    }
    if "eager" not in shares:
        return ""
    told = f"{fmt.percent(shares['eager'])} of eager's time is launching kernels"
    if "compiled" in shares:
        told += f", {fmt.percent(shares['compiled'])} of compiled's"
    used = result.compilation is not None and result.compilation.cudagraphs == "used"
    if shares["eager"] < LITTLE:
        return f"{told}: the GPU is the limit, CUDA graphs have little to remove."
    return f"{told}: CUDA graphs removed the difference." if used else f"{told}: CUDA graphs can remove it."


LITTLE = 0.1
LAUNCH_BOUND, GPU_BOUND = 0.6, 0.9
"""A GPU that works less of a call's time than the first waits for launches; more than the second, nothing waits."""


def why(result: RunResult) -> str:
    """'launch-bound: 412 kernels a call, GPU busy 31 %; compiled with CUDA graphs 96 kernels, busy 94 %'.

    On a CPU, where nothing is launched, only the operators are counted. '' without a profile.
    """
    eager, compiled = result.eager, result.compiled
    if eager is None or eager.profile is None:
        return ""
    if eager.busy_share is None:
        told = f"{_whole(eager.profile.kernels)} operators a call"
        after = ", not counting what inductor fused"
    else:
        told = f"{_kernels(eager.profile.kernels)} a call, GPU busy {fmt.percent(eager.busy_share)}"
        if eager.busy_share < LAUNCH_BOUND:
            told = f"launch-bound: {told}"
        elif eager.busy_share > GPU_BOUND:
            told = f"bound by the GPU's work: {told}"
        after = ""
    if compiled is not None and compiled.profile is not None:
        graphs = result.compilation is not None and result.compilation.cudagraphs == "used"
        told += f"; compiled{' with CUDA graphs' if graphs else ''} "
        if compiled.busy_share is None:
            told += _whole(compiled.profile.kernels) + after
        else:
            told += f"{_kernels(compiled.profile.kernels)}, busy {fmt.percent(compiled.busy_share)}"
    return told


def ceiling(result: RunResult) -> str:
    """'no call here can take less than 1.2 ms (matrix products); eager reaches 12 %, compiled 31 % of that speed'."""
    roofline = result.roofline
    if roofline is None:
        return ""
    bound = "matrix products" if roofline.compute_seconds >= roofline.memory_seconds else "reading the weights"
    shares = [
        f"{name} reaches {fmt.percent(share)}"
        for name, measured in (("eager", result.eager), ("compiled", result.compiled))
        if measured is not None and (share := result.roofline_share(measured)) is not None
    ]
    told = f"a call needs {fmt.latency(roofline.least_seconds)} here at least, for {bound}"
    return f"{told}: {', '.join(shares)} of that speed" if shares else told


def _kernels(number: float) -> str:
    return count(round(number), "kernel")


def _whole(number: float) -> str:
    return f"{round(number):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def why_title(result: RunResult) -> str:
    """'Why? launch-bound: 412 kernels a call, GPU busy 31 %'; '' without a profile and a roofline."""
    told = why(result) or ceiling(result)
    return f"Why? {told.partition(';')[0]}" if told else ""


def longest_kernels(result: RunResult) -> list[tuple[str, str, str]]:
    """'Eager, longest 1', its time and share, and its name."""
    return [
        (
            f"{name}, longest {number}",
            f"{fmt.latency(kernel.seconds)}, {fmt.percent(kernel.share)}",
            f"{kernel.name}, {_whole(kernel.launches)} a call.",
        )
        for name, measured in (("Eager", result.eager), ("Compiled", result.compiled))
        if measured is not None and measured.profile is not None
        for number, kernel in enumerate(measured.profile.longest, 1)
    ]


def _reasons(result: RunResult) -> list[tuple[str, str, str]]:
    """What the profiler and the roofline say, for the table of all figures."""
    rows: list[tuple[str, str, str]] = []
    if told := why(result):
        rows.append(("Why", told, "By torch.profiler in a pass of its own; busy: kernels' time over the median call."))
    rows += longest_kernels(result)
    if roofline := result.roofline:
        rows.append(
            (
                "Roofline",
                ceiling(result),
                f"{roofline.operations / 1e9:.3g} G operations at {roofline.matrix_rate / 1e12:.3g} T a second, "
                f"{fmt.size(roofline.least_bytes)} at least at {fmt.size(roofline.copy_rate)} a second: "
                "both rates measured in this run.",
            )
        )
    return rows


def _compilation(result: RunResult) -> list[tuple[str, str, str]]:
    compiled = result.compilation
    if compiled is None:
        return []
    rows: list[tuple[str, str, str]] = []
    for state, cost, filling in (
        ("cold", compiled.cold, "with nothing of this model in the cache"),
        ("warm", compiled.warm, "from the cache, in a fresh process"),
    ):
        if cost is None:
            continue
        where = "" if not cost.run_id else f", by run {cost.run_id}"
        spent = ", ".join(f"{name} {fmt.duration(part)}" for name, part in cost.parts.items() if part >= 0.05)
        rows.append(
            (
                f"First call, {state}",
                f"{fmt.duration(cost.first_call_seconds)} {filling}{where}",
                spent or "Traced and run.",
            )
        )
        if result.speedup is not None:
            rows.append((f"Pays for itself, {state}", *_break_even(result.break_even(cost.first_call_seconds))))
    if not rows:
        rows.append(
            (
                "First compiled call",
                fmt.duration(compiled.first_call_seconds),
                "Tracing, compiling and one run, no cache.",
            )
        )
    if result.compiled is not None and len(result.compiled.warmup_seconds) >= 3:
        first_three = ", ".join(fmt.latency(seconds) for seconds in result.compiled.warmup_seconds[:3])
        rows.append(
            ("First three compiled calls", first_three, "The second may still be slow, by design: graphs are recorded.")
        )
    rows.append(
        (
            "Graphs",
            f"{compiled.graphs}, {count(len(compiled.graph_breaks), 'break')}",
            "One graph without a break: torch.compile took the model whole.",
        )
    )
    rows += [
        (f"Graph break {number}", brk.reason, brk.location or "dynamo did not say where")
        for number, brk in enumerate(compiled.graph_breaks, 1)
    ]
    if compiled.kernels is not None:
        rows.append(
            (
                "Kernels",
                f"{compiled.kernels} generated, {compiled.extern_kernels} of libraries",
                "Calls in the code that inductor wrote; libraries do matrix products and convolutions.",
            )
        )
    if compiled.cache_hits or compiled.cache_misses:
        found = f"{count(compiled.cache_hits, 'graph')} found, {compiled.cache_misses} missing"
        rows.append(("Compile cache", found, "Inductor's cache on disk."))
    rows += [(f"Left to eager {number}", one.location, one.reason) for number, one in enumerate(compiled.fallbacks, 1)]
    rows += [(f"Recompile {number}", one.location, one.reason) for number, one in enumerate(compiled.recompiles, 1)]
    rows.append(
        (
            "Recompiles while timing",
            str(compiled.recompiles_while_timing),
            "Anything but 0 makes the figures void: some calls paid for compiling.",
        )
    )
    rows.append(
        ("CUDA graphs", compiled.cudagraphs, "All kernels of a call recorded once and replayed with one launch.")
    )
    return rows


def _break_even(found: BreakEven | None) -> tuple[str, str]:
    """After how many calls, and between which bounds; the interval is that of the speed-up."""
    why = "First call divided by the time that each later call saves."
    if found is None or found.calls is None:
        return "never", why
    bounds = f"{count(found.low or 0, 'call')} to {count(found.high, 'call') if found.high is not None else 'never'}"
    images = "" if found.images == found.calls else f", {count(found.images or 0, 'image')}"
    return f"after {count(found.calls, 'call')}{images}", f"{why} 95 % interval: {bounds}."


def count(number: int, thing: str) -> str:
    """'no breaks', '1 break', '1 200 calls'."""
    shown = grouped(number) if number else "no"
    return f"{shown} {thing}{'' if number == 1 else 's'}"


def _correctness(result: RunResult) -> list[tuple[str, str, str]]:
    parity = result.parity
    if parity is None:
        return []
    rows: list[tuple[str, str, str]] = [("Same output", parity.verdict, parity.reason)]
    if parity.max_abs_error is not None:
        rows.append(
            (
                "Largest difference",
                f"{parity.max_abs_error:.2g}",
                "Largest absolute difference of any number in the output.",
            )
        )
    return rows


def _machine_states(result: RunResult) -> list[tuple[str, str, str]]:
    """What the looks between the blocks saw: the range of each figure."""
    states = result.machine_states
    rows: list[tuple[str, str, str]] = []
    foreign = [state.foreign_cpu for state in states if state.foreign_cpu is not None]
    if foreign:
        rows.append(("Other processes", _span(foreign, fmt.percent), "Share of the processor that others kept busy."))
    gpus = [state.gpu for state in states if state.gpu is not None]
    for name, values, show, why in (
        (
            "GPU clock",
            [gpu.sm_clock_hz for gpu in gpus],
            lambda hertz: f"{hertz / 1e6:.0f} MHz",
            "Of the multiprocessors.",
        ),
        ("GPU temperature", [gpu.temperature_celsius for gpu in gpus], lambda degrees: f"{degrees:.0f} °C", "By NVML."),
        ("GPU power", [gpu.power_watts for gpu in gpus], lambda watts: f"{watts:.0f} W", "Drawn by the whole board."),
    ):
        known = [value for value in values if value is not None]
        if known:
            rows.append((name, _span(known, show), why))
    return rows


def _span(values: list[float], show: Callable[[float], str]) -> str:
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low} to {high}"


def _surroundings(result: RunResult) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    parts = result.end_to_end
    if parts is not None:
        rows.append(
            (
                "Around the model",
                f"{fmt.latency(parts.preprocess_seconds)} before, {fmt.latency(parts.copy_seconds)} copy, "
                f"{fmt.latency(parts.postprocess_seconds)} after",
                "Decoding and preparing a picture, moving the batch to the device, decoding an output: "
                "compiling does not touch these.",
            )
        )
    if requests := result.request_seconds:
        rows.append(
            (
                "Whole request",
                f"{fmt.latency(requests[0])} → {fmt.latency(requests[1])}, {_exact(requests[0] / requests[1])}×",
                "With all that around the model, picture after picture: the speed-up that a user would notice.",
            )
        )
    machine = result.environment
    if machine is not None:
        rows.append(
            ("Machine", machine.device_name, f"{machine.cpu}, {machine.cpu_count} cores, {machine.threads} threads")
        )
        versions = f"torch {machine.torch}, transformers {machine.transformers}"
        more = [f"Python {machine.python}", machine.platform]
        more += [f"{name} {value}" for name, value in (("CUDA", machine.cuda), ("driver", machine.driver)) if value]
        rows.append(("Versions", versions, ", ".join(more)))
        if machine.settings:
            told = ", ".join(f"{name} {value}" for name, value in machine.settings.items())
            rows.append(("Settings in force", told, "Read back from torch and the model."))
    rows += _machine_states(result)
    rows.append(
        (
            "Whole run",
            fmt.duration(result.elapsed_seconds),
            "From the press of the button to the result, loading and compiling included.",
        )
    )
    return rows


# The sections of a result: a title that already answers, and the sentences under it.


def latency_title(result: RunResult) -> str:
    return f"Latency: {times(result)}"


def back_to_back(result: RunResult) -> str:
    """What a server with a full queue gets; '' where it was not measured."""
    rates = [
        fmt.rate(run.calls * result.spec.batch_size / run.seconds)
        for side in (result.eager, result.compiled)
        if side is not None and (run := side.back_to_back) is not None
    ]
    if len(rates) < 2:
        return ""
    return f"Call after call, without waiting for each: {rates[0]} eager, {rates[1]} compiled."


def really_compiled(compiled: Compilation) -> str:
    """'Yes: the whole model is one graph'; the answer to 'Did it really compile?'."""
    if compiled.graphs == 0:
        return "No: torch.compile captured no graph, so “compiled” ran as eager"
    if compiled.fallbacks:
        return f"Partly: {count(len(compiled.fallbacks), 'frame')} of it fell back to eager"
    if compiled.graph_breaks:
        return f"Partly: {count(compiled.graphs, 'graph')} with {count(len(compiled.graph_breaks), 'break')} between"
    if compiled.recompiles_while_timing:
        return "Yes, and again while it was timed: the figures are void"
    return "Yes: the whole model is one graph" if compiled.graphs == 1 else f"Yes: {compiled.graphs} graphs, no breaks"


def cudagraphs(compiled: Compilation) -> str:
    """'not used: …' rather than the worker's 'skipped: …'."""
    return compiled.cudagraphs.replace("skipped: ", "not used: ", 1)


COST_WORDS = {"cold": "With an empty cache", "warm": "From a filled cache"}


def pays_title(result: RunResult) -> str:
    """'When does compiling pay? After 5 480 calls, from a filled cache after 171'."""
    question = "When does compiling pay?"
    if result.compilation is None or result.speedup is None:
        return question
    if result.speedup.verdict == "unsure":
        return f"{question} Too noisy to tell"
    calls = calls_to_pay(result)
    if not calls:
        return f"{question} Never, here"
    if "cold" not in calls:
        return f"{question} From a filled cache after {count(calls['warm'], 'call')}"
    warm = f", from a filled cache after {grouped(calls['warm'])}" if "warm" in calls else ""
    return f"{question} After {count(calls['cold'], 'call')}{warm}"


def calls_to_pay(result: RunResult) -> dict[str, int]:
    """After how many calls compiling has paid for itself, 'cold' and 'warm', as far as known; none: it never does."""
    if result.compilation is None or result.speedup is None or result.speedup.verdict != "faster":
        return {}
    found = {cache: result.break_even(cost) for cache, cost in result.compilation.known_costs.items()}
    return {cache: even.calls for cache, even in found.items() if even is not None and even.calls is not None}


def pays(result: RunResult) -> list[str]:
    """One sentence for each state of the cache whose first call was measured."""
    if result.compilation is None:
        return []
    return [
        f"{COST_WORDS[cache]} the first call takes {fmt.duration(seconds)}{_paid(result, seconds)}."
        for cache, seconds in result.compilation.known_costs.items()
    ]


def _paid(result: RunResult, seconds: float) -> str:
    even = result.break_even(seconds)
    if even is None or result.speedup is None or result.speedup.verdict == "unsure":
        return ""
    if even.calls is None or result.speedup.verdict != "faster":
        return ", and never pays for itself"
    said = f"; it has paid for itself after {count(even.calls, 'call')}"
    if even.low is not None and even.high is not None:
        said += f" (95 %: {grouped(even.low)} to {grouped(even.high)})"
    elif even.low is not None:
        said += f" (95 %: {grouped(even.low)} or more)"
    if result.spec.batch_size > 1 and even.images is not None:
        said += f", which is {count(even.images, 'image')}"
    return said


def grouped(number: int) -> str:
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def memory_title(result: RunResult) -> str:
    """'Memory: 812 MB → 640 MB'; '' where neither peak was measured."""
    peaks = [side.peak_memory_bytes for side in (result.eager, result.compiled) if side is not None]
    known = [fmt.size(peak) for peak in peaks if peak is not None]
    return f"Memory: {' → '.join(known)}" if known else ""


def memory_meaning(result: RunResult) -> str:
    if result.spec.device == "cuda":
        return (
            "The most bytes that torch's allocator had given out during one call, weights included. Reserved is what "
            "the allocator held of the GPU for it: that much must be free."
        )
    return (
        "The largest resident set of the whole process during one call: Python, torch and both models are in it, so "
        "compare the two, not either with the model's size."
    )


def request_title(result: RunResult) -> str:
    requests = result.request_seconds
    if requests is None:
        return ""
    return f"A whole request: {_faster(requests[0] / requests[1])}"


def _faster(ratio: float) -> str:
    if abs(ratio - 1) < stats.SMALLEST_DIFFERENCE:
        return "no difference"
    return f"{fmt.ratio(ratio)} faster" if ratio > 1 else f"{fmt.ratio(1 / ratio)} slower"


def request(result: RunResult) -> str:
    """The request's speed-up beside the model's own."""
    requests, speedup = result.request_seconds, result.speedup
    if requests is None or speedup is None or result.eager is None:
        return ""
    share = result.eager.median_seconds / requests[0]
    return (
        f"The model alone is {_faster(speedup.ratio)}, a whole request {_faster(requests[0] / requests[1])}: "
        f"{fmt.percent(share)} of an eager request is the model, and compiling does not touch the rest."
    )


NOTICEABLE = 0.05
"""Share of the machine that other programs may use before it is worth a word."""


def machine_title(result: RunResult) -> str:
    machine = result.environment
    name = machine.device_name if machine else result.spec.device
    return f"The machine: {name}{_disturbed(result)}"


def _disturbed(result: RunResult) -> str:
    match disturbance(result):
        case "throttled", reasons:
            return f", throttled ({reasons})"
        case "shared", _:
            return ", shared with other processes"
        case "used", share:
            return f", other programs used {share} of it"
        case "idle", _:
            return ", otherwise idle"
        case _:
            return ""


def disturbance(result: RunResult) -> tuple[Literal["throttled", "shared", "used", "idle", ""], str]:
    """What the machine did beside the run, and how much or why; '' where it does not say."""
    foreign = [state.foreign_cpu for state in result.machine_states if state.foreign_cpu is not None]
    gpus = [state.gpu for state in result.machine_states if state.gpu is not None]
    if reasons := throttling(gpus):
        return "throttled", ", ".join(reasons)
    if any(gpu.foreign_processes for gpu in gpus):
        return "shared", ""
    if not foreign:
        return "", ""
    mean = sum(foreign) / len(foreign)
    return ("used", fmt.percent(mean)) if mean > NOTICEABLE else ("idle", "")


def throttling(gpus: Sequence[GpuState]) -> list[str]:
    """Every reason that was seen for a lowered clock, each once."""
    return sorted({reason for gpu in gpus for reason in gpu.throttle_reasons})


def machine_states(result: RunResult) -> list[tuple[str, str, str]]:
    """What the looks between the blocks saw, as (name, value, explanation); only what the machine tells."""
    rows = _machine_states(result)
    gpus = [state.gpu for state in result.machine_states if state.gpu is not None]
    if gpus:
        reasons = ", ".join(throttling(gpus)) or "no"
        others = str(max(gpu.foreign_processes for gpu in gpus))
        rows.append(("GPU throttled", reasons, "Why the clock was lower than asked; idling is none."))
        rows.append(("Other processes on the GPU", others, "What holds a context there besides this run."))
    return rows


STAGE_WORDS = {
    "dynamo": "tracing Python (dynamo)",
    "aot_autograd": "lowering (AOTAutograd)",
    "inductor": "generating and compiling code (inductor)",
    "backend compile": "the compiler behind dynamo, lowering included",
    "first run": "the run itself, and what no stage accounts for",
}


def compile_parts(result: RunResult) -> list[tuple[str, str, str]]:
    """Where the seconds of a first call went, as (stage, cold, warm); '' where a state was not measured."""
    compiled = result.compilation
    if compiled is None:
        return []
    cold, warm = (cost.parts if cost is not None else {} for cost in (compiled.cold, compiled.warm))
    return [
        (
            STAGE_WORDS.get(stage, stage),
            fmt.duration(cold[stage]) if stage in cold else "",
            fmt.duration(warm[stage]) if stage in warm else "",
        )
        for stage in dict.fromkeys((*cold, *warm))
    ]


# Before the button.


def foretold(expected: Range, told: Callable[[float], str]) -> tuple[str, str]:
    """The two ends, the likeliest for both where they are near."""
    if expected.high <= 1.75 * expected.low:
        return (told(expected.likely),) * 2
    return told(expected.low), told(expected.high)


def rounded_duration(seconds: float) -> str:
    """Nobody foretells 4 min 37 s: whole seconds up to ten, steps of five, then whole minutes."""
    if seconds < 10:
        return f"{max(1, round(seconds))} s"
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    return f"{round(seconds / 60)} min"
