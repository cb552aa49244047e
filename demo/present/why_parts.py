"""What explains an answer: the timed calls, the profile, what torch.compile made of the model, outputs and machine.

Each part is made once, as plain text in the language asked for. A part without data is None: an older result, a machine
that does not report it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from demo.core import format as fmt
from demo.core.agreement import same_tokens
from demo.core.languages import Language
from demo.core.machine import Environment
from demo.core.measurement import Compilation, GraphBreak, Measurement
from demo.core.result import RunResult
from demo.present.sentences import (
    break_cost,
    break_reason,
    compiled_first,
    count,
    grouped,
    timed,
    times_of,
    variants,
    with_ends,
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


def row(key: str, value: str, lang: Language, **why: object) -> Row:
    """A row named by a text's key; `<key>_why`, if there is one, is the text of its meaning, with the values `why`."""
    return lang.plain(key), value, lang.plain(f"{key}_why", **why) if f"{key}_why" in lang.texts else ""


# The timed calls


def calls(result: RunResult, lang: Language) -> Part | None:
    """All timed calls of each variant; of a text model its prompt and its whole answer, too."""
    if result.speedup is None:
        return None
    sides = {name: side for name, side in timed(result).items() if side is not None and side.wall_seconds}
    batch, rate = result.spec.batch_size, lang.plain(f"rate_{result.spec.unit}", rate="").strip()
    queued = [side.back_to_back for side in sides.values()]
    joules = [run and run.energy_joules and f"{run.energy_joules / (run.calls * batch):.3g} J" for run in queued]
    clocks = [side.median_device_seconds for side in sides.values()]
    lines: dict[str, list[Any]] = {
        lang.plain("head_median"): [fmt.latency(side.median_seconds) for side in sides.values()],
        lang.plain("head_p95"): [fmt.latency(side.p95_seconds) for side in sides.values()],
        lang.plain("head_fastest"): [fmt.latency(min(side.wall_seconds)) for side in sides.values()],
        lang.plain("head_slowest"): [fmt.latency(max(side.wall_seconds)) for side in sides.values()],
        rate: [fmt.rate(batch / side.median_seconds) for side in sides.values()],
        lang.composed("head_queue", rate=rate): [run and fmt.rate(run.calls * batch / run.seconds) for run in queued],
        lang.plain("head_energy"): joules,
        lang.plain("head_gpu"): [fmt.latency(seconds) if seconds else "" for seconds in clocks],
    }
    heads = ["", *(lang.plain(f"variant_{name}") for name in sides)]
    number = lang.plain_value(grouped(max(len(side.wall_seconds) for side in sides.values())))
    rows = [*_of_text(result, lang), *_processes(result, lang)]
    table = [[name, *(lang.plain_value(one or "–") for one in ones)] for name, ones in lines.items() if any(ones)]
    return Part(lang.composed("section_calls", calls=number), [launch_overhead(result, lang)], (heads, table), rows)


def launch_overhead(result: RunResult, lang: Language) -> str:
    """The share of a call of each variant that is launching kernels; '' without the GPU's own clock."""

    def share(measured: Measurement) -> list[str]:
        launching = measured.launch_seconds
        return [] if launching is None else [fmt.percent(launching / measured.median_seconds)]

    shares = _each(result, share, lang)
    return shares and lang.composed("launch_shares", shares=shares)


def _each(result: RunResult, figures: Callable[[Measurement], list[str]], lang: Language) -> str:
    """'Eager 58 %, Compiled 50 %': the figures of each variant that has them."""
    found = [(name, figures(measured)) for _, name, measured in variants(result, lang)]
    named = [f"{name} {lang.listed([lang.plain_value(value) for value in values])}" for name, values in found if values]
    return lang.texts["semicolon"].join(named)


def _of_text(result: RunResult, lang: Language) -> list[Row]:
    """What a text model's run tells beside the time of a token: first token, whole answer, generate(), the cache."""
    first, answer, asked = result.prefill_latencies, result.answer_seconds, result.generation
    found: list[Row] = []
    if first is not None and asked is not None:
        values = [lang.plain_value(times_of(first))]
        if (known := result.prefill_speedup) is not None:
            values.append(with_ends(lang.plain_value(fmt.ratio(known.ratio)), known, lang))
        found.append(row("row_first_token", lang.listed(values), lang, tokens=asked.prompt_tokens))
    if answer is not None:
        found.append(row("row_answer", lang.plain_value(times_of(answer)), lang, steps=result.spec.tokens - 1))
    if asked is None:
        return found
    size = lang.plain_value(fmt.size(asked.cache_bytes))
    found.append(row("row_key_values", size, lang, places=asked.cache_tokens))
    if asked.generate_seconds is not None:
        seconds = [one for one in (asked.generate_seconds, asked.automatic_seconds) if one is not None]
        found.append(row("row_generate", lang.plain_value(times_of(seconds)), lang))
    return found


def _processes(result: RunResult, lang: Language) -> list[Row]:
    """The speed-up of each process that the answer rests on, with the interval of its own calls."""
    repeats = result.as_processes()
    if len(repeats) == 1 and result.speedup is not None and result.speedup.basis == "within one process":
        return []  # the answer says it
    return [
        (
            lang.plain("row_process", number=number),
            with_ends(lang.plain_value(fmt.ratio(one.within.ratio)), one.within, lang),
            lang.plain("row_process_why", id=one.id),
        )
        for number, one in enumerate(repeats, 1)
    ]


# The profile


def why(result: RunResult, lang: Language) -> Part | None:
    """The profiler's kernels or operators, and the roofline."""
    phrases = [phrase for phrase in (bound(result, lang), ceiling(result, lang)) if phrase]
    if not phrases:
        return None
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
        figures = {
            "operations": f"{roofline.operations / 1e9:.3g} G",
            "matrix": f"{roofline.matrix_rate / 1e12:.3g} T",
            "bytes": fmt.size(roofline.least_bytes),
            "copied": fmt.size(roofline.copy_rate),
        }
        rows.append(row("row_roofline", lang.plain_value(fmt.latency(roofline.least_seconds)), lang, **figures))
    return Part(lang.plain("section_why"), list(map(lang.sentence, phrases)), rows=rows)


def bound(result: RunResult, lang: Language) -> str:
    """'kernels a call, and how busy the GPU is: Eager 412, 31 %; Compiled 96, 94 %'; on a CPU the number of operators.

    '' without a profile.
    """

    def figures(measured: Measurement) -> list[str]:
        busy = [] if measured.busy_share is None else [fmt.percent(measured.busy_share)]
        return [] if measured.profile is None else [grouped(round(measured.profile.kernels)), *busy]

    on_gpu = any(measured.busy_share is not None for _, _, measured in variants(result, lang))
    told = _each(result, figures, lang)
    return told and lang.composed("why_kernels" if on_gpu else "why_operators", figures=told)


def ceiling(result: RunResult, lang: Language) -> str:
    """'at least 1.2 ms a call here for the matrix products: Eager 12 %; Compiled 31 % of that speed'."""
    roofline = result.roofline
    if roofline is None:
        return ""

    def reached(measured: Measurement) -> list[str]:
        share = result.roofline_share(measured)
        return [] if share is None else [fmt.percent(share)]

    key = "ceiling_products" if roofline.compute_seconds >= roofline.memory_seconds else "ceiling_weights"
    needed, shares = lang.plain(key, time=fmt.latency(roofline.least_seconds)), _each(result, reached, lang)
    return lang.composed("ceiling_shares", ceiling=needed, shares=shares) if shares else needed


# What torch.compile made of the model


def compiled(result: RunResult, lang: Language) -> Part | None:
    """Graphs, breaks, recompiles, kernels, CUDA graphs; the title says whether the model was really compiled."""
    found = result.compilation
    if found is None:
        return None
    cost = break_cost(result, lang)
    texts = [*([lang.sentence(cost)] if cost else []), *compiled_first(result, lang)]
    if result.prefill is not None and found.recompiles:
        texts.append(lang.plain("compiled_two_lengths"))
    answer, rows = _really_compiled(result, found, lang), _places("row_break", found.graph_breaks, lang)
    if found.compiled_first is not None:
        rows += _places("row_first_break", found.compiled_first.graph_breaks, lang)
    rows += [*_places("row_fallback", found.fallbacks, lang), *_places("row_recompile", found.recompiles, lang)]
    if found.recompiles_while_timing:
        rows.append(row("row_recompiles", lang.plain_value(found.recompiles_while_timing), lang))
    skipped = found.cudagraphs_skipped is not None
    if (reason := found.cudagraphs_skipped if skipped else found.cudagraphs_partly) is not None:
        how = "no_cudagraphs" if skipped else "some_cudagraphs"
        rows.append((lang.plain("row_cudagraphs"), lang.plain(how), lang.plain_quoted(reason)))
    elif found.cudagraphs != "not asked":
        rows.append(row("row_cudagraphs", worker_word("cudagraphs", found.cudagraphs, lang), lang))
    if found.kernels is not None:
        counted = {"generated": found.kernels, "libraries": found.extern_kernels}
        rows.append(row("row_kernels", lang.plain("row_kernels_value", **counted), lang))
    if found.cache_hits or found.cache_misses:
        value = lang.plain("row_cache_value", found=found.cache_hits, missing=found.cache_misses)
        rows.append(row("row_cache", value, lang))
    return Part(lang.composed("section_compiled", answer=answer), texts, rows=rows)


def _really_compiled(result: RunResult, compiled: Compilation, lang: Language) -> str:
    """'Yes: the whole model is one graph'."""
    if compiled.graphs == 0:
        return lang.plain("compiled_none")
    if compiled.fallbacks:
        return lang.composed("compiled_fallbacks", frames=count(len(compiled.fallbacks), "frame", lang))
    counted = count(compiled.graphs, "graph", lang)
    if compiled.graph_breaks:
        breaks = count(len(compiled.graph_breaks), "break", lang)
        return lang.composed("compiled_breaks", graphs=counted, breaks=breaks)
    if compiled.recompiles_while_timing:
        return lang.plain("compiled_void")
    if compiled.graphs == 1 and result.spec.scope == "model":
        return lang.plain("compiled_whole")
    return lang.composed("compiled_graphs", graphs=counted)


def _places(key: str, places: Iterable[GraphBreak], lang: Language) -> list[Row]:
    """Where and why, in torch's words; below, what torch says may help, once where several have the same hints."""
    rows, helped = [], set()
    for number, one in enumerate(places, 1):
        where = lang.plain_quoted(one.location) or "–"
        rows.append((lang.plain(key, number=number), where, lang.plain_quoted(break_reason(one))))
        if one.hints and one.hints not in helped:
            helped.add(one.hints)
            rows.append((lang.plain("row_break_help"), one.page, lang.plain_quoted(" ".join(one.hints))))
    return rows


def outputs(result: RunResult, lang: Language) -> Part | None:
    """How far the numbers of both outputs lie apart."""
    compared = result.parity
    if compared is None:
        return None
    error = compared.max_abs_error
    rows = [] if error is None else [row("row_difference", lang.plain_value(f"{error:.2g}"), lang)]
    title = lang.composed("section_outputs", answer=parity(result, lang))
    return Part(title, [lang.plain_quoted(compared.reason)], rows=rows)


def agreement(result: RunResult, lang: Language) -> str:
    """Whether eager and compiled predict the same, by the task-level parity; '' where nothing was compared."""
    parity = result.parity
    if parity is None or parity.verdict == "not comparable":
        return ""
    verdict = lang.plain("agree" if parity.verdict == "match" else "differ")
    predictions = (result.predictions or {}).values()
    if predictions and all(one.boxes == () or one.segments == () for one in predictions):
        shares = [lang.plain("share_nothing")]
    else:
        told = [(*_SHARES[name], share) for name, share in parity.task.items() if name in _SHARES]
        shares = [lang.plain(key, share=fmt.percent(share)) for key, least, share in told if share >= least]
    if not shares:
        return lang.sentence(verdict)
    return lang.sentence(lang.composed("setting", name=verdict, value=lang.listed(shares)))


_SHARES = {
    "top5_agreement": ("share_labels", 0.0),
    "matched_boxes": ("share_boxes", 0.0),
    "mask_iou": ("share_masks", 0.0),
    "same_tokens": ("share_tokens", 0.0),
    "score_difference": ("share_scores", 0.005),
    "changed_pixels": ("share_pixels", 0.0005),
}
"""By the name of a task-level figure of parity its text, and the least that is mentioned."""


def parity(result: RunResult, lang: Language) -> str:
    """'match', 'differ', 'not comparable'; '' where nothing was compared."""
    return worker_word("parity", result.parity.verdict, lang) if result.parity is not None else ""


def parted_at(result: RunResult) -> int | None:
    """The index of the first token in which the two answers differ; None where they do not."""
    written = [one.token_ids for one in (result.predictions or {}).values() if one.token_ids is not None]
    if len(written) < 2 or written[0] == written[1]:
        return None
    return same_tokens(*written)


def parted(result: RunResult, lang: Language) -> str:
    """From where on two texts differ, and what that means; '' where they do not."""
    at = parted_at(result)
    if at is None:
        return ""
    words = lang.plain("answer_parted", number=at + 1)
    if result.spec.dtype != "float32":
        words += " " + lang.plain("answer_rounding", dtype=result.spec.dtype)
    return words


# The machine


def machine(result: RunResult, lang: Language) -> Part | None:
    """Processor, memory, versions, settings in force, and what else ran while it was timed."""
    known = result.environment
    if known is None:
        return None
    threads = count(known.threads, "thread", lang)
    cores = lang.composed("row_cpu_why", cores=lang.plain_value(known.cpu_count), threads=threads)
    libraries = f"torch {known.torch}, transformers {known.transformers}, Python {known.python}"
    rows = [
        (lang.plain("row_cpu"), lang.plain_value(known.cpu), cores),
        row("row_memory", lang.plain_value(fmt.size(known.memory_bytes)), lang),
        (lang.plain("row_versions"), lang.plain_value(libraries), lang.listed(_further_versions(known, lang))),
    ]
    if known.settings:
        settings = lang.listed([lang.plain_value(f"{name} {value}") for name, value in known.settings.items()])
        rows.append(row("row_settings", settings, lang))
    rows += _machine_states(result, lang)
    took = result.timing_seconds
    timing = lang.plain("row_timing_why", time=fmt.duration(took)) if took is not None else ""
    rows.append((lang.plain("row_whole_run"), lang.plain_value(fmt.duration(result.elapsed_seconds)), timing))
    title = lang.composed("setting", name=lang.plain("row_machine"), value=lang.plain_value(known.device_name))
    return Part(title, rows=rows)


def _further_versions(machine: Environment, lang: Language) -> list[str]:
    """'CUDA 13.0', 'driver 580.95' on a GPU; then Triton, compiler, platform, and another environment's name."""
    known = {"CUDA": machine.cuda, "driver": machine.driver, "Triton": machine.triton}
    told = [f"{name} {version}" for name, version in known.items() if version]
    return [lang.plain_quoted(one) for one in (*told, machine.compiler, machine.platform, machine.interpreter) if one]


def _machine_states(result: RunResult, lang: Language) -> list[Row]:
    """The range of each figure sampled between the blocks, and why the GPU's clock was lowered; only what is known."""
    gpus = [state.gpu for state in result.machine_states if state.gpu is not None]
    sampled: dict[str, tuple[list[float | None], Callable[[float], str]]] = {
        "row_foreign": ([state.foreign_cpu for state in result.machine_states], fmt.percent),
        "row_clock": ([gpu.sm_clock_hz for gpu in gpus], lambda hertz: f"{hertz / 1e6:.0f} MHz"),
        "row_temperature": ([gpu.temperature_celsius for gpu in gpus], lambda degrees: f"{degrees:.0f} °C"),
        "row_power": ([gpu.power_watts for gpu in gpus], lambda watts: f"{watts:.0f} W"),
    }
    rows: list[Row] = []
    for key, (values, show) in sampled.items():
        if reported := [value for value in values if value is not None]:
            low, high = show(min(reported)), show(max(reported))
            span = lang.plain_value(low) if low == high else lang.plain("between", low=low, high=high)
            rows.append(row(key, span, lang))
    if reasons := sorted({reason for gpu in gpus for reason in gpu.throttle_reasons}):
        rows.append(row("row_throttled", lang.plain_quoted(", ".join(reasons)), lang))
    return rows
