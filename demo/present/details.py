"""The table of all figures of a result, and the rows of it that the page's sections show as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from demo.core import format as fmt
from demo.core import stats
from demo.core.languages import Language
from demo.core.measurement import Compilation, GraphBreak, Measurement
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import Speedup
from demo.present import text_answer
from demo.present.section_texts import (
    ceiling,
    launch_overhead,
    request_faster,
    size,
    throttle_reasons,
    versions_of_gpu,
    why,
)
from demo.present.sentences import (
    basis,
    break_cost,
    break_reason,
    calls_to_pay,
    captured,
    cost_key,
    count,
    grouped,
    latencies,
    outcome,
    parity,
    rate,
    speedup,
    timed,
    variants,
    worker_word,
)

Row = tuple[str, str, str]
"""A name, its value, and what it means in one line."""


def _exact(value: float) -> str:
    """Three significant digits: '2.30', '0.0984'."""
    return f"{value:#.3g}" if value < 100 else f"{value:.0f}"


def all_figures(result: RunResult, lang: Language) -> list[Row]:
    """Everything an engineer asks next, as (name, value, explanation in one line). Only what was measured."""
    return [
        *_latencies(result, lang),
        *text_answer.rows(result, lang),
        *_reasons(result, lang),
        *_compilation(result, lang),
        *_correctness(result, lang),
        *_surroundings(result, lang),
    ]


def _latencies(result: RunResult, lang: Language) -> list[Row]:
    rows: list[Row] = []
    latencies_shown = latencies(result)
    for name, measured in timed(result).items():
        if measured is not None:
            seconds = latencies_shown[name] or measured.median_seconds
            rows += _variant(lang.plain(f"variant_{name}"), measured, seconds, result.spec, lang)
    if overhead := launch_overhead(result, lang):
        rows.append((lang.plain("row_launch"), overhead, lang.plain("row_launch_why")))
    if interval := result.speedup:
        low, high = map(lang.plain_value, (_exact(interval.low), f"{_exact(interval.high)}×"))
        ratio = speedup(result, lang)
        value = lang.composed("row_speedup_value", ratio=ratio, low=low, high=high)
        rows.append((lang.plain("row_speedup"), value, lang.composed("row_speedup_why", basis=basis(result, lang))))
        rows += _processes(result, interval, lang)
    if result.control is not None:
        floor = lang.plain_value(fmt.percent(stats.noise_floor(result.control)))
        rows.append((lang.plain("row_noise_floor"), floor, lang.plain("row_noise_floor_why")))
    if cost := break_cost(result, lang):
        rows.append((lang.plain("row_break_cost"), cost, lang.plain("row_break_cost_why")))
    if not result.interleaved:
        rows.append((lang.plain("row_order"), lang.plain("row_order_value"), lang.plain("row_order_why")))
    return rows


def _processes(result: RunResult, speedup: Speedup, lang: Language) -> list[Row]:
    """Each process that the speed-up rests on; of a single one the interval of its calls."""
    repeats = result.as_repeats()
    if len(repeats) > 1:
        return [
            (
                lang.plain("row_repeat", number=number),
                lang.plain(
                    "row_speedup_value",
                    ratio=f"{_exact(one.within.ratio)}×",
                    low=_exact(one.within.low),
                    high=f"{_exact(one.within.high)}×",
                ),
                lang.plain("row_repeat_why", id=one.id),
            )
            for number, one in enumerate(repeats, 1)
        ]
    if speedup.basis == "within one process":
        return []
    low, high = _exact(speedup.within.low), f"{_exact(speedup.within.high)}×"
    return [(lang.plain("row_within"), lang.plain("between", low=low, high=high), lang.plain("row_within_why"))]


def _variant(variant: str, measured: Measurement, seconds: float, spec: RunSpec, lang: Language) -> list[Row]:
    """The rows of one variant; `seconds` is its latency."""

    def row(name: str, value: str, why: str) -> Row:
        return lang.composed(f"row_{name}", variant=variant), value, why

    batch, times = spec.batch_size, measured.wall_seconds
    shown = {"median": measured.median_seconds, "p95": measured.p95_seconds, "least": min(times), "most": max(times)}
    spread = lang.plain("row_spread_value", **{name: fmt.latency(time) for name, time in shown.items()})
    rows = [
        row("latency", lang.plain_value(fmt.latency(seconds)), lang.plain("row_latency_why")),
        row("spread", spread, lang.plain("row_spread_why", calls=len(times))),
        row("rate", rate(batch / seconds, spec, lang), lang.plain(f"row_rate_why_{spec.unit}", size=batch)),
    ]
    if run := measured.back_to_back:
        why = lang.plain("row_throughput_why", calls=run.calls)
        rows.append(row("throughput", rate(run.calls * batch / run.seconds, spec, lang), why))
        if run.energy_joules is not None:
            joules = f"{run.energy_joules / (run.calls * batch):.3g} J"
            rows.append(
                row("energy", lang.plain(f"row_energy_value_{spec.unit}", energy=joules), lang.plain("row_energy_why"))
            )
    if measured.median_device_seconds is not None:
        working = lang.plain_value(fmt.latency(measured.median_device_seconds))
        rows.append(row("gpu_time", working, lang.plain("row_gpu_time_why")))
    if measured.peak_memory_bytes is not None:
        size, why = lang.plain_value(fmt.size(measured.peak_memory_bytes)), lang.plain("row_peak_why_process")
        if measured.peak_reserved_bytes:
            size = lang.listed([size, lang.plain("reserved", size=fmt.size(measured.peak_reserved_bytes))])
            why = lang.plain("row_peak_why_gpu")
        rows.append(row("peak", size, why))
    return rows


def longest_kernels(result: RunResult, lang: Language) -> list[Row]:
    """'Eager, longest 1', its time and share, and its name."""
    return [
        (
            lang.composed("row_longest", variant=variant, number=lang.plain_value(number)),
            lang.listed([lang.plain_value(fmt.latency(kernel.seconds)), lang.plain_value(fmt.percent(kernel.share))]),
            lang.plain("row_longest_why", kernel=kernel.name, launches=grouped(round(kernel.launches))),
        )
        for _, variant, measured in variants(result, lang)
        if measured.profile is not None
        for number, kernel in enumerate(measured.profile.longest, 1)
    ]


def _reasons(result: RunResult, lang: Language) -> list[Row]:
    """Rows of the profiler and the roofline."""
    rows: list[Row] = []
    if reason := why(result, lang):
        rows.append((lang.plain("row_why"), reason, lang.plain("row_why_why")))
    rows += longest_kernels(result, lang)
    if roofline := result.roofline:
        explanation = lang.plain(
            "row_roofline_why",
            operations=f"{roofline.operations / 1e9:.3g} G",
            matrix=f"{roofline.matrix_rate / 1e12:.3g} T",
            bytes=fmt.size(roofline.least_bytes),
            copied=fmt.size(roofline.copy_rate),
        )
        rows.append((lang.plain("row_roofline"), ceiling(result, lang), explanation))
    return rows


def _compilation(result: RunResult, lang: Language) -> list[Row]:
    compiled = result.compilation
    if compiled is None:
        return []
    rows: list[Row] = []
    for state, cost in (("cold", compiled.cold), ("warm", compiled.warm)):
        if cost is None:
            continue
        key = cost_key(compiled, state)
        value = lang.plain(f"row_first_{key}_value", time=fmt.start_time(cost.first_call_seconds))
        if cost.run_id:
            value = lang.listed([value, lang.plain("by_run", id=cost.run_id)])
        least = 0.05 if compiled.package_bytes is None else 0.0
        told = {name: fmt.start_time(part) for name, part in cost.parts.items() if part >= least}
        spent = [lang.plain_quoted(f"{name} {time}") for name, time in told.items()]
        rows.append((lang.plain(f"row_first_{key}"), value, lang.listed(spent) or lang.plain("row_first_traced")))
        if outcome(result) not in (None, "void"):
            rows.append((lang.plain(f"row_pays_{key}"), *_break_even(result, cost.first_call_seconds, lang)))
    if not rows:
        seconds = lang.plain_value(fmt.duration(compiled.first_call_seconds))
        rows.append((lang.plain("row_first"), seconds, lang.plain("row_first_why")))
    if compiled.package_bytes is not None:
        size = lang.plain_value(fmt.size(compiled.package_bytes))
        rows.append((lang.plain("row_package"), size, lang.plain("row_package_why")))
    if result.compiled is not None and len(result.compiled.warmup_seconds) >= 3:
        three = lang.listed([lang.plain_value(fmt.latency(seconds)) for seconds in result.compiled.warmup_seconds[:3]])
        rows.append((lang.plain("row_first_three"), three, lang.plain("row_first_three_why")))
    rows.append(graphs(compiled, lang))
    rows += [
        (
            lang.plain("row_break", number=number),
            lang.plain_quoted(break_reason(one)),
            lang.plain_quoted(one.location) or lang.plain("row_break_nowhere"),
        )
        for number, one in enumerate(compiled.graph_breaks, 1)
    ]
    rows += captured_first(compiled, lang)
    if compiled.kernels is not None:
        counted = {"generated": compiled.kernels, "libraries": compiled.extern_kernels}
        rows.append(
            (lang.plain("row_kernels"), lang.plain("row_kernels_value", **counted), lang.plain("row_kernels_why"))
        )
    if compiled.cache_hits or compiled.cache_misses:
        found, missing = count(compiled.cache_hits, "graph", lang), lang.plain_value(compiled.cache_misses)
        value = lang.composed("row_cache_value", found=found, missing=missing)
        rows.append((lang.plain("row_cache"), value, lang.plain("row_cache_why")))
    rows += _places("row_fallback", compiled.fallbacks, lang) + _places("row_recompile", compiled.recompiles, lang)
    return [*rows, recompiles(compiled, lang), cudagraphs(compiled, lang), *another_sizes(result, lang)]


def another_sizes(result: RunResult, lang: Language) -> list[Row]:
    """One row for each size that was called after the timed one."""
    rows = []
    for one in result.another_sizes:
        times = f"{fmt.latency(one.eager.median_seconds)} → {fmt.latency(one.compiled.median_seconds)}"
        value = lang.composed(
            "another_size_value",
            time=lang.plain_value(fmt.start_time(one.first_call_seconds)),
            recompiles=count(one.recompiles, "recompile", lang),
            times=lang.plain_value(times),
            ratio=lang.plain_value(f"{_exact(one.speedup.ratio)}×"),
        )
        if one.fallbacks:
            value = lang.listed([value, lang.plain("another_size_eager")])
        paid = lang.plain("another_size_never")
        if one.calls_to_pay is not None:
            paid = lang.composed("another_size_pays", calls=count(one.calls_to_pay, "call", lang))
        rows.append((size(one, lang), value, paid))
    return rows


def _places(key: str, places: Sequence[GraphBreak], lang: Language) -> list[Row]:
    return [
        (lang.plain(key, number=number), lang.plain_quoted(one.location), lang.plain_quoted(break_reason(one)))
        for number, one in enumerate(places, 1)
    ]


def graphs(compiled: Compilation, lang: Language) -> Row:
    breaks = count(len(compiled.graph_breaks), "break", lang)
    value = lang.listed([lang.plain_value(compiled.graphs), breaks])
    return lang.plain("row_graphs"), value, lang.plain("row_graphs_why")


def captured_first(compiled: Compilation, lang: Language) -> list[Row]:
    """Graphs and breaks of the model compiled before any eager call; empty where they are the same."""
    first = compiled.compiled_first
    if first is None:
        return []
    return [(lang.plain("row_compiled_first"), captured(first, lang), lang.plain("row_compiled_first_why"))]


def recompiles(compiled: Compilation, lang: Language) -> Row:
    number = lang.plain_value(compiled.recompiles_while_timing)
    return lang.plain("row_recompiles"), number, lang.plain("row_recompiles_why")


def cudagraphs(compiled: Compilation, lang: Language) -> Row:
    """'used', 'not requested', or 'not used: ' and the worker's reason."""
    if compiled.cudagraphs_skipped is not None:
        used = lang.composed("no_cudagraphs", reason=lang.plain_quoted(compiled.cudagraphs_skipped))
    else:
        used = worker_word("cudagraphs", compiled.cudagraphs, lang)
    return lang.plain("row_cudagraphs"), used, lang.plain("row_cudagraphs_why")


def _break_even(result: RunResult, first_call_seconds: float, lang: Language) -> tuple[str, str]:
    """When compiling pays, and the bounds of the number of calls by the speed-up's 95 % interval."""
    never, explanation = lang.plain("never"), lang.plain("row_pays_why")
    if outcome(result) == "unsure":
        return lang.plain("pays_unsure"), explanation
    even = result.break_even(first_call_seconds) if outcome(result) == "faster" else None
    if even is None or even.calls is None:
        return never, explanation
    calls = [lang.composed("after", calls=calls_to_pay(even, lang))]
    if even.images != even.calls and even.answers is None:
        calls.append(count(even.images or 0, result.spec.unit, lang))
    one, thing = (result.spec.batch_size, "token") if even.answers is not None else (1, "call")
    bounds = lang.composed(
        "row_pays_bounds",
        why=explanation,
        low=count((even.low or 0) * one, thing, lang),
        high=count(even.high * one, thing, lang) if even.high is not None else never,
    )
    return lang.listed(calls), bounds


def _correctness(result: RunResult, lang: Language) -> list[Row]:
    compared = result.parity
    if compared is None:
        return []
    rows: list[Row] = [(lang.plain("row_parity"), parity(result, lang), lang.plain_quoted(compared.reason))]
    if compared.max_abs_error is not None:
        error = lang.plain_value(f"{compared.max_abs_error:.2g}")
        rows.append((lang.plain("row_difference"), error, lang.plain("row_difference_why")))
    return rows


def _machine_states(result: RunResult, lang: Language) -> list[Row]:
    """The range of each figure sampled between the blocks."""
    states = result.machine_states
    rows: list[Row] = []
    foreign = [state.foreign_cpu for state in states if state.foreign_cpu is not None]
    if foreign:
        shares = _span(foreign, fmt.percent, lang)
        rows.append((lang.plain("row_foreign"), shares, lang.plain("row_foreign_why")))
    gpus = [state.gpu for state in states if state.gpu is not None]
    for name, values, show in (
        ("clock", [gpu.sm_clock_hz for gpu in gpus], lambda hertz: f"{hertz / 1e6:.0f} MHz"),
        ("temperature", [gpu.temperature_celsius for gpu in gpus], lambda degrees: f"{degrees:.0f} °C"),
        ("power", [gpu.power_watts for gpu in gpus], lambda watts: f"{watts:.0f} W"),
    ):
        reported = [value for value in values if value is not None]
        if reported:
            rows.append((lang.plain(f"row_{name}"), _span(reported, show, lang), lang.plain(f"row_{name}_why")))
    return rows


def _span(values: list[float], show: Callable[[float], str], lang: Language) -> str:
    low, high = show(min(values)), show(max(values))
    return lang.plain_value(low) if low == high else lang.plain("between", low=low, high=high)


def _surroundings(result: RunResult, lang: Language) -> list[Row]:
    rows: list[Row] = []
    parts = result.end_to_end
    if parts is not None:
        around = lang.plain(
            "row_around_value",
            before=fmt.latency(parts.preprocess_seconds),
            copy=fmt.latency(parts.copy_seconds),
            after=fmt.latency(parts.postprocess_seconds),
        )
        rows.append((lang.plain("row_around"), around, lang.plain("row_around_why")))
    if requests := result.request_seconds:
        sides = f"{fmt.latency(requests[0])} → {fmt.latency(requests[1])}"
        both = lang.listed(list(filter(None, [lang.plain_value(sides), request_faster(requests, result, lang)])))
        rows.append((lang.plain("row_request"), both, lang.plain("row_request_why")))
    machine = result.environment
    if machine is not None:
        cores = lang.plain("row_machine_why", cpu=machine.cpu, cores=machine.cpu_count, threads=machine.threads)
        rows.append((lang.plain("row_machine"), lang.plain_value(machine.device_name), cores))
        more = [lang.plain_value(f"Python {machine.python}"), lang.plain_value(machine.platform)]
        more += versions_of_gpu(machine, lang)
        libraries = f"torch {machine.torch}, transformers {machine.transformers}"
        rows.append((lang.plain("row_versions"), lang.plain_value(libraries), lang.listed(more)))
        if machine.settings:
            settings = lang.listed([lang.plain_value(f"{name} {value}") for name, value in machine.settings.items()])
            rows.append((lang.plain("row_settings"), settings, lang.plain("row_settings_why")))
    rows += _machine_states(result, lang)
    whole = lang.plain_value(fmt.duration(result.elapsed_seconds))
    rows.append((lang.plain("row_whole_run"), whole, lang.plain("row_whole_run_why")))
    return rows


def machine_states(result: RunResult, lang: Language) -> list[Row]:
    """The figures sampled between the blocks, and throttling; only what the machine reports."""
    rows = _machine_states(result, lang)
    gpus = [state.gpu for state in result.machine_states if state.gpu is not None]
    if gpus:
        reasons = throttle_reasons(gpus, lang) or lang.plain("row_throttled_no")
        others = lang.plain_value(max(gpu.foreign_processes for gpu in gpus))
        rows.append((lang.plain("row_throttled"), reasons, lang.plain("row_throttled_why")))
        rows.append((lang.plain("row_gpu_others"), others, lang.plain("row_gpu_others_why")))
    return rows
