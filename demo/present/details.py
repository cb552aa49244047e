"""What stands behind an answer, as a tree: folds of parts, each with a title, sentences, a table and rows.

It is made once for a result, as plain text; the page, the terminal and Markdown draw it. A
part without data is None, such as on a machine that does not report it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from demo.core import format as fmt
from demo.core.measurement import Compilation, GraphBreak
from demo.core.result import FIRST_TOKEN, RunResult
from demo.present import naming, verdict
from demo.present.guide_comparison import compare_with_guide
from demo.tasks import BY_NAME
from demo.tasks.text import same_tokens

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


def table_of(heads: Iterable[str], lines: Mapping[str, Sequence[object]]) -> Table | None:
    """The lines in which something is known, by their names; None without one."""
    known = {name: values for name, values in lines.items() if any(values)}
    cells = [[name, *(str(one or "–") for one in values)] for name, values in known.items()]
    return (["", *heads], cells) if cells else None


# The timed calls


def calls(result: RunResult) -> Part | None:
    """All timed calls of each variant; of a text model its prompt and its whole answer, too."""
    if result.speedup is None:
        return None
    variants = [one for one in naming.variants(result) if one[2].wall_seconds]
    batch, rate = result.spec.batch_size, f"{result.spec.unit}s/s"
    sides = [side for *_, side in variants]
    queued, clocks = [side.back_to_back for side in sides], [side.median_device_seconds for side in sides]
    latencies = [result.latencies[name] for name, *_ in variants]
    lines: dict[str, list[object]] = {
        naming.COMPARISONS[result.main]: list(map(fmt.latency, latencies)),
        "median of this process": [fmt.latency(side.median_seconds) for side in sides],
        "p95": [fmt.latency(side.p95_seconds) for side in sides],
        "fastest": [fmt.latency(min(side.wall_seconds)) for side in sides],
        "slowest": [fmt.latency(max(side.wall_seconds)) for side in sides],
        rate: [fmt.significant(batch / seconds) for seconds in latencies],
        f"{rate}, back to back": [run and fmt.significant(run.calls * batch / run.seconds) for run in queued],
        "on the GPU": [seconds and fmt.latency(seconds) for seconds in clocks],
    }
    further = {name: one.latencies for name, one in result.comparisons.items() if one is not result.speedup}
    for name, both in further.items():
        lines[naming.COMPARISONS[name]] = list(map(fmt.latency, both))
    if result.answer_seconds is not None:
        lines["Whole answer"] = list(map(fmt.latency, result.answer_seconds))
    number = fmt.grouped(max(len(side.wall_seconds) for side in sides))
    table = table_of((shown for _, shown, _ in variants), lines)
    rows = [*_of_text(result), *_processes(result)]
    return Part(f"{number} timed calls of each", (), table, rows)


def _of_text(result: RunResult) -> list[Row]:
    """The speed-up of a text model's first token."""
    known = result.comparisons.get(FIRST_TOKEN)
    if known is None:
        return []
    gained = verdict.with_ends(fmt.ratio(known.ratio), known)
    words = f"The call that reads the prompt of {result.prompt_tokens} tokens, timed apart by the same protocol."
    return [(naming.COMPARISONS[FIRST_TOKEN], gained, words)]


def _processes(result: RunResult) -> list[Row]:
    """The speed-up of each process that the answer rests on, with the interval of its own calls."""
    name = result.main
    repeats = [(run.id, run.figures[name].within) for run in result.as_processes() if name in run.figures]
    if len(repeats) == 1 and result.speedup is not None and result.speedup.basis == "within one process":
        return []  # the answer says it
    return [
        (
            f"Process {number}",
            verdict.with_ends(fmt.ratio(one.ratio), one),
            f"Its own speed-up with the interval of its calls; run {id}.",
        )
        for number, (id, one) in enumerate(repeats, 1)
    ]


# The profile


def why(result: RunResult) -> Part | None:
    """The share of launching kernels, the profiler's kernels or operators, and the roofline."""
    sides = naming.variants(result)
    measured = [side for _, _, side in sides]
    busy = [side.busy_share for side in measured]
    launching = [side.launch_seconds and side.launch_seconds / side.median_seconds for side in measured]
    counted = [side.profile and fmt.grouped(round(side.profile.kernels)) for side in measured]
    lines: dict[str, list[object]] = {
        "launching kernels": list(map(_share, launching)),
        ("operators a call, fused ones not counted" if not any(busy) else "kernels a call"): list(counted),
        "GPU busy": list(map(_share, busy)),
        "of the roofline's speed": [_share(result.roofline_share(side)) for side in measured],
    }
    table = table_of((name for _, name, _ in sides), lines)
    if table is None:
        return None
    rows = [
        (
            f"{variant}, longest {number}",
            ", ".join([fmt.latency(kernel.seconds), fmt.percent(kernel.share)]),
            f"{kernel.name}, {fmt.grouped(round(kernel.launches))} a call.",
        )
        for _, variant, side in sides
        if side.profile is not None
        for number, kernel in enumerate(side.profile.longest, 1)
    ]
    if roofline := result.roofline:
        why = (
            f"{roofline.operations / 1e9:.3g} G operations at {roofline.matrix_rate / 1e12:.3g} T a second, "
            f"{fmt.size(roofline.least_bytes)} at least at {fmt.size(roofline.copy_rate)} a second: both measured "
            "in this run."
        )
        rows.append(("Roofline", fmt.latency(roofline.least_seconds), why))
    return Part("Where the time goes", (), table, rows)


def _share(share: float | None) -> str:
    return "" if share is None else fmt.percent(share)


# What torch.compile made of the model


def compiled(result: RunResult) -> Part | None:
    """Graphs, breaks, recompiles, kernels, CUDA graphs; the title says whether the model was really compiled."""
    found = result.compilation
    if found is None:
        return None
    texts = []
    if FIRST_TOKEN in result.further and found.recompiles:
        texts.append(
            "One graph reads the prompt and one writes a token: dynamo calls the second a recompile, "
            "since its input has another length."
        )
    rows = _places("Graph break", found.graph_breaks)
    rows += [*_places("Fallback to eager", found.fallbacks), *_places("Recompile", found.recompiles)]
    if found.recompiles_while_timing:
        rows.append(("Recompiles while timing", str(found.recompiles_while_timing), ""))
    if found.cudagraphs != "not asked":
        used, _, reason = found.cudagraphs.partition(": ")
        rows.append(("CUDA graphs", used, reason))
    return Part(f"Did it really compile? {_really_compiled(result, found)}", texts, rows=rows)


def _really_compiled(result: RunResult, compiled: Compilation) -> str:
    """'Yes: the whole model is one graph'."""
    if compiled.graphs == 0:
        return "No: torch.compile captured no graph, so “compiled” ran as eager"
    if compiled.fallbacks:
        return f"Partly: {fmt.count(len(compiled.fallbacks), 'frame')} of it fell back to eager"
    counted = fmt.count(compiled.graphs, "graph")
    if compiled.graph_breaks:
        return f"Partly: {counted} with {fmt.count(len(compiled.graph_breaks), 'break')} between"
    if compiled.graphs == 1 and result.spec.scope == "model":
        return "Yes: the whole model is one graph"
    return f"Yes: {counted}, no breaks"


def _places(kind: str, places: Iterable[GraphBreak]) -> list[Row]:
    """Where and why, in torch's words, without the empty message of an inserted break; equal hints stand once."""
    rows, helped = [], set()
    for number, one in enumerate(places, 1):
        reason = one.reason.replace(" Message: None", "")
        rows.append((f"{kind} {number}", one.location or "–", reason))
        if one.hints and one.hints not in helped:
            helped.add(one.hints)
            rows.append(("What may help", one.page, " ".join(one.hints)))
    return rows


def outputs(result: RunResult) -> Part | None:
    """How far the numbers of both outputs lie apart."""
    compared = result.parity
    if compared is None:
        return None
    error = compared.max_abs_error
    rows = [] if error is None else [("Largest difference", f"{error:.2g}", "")]
    return Part(f"Same output? {compared.verdict}", [compared.reason], rows=rows)


def agreement(result: RunResult) -> str:
    """Whether eager and compiled predict the same, by the task-level parity; '' where nothing was compared."""
    parity = result.parity
    if parity is None or parity.verdict == "not comparable":
        return ""
    said = "Eager and compiled agree" if parity.verdict == "match" else "Eager and compiled differ"
    predictions = (result.predictions or {}).values()
    if predictions and all(one.boxes == () or one.segments == () for one in predictions):
        shares = ["neither finds anything"]
    else:
        named = BY_NAME[result.spec.task].shares
        known = [(*named[name], share) for name, share in parity.task.items() if name in named]
        shares = [words.format(share=fmt.percent(share)) for words, least, share in known if share >= least]
    return fmt.sentence(f"{said}: {', '.join(shares)}" if shares else said)


def text_difference(result: RunResult) -> str:
    """From where on two texts differ, and what that means; '' where they do not."""
    written = [one.token_ids for one in (result.predictions or {}).values() if one.token_ids is not None]
    if len(written) < 2 or written[0] == written[1]:
        return ""
    words = f"The texts differ from token {same_tokens(*written) + 1} on."
    if result.spec.dtype != "float32":
        words += (
            f" In {result.spec.dtype} one rounding can lead to another token, and from there to another text. That is "
            "no fault; the logits were compared on the same tokens."
        )
    return words


# Caveats and the machine


def caveats(result: RunResult) -> Part | None:
    """What a reader should know before using the figures."""
    texts = result.warnings
    return Part(f"Caveats: {len(texts)}", texts) if texts else None


def machine(result: RunResult) -> Part | None:
    """Processor, memory, versions, settings in force, and what else ran while it was timed."""
    known = result.environment
    if known is None:
        return None
    cores = f"{known.cpu_count} cores, {fmt.count(known.threads, 'thread')} for torch"
    libraries = f"torch {known.torch}, transformers {known.transformers}, Python {known.python}"
    of_gpu = {"CUDA": known.cuda, "driver": known.driver, "Triton": known.triton}
    further = [f"{name} {version}" for name, version in of_gpu.items() if version]
    further += [one for one in (known.compiler, known.platform) if one]
    rows = [
        ("CPU", known.cpu, cores),
        ("Memory", fmt.size(known.memory_bytes), ""),
        ("Versions", libraries, ", ".join(further)),
    ]
    if known.settings:
        rows.append(("Settings in force", ", ".join(f"{name} {value}" for name, value in known.settings.items()), ""))
    rows += _machine_states(result)
    took = result.timing_seconds
    timing = f"Of these {fmt.duration(took)} timing." if took is not None else ""
    rows.append(("Whole run", fmt.duration(result.elapsed_seconds), timing))
    return Part(f"Machine: {known.device_name}", rows=rows)


def _machine_states(result: RunResult) -> list[Row]:
    """The range of each figure sampled between the blocks, and why the GPU's clock was lowered; only what is known."""
    gpus = [state.gpu for state in result.machine_states if state.gpu is not None]
    sampled: dict[str, tuple[list[float | None], Callable[[float], str]]] = {
        "Processor kept busy by others": ([state.foreign_cpu for state in result.machine_states], fmt.percent),
        "GPU clock": ([gpu.sm_clock_hz for gpu in gpus], lambda hertz: f"{hertz / 1e6:.0f} MHz"),
    }
    rows: list[Row] = []
    for name, (values, show) in sampled.items():
        if reported := [value for value in values if value is not None]:
            low, high = show(min(reported)), show(max(reported))
            rows.append((name, low if low == high else f"{low} to {high}", ""))
    if reasons := sorted({reason for gpu in gpus for reason in gpu.throttle_reasons}):
        rows.append(("GPU throttled", ", ".join(reasons), ""))
    return rows


# What compiling costs


def pays(result: RunResult) -> Part | None:
    """The cost of the first call from each state of the cache, its parts, and when it has paid for itself."""
    found = result.compilation
    if found is None or result.speedup is None:
        return None
    costs = {"cold": found.cold, "warm": found.warm}
    measured = {cache: cost for cache, cost in costs.items() if cost is not None and cost.parts}
    heads = []
    for cache, cost in measured.items():
        heads.append(verdict.start(found, cache) + (f", by run {cost.run_id}" if cost.run_id else ""))
    lines = {}
    for name in dict.fromkeys(name for cost in measured.values() for name in cost.parts):
        seconds = [cost.parts.get(name) for cost in measured.values()]
        word = naming.worker_word(name)
        lines[word] = [fmt.start_time(one) if one is not None else "" for one in seconds]
    rows = [("Package", fmt.size(found.package_bytes), "")] if found.package_bytes is not None else []
    texts, table = verdict.when_it_pays(result), table_of(heads, lines)
    return Part("When does compiling pay?", texts, table, rows) if texts or table or rows else None


def memory(result: RunResult) -> Part | None:
    """The peaks of both variants, with what the allocator held of the GPU; None where they differ by less than 2 %."""
    sides = [(name, side) for _, name, side in naming.variants(result) if side.peak_memory_bytes]
    peaks = [side.peak_memory_bytes or 0 for _, side in sides]
    if len(peaks) < 2 or max(peaks) <= 1.02 * min(peaks):
        return None
    sizes = list(map(fmt.size, peaks))
    reserved = [fmt.size(side.peak_reserved_bytes) for _, side in sides if side.peak_reserved_bytes]
    lines = {"peak": sizes, "reserved": reserved if len(reserved) == 2 else []}
    meaning = (
        "Peak resident set of the whole process during one call. It includes Python, torch and both models: compare "
        "the two figures with each other, not with the model's size."
    )
    if result.spec.device == "cuda":
        meaning = (
            "Peak of the bytes that torch's allocator had given out during one call, weights included. Reserved is "
            "what the allocator held on the GPU for it: that much must be free."
        )
    return Part(f"Memory: {' → '.join(sizes)}", [meaning], table_of((name for name, _ in sides), lines))


def request(result: RunResult) -> Part | None:
    """A whole request in its four parts, which compiling changes one of, and the model's share of an eager one."""
    around, requests, batch = result.end_to_end, result.request_seconds, result.spec.batch_size
    if around is None or requests is None:
        return None
    before, after = batch * around.preprocess_seconds, batch * around.postprocess_seconds
    model = tuple(result.latencies.values())
    lines = {
        "Prepare the input": (before, before),
        "Copy to the device": (around.copy_seconds, around.copy_seconds),
        "The model": model,
        "Decode the output": (after, after),
        "Whole request": requests,
    }
    times = {name: list(map(fmt.latency, both)) for name, both in lines.items()}
    table = table_of((name for _, name, _ in naming.variants(result)), times)
    certain = verdict.outcome(result) in ("faster", "slower")  # else the model's verdict stands: 'too noisy to tell'
    answer = fmt.ratio(requests[0] / requests[1]) if certain else verdict.speedup(result)
    share = fmt.percent(model[0] / requests[0])
    meaning = f"{share} of an eager request is the model, and compiling does not change the rest."
    return Part(f"A whole request: {answer}", [meaning], table)


def guide(result: RunResult) -> Part | None:
    """The run beside the guide's rows; None where the guide has none for its checkpoint."""
    found = compare_with_guide(result)
    return Part("Compared with the published table", found) if found else None


FOLDS = {
    "Why: every call, what was compiled, the machine": {
        "caveats": caveats,
        "calls": calls,
        "why": why,
        "compiled": compiled,
        "outputs": outputs,
        "machine": machine,
        "guide": guide,
    },
    "Cost: the first call, a whole request": {
        "pays": pays,
        "memory": memory,
        "request": request,
    },
}
"""By the fold's title and the name of the part, in the order of the page."""


def tree(result: RunResult) -> dict[str, dict[str, Part]]:
    """The parts of each fold that have something to tell, by their names."""
    return {
        fold: {name: part for name, make in makers.items() if (part := make(result)) is not None}
        for fold, makers in FOLDS.items()
    }
