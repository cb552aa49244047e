"""The details of a run as plain text, in sections with a title, sentences, a table and facts.

The page shows the sections in two folds, parts of the page that open with a click. The terminal and the Markdown export
show them, too. A function that makes a section returns None if the run has no data for it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core import format as fmt
from ..core.measurement import Compilation, GraphBreak, Measurement
from ..core.options import OPTIONS, PUBLISHED_CALLS
from ..core.result import FIRST_TOKEN, RunResult
from ..store import published
from . import naming
from .report import Report
from .speedup_words import with_ends

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""(titles, lines): the column titles, the first one '', and for each line its name and then its values."""


@dataclass(frozen=True)
class Fact:
    """A fact that explains or supports a verdict: its name, value, reason and link."""

    name: str
    value: str
    why: str = ""
    """A sentence that says what the value means; '' for none."""
    url: str = ""
    """The page that explains the value; '' for none."""


@dataclass(frozen=True)
class Section:
    title: str
    """A question with its answer, 'Same output? match', or a heading with its figure, 'Memory: 620 MB → 540 MB'."""
    sentences: Sequence[str] = ()
    table: Table | None = None
    facts: Sequence[Fact] = ()


def _table(heads: Iterable[str], lines: Mapping[str, Iterable[object]]) -> Table | None:
    """Returns a table with a line for each name in `lines`, or None if no line has a value.

    `heads`: the titles of its columns. `lines`: the values of a line, one for each column, by the line's name. A
    missing value (None or '') becomes '–', and a line without any value is left out.
    """
    rows = [[name, *values] for name, values in lines.items()]
    cells = [[str(value or "–") for value in row] for row in rows if any(row[1:])]
    return (["", *heads], cells) if cells else None


def _sides(result: RunResult) -> tuple[list[str], list[Measurement]]:
    """Returns the names and the measurements of the timed variants: of eager and compiled, or of eager alone."""
    variants = naming.variants(result)
    return [name for _, name, _ in variants], [side for _, _, side in variants]


# ---- the timed calls

SET_ASIDE = (
    "Other programs disturbed this process, so it does not count: the means, and the rates from them, are of the quiet "
    "processes. The other lines are of this one."
)
SLOWER_BACK_TO_BACK = (
    "Back to back is one series after the timing, without turns: its rate can be lower, if the machine was slower then."
)


def calls(report: Report) -> Section | None:
    """Returns statistics of the timed calls, and for a text model also the time to the first token."""
    result = report.result
    if result.speedup is None:
        return None
    heads, sides = _sides(result)
    batch, rate = result.spec.batch_size, f"{result.spec.unit}s/s"
    rates = [batch / seconds for seconds in result.latencies.values()]
    queued, clocks = [side.back_to_back for side in sides], [side.median_device_seconds for side in sides]
    mean = "mean" if not result.in_turns else "trimmed mean"
    if (processes := result.speedup.processes) > 1:
        mean += f" of {fmt.count(processes, 'process')}"
    texts = [SET_ASIDE] if result.set_aside else []
    if any(queue and queue.calls * batch / queue.seconds < calls for queue, calls in zip(queued, rates, strict=True)):
        texts.append(SLOWER_BACK_TO_BACK)
    lines: dict[str, Iterable[object]] = {
        f"{naming.COMPARISONS[result.main]}, {mean}": map(fmt.latency, result.latencies.values()),
        "median of this process": [fmt.latency(side.median_seconds) for side in sides],
        "p95": [fmt.latency(side.p95_seconds) for side in sides],
        "fastest": [fmt.latency(min(side.wall_seconds)) for side in sides],
        "slowest": [fmt.latency(max(side.wall_seconds)) for side in sides],
        rate: map(fmt.significant, rates),
        f"{rate}, back to back": [run and fmt.significant(run.calls * batch / run.seconds) for run in queued],
        f"energy per {result.spec.unit}": [
            run and run.joules and f"{run.joules / (run.calls * batch):.3g} J" for run in queued
        ],
        "on the GPU": [seconds and fmt.latency(seconds) for seconds in clocks],
    }
    facts = _processes(result)
    if first := result.comparisons.get(FIRST_TOKEN):
        name = naming.COMPARISONS[FIRST_TOKEN]
        lines[name] = map(fmt.latency, first.latencies)
        words = f"The call that reads the prompt of {result.prompt_tokens} tokens, timed apart by the same protocol."
        facts.insert(0, Fact(name, with_ends(fmt.ratio(first.ratio), first), words))
    if result.answer_seconds is not None:
        lines["Whole answer"] = map(fmt.latency, result.answer_seconds)
    number = fmt.group_thousands(max(len(side.wall_seconds) for side in sides))
    return Section(f"{number} timed calls of each", texts, _table(heads, lines), facts)


def _processes(result: RunResult) -> list[Fact]:
    """Returns the speed-up of each process in the verdict's pool; [] if `Speedup.basis` is 'within one process'."""
    if result.speedup is not None and result.speedup.basis == "within one process":
        return []  # the verdict itself states the interval of this process
    repeats = [(run.id, run.figures[result.main].within) for run in result.as_processes() if result.main in run.figures]
    words = "Its own speed-up with the interval of its calls; run {}."
    return [
        Fact(f"Process {number}", with_ends(fmt.ratio(own.ratio), own), words.format(id))
        for number, (id, own) in enumerate(repeats, 1)
    ]


# ---- the profile


def why(report: Report) -> Section | None:
    """Returns where the time of a call goes: launching kernels, the longest kernels, and the share of the roofline.

    The roofline is the least time that the call's arithmetic and memory traffic could take.
    """
    result = report.result
    heads, sides = _sides(result)
    busy = [side.busy_share for side in sides]
    launching = [side.launch_share for side in sides]
    lines: dict[str, Iterable[object]] = {
        "launching kernels": map(_share, launching),
        ("kernels a call" if any(busy) else "operators a call, fused ones not counted"): [
            side.profile and fmt.group_thousands(round(side.profile.kernels)) for side in sides
        ],
        "GPU busy": map(_share, busy),
        "of the roofline's speed": [_share(result.roofline_share(side)) for side in sides],
    }
    table, facts = _table(heads, lines), list[Fact]()
    if table is None:
        return None
    for variant, side in zip(heads, sides, strict=True):
        for number, kernel in enumerate(side.profile.longest if side.profile is not None else (), 1):
            took = f"{fmt.latency(kernel.seconds)}, {fmt.percent(kernel.share)}"
            what = f"{kernel.name}, {fmt.group_thousands(round(kernel.launches))} a call."
            facts.append(Fact(f"{variant}, longest {number}", took, what))
    if roofline := result.roofline:
        words = (
            f"{roofline.operations / 1e9:.3g} G operations at {roofline.matrix_rate / 1e12:.3g} T a second, "
            f"{fmt.size(roofline.least_bytes)} at least at {fmt.size(roofline.copy_rate)} a second: both measured "
            "in this run."
        )
        facts.append(Fact("Roofline", fmt.latency(roofline.least_seconds), words))
    return Section("Where the time goes", (), table, facts)


def _share(share: float | None) -> str:
    return "" if share is None else fmt.percent(share)


# ---- what torch.compile made of the model


def compilation(report: Report) -> Section | None:
    """Returns the graph breaks, fallbacks to eager, recompiles and CUDA graphs of a run."""
    result = report.result
    compilation = result.compilation
    if compilation is None:
        return None
    texts = []
    if FIRST_TOKEN in result.further and compilation.recompiles:
        texts.append(
            "One graph reads the prompt and one writes a token: dynamo calls the second a recompile, "
            "since its input has another length."
        )
    facts = _places("Graph break", compilation.graph_breaks)
    facts += _places("Fallback to eager", compilation.fallbacks)
    facts += _places("Recompile", compilation.recompiles)
    if compilation.recompiles_while_timing:
        facts.append(Fact("Recompiles while timing", str(compilation.recompiles_while_timing)))
    if (graphs := compilation.cuda_graphs).state != "not asked":
        facts.append(Fact("CUDA graphs", graphs.state, graphs.reason))
    return Section(f"Did it really compile? {_how_compiled(result, compilation)}", texts, facts=facts)


def _how_compiled(result: RunResult, compiled: Compilation) -> str:
    if compiled.graphs == 0:
        return "No: torch.compile captured no graph, so “compiled” ran as eager"
    counted = fmt.count(compiled.graphs, "graph")
    if compiled.fallbacks:
        return f"Partly: {fmt.count(len(compiled.fallbacks), 'frame')} of it fell back to eager"
    if compiled.graph_breaks:
        return f"Partly: {counted}, {fmt.count(len(compiled.graph_breaks), 'graph break')}"
    if compiled.graphs == 1 and result.spec.scope == "model":
        return "Yes: the whole model is one graph"
    return f"Yes: {counted}, no breaks"


def _places(kind: str, places: Iterable[GraphBreak]) -> list[Fact]:
    """Returns a fact for each graph break or recompile in `places`: 'Graph break 1', its line of code, torch's reason.

    torch's hints follow as a fact of their own, unless an earlier place had the same hints. `kind`: 'Graph break' or
    the like.
    """
    facts, hints = [], set()
    for number, place in enumerate(places, 1):
        reason = place.reason.replace(" Message: None", "")  # of a break that this project inserted
        facts.append(Fact(f"{kind} {number}", place.location or "–", reason))
        if place.hints and place.hints not in hints:
            hints.add(place.hints)
            number_in_torch = place.number if place.page else ""
            facts.append(Fact("What may help", number_in_torch, " ".join(place.hints), place.page))
    return facts


# ---- the outputs


def outputs(report: Report) -> Section | None:
    """Returns whether the raw outputs of eager and compiled match, and their largest difference."""
    result = report.result
    parity = result.parity
    if parity is None:
        return None
    error = parity.max_abs_error
    facts = [] if error is None else [Fact("Largest difference", f"{error:.2g}")]
    return Section(f"Same output? {parity.verdict}", [parity.reason], facts=facts)


# ---- caveats and the machine


def caveats(report: Report) -> Section | None:
    texts = report.result.warnings
    return Section(f"Caveats: {len(texts)}", texts) if texts else None


def machine(report: Report) -> Section | None:
    """Returns processor, memory, versions, torch's settings, and how much other programs used the machine."""
    result = report.result
    here = result.environment
    if here is None:
        return None
    cores = f"{here.cpu_count} cores, {fmt.count(here.threads, 'thread')} for torch"
    libraries = f"torch {here.torch}, transformers {here.transformers}, Python {here.python}"
    of_gpu = {"CUDA": here.cuda, "driver": here.driver, "Triton": here.triton}
    further = [f"{name} {version}" for name, version in of_gpu.items() if version]
    in_force = ", ".join(f"{name} {value}" for name, value in here.settings.items())
    gpus = [state.gpu for state in result.machine_states if state.gpu is not None]
    throttled = {reason for gpu in gpus for reason in gpu.throttle_reasons}
    others = _least_to_most((state.foreign_cpu for state in result.machine_states), fmt.percent)
    host = _least_to_most((state.host_taken for state in result.machine_states), fmt.percent)
    clocks = _least_to_most((gpu.sm_clock_hz for gpu in gpus), lambda clock: f"{clock / 1e6:.0f} MHz")
    timing = result.timing_seconds
    facts = [
        Fact("CPU", here.cpu, cores),
        Fact("Memory", fmt.size(here.memory_bytes)),
        Fact("Versions", libraries, ", ".join(filter(None, [*further, here.compiler, here.platform]))),
        Fact("Settings in force", in_force),
        Fact("Processor kept busy by others", others),
        Fact("Host taken by others", host),
        Fact("GPU clock", clocks),
        Fact("GPU throttled", ", ".join(sorted(throttled))),
        Fact(
            "Whole run",
            fmt.duration(result.elapsed_seconds),
            f"Of these {fmt.duration(timing)} timing." if timing is not None else "",
        ),
    ]
    return Section(f"Machine: {here.device_name}", facts=[fact for fact in facts if fact.value])


def _least_to_most(values: Iterable[float | None], write: Callable[[float], str]) -> str:
    """Returns the range of `values` as text: '1350 MHz to 1410 MHz'; '' if no value is known.

    It is a single value if both ends look the same as text.
    """
    known = sorted(value for value in values if value is not None)
    return " to ".join(dict.fromkeys(map(write, [*known[:1], *known[-1:]])))


# ---- what compiling costs


def costs(report: Report) -> Section | None:
    """Returns a table of what compiling costs, with a column for each state of the compile cache, such as empty.

    Its lines are the time of the first call, when compiling pays, and the parts of the first call's time. Only states
    whose first call is known have a column.
    """
    starts, compilation = report.starts, report.result.compilation
    if compilation is None or report.result.speedup is None:
        return None
    costs = [start.cost for start in starts]
    heads = [start.name + (f", by run {start.cost.run_id}" if start.cost.run_id else "") for start in starts]
    lines: dict[str, Iterable[object]] = {
        "First call": [fmt.duration(cost.model_seconds) for cost in costs],
        "Break-even": [start.range for start in starts],
    }
    for part in dict.fromkeys(part for cost in costs for part in cost.parts if part != "instruction probe"):
        lines[naming.worker_word(part)] = [part in cost.parts and fmt.duration(cost.parts[part]) for cost in costs]
    facts = [Fact("Package", fmt.size(compilation.package_bytes))] if compilation.package_bytes is not None else []
    if probe := naming.probe(compilation.instruction_probe):
        facts.append(Fact("Not counted", probe, "It finds the processor's vector instructions, for any model."))
    if compilation.partly and all(start.state == "warm" for start in starts):
        why = "It found part of its code in the cache: from nothing a first call takes longer."
        facts.append(Fact("First call of this run", fmt.duration(compilation.first_call_seconds), why))
    return Section("When does compiling pay?", (), _table(heads, lines), facts)


def memory(report: Report) -> Section | None:
    """Returns the peak memory of eager and compiled; None if they differ by 2 % or less.

    On a GPU the table also has the memory that torch's allocator reserved.
    """
    result = report.result
    heads, sides = _sides(result)
    peaks = [side.peak_memory_bytes for side in sides if side.peak_memory_bytes]
    if len(peaks) < 2 or max(peaks) <= 1.02 * min(peaks):
        return None
    sizes = list(map(fmt.size, peaks))
    reserved = [side.peak_reserved_bytes and fmt.size(side.peak_reserved_bytes) for side in sides]
    meaning = (
        "Peak resident set of the whole process during one call. It includes Python, torch and both models: compare "
        "the two figures with each other, not with the model's size."
    )
    if result.spec.device == "cuda":
        meaning = (
            "Peak of the bytes that torch's allocator had given out during one call, weights included. Reserved is "
            "what the allocator held on the GPU for it: that much must be free."
        )
    return Section(f"Memory: {' → '.join(sizes)}", [meaning], _table(heads, {"peak": sizes, "reserved": reserved}))


def request(report: Report) -> Section | None:
    """Returns the time of a whole request: preparing the input, copying it, the model, and decoding the output.

    Only the model's time differs between eager and compiled.
    """
    result = report.result
    around, requests, batch = result.end_to_end, result.request_seconds, result.spec.batch_size
    if around is None or requests is None:
        return None
    before, after = batch * around.preprocess_seconds, batch * around.postprocess_seconds
    lines = {
        "Prepare the input": (before, before),
        "Copy to the device": (around.copy_seconds, around.copy_seconds),
        "The model": result.latencies.values(),
        "Decode the output": (after, after),
        "Whole request": requests,
    }
    times = {name: map(fmt.latency, both) for name, both in lines.items()}
    # without a clear verdict on the model there is none on the request
    known = report.decided and not report.ranged
    answer = fmt.ratio(requests[0] / requests[1]) if known else report.ratio
    share = fmt.percent(result.latencies["eager"] / requests[0])
    meaning = f"{share} of an eager request is the model, and compiling does not change the rest."
    return Section(f"A whole request: {answer}", [meaning], _table(_sides(result)[0], times))


# ---- the Transformers guide on torch.compile


def guide(report: Report) -> Section | None:
    """Compares the speed-up with the one in the Transformers guide on torch.compile, and says how the settings differ.

    Returns None if the guide's tables have no row with the run's checkpoint, mode and batch size. Also returns None for
    a run without a speed-up, but not if the run ran out of memory.
    """
    result = report.result
    spec, machine = result.spec, result.environment
    here = "out of memory" if result.status == "out_of_memory" else report.ratio_in_full
    texts = []
    same = (spec.checkpoint, spec.mode, spec.batch_size)
    for row in published.guide_rows():
        if here and (row.checkpoint, row.mode, row.batch_size) == same:
            there = "out of memory" if row.speedup is None else fmt.ratio(row.speedup)
            texts.append(f"On the {row.gpu} with torch {row.torch} the Transformers guide saw {there}.")
    if not texts:
        return None
    torch = machine.torch if machine is not None else "–"
    texts.append(f"Here: {here}, with torch {torch} on {naming.where(result)}.")
    guides = {"dtype": "float32", "weights": "pretrained", "channels_last": False, "graph_break": False}
    for name, theirs in guides.items():
        if (ours := getattr(spec, name)) != theirs:
            words = f"{naming.value_text(ours)} here, {naming.value_text(theirs)} in the guide"
            texts.append(f"{OPTIONS[name].label}: {words}.")
    if machine is not None and "sdpa" in machine.settings.get("attention", ""):
        texts.append(
            "Attention: SDPA here, plain (eager) in the guide of 2023. --attention eager compares like with like."
        )
    if spec.device == "cpu":
        texts.append("This run used the CPU; the guide measured GPUs. Their latencies cannot be compared.")
    texts.append(
        f"The guide took two means of {PUBLISHED_CALLS} calls, with the Transformers of 2023 and a picture of "
        "640 × 480 pixels; its A100 may have used TF32."
    )
    return Section("Compared with the published table", texts)


FOLDS = {
    "Why: every call, what was compiled, the machine": (caveats, calls, why, compilation, outputs, machine, guide),
    "Cost: the first call, a whole request": (costs, memory, request),
}
"""{title of a fold (a part of the page that opens with a click): functions that make its sections, from top to
bottom}"""


def tree(report: Report) -> dict[str, list[Section]]:
    """Returns the sections of each fold, a part of the page that opens with a click, by its title.

    Sections without data are left out."""
    return {fold: [section for make in makers if (section := make(report))] for fold, makers in FOLDS.items()}
