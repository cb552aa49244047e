"""Sentences about a result, the same ones on the page, in the terminal and in an export.

All are plain text (`Language.marked` makes HTML of them), in English unless another language is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from demo.core import format as fmt
from demo.core import stats
from demo.core.languages import ENGLISH, Language
from demo.core.result import Compilation, Environment, GpuState, GraphBreak, Measurement, RunResult, RunSpec
from demo.runs.forecast import Range

Row = tuple[str, str, str]
"""A name, its value, and what it means in one line."""


def headline(result: RunResult) -> str:
    """One English sentence for somebody who reads nothing else; a loss is told as plainly as a win."""
    parts = headline_parts(result)
    if parts is None:
        return result.failure.message if result.failure else ENGLISH.plain("no_figures")
    return f"{' '.join(filter(None, parts))}, {times(result)}"


Outcome = Literal["void", "faster", "slower", "same", "unsure"]


def outcome(result: RunResult) -> Outcome | None:
    """What the headline has to say; None where there is no figure to tell."""
    if result.failure is not None or result.speedup is None:
        return None
    return "void" if result.void else result.speedup.verdict


def headline_parts(result: RunResult, say: Language = ENGLISH) -> tuple[str, str, str] | None:
    """The headline as (before, what is written very large, after); None where there is no figure to tell."""
    speedup = result.speedup
    said = outcome(result)
    if said is None or speedup is None:
        return None
    match said:
        case "faster" | "slower":
            figure = fmt.ratio(speedup.ratio if said == "faster" else 1 / speedup.ratio)
            return say.plain(f"{said}_before"), say.plain_value(figure), say.plain(f"{said}_after")
        case "same":
            return say.plain("same_before"), say.plain("same_figure"), ""
        case _:
            return "", say.plain(f"{said}_figure"), say.plain(f"{said}_after")


def status(result: RunResult, say: Language = ENGLISH) -> str:
    """'Finished', 'Out of memory'."""
    return say.plain(f"status_{result.status}")


def asked(spec: RunSpec, say: Language = ENGLISH) -> str:
    """'shapes-vit · batch 4 · default · float32', and whatever else was asked that is not the default."""
    parts = [say.plain_value(spec.checkpoint), say.plain("asked_batch", size=spec.batch_size)]
    parts += [say.plain_value(spec.mode), say.plain_value(spec.dtype)]
    if spec.weights == "random":
        parts.append(say.plain("asked_random"))
    if spec.protocol != "interleaved":
        parts.append(say.plain("choice_as_published"))
    if spec.attention != "auto":
        parts.append(say.plain("asked_attention", attention=spec.attention))
    if spec.threads is not None:
        parts.append(count(spec.threads, "thread", say))
    if spec.cache == "empty":
        parts.append(say.plain("asked_cache"))
    switches = ("fullgraph", "channels_last", "graph_break")
    return " · ".join([*parts, *(say.plain(f"asked_{name}") for name in switches if getattr(spec, name))])


def times(result: RunResult) -> str:
    """'329 ms → 144 ms': the median call, eager then compiled."""
    if result.eager is None or result.compiled is None:
        return ""
    return f"{fmt.latency(result.eager.median_seconds)} → {fmt.latency(result.compiled.median_seconds)}"


def interval(result: RunResult, say: Language = ENGLISH) -> str:
    """'speed-up 1.41 to 1.45×, 95 % confidence'; of a loss the slow-down, so that its digits tell something."""
    speedup = result.speedup
    if speedup is None:
        return ""
    if speedup.verdict == "slower":
        low, high = ends(1 / speedup.high, 1 / speedup.low)
        return say.plain("interval_slowdown", low=low, high=high, confidence="95 %")
    low, high = ends(speedup.low, speedup.high)
    return say.plain("interval_speedup", low=low, high=high, confidence="95 %")


def ends(low: float, high: float) -> tuple[str, str]:
    """'1.41' and '1.45×'; with a third decimal where two would make both ends the same."""
    return (f"{low:.3f}", f"{high:.3f}×") if high - low < 0.02 else fmt.ratio_ends(low, high)


def _exact(value: float) -> str:
    """Three digits that count: '2.30', '0.0984'."""
    return f"{value:#.3g}" if value < 100 else f"{value:.0f}"


def noise_floor(result: RunResult, say: Language = ENGLISH) -> str:
    """What the A/A control answers: how far eager differs from itself on this machine."""
    if result.control is None:
        return say.plain("noise_floor_none")
    return say.plain("noise_floor", floor=f"±{fmt.percent(stats.noise_floor(result.control))}")


def agreement(result: RunResult, say: Language = ENGLISH) -> str:
    """Do the two see the same? One sentence from the task-level parity, '' where nothing was compared."""
    parity = result.parity
    if parity is None or parity.verdict == "not comparable":
        return ""
    verdict = say.plain("agree" if parity.verdict == "match" else "differ")
    seen = (result.predictions or {}).values()
    if seen and all(one.boxes == () or one.segments == () for one in seen):
        told = [say.plain("share_nothing")]
    else:
        told = [said for name, share in parity.task.items() if (said := _share(name, share, say))]
    return say.sentence(say.composed("agreement", verdict=verdict, details=say.listed(told)) if told else verdict)


LEAST_SCORE, LEAST_PIXELS = 0.005, 0.0005
"""Smaller differences of scores, and shares of the pixels, are not worth a word."""
_SHARES = {"top5_agreement": "share_labels", "matched_boxes": "share_boxes", "mask_iou": "share_masks"}


def _share(name: str, share: float, say: Language) -> str:
    """A task-level figure of parity in words; '' for one that says nothing more."""
    if key := _SHARES.get(name):
        return say.plain(f"{key}_same") if round(share, 3) == 1 else say.plain(key, share=fmt.percent(share))
    if name == "score_difference" and share >= LEAST_SCORE:
        return say.plain("share_scores", share=f"{share:.2g}")
    if name == "changed_pixels" and share >= LEAST_PIXELS:
        return say.plain("share_pixels", share=fmt.percent(share))
    return ""


def count(number: int, thing: str, say: Language = ENGLISH) -> str:
    """'no breaks', '1 break', '1 200 calls'."""
    if not number:
        return say.plain(f"count_{thing}_none")
    return say.plain(f"count_{thing}_{'one' if number == 1 else 'many'}", count=grouped(number))


def variant(name: str, say: Language = ENGLISH) -> str:
    """'eager' or 'compiled', as it stands at a bar."""
    return say.plain(f"variant_{name}").lower()


def out_of_memory(say: Language = ENGLISH) -> str:
    """What stands in place of a figure."""
    return say.plain("status_out_of_memory").lower()


def enumerated(phrases: Iterable[str], say: Language = ENGLISH) -> str:
    """'1', '1 and 4', '1, 4 and 16'; the phrases are in this language already."""
    *most, last = phrases
    return say.composed("chart_both", most=say.listed(most), last=last) if most else last


def grouped(number: int) -> str:
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def rate(per_second: float, say: Language = ENGLISH) -> str:
    """'694 images/s'."""
    return say.plain("rate", rate=fmt.rate(per_second))


def _variants(result: RunResult, say: Language) -> list[tuple[str, str, Measurement]]:
    """'eager' and 'compiled' with their names, as far as they were measured."""
    sides = (("eager", result.eager), ("compiled", result.compiled))
    return [(name, say.plain(f"variant_{name}"), side) for name, side in sides if side is not None]


def _known(kind: str, word: str, say: Language) -> str:
    """The text of a word that a worker sends; a word that a newer one might send is quoted as it is."""
    key = f"{kind}_{word.replace(' ', '_')}"
    return say.plain(key) if key in say.texts else say.plain_quoted(word)


def details(result: RunResult, say: Language = ENGLISH) -> list[Row]:
    """Everything an engineer asks next, as (name, value, explanation in one line). Only what was measured."""
    return [
        *_latencies(result, say),
        *_reasons(result, say),
        *_compilation(result, say),
        *_correctness(result, say),
        *_surroundings(result, say),
    ]


def _latencies(result: RunResult, say: Language) -> list[Row]:
    rows: list[Row] = []
    for _, variant, measured in _variants(result, say):
        rows += _variant(variant, measured, result.spec.batch_size, say)
    if told := launch_overhead(result, say):
        rows.append((say.plain("row_launch"), told, say.plain("row_launch_why")))
    speedup = result.speedup
    if speedup is not None:
        low, high = _exact(speedup.low), f"{_exact(speedup.high)}×"
        value = say.plain("row_speedup_value", ratio=f"{_exact(speedup.ratio)}×", low=low, high=high)
        rows.append((say.plain("row_speedup"), value, say.plain("row_speedup_why")))
    if result.control is not None:
        floor = say.plain_value(f"±{fmt.percent(stats.noise_floor(result.control))}")
        rows.append((say.plain("row_noise_floor"), floor, say.plain("row_noise_floor_why")))
    if not result.interleaved:
        rows.append((say.plain("row_order"), say.plain("row_order_value"), say.plain("row_order_why")))
    return rows


def _variant(variant: str, measured: Measurement, batch: int, say: Language) -> list[Row]:
    """What is known of the calls of eager, or of compiled."""

    def row(name: str, value: str, why: str) -> Row:
        return say.composed(f"row_{name}", variant=variant), value, why

    median = measured.median_seconds
    value = say.plain("row_latency_value", median=fmt.latency(median), p95=fmt.latency(measured.p95_seconds))
    rows = [
        row("latency", value, say.plain("row_latency_why", calls=len(measured.wall_seconds))),
        row("rate", rate(batch / median, say), say.plain("row_rate_why", size=batch)),
    ]
    if run := measured.back_to_back:
        why = say.plain("row_throughput_why", calls=run.calls)
        rows.append(row("throughput", rate(run.calls * batch / run.seconds, say), why))
        if run.energy_joules is not None:
            joules = f"{run.energy_joules / (run.calls * batch):.3g} J"
            rows.append(row("energy", say.plain("row_energy_value", energy=joules), say.plain("row_energy_why")))
    if measured.median_device_seconds is not None:
        seconds = say.plain_value(fmt.latency(measured.median_device_seconds))
        rows.append(row("gpu_time", seconds, say.plain("row_gpu_time_why")))
    if measured.peak_memory_bytes is not None:
        size, why = say.plain_value(fmt.size(measured.peak_memory_bytes)), say.plain("row_peak_why_process")
        if measured.peak_reserved_bytes:
            size = say.listed([size, say.plain("reserved", size=fmt.size(measured.peak_reserved_bytes))])
            why = say.plain("row_peak_why_gpu")
        rows.append(row("peak", size, why))
    return rows


def launch_overhead(result: RunResult, say: Language = ENGLISH) -> str:
    """'58 % of eager's time is launching kernels: CUDA graphs can remove it.'; '' where there is one clock only."""
    shares = {
        name: measured.launch_seconds / measured.median_seconds
        for name, measured in (("eager", result.eager), ("compiled", result.compiled))
        if measured is not None and measured.launch_seconds is not None
    }
    if "eager" not in shares:
        return ""
    key = "launch_both" if "compiled" in shares else "launch_eager"
    told = say.plain(key, **{name: fmt.percent(share) for name, share in shares.items()})
    used = result.compilation is not None and result.compilation.cudagraphs == "used"
    if shares["eager"] < LITTLE:
        return say.composed("launch_little", told=told)
    return say.composed("launch_removed" if used else "launch_removable", told=told)


LITTLE = 0.1
LAUNCH_BOUND, GPU_BOUND = 0.6, 0.9
"""A GPU that works less of a call's time than the first waits for launches; more than the second, nothing waits."""


def why(result: RunResult, say: Language = ENGLISH) -> str:
    """'launch-bound: 412 kernels a call, GPU busy 31 %; compiled with CUDA graphs 96 kernels, busy 94 %'.

    On a CPU, where nothing is launched, only the operators are counted. '' without a profile.
    """
    told, compiled = _why_eager(result, say), result.compiled
    if not told or compiled is None or compiled.profile is None:
        return told
    number = round(compiled.profile.kernels)
    if compiled.busy_share is None:
        after = say.plain("why_compiled_operators", operators=grouped(number))
    else:
        graphs = result.compilation is not None and result.compilation.cudagraphs == "used"
        key = "why_compiled_graphs" if graphs else "why_compiled_kernels"
        busy = say.plain_value(fmt.percent(compiled.busy_share))
        after = say.composed(key, kernels=count(number, "kernel", say), busy=busy)
    return f"{told}{say.texts['semicolon']}{after}"


def _why_eager(result: RunResult, say: Language) -> str:
    eager = result.eager
    if eager is None or eager.profile is None:
        return ""
    number = round(eager.profile.kernels)
    if eager.busy_share is None:
        return say.plain("why_operators", operators=grouped(number))
    bound = "launch_bound" if eager.busy_share < LAUNCH_BOUND else "gpu_bound"
    key = "kernels" if LAUNCH_BOUND <= eager.busy_share <= GPU_BOUND else bound
    busy = say.plain_value(fmt.percent(eager.busy_share))
    return say.composed(f"why_{key}", kernels=count(number, "kernel", say), busy=busy)


def ceiling(result: RunResult, say: Language = ENGLISH) -> str:
    """'a call needs 1.2 ms here at least, for matrix products: eager reaches 12 %, compiled 31 % of that speed'."""
    roofline = result.roofline
    if roofline is None:
        return ""
    bound = "products" if roofline.compute_seconds >= roofline.memory_seconds else "weights"
    shares = [
        say.plain(f"ceiling_{name}", share=fmt.percent(share))
        for name, _, measured in _variants(result, say)
        if (share := result.roofline_share(measured)) is not None
    ]
    told = say.plain(f"ceiling_{bound}", time=fmt.latency(roofline.least_seconds))
    return say.composed("ceiling_shares", told=told, shares=say.listed(shares)) if shares else told


def why_title(result: RunResult, say: Language = ENGLISH) -> str:
    """'Why? launch-bound: 412 kernels a call, GPU busy 31 %'; '' without a profile and a roofline."""
    told = _why_eager(result, say) or ceiling(result, say)
    return say.composed("section_why", answer=told) if told else ""


def longest_kernels(result: RunResult, say: Language = ENGLISH) -> list[Row]:
    """'Eager, longest 1', its time and share, and its name."""
    return [
        (
            say.composed("row_longest", variant=variant, number=say.plain_value(number)),
            say.listed([say.plain_value(fmt.latency(kernel.seconds)), say.plain_value(fmt.percent(kernel.share))]),
            say.plain("row_longest_why", kernel=kernel.name, launches=grouped(round(kernel.launches))),
        )
        for _, variant, measured in _variants(result, say)
        if measured.profile is not None
        for number, kernel in enumerate(measured.profile.longest, 1)
    ]


def _reasons(result: RunResult, say: Language) -> list[Row]:
    """What the profiler and the roofline say, for the table of all figures."""
    rows: list[Row] = []
    if told := why(result, say):
        rows.append((say.plain("row_why"), told, say.plain("row_why_why")))
    rows += longest_kernels(result, say)
    if roofline := result.roofline:
        explanation = say.plain(
            "row_roofline_why",
            operations=f"{roofline.operations / 1e9:.3g} G",
            matrix=f"{roofline.matrix_rate / 1e12:.3g} T",
            bytes=fmt.size(roofline.least_bytes),
            copied=fmt.size(roofline.copy_rate),
        )
        rows.append((say.plain("row_roofline"), ceiling(result, say), explanation))
    return rows


def _compilation(result: RunResult, say: Language) -> list[Row]:
    compiled = result.compilation
    if compiled is None:
        return []
    rows: list[Row] = []
    for state, cost in (("cold", compiled.cold), ("warm", compiled.warm)):
        if cost is None:
            continue
        value = say.plain(f"row_first_{state}_value", time=fmt.duration(cost.first_call_seconds))
        if cost.run_id:
            value = say.listed([value, say.plain("by_run", id=cost.run_id)])
        spent = [say.plain_quoted(f"{name} {fmt.duration(part)}") for name, part in cost.parts.items() if part >= 0.05]
        rows.append((say.plain(f"row_first_{state}"), value, say.listed(spent) or say.plain("row_first_traced")))
        if outcome(result) not in (None, "void"):
            rows.append((say.plain(f"row_pays_{state}"), *_break_even(result, cost.first_call_seconds, say)))
    if not rows:
        seconds = say.plain_value(fmt.duration(compiled.first_call_seconds))
        rows.append((say.plain("row_first"), seconds, say.plain("row_first_why")))
    if result.compiled is not None and len(result.compiled.warmup_seconds) >= 3:
        three = say.listed([say.plain_value(fmt.latency(seconds)) for seconds in result.compiled.warmup_seconds[:3]])
        rows.append((say.plain("row_first_three"), three, say.plain("row_first_three_why")))
    rows.append(graphs(compiled, say))
    rows += [
        (
            say.plain("row_break", number=number),
            say.plain_quoted(one.reason),
            say.plain_quoted(one.location) or say.plain("row_break_nowhere"),
        )
        for number, one in enumerate(compiled.graph_breaks, 1)
    ]
    if compiled.kernels is not None:
        counted = {"generated": compiled.kernels, "libraries": compiled.extern_kernels}
        rows.append((say.plain("row_kernels"), say.plain("row_kernels_value", **counted), say.plain("row_kernels_why")))
    if compiled.cache_hits or compiled.cache_misses:
        found, missing = count(compiled.cache_hits, "graph", say), say.plain_value(compiled.cache_misses)
        value = say.composed("row_cache_value", found=found, missing=missing)
        rows.append((say.plain("row_cache"), value, say.plain("row_cache_why")))
    rows += _places("row_fallback", compiled.fallbacks, say) + _places("row_recompile", compiled.recompiles, say)
    return [*rows, recompiles(compiled, say), cudagraphs(compiled, say)]


def _places(key: str, found: Sequence[GraphBreak], say: Language) -> list[Row]:
    return [
        (say.plain(key, number=number), say.plain_quoted(one.location), say.plain_quoted(one.reason))
        for number, one in enumerate(found, 1)
    ]


def graphs(compiled: Compilation, say: Language = ENGLISH) -> Row:
    breaks = count(len(compiled.graph_breaks), "break", say)
    value = say.listed([say.plain_value(compiled.graphs), breaks])
    return say.plain("row_graphs"), value, say.plain("row_graphs_why")


def recompiles(compiled: Compilation, say: Language = ENGLISH) -> Row:
    number = say.plain_value(compiled.recompiles_while_timing)
    return say.plain("row_recompiles"), number, say.plain("row_recompiles_why")


_SKIPPED = "skipped: "
"""How a worker begins to tell why there are no CUDA graphs."""


def cudagraphs(compiled: Compilation, say: Language = ENGLISH) -> Row:
    """'used', 'not asked', or 'not used: ' and the worker's reason."""
    told = compiled.cudagraphs
    if told.startswith(_SKIPPED):
        used = say.composed("no_cudagraphs", reason=say.plain_quoted(told.removeprefix(_SKIPPED)))
    else:
        used = _known("cudagraphs", told, say)
    return say.plain("row_cudagraphs"), used, say.plain("row_cudagraphs_why")


def _break_even(result: RunResult, first_call_seconds: float, say: Language) -> tuple[str, str]:
    """After how many calls, and between which bounds; the interval is that of the speed-up."""
    never, explanation = say.plain("never"), say.plain("row_pays_why")
    if outcome(result) == "unsure":
        return say.plain("pays_unsure"), explanation
    found = result.break_even(first_call_seconds) if outcome(result) == "faster" else None
    if found is None or found.calls is None:
        return never, explanation
    calls = [say.composed("after", calls=count(found.calls, "call", say))]
    if found.images != found.calls:
        calls.append(count(found.images or 0, "image", say))
    bounds = say.composed(
        "row_pays_bounds",
        why=explanation,
        low=count(found.low or 0, "call", say),
        high=count(found.high, "call", say) if found.high is not None else never,
    )
    return say.listed(calls), bounds


def parity(result: RunResult, say: Language = ENGLISH) -> str:
    """'match', 'differ', 'not comparable'; '' where nothing was compared."""
    return _known("parity", result.parity.verdict, say) if result.parity is not None else ""


def _correctness(result: RunResult, say: Language) -> list[Row]:
    judged = result.parity
    if judged is None:
        return []
    rows: list[Row] = [(say.plain("row_parity"), parity(result, say), say.plain_quoted(judged.reason))]
    if judged.max_abs_error is not None:
        error = say.plain_value(f"{judged.max_abs_error:.2g}")
        rows.append((say.plain("row_difference"), error, say.plain("row_difference_why")))
    return rows


def _machine_states(result: RunResult, say: Language) -> list[Row]:
    """What the looks between the blocks saw: the range of each figure."""
    states = result.machine_states
    rows: list[Row] = []
    foreign = [state.foreign_cpu for state in states if state.foreign_cpu is not None]
    if foreign:
        shares = _span(foreign, fmt.percent, say)
        rows.append((say.plain("row_foreign"), shares, say.plain("row_foreign_why")))
    gpus = [state.gpu for state in states if state.gpu is not None]
    for name, values, show in (
        ("clock", [gpu.sm_clock_hz for gpu in gpus], lambda hertz: f"{hertz / 1e6:.0f} MHz"),
        ("temperature", [gpu.temperature_celsius for gpu in gpus], lambda degrees: f"{degrees:.0f} °C"),
        ("power", [gpu.power_watts for gpu in gpus], lambda watts: f"{watts:.0f} W"),
    ):
        known = [value for value in values if value is not None]
        if known:
            rows.append((say.plain(f"row_{name}"), _span(known, show, say), say.plain(f"row_{name}_why")))
    return rows


def _span(values: list[float], show: Callable[[float], str], say: Language) -> str:
    low, high = show(min(values)), show(max(values))
    return say.plain_value(low) if low == high else say.plain("between", low=low, high=high)


def _surroundings(result: RunResult, say: Language) -> list[Row]:
    rows: list[Row] = []
    parts = result.end_to_end
    if parts is not None:
        around = say.plain(
            "row_around_value",
            before=fmt.latency(parts.preprocess_seconds),
            copy=fmt.latency(parts.copy_seconds),
            after=fmt.latency(parts.postprocess_seconds),
        )
        rows.append((say.plain("row_around"), around, say.plain("row_around_why")))
    if requests := result.request_seconds:
        sides = f"{fmt.latency(requests[0])} → {fmt.latency(requests[1])}"
        both = say.listed([say.plain_value(sides), say.plain_value(f"{_exact(requests[0] / requests[1])}×")])
        rows.append((say.plain("row_request"), both, say.plain("row_request_why")))
    machine = result.environment
    if machine is not None:
        cores = say.plain("row_machine_why", cpu=machine.cpu, cores=machine.cpu_count, threads=machine.threads)
        rows.append((say.plain("row_machine"), say.plain_value(machine.device_name), cores))
        more = [say.plain_value(f"Python {machine.python}"), say.plain_value(machine.platform)]
        more += versions_of_gpu(machine, say)
        libraries = f"torch {machine.torch}, transformers {machine.transformers}"
        rows.append((say.plain("row_versions"), say.plain_value(libraries), say.listed(more)))
        if machine.settings:
            told = say.listed([say.plain_value(f"{name} {value}") for name, value in machine.settings.items()])
            rows.append((say.plain("row_settings"), told, say.plain("row_settings_why")))
    rows += _machine_states(result, say)
    whole = say.plain_value(fmt.duration(result.elapsed_seconds))
    rows.append((say.plain("row_whole_run"), whole, say.plain("row_whole_run_why")))
    return rows


def versions_of_gpu(machine: Environment, say: Language = ENGLISH) -> list[str]:
    """'CUDA 13.0', 'driver 580.95'; none on a CPU."""
    cuda = [say.plain_value(f"CUDA {machine.cuda}")] if machine.cuda else []
    return cuda + ([say.plain("driver", version=machine.driver)] if machine.driver else [])


# The sections of a result: a title that already answers, and the sentences under it.


def latency_title(result: RunResult, say: Language = ENGLISH) -> str:
    return say.plain("section_latency", figures=times(result))


def back_to_back(result: RunResult, say: Language = ENGLISH) -> str:
    """What a server with a full queue gets; '' where it was not measured."""
    rates = {
        name: rate(run.calls * result.spec.batch_size / run.seconds, say)
        for name, _, side in _variants(result, say)
        if (run := side.back_to_back) is not None
    }
    return say.composed("back_to_back", **rates) if len(rates) == 2 else ""


def compiled_title(result: RunResult, say: Language = ENGLISH) -> str:
    """'Did it really compile? Yes: the whole model is one graph'; '' where it did not come to that."""
    if result.compilation is None:
        return ""
    return say.composed("section_compiled", answer=_really_compiled(result.compilation, say))


def _really_compiled(compiled: Compilation, say: Language) -> str:
    if compiled.graphs == 0:
        return say.plain("compiled_none")
    if compiled.fallbacks:
        return say.composed("compiled_fallbacks", frames=count(len(compiled.fallbacks), "frame", say))
    counted = count(compiled.graphs, "graph", say)
    if compiled.graph_breaks:
        breaks = count(len(compiled.graph_breaks), "break", say)
        return say.composed("compiled_breaks", graphs=counted, breaks=breaks)
    if compiled.recompiles_while_timing:
        return say.plain("compiled_void")
    return say.plain("compiled_whole") if compiled.graphs == 1 else say.composed("compiled_graphs", graphs=counted)


def pays_title(result: RunResult, say: Language = ENGLISH) -> str:
    """'When does compiling pay? After 5 480 calls, from a filled cache after 171'; '' where nothing can be said."""
    if result.compilation is None or result.speedup is None:
        return ""
    return say.composed("section_pays", answer=_pays_when(result, say))


def _pays_when(result: RunResult, say: Language) -> str:
    if result.speedup is not None and result.speedup.verdict == "unsure":
        return say.plain("pays_unsure")
    calls = calls_to_pay(result)
    if len(calls) == 2:
        cold = count(calls["cold"], "call", say)
        return say.composed("pays_both", cold=cold, warm=say.plain_value(grouped(calls["warm"])))
    for cache, number in calls.items():
        return say.composed(f"pays_{cache}", calls=count(number, "call", say))
    return say.plain("pays_never")


def calls_to_pay(result: RunResult) -> dict[str, int]:
    """After how many calls compiling has paid for itself, 'cold' and 'warm', as far as known; none: it never does."""
    if result.compilation is None or result.speedup is None or result.speedup.verdict != "faster":
        return {}
    found = {cache: result.break_even(cost) for cache, cost in result.compilation.known_costs.items()}
    return {cache: even.calls for cache, even in found.items() if even is not None and even.calls is not None}


def pays(result: RunResult, say: Language = ENGLISH) -> list[str]:
    """One sentence for each state of the cache whose first call was measured."""
    if result.compilation is None:
        return []
    return [
        say.sentence(_paid(result, seconds, say.plain(f"cost_{cache}", time=fmt.duration(seconds)), say))
        for cache, seconds in result.compilation.known_costs.items()
    ]


def _paid(result: RunResult, seconds: float, told: str, say: Language) -> str:
    """`told`, of a first call of so many seconds, and when that has paid for itself."""
    even = result.break_even(seconds)
    if even is None or result.speedup is None or result.speedup.verdict == "unsure":
        return told
    if even.calls is None or result.speedup.verdict != "faster":
        return say.composed("paid_never", told=told)
    told = say.composed("paid_after", told=told, calls=count(even.calls, "call", say))
    if even.low is not None:
        bounds = {"low": grouped(even.low)} | ({"high": grouped(even.high)} if even.high is not None else {})
        known = say.plain("paid_between" if "high" in bounds else "paid_from", **bounds)
        told = f"{told}{known}"
    if result.spec.batch_size > 1 and even.images is not None:
        told = say.composed("paid_images", told=told, images=count(even.images, "image", say))
    return told


def memory_title(result: RunResult, say: Language = ENGLISH) -> str:
    """'Memory: 812 MB → 640 MB'; '' where neither peak was measured."""
    peaks = [side.peak_memory_bytes for side in (result.eager, result.compiled) if side is not None]
    known = [fmt.size(peak) for peak in peaks if peak is not None]
    return say.plain("section_memory", figures=" → ".join(known)) if known else ""


def memory_meaning(result: RunResult, say: Language = ENGLISH) -> str:
    return say.plain("memory_of_gpu" if result.spec.device == "cuda" else "memory_of_process")


def request_title(result: RunResult, say: Language = ENGLISH) -> str:
    requests = result.request_seconds
    if requests is None:
        return ""
    return say.composed("section_request", answer=_request_faster(requests, result, say))


def _request_faster(requests: tuple[float, float], result: RunResult, say: Language) -> str:
    """What a request gains is the model's gain: where that is not known, neither is this."""
    match outcome(result):
        case "unsure":
            return say.plain("answer_unsure")
        case "same":
            return say.plain("answer_same")
    return faster(requests[0] / requests[1], say)


def faster(ratio: float, say: Language = ENGLISH) -> str:
    """'2.00× faster', 'no difference'."""
    if abs(ratio - 1) < stats.SMALLEST_DIFFERENCE:
        return say.plain("answer_same")
    return say.plain("answer_faster" if ratio > 1 else "answer_slower", ratio=fmt.ratio(max(ratio, 1 / ratio)))


def request(result: RunResult, say: Language = ENGLISH) -> str:
    """The request's speed-up beside the model's own."""
    requests, speedup = result.request_seconds, result.speedup
    if requests is None or speedup is None or result.eager is None:
        return ""
    share = say.plain_value(fmt.percent(result.eager.median_seconds / requests[0]))
    if outcome(result) in ("unsure", "same"):
        return say.composed("request_share", share=share)
    return say.composed(
        "request_beside_model",
        model=faster(speedup.ratio, say),
        request=faster(requests[0] / requests[1], say),
        share=share,
    )


NOTICEABLE = 0.05
"""Share of the machine that other programs may use before it is worth a word."""


def machine_title(result: RunResult, say: Language = ENGLISH) -> str:
    machine = result.environment
    name = say.plain_value(machine.device_name if machine else result.spec.device)
    return say.composed("section_machine", answer=_disturbed(result, name, say))


def _disturbed(result: RunResult, machine: str, say: Language) -> str:
    """What the machine did beside the run; its name alone where it does not say."""
    foreign = [state.foreign_cpu for state in result.machine_states if state.foreign_cpu is not None]
    gpus = [state.gpu for state in result.machine_states if state.gpu is not None]
    if reasons := _throttling(gpus, say):
        return say.composed("machine_throttled", name=machine, reasons=reasons)
    if any(gpu.foreign_processes for gpu in gpus):
        return say.composed("machine_shared", name=machine)
    if not foreign:
        return machine
    mean = sum(foreign) / len(foreign)
    if mean > NOTICEABLE:
        return say.composed("machine_used", name=machine, share=say.plain_value(fmt.percent(mean)))
    return say.composed("machine_idle", name=machine)


def _throttling(gpus: Sequence[GpuState], say: Language) -> str:
    """Every reason that was seen for a lowered clock, each once."""
    reasons = sorted({reason for gpu in gpus for reason in gpu.throttle_reasons})
    return say.listed([_known("throttled", reason, say) for reason in reasons])


def machine_states(result: RunResult, say: Language = ENGLISH) -> list[Row]:
    """What the looks between the blocks saw, as (name, value, explanation); only what the machine tells."""
    rows = _machine_states(result, say)
    gpus = [state.gpu for state in result.machine_states if state.gpu is not None]
    if gpus:
        reasons = _throttling(gpus, say) or say.plain("row_throttled_no")
        others = say.plain_value(max(gpu.foreign_processes for gpu in gpus))
        rows.append((say.plain("row_throttled"), reasons, say.plain("row_throttled_why")))
        rows.append((say.plain("row_gpu_others"), others, say.plain("row_gpu_others_why")))
    return rows


def compile_parts(result: RunResult, say: Language = ENGLISH) -> list[tuple[str, str, str]]:
    """Where the seconds of a first call went, as (stage, cold, warm); '' where a state was not measured."""
    compiled = result.compilation
    if compiled is None:
        return []
    cold, warm = (cost.parts if cost is not None else {} for cost in (compiled.cold, compiled.warm))
    return [
        (
            _known("part", stage, say),
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
