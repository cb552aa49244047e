"""What stands behind an answer, part by part: what the page folds away, and the terminal prints.

Each part is made once, as plain text in the language asked for. A part without data is None: an older result, a machine
that does not report it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.measurement import Compilation, GraphBreak
from demo.core.result import RunResult
from demo.present import section_texts, text_answer
from demo.present.same_answer import parity
from demo.present.sentences import (
    break_cost,
    break_reason,
    captured,
    compiled_first,
    cost_key,
    count,
    ends,
    grouped,
    timed,
    variants,
    worker_word,
)

Row = tuple[str, str, str]
"""A name, its value, and what it means in one line."""
Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The heads of the columns, the first one empty, and lines of a name and its values."""


@dataclass(frozen=True)
class Part:
    title: str
    """The question of this part with its answer."""
    sentences: Sequence[str] = ()
    table: Table | None = None
    rows: Sequence[Row] = ()


def calls(result: RunResult, lang: Language) -> Part | None:
    """All timed calls of each variant; of a text model its prompt and its whole answer, too."""
    sides = {name: side for name, side in timed(result).items() if side is not None and side.wall_seconds}
    if result.speedup is None:
        return None
    batch, rate = result.spec.batch_size, lang.plain(f"head_rate_{result.spec.unit}")
    lines = {
        lang.plain("head_median"): [fmt.latency(side.median_seconds) for side in sides.values()],
        lang.plain("head_p95"): [fmt.latency(side.p95_seconds) for side in sides.values()],
        lang.plain("head_fastest"): [fmt.latency(min(side.wall_seconds)) for side in sides.values()],
        lang.plain("head_slowest"): [fmt.latency(max(side.wall_seconds)) for side in sides.values()],
        rate: [fmt.rate(batch / side.median_seconds) for side in sides.values()],
    }
    queued = [side.back_to_back for side in sides.values()]
    rates = [fmt.rate(run.calls * batch / run.seconds) if run else "" for run in queued]
    joules = [run and run.energy_joules and f"{run.energy_joules / (run.calls * batch):.3g} J" for run in queued]
    clocks = [side.median_device_seconds for side in sides.values()]
    lines[lang.composed("head_queue", rate=rate)] = rates
    lines[lang.plain("head_energy")] = [str(energy or "") for energy in joules]
    lines[lang.plain("head_gpu")] = [fmt.latency(seconds) if seconds else "" for seconds in clocks]
    heads = ["", *(lang.plain(f"variant_{name}") for name in sides)]
    number = lang.plain_value(grouped(max(len(side.wall_seconds) for side in sides.values())))
    rows = [*text_answer.rows(result, lang), *_processes(result, lang)]
    if not result.interleaved:
        rows.append((lang.plain("row_order"), lang.plain("row_order_value"), lang.plain("row_order_why")))
    return Part(
        lang.composed("section_calls", calls=number),
        [section_texts.launch_overhead(result, lang)],
        (heads, [[name, *(lang.plain_value(one or "–") for one in ones)] for name, ones in lines.items() if any(ones)]),
        rows,
    )


def _processes(result: RunResult, lang: Language) -> list[Row]:
    """The speed-up of each process that the answer rests on, with the interval of its own calls."""
    repeats = result.as_processes()
    if len(repeats) == 1 and result.speedup is not None and result.speedup.basis == "within one process":
        return []  # the answer says it
    return [
        (
            lang.plain("row_process", number=number),
            lang.plain("row_speedup_value", ratio=fmt.ratio(one.within.ratio), low=low, high=high),
            lang.plain("row_process_why", id=one.id),
        )
        for number, one in enumerate(repeats, 1)
        for low, high in [ends(one.within.low, one.within.high)]
    ]


def why(result: RunResult, lang: Language) -> Part | None:
    """The profiler's kernels or operators, and the roofline."""
    if not (title := section_texts.why_title(result, lang)):
        return None
    phrases = (section_texts.why(result, lang), section_texts.ceiling(result, lang))
    rows = [
        (
            lang.composed("row_longest", variant=variant, number=lang.plain_value(number)),
            lang.listed([lang.plain_value(fmt.latency(kernel.seconds)), lang.plain_value(fmt.percent(kernel.share))]),
            lang.plain("row_longest_why", kernel=kernel.name, launches=grouped(round(kernel.launches))),
        )
        for _, variant, measured in variants(result, lang)
        if measured.profile is not None
        for number, kernel in enumerate(measured.profile.longest, 1)
    ]
    if roofline := result.roofline:
        explanation = lang.plain(
            "row_roofline_why",
            operations=f"{roofline.operations / 1e9:.3g} G",
            matrix=f"{roofline.matrix_rate / 1e12:.3g} T",
            bytes=fmt.size(roofline.least_bytes),
            copied=fmt.size(roofline.copy_rate),
        )
        rows.append((lang.plain("row_roofline"), lang.plain_value(fmt.latency(roofline.least_seconds)), explanation))
    return Part(title, [lang.sentence(phrase) for phrase in phrases if phrase], rows=rows)


def compiled(result: RunResult, lang: Language) -> Part | None:
    """What torch.compile made of the model: graphs, breaks, recompiles, kernels, CUDA graphs."""
    found = result.compilation
    if found is None:
        return None
    cost = break_cost(result, lang)
    texts = [*([lang.sentence(cost)] if cost else []), *compiled_first(result, lang)]
    if result.prefill is not None and found.recompiles:
        texts.append(lang.plain("compiled_two_lengths"))
    first = found.compiled_first
    rows = [*_places("row_break", found.graph_breaks, lang)]
    if first is not None:
        rows.append((lang.plain("row_compiled_first"), captured(first, lang), lang.plain("row_compiled_first_why")))
        rows += _places("row_first_break", first.graph_breaks, lang)
    rows += [*_places("row_fallback", found.fallbacks, lang), *_places("row_recompile", found.recompiles, lang)]
    if found.recompiles_while_timing:
        number = lang.plain_value(found.recompiles_while_timing)
        rows.append((lang.plain("row_recompiles"), number, lang.plain("row_recompiles_why")))
    if found.cudagraphs != "not asked":
        rows.append(_cudagraphs(found, lang))
    if found.kernels is not None:
        counted = {"generated": found.kernels, "libraries": found.extern_kernels}
        rows.append(
            (lang.plain("row_kernels"), lang.plain("row_kernels_value", **counted), lang.plain("row_kernels_why"))
        )
    if found.cache_hits or found.cache_misses:
        value = lang.plain("row_cache_value", found=found.cache_hits, missing=found.cache_misses)
        rows.append((lang.plain("row_cache"), value, lang.plain("row_cache_why")))
    return Part(section_texts.compiled_title(result, lang), texts, rows=rows)


def _cudagraphs(found: Compilation, lang: Language) -> Row:
    """'used' and what that means, or 'not used' or 'used in part' and the worker's reason."""
    name = lang.plain("row_cudagraphs")
    if found.cudagraphs_skipped is not None:
        return name, lang.plain("no_cudagraphs"), lang.plain_quoted(found.cudagraphs_skipped)
    if found.cudagraphs_partly is not None:
        return name, lang.plain("some_cudagraphs"), lang.plain_quoted(found.cudagraphs_partly)
    return name, worker_word("cudagraphs", found.cudagraphs, lang), lang.plain("row_cudagraphs_why")


def _places(key: str, places: Iterable[GraphBreak], lang: Language) -> list[Row]:
    """Where and why, in torch's words."""
    return [
        (
            lang.plain(key, number=number),
            lang.plain_quoted(one.location) or lang.plain("row_break_nowhere"),
            lang.plain_quoted(break_reason(one)),
        )
        for number, one in enumerate(places, 1)
    ]


def outputs(result: RunResult, lang: Language) -> Part | None:
    compared = result.parity
    if compared is None:
        return None
    rows = []
    if compared.max_abs_error is not None:
        error = lang.plain_value(f"{compared.max_abs_error:.2g}")
        rows = [(lang.plain("row_difference"), error, lang.plain("row_difference_why"))]
    title = lang.composed("section_outputs", answer=parity(result, lang))
    return Part(title, [lang.plain_quoted(compared.reason)], rows=rows)


def pays(result: RunResult, lang: Language) -> Part | None:
    """The cost of the first call from each state of the cache, its parts, and when it has paid for itself."""
    found = result.compilation
    if found is None or result.speedup is None:
        return None
    costs = {"cold": found.cold, "warm": found.warm}
    measured = {cache: cost for cache, cost in costs.items() if cost is not None and cost.parts}
    heads = [""]
    for cache, cost in measured.items():
        head = lang.plain(f"head_{cost_key(found, cache)}")
        heads.append(lang.listed([head, lang.plain("by_run", id=cost.run_id)]) if cost.run_id else head)
    names = dict.fromkeys(name for cost in measured.values() for name in cost.parts)
    lines = [
        [
            worker_word("part", name, lang),
            *(
                lang.plain_value(fmt.start_time(cost.parts[name]) if name in cost.parts else "")
                for cost in measured.values()
            ),
        ]
        for name in names
    ]
    rows = []
    if found.package_bytes is not None:
        size = lang.plain_value(fmt.size(found.package_bytes))
        rows.append((lang.plain("row_package"), size, lang.plain("row_package_why")))
    if result.compiled is not None and len(result.compiled.warmup_seconds) >= 3:
        three = lang.listed([lang.plain_value(fmt.latency(seconds)) for seconds in result.compiled.warmup_seconds[:3]])
        rows.append((lang.plain("row_first_three"), three, lang.plain("row_first_three_why")))
    table = (heads, lines) if lines else None
    return Part(lang.plain("section_pays"), section_texts.pays(result, lang), table, rows)


def another_size(result: RunResult, lang: Language) -> Part | None:
    """One row for each size that was called after the timed one; before one was, an invitation."""
    if not (title := section_texts.another_size_title(result, lang)):
        return None
    if not result.another_sizes:
        return Part(title, [lang.plain("another_size_invites")])
    rows = []
    for one in result.another_sizes:
        times = f"{fmt.latency(one.eager.median_seconds)} → {fmt.latency(one.compiled.median_seconds)}"
        value = lang.composed(
            "another_size_value",
            time=lang.plain_value(fmt.start_time(one.first_call_seconds)),
            recompiles=count(one.recompiles, "recompile", lang),
            times=lang.plain_value(times),
            ratio=lang.plain_value(fmt.ratio(one.speedup.ratio)),
        )
        if one.fallbacks:
            value = lang.listed([value, lang.plain("another_size_eager")])
        paid = lang.plain("another_size_never")
        if one.calls_to_pay is not None:
            paid = lang.composed("another_size_pays", calls=count(fmt.two_digits(one.calls_to_pay), "call", lang))
        rows.append((section_texts.size(one, lang), value, paid))
    return Part(title, [lang.plain("another_size_note")], rows=rows)


MEMORY_DIFFERENCE = 0.02
"""Peaks that differ by a smaller share are not shown."""


def memory(result: RunResult, lang: Language) -> Part | None:
    """Both peaks; where the allocator held more of the GPU than it gave out, that as well."""
    sides = [(name, side) for _, name, side in variants(result, lang) if side.peak_memory_bytes]
    peaks = [side.peak_memory_bytes or 0 for _, side in sides]
    if len(peaks) < 2 or max(peaks) <= (1 + MEMORY_DIFFERENCE) * min(peaks):
        return None
    lines = [[lang.plain("head_peak"), *(lang.plain_value(fmt.size(peak)) for peak in peaks)]]
    reserved = [side.peak_reserved_bytes or 0 for _, side in sides]
    if all(reserved):
        lines.append([lang.plain("head_reserved"), *(lang.plain_value(fmt.size(held)) for held in reserved)])
    title = lang.plain("section_memory", figures=" → ".join(map(fmt.size, peaks)))
    meaning = lang.plain("memory_of_gpu" if result.spec.device == "cuda" else "memory_of_process")
    return Part(title, [meaning], (["", *(name for name, _ in sides)], lines))


def request(result: RunResult, lang: Language) -> Part | None:
    """A whole request in its four parts, which compiling changes one of."""
    around, requests, batch = result.end_to_end, result.request_seconds, result.spec.batch_size
    if around is None or requests is None:
        return None
    before, after = batch * around.preprocess_seconds, batch * around.postprocess_seconds
    lines = {
        "request_prepare": (before, before),
        "request_copy": (around.copy_seconds, around.copy_seconds),
        "request_model": result.answer_seconds or tuple(result.latencies.values()),
        "request_decode": (after, after),
        "request_whole": requests,
    }
    table = [[lang.plain(key), *(lang.plain_value(fmt.latency(time)) for time in both)] for key, both in lines.items()]
    heads = ["", *(name for _, name, _ in variants(result, lang))]
    title = lang.composed("section_request", answer=section_texts.request_faster(requests, result, lang))
    return Part(title, [section_texts.request(result, lang)], (heads, table))


def machine(result: RunResult, lang: Language) -> Part | None:
    """Processor, memory, versions, settings in force, and what else ran while it was timed."""
    known = result.environment
    if known is None:
        return None
    threads = count(known.threads, "thread", lang)
    cores = lang.composed("row_cpu_why", cores=lang.plain_value(known.cpu_count), threads=threads)
    size = lang.plain_value(fmt.size(known.memory_bytes))
    libraries = f"torch {known.torch}, transformers {known.transformers}, Python {known.python}"
    more = [f"Triton {known.triton}" if known.triton else "", known.compiler or "", known.platform]
    further = [*section_texts.versions_of_gpu(known, lang), *(lang.plain_value(one) for one in more if one)]
    rows = [
        (lang.plain("row_cpu"), lang.plain_value(known.cpu), cores),
        (lang.plain("row_memory"), size, lang.plain("row_memory_why")),
        (lang.plain("row_versions"), lang.plain_value(libraries), lang.listed(further)),
    ]
    if known.settings:
        settings = lang.listed([lang.plain_value(f"{name} {value}") for name, value in known.settings.items()])
        rows.append((lang.plain("row_settings"), settings, lang.plain("row_settings_why")))
    rows += _machine_states(result, lang)
    whole = lang.plain_value(fmt.duration(result.elapsed_seconds))
    timing = ""
    if result.timing_seconds is not None:
        timing = lang.plain("row_timing_why", time=fmt.duration(result.timing_seconds))
    rows.append((lang.plain("row_whole_run"), whole, timing))
    return Part(section_texts.machine_title(result, lang), rows=rows)


def _machine_states(result: RunResult, lang: Language) -> list[Row]:
    """The range of each figure sampled between the blocks, and throttling; only what the machine reports."""
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
    if gpus:
        reasons = section_texts.throttle_reasons(gpus, lang) or lang.plain("row_throttled_no")
        others = lang.plain_value(max(gpu.foreign_processes for gpu in gpus))
        rows.append((lang.plain("row_throttled"), reasons, lang.plain("row_throttled_why")))
        rows.append((lang.plain("row_gpu_others"), others, lang.plain("row_gpu_others_why")))
    return rows


def _span(values: list[float], show: Callable[[float], str], lang: Language) -> str:
    low, high = show(min(values)), show(max(values))
    return lang.plain_value(low) if low == high else lang.plain("between", low=low, high=high)


WHY = {"calls": calls, "why": why, "compiled": compiled, "outputs": outputs, "machine": machine}
COST = {"pays": pays, "another_size": another_size, "memory": memory, "request": request}
