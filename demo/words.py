"""Sentences about a result, the same ones on the page, in the terminal and in an export."""

from __future__ import annotations

from collections.abc import Callable

from demo import format as fmt
from demo import stats
from demo.schema import BreakEven, RunResult


def headline(result: RunResult) -> str:
    """One sentence for somebody who reads nothing else; a loss is told as plainly as a win."""
    parts = headline_parts(result)
    if parts is None:
        return result.failure.message if result.failure else "The run gave no figures."
    return f"{' '.join(filter(None, parts))}, {times(result)}"


def headline_parts(result: RunResult) -> tuple[str, str, str] | None:
    """The headline as (before, what is written very large, after); None where there is no figure to tell."""
    speedup = result.speedup
    if result.failure is not None or speedup is None:
        return None
    if result.compilation is not None and result.compilation.recompiles_while_timing:
        return "", "Void:", "the model was recompiled while timed"
    match speedup.verdict:
        case "faster":
            return "Compiled is", fmt.ratio(speedup.ratio), "faster"
        case "slower":
            return "Compiled is", fmt.ratio(1 / speedup.ratio), "slower"
        case "same":
            return "Compiled makes", "no difference", ""
        case _:
            return "", "Too noisy", "to tell"


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
    """'1.41 to 1.45×'; with a third decimal where two would make both ends the same."""
    return f"{low:.3f} to {high:.3f}×" if high - low < 0.02 else fmt.ratio_interval(low, high)


def _exact(value: float) -> str:
    """Three digits that count: '2.30', '0.0984'."""
    return f"{value:#.3g}" if value < 100 else f"{value:.0f}"


def noise_floor(result: RunResult) -> str:
    """What the A/A control answers: how far eager differs from itself on this machine."""
    if result.control is None:
        return "noise floor not measured"
    return f"noise floor ±{fmt.percent(stats.noise_floor(result.control))}: eager timed against itself"


MODE_WORDS: dict[str, str] = {
    "default": "Fuses operations into fewer kernels. The place to start.",
    "reduce-overhead": "On a GPU, records the kernels of a call and replays them with one launch: helps small batches.",
    "max-autotune": "Tries many kernels for each operation, keeps the fastest, replays launches. Compiles longest.",
    "max-autotune-no-cudagraphs": "Tries many kernels, but launches them one by one: less memory than max-autotune.",
    "lite": "Leaves operations to eager's own kernels: compiles quickly, gains little.",
}
"""What each compile mode does, for somebody who chooses one."""


def mode_word(mode: str) -> str:
    return MODE_WORDS.get(mode, "A mode of this machine's torch that has no description here.")


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
            return f"scores differ by at most {share:.2g}" if share >= 0.005 else ""
        case "changed_pixels":
            return f"{fmt.percent(share)} of the pixels changed" if share >= 0.0005 else ""
        case _:
            return ""


def details(result: RunResult) -> list[tuple[str, str, str]]:
    """Everything an engineer asks next, as (name, value, explanation in one line). Only what was measured."""
    return [*_latencies(result), *_compilation(result), *_correctness(result), *_surroundings(result)]


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
                "Eager time divided by compiled time; above 1 compiled is faster. Paired bootstrap over blocks, 95 %.",
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
    shown = f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}") if number else "no"
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
