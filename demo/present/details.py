"""What stands behind an answer, as a tree: folds of parts, each with a title, sentences, a table and rows.

It is made once for a result, as plain text in the language asked for; the page, the terminal and Markdown draw it. A
part without data is None: an older result, a machine that does not report it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.measurement import AnotherSize, Compilation, GraphBreak
from demo.core.outputs import same_tokens
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL
from demo.present import sentences

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


def table_of(heads: Iterable[str], lines: Mapping[str, Sequence[object]], lang: Language) -> Table | None:
    """The lines in which something is known, by their names; None without one."""
    known = {name: values for name, values in lines.items() if any(values)}
    cells = [[name, *(lang.plain_value(one or "–") for one in values)] for name, values in known.items()]
    return (["", *heads], cells) if cells else None


# The timed calls


def calls(result: RunResult, lang: Language) -> Part | None:
    """All timed calls of each variant; of a text model its prompt and its whole answer, too."""
    if result.speedup is None:
        return None
    named = {name: side for name, side in sentences.timed(result).items() if side is not None and side.wall_seconds}
    batch, rate = result.spec.batch_size, lang.plain(f"rate_{result.spec.unit}", rate="").strip()
    sides = list(named.values())
    queued, clocks = [side.back_to_back for side in sides], [side.median_device_seconds for side in sides]
    lines: dict[str, list[object]] = {
        lang.plain("head_median"): [fmt.latency(side.median_seconds) for side in sides],
        lang.plain("head_p95"): [fmt.latency(side.p95_seconds) for side in sides],
        lang.plain("head_fastest"): [fmt.latency(min(side.wall_seconds)) for side in sides],
        lang.plain("head_slowest"): [fmt.latency(max(side.wall_seconds)) for side in sides],
        rate: [fmt.rate(batch / side.median_seconds) for side in sides],
        lang.composed("head_queue", rate=rate): [run and fmt.rate(run.calls * batch / run.seconds) for run in queued],
        lang.plain("head_energy"): [
            run and run.energy_joules and f"{run.energy_joules / (run.calls * batch):.3g} J" for run in queued
        ],
        lang.plain("head_gpu"): [seconds and fmt.latency(seconds) for seconds in clocks],
    }
    for key, both in (("row_first_token", result.prefill_latencies), ("row_answer", result.answer_seconds)):
        known = dict(zip(("eager", "compiled"), both or (), strict=False))
        lines[lang.plain(key)] = [fmt.latency(known[name]) if name in known else "" for name in named]
    number = lang.plain_value(sentences.grouped(max(len(side.wall_seconds) for side in sides)))
    table = table_of((lang.plain(f"variant_{name}") for name in named), lines, lang)
    rows = [*_of_text(result, lang), *_processes(result, lang)]
    return Part(lang.composed("section_calls", calls=number), (), table, rows)


def _of_text(result: RunResult, lang: Language) -> list[Row]:
    """What a text model's run tells beside its times: the speed-up of the first token, the cache, generate()."""
    known, asked = result.prefill_speedup, result.generation
    if asked is None:
        return []
    found = [row("row_key_values", lang.plain_value(fmt.size(asked.cache_bytes)), lang, places=asked.cache_tokens)]
    if known is not None:
        gained = sentences.with_ends(lang.plain_value(fmt.ratio(known.ratio)), known, lang)
        found.insert(0, row("row_first_token", gained, lang, tokens=asked.prompt_tokens))
    if asked.generate_seconds is not None:
        seconds = [one for one in (asked.generate_seconds, asked.automatic_seconds) if one is not None]
        found.append(row("row_generate", lang.plain_value(sentences.times_of(seconds)), lang))
    return found


def _processes(result: RunResult, lang: Language) -> list[Row]:
    """The speed-up of each process that the answer rests on, with the interval of its own calls."""
    repeats = result.as_processes()
    if len(repeats) == 1 and result.speedup is not None and result.speedup.basis == "within one process":
        return []  # the answer says it
    return [
        (
            lang.plain("row_process", number=number),
            sentences.with_ends(lang.plain_value(fmt.ratio(one.within.ratio)), one.within, lang),
            lang.plain("row_process_why", id=one.id),
        )
        for number, one in enumerate(repeats, 1)
    ]


# The profile


def why(result: RunResult, lang: Language) -> Part | None:
    """The share of launching kernels, the profiler's kernels or operators, and the roofline."""
    sides = sentences.variants(result, lang)
    measured = [side for _, _, side in sides]
    busy = [side.busy_share for side in measured]
    launching = [side.launch_seconds and side.launch_seconds / side.median_seconds for side in measured]
    counted = [side.profile and sentences.grouped(round(side.profile.kernels)) for side in measured]
    lines: dict[str, list[object]] = {
        lang.plain("head_launching"): list(map(_share, launching)),
        lang.plain("head_operators" if not any(busy) else "head_kernels"): list(counted),
        lang.plain("head_busy"): list(map(_share, busy)),
        lang.plain("head_roofline"): [_share(result.roofline_share(side)) for side in measured],
    }
    table = table_of((name for _, name, _ in sides), lines, lang)
    if table is None:
        return None
    rows = [
        (
            lang.composed("row_longest", variant=variant, number=lang.plain_value(number)),
            lang.listed([lang.plain_value(fmt.latency(kernel.seconds)), lang.plain_value(fmt.percent(kernel.share))]),
            lang.plain("row_longest_why", kernel=kernel.name, launches=sentences.grouped(round(kernel.launches))),
        )
        for _, variant, side in sides
        if side.profile is not None
        for number, kernel in enumerate(side.profile.longest, 1)
    ]
    if roofline := result.roofline:
        figures = {
            "operations": f"{roofline.operations / 1e9:.3g} G",
            "matrix": f"{roofline.matrix_rate / 1e12:.3g} T",
            "bytes": fmt.size(roofline.least_bytes),
            "copied": fmt.size(roofline.copy_rate),
        }
        rows.append(row("row_roofline", lang.plain_value(fmt.latency(roofline.least_seconds)), lang, **figures))
    return Part(lang.plain("section_why"), (), table, rows)


def _share(share: float | None) -> str:
    return "" if share is None else fmt.percent(share)


# What torch.compile made of the model


def compiled(result: RunResult, lang: Language) -> Part | None:
    """Graphs, breaks, recompiles, kernels, CUDA graphs; the title says whether the model was really compiled."""
    found = result.compilation
    if found is None:
        return None
    cost = sentences.break_cost(result, lang)
    texts = [*([lang.sentence(cost)] if cost else []), *sentences.compiled_first(result, lang)]
    if result.prefill is not None and found.recompiles:
        texts.append(lang.plain("compiled_two_lengths"))
    first = found.compiled_first.graph_breaks if found.compiled_first is not None else ()
    rows = [*_places("row_break", found.graph_breaks, lang), *_places("row_first_break", first, lang)]
    rows += [*_places("row_fallback", found.fallbacks, lang), *_places("row_recompile", found.recompiles, lang)]
    if found.recompiles_while_timing:
        rows.append(row("row_recompiles", lang.plain_value(found.recompiles_while_timing), lang))
    skipped = found.cudagraphs_skipped is not None
    if (reason := found.cudagraphs_skipped if skipped else found.cudagraphs_partly) is not None:
        how = "no_cudagraphs" if skipped else "some_cudagraphs"
        rows.append((lang.plain("row_cudagraphs"), lang.plain(how), lang.plain_quoted(reason)))
    elif found.cudagraphs != "not asked":
        rows.append(row("row_cudagraphs", sentences.worker_word("cudagraphs", found.cudagraphs, lang), lang))
    if found.kernels is not None:
        counted = {"generated": found.kernels, "libraries": found.extern_kernels}
        rows.append(row("row_kernels", lang.plain("row_kernels_value", **counted), lang))
    if found.cache_hits or found.cache_misses:
        value = lang.plain("row_cache_value", found=found.cache_hits, missing=found.cache_misses)
        rows.append(row("row_cache", value, lang))
    title = lang.composed("section_compiled", answer=_really_compiled(result, found, lang))
    return Part(title, texts, rows=rows)


def _really_compiled(result: RunResult, compiled: Compilation, lang: Language) -> str:
    """'Yes: the whole model is one graph'."""
    if compiled.graphs == 0:
        return lang.plain("compiled_none")
    if compiled.fallbacks:
        return lang.composed("compiled_fallbacks", frames=sentences.count(len(compiled.fallbacks), "frame", lang))
    counted = sentences.count(compiled.graphs, "graph", lang)
    if compiled.graph_breaks:
        breaks = sentences.count(len(compiled.graph_breaks), "break", lang)
        return lang.composed("compiled_breaks", graphs=counted, breaks=breaks)
    if compiled.graphs == 1 and result.spec.scope == "model":
        return lang.plain("compiled_whole")
    return lang.composed("compiled_graphs", graphs=counted)


def _places(key: str, places: Iterable[GraphBreak], lang: Language) -> list[Row]:
    """Where and why, in torch's words, without the empty message of an inserted break; equal hints stand once."""
    rows, helped = [], set()
    for number, one in enumerate(places, 1):
        reason = lang.plain_quoted(one.reason.replace(" Message: None", ""))
        rows.append((lang.plain(key, number=number), lang.plain_quoted(one.location) or "–", reason))
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
    title = lang.composed("section_outputs", answer=sentences.worker_word("parity", compared.verdict, lang))
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
        known = [(*_SHARES[name], share) for name, share in parity.task.items() if name in _SHARES]
        shares = [lang.plain(key, share=fmt.percent(share)) for key, least, share in known if share >= least]
    told = lang.composed("setting", name=verdict, value=lang.listed(shares)) if shares else verdict
    return lang.sentence(told)


_SHARES = {
    "top5_agreement": ("share_labels", 0.0),
    "matched_boxes": ("share_boxes", 0.0),
    "mask_iou": ("share_masks", 0.0),
    "same_tokens": ("share_tokens", 0.0),
    "score_difference": ("share_scores", 0.005),
    "changed_pixels": ("share_pixels", 0.0005),
}
"""By the name of a task-level figure of parity its text, and the least that is mentioned."""


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
    threads = sentences.count(known.threads, "thread", lang)
    cores = lang.composed("row_cpu_why", cores=lang.plain_value(known.cpu_count), threads=threads)
    libraries = f"torch {known.torch}, transformers {known.transformers}, Python {known.python}"
    of_gpu = {"CUDA": known.cuda, "driver": known.driver, "Triton": known.triton}
    further = [f"{name} {version}" for name, version in of_gpu.items() if version]
    further += [one for one in (known.compiler, known.platform) if one]
    rows = [
        (lang.plain("row_cpu"), lang.plain_value(known.cpu), cores),
        row("row_memory", lang.plain_value(fmt.size(known.memory_bytes)), lang),
        (lang.plain("row_versions"), lang.plain_value(libraries), lang.listed(list(map(lang.plain_quoted, further)))),
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


# What compiling costs


def pays(result: RunResult, lang: Language) -> Part | None:
    """The cost of the first call from each state of the cache, its parts, and when it has paid for itself."""
    found = result.compilation
    if found is None or result.speedup is None:
        return None
    costs = {"cold": found.cold, "warm": found.warm}
    measured = {cache: cost for cache, cost in costs.items() if cost is not None and cost.parts}
    heads = []
    for cache, cost in measured.items():
        head = lang.plain(f"head_{sentences.cost_key(found, cache)}")
        heads.append(lang.listed([head, lang.plain("by_run", id=cost.run_id)]) if cost.run_id else head)
    lines = {}
    for name in dict.fromkeys(name for cost in measured.values() for name in cost.parts):
        seconds = [cost.parts.get(name) for cost in measured.values()]
        word = sentences.worker_word("part", name, lang)
        lines[word] = [fmt.start_time(one) if one is not None else "" for one in seconds]
    size = found.package_bytes
    rows = [] if size is None else [row("row_package", lang.plain_value(fmt.size(size)), lang)]
    return Part(lang.plain("section_pays"), when_it_pays(result, lang), table_of(heads, lines, lang), rows)


def when_it_pays(result: RunResult, lang: Language) -> list[str]:
    """A sentence for each state of the cache that was measured, but for that of each start: see `advice.worth`."""
    compiled = result.compilation
    if compiled is None:
        return []
    *others, _ = compiled.known_costs.items()
    texts, verdict = [], sentences.outcome(result)
    for cache, seconds in others:
        cost = lang.plain(f"cost_{sentences.cost_key(compiled, cache)}", time=fmt.start_time(seconds))
        even = result.break_even(seconds)
        if even is not None and verdict in ("faster", "slower", "same"):
            paid = "paid_after" if even.calls is not None and verdict == "faster" else "paid_never"
            cost = lang.composed(paid, cost=cost, calls=sentences.calls_to_pay(even, lang))
        texts.append(lang.sentence(cost))
    return texts


def another_size(result: RunResult, lang: Language) -> Part | None:
    """A row for each size that was called after the timed one; without one an invitation, where a run can try one."""
    of_one_size = result.spec.compiler == "aot" or result.spec.task == OWN_MODEL
    if of_one_size or result.failure is not None or result.compilation is None:
        return None
    answer, rows = lang.plain("another_size_untried"), list[Row]()
    for one in result.another_sizes:
        value = lang.composed(
            "another_size_value",
            time=lang.plain_value(fmt.start_time(one.first_call_seconds)),
            recompiles=sentences.count(one.recompiles, "recompile", lang),
            times=lang.plain_value(sentences.times_of((one.eager.median_seconds, one.compiled.median_seconds))),
            ratio=lang.plain_value(fmt.ratio(one.speedup.ratio)),
        )
        if one.fallbacks:
            value = lang.listed([value, lang.plain("another_size_eager")])
        calls = one.calls_to_pay
        pays = lang.plain("never") if calls is None else sentences.count(fmt.two_digits(calls), "call", lang)
        rows.append((_size(one, lang), value, lang.composed("setting", name=lang.plain("compared_pays"), value=pays)))
    if rows:
        ratio = lang.plain_value(fmt.ratio(result.another_sizes[0].speedup.ratio))
        answer = lang.composed("setting", name=rows[0][0], value=ratio)
    told = lang.plain("another_size_note" if rows else "another_size_invites")
    return Part(lang.composed("section_another_size", answer=answer), [told], None, rows)


def _size(inputs: AnotherSize, lang: Language) -> str:
    """'Batch 2, 224 × 224', width before height; of a text model 'Batch 2, prompt of 7 tokens, cache of 71 places'."""
    batch = lang.capital(lang.plain("asked_batch", size=inputs.batch_size))
    if inputs.prompt_tokens:
        prompt = lang.plain("another_prompt", tokens=inputs.prompt_tokens)
        return lang.listed([batch, prompt, lang.plain("another_cache", places=inputs.cache_tokens)])
    return lang.listed([batch, lang.plain_value(f"{inputs.width} × {inputs.height}")])


def memory(result: RunResult, lang: Language) -> Part | None:
    """The peaks of both variants, with what the allocator held of the GPU; None where they differ by less than 2 %."""
    sides = [(name, side) for _, name, side in sentences.variants(result, lang) if side.peak_memory_bytes]
    peaks = [side.peak_memory_bytes or 0 for _, side in sides]
    if len(peaks) < 2 or max(peaks) <= 1.02 * min(peaks):
        return None
    sizes = list(map(fmt.size, peaks))
    reserved = [fmt.size(side.peak_reserved_bytes) for _, side in sides if side.peak_reserved_bytes]
    lines = {lang.plain("head_peak"): sizes, lang.plain("head_reserved"): reserved if len(reserved) == 2 else []}
    title = lang.composed("setting", name=lang.plain("row_memory"), value=lang.plain_value(" → ".join(sizes)))
    meaning = lang.plain("memory_of_gpu" if result.spec.device == "cuda" else "memory_of_process")
    return Part(title, [meaning], table_of((name for name, _ in sides), lines, lang))


def request(result: RunResult, lang: Language) -> Part | None:
    """A whole request in its four parts, which compiling changes one of, and the model's share of an eager one."""
    around, requests, batch = result.end_to_end, result.request_seconds, result.spec.batch_size
    if around is None or requests is None:
        return None
    before, after = batch * around.preprocess_seconds, batch * around.postprocess_seconds
    model = result.answer_seconds or tuple(result.latencies.values())
    lines = {
        "request_prepare": (before, before),
        "request_copy": (around.copy_seconds, around.copy_seconds),
        "request_model": model,
        "request_decode": (after, after),
        "request_whole": requests,
    }
    times = {lang.plain(key): list(map(fmt.latency, both)) for key, both in lines.items()}
    table = table_of((name for _, name, _ in sentences.variants(result, lang)), times, lang)
    certain = sentences.outcome(result) in ("faster", "slower")  # else the model's verdict stands: 'too noisy to tell'
    answer = lang.plain_value(fmt.ratio(requests[0] / requests[1])) if certain else sentences.speedup(result, lang)
    share = lang.composed("request_share", share=lang.plain_value(fmt.percent(model[0] / requests[0])))
    return Part(lang.composed("section_request", answer=answer), [share], table)


FOLDS = {
    "fold_why": {"calls": calls, "why": why, "compiled": compiled, "outputs": outputs, "machine": machine},
    "fold_cost": {"pays": pays, "another_size": another_size, "memory": memory, "request": request},
}
"""By the key of the fold's title and the name of the part, in the order of the page."""


def tree(result: RunResult, lang: Language) -> dict[str, dict[str, Part]]:
    """The parts of each fold that have something to tell, by their names."""
    return {
        fold: {name: part for name, make in makers.items() if (part := make(result, lang)) is not None}
        for fold, makers in FOLDS.items()
    }
