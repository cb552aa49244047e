"""The folded sections of a result: a title that answers the section's question, and the sentences under it.

All are plain text in the language asked for, '' where the run has no figures for the section.
"""

from __future__ import annotations

from collections.abc import Sequence

from demo.core import format as fmt
from demo.core import stats
from demo.core.languages import Language
from demo.core.machine import Environment, GpuSample
from demo.core.measurement import AnotherSize, Compilation
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL
from demo.present.sentences import (
    calls_to_pay,
    cost_key,
    count,
    grouped,
    outcome,
    speedup,
    variants,
    worker_word,
)


def launch_overhead(result: RunResult, lang: Language) -> str:
    """'58 % of eager's time is launching kernels: CUDA graphs can remove it.'; '' without the GPU's own clock."""
    shares = {
        name: measured.launch_seconds / measured.median_seconds
        for name, measured in (("eager", result.eager), ("compiled", result.compiled))
        if measured is not None and measured.launch_seconds is not None
    }
    if "eager" not in shares:
        return ""
    key = "launch_both" if "compiled" in shares else "launch_eager"
    overhead = lang.plain(key, **{name: fmt.percent(share) for name, share in shares.items()})
    used = result.compilation is not None and result.compilation.cudagraphs_used
    if shares["eager"] < LITTLE:
        return lang.composed("launch_little", overhead=overhead)
    return lang.composed("launch_removed" if used else "launch_removable", overhead=overhead)


LITTLE = 0.1
"""Share of eager's time below which launch overhead counts as small."""
LAUNCH_BOUND, GPU_BOUND = 0.6, 0.9
"""Busy shares of the GPU: below the first a call is launch-bound, above the second bound by the GPU's work."""


def why(result: RunResult, lang: Language) -> str:
    """'launch-bound: 412 kernels a call, GPU busy 31 %; compiled with CUDA graphs 96 kernels, busy 94 %'.

    On a CPU only the operators are counted. '' without a profile.
    """
    eager, compiled = _why_eager(result, lang), result.compiled
    if not eager or compiled is None or compiled.profile is None:
        return eager
    number = round(compiled.profile.kernels)
    if compiled.busy_share is None:
        after = lang.plain("why_compiled_operators", operators=grouped(number))
    else:
        graphs = result.compilation is not None and result.compilation.cudagraphs_used
        key = "why_compiled_graphs" if graphs else "why_compiled_kernels"
        busy = lang.plain_value(fmt.percent(compiled.busy_share))
        after = lang.composed(key, kernels=count(number, "kernel", lang), busy=busy)
    return f"{eager}{lang.texts['semicolon']}{after}"


def _why_eager(result: RunResult, lang: Language) -> str:
    eager = result.eager
    if eager is None or eager.profile is None:
        return ""
    number = round(eager.profile.kernels)
    if eager.busy_share is None:
        return lang.plain("why_operators", operators=grouped(number))
    bound = "launch_bound" if eager.busy_share < LAUNCH_BOUND else "gpu_bound"
    key = "kernels" if LAUNCH_BOUND <= eager.busy_share <= GPU_BOUND else bound
    busy = lang.plain_value(fmt.percent(eager.busy_share))
    return lang.composed(f"why_{key}", kernels=count(number, "kernel", lang), busy=busy)


def ceiling(result: RunResult, lang: Language) -> str:
    """'at least 1.2 ms a call here for the matrix products: eager reaches 12 %, compiled 31 % of that speed'."""
    roofline = result.roofline
    if roofline is None:
        return ""
    bound = "products" if roofline.compute_seconds >= roofline.memory_seconds else "weights"
    shares = [
        lang.plain(f"ceiling_{name}", share=fmt.percent(share))
        for name, _, measured in variants(result, lang)
        if (share := result.roofline_share(measured)) is not None
    ]
    needed = lang.plain(f"ceiling_{bound}", time=fmt.latency(roofline.least_seconds))
    return lang.composed("ceiling_shares", ceiling=needed, shares=lang.listed(shares)) if shares else needed


def why_title(result: RunResult, lang: Language) -> str:
    """'' without a profile and a roofline."""
    return lang.plain("section_why") if _why_eager(result, lang) or ceiling(result, lang) else ""


def versions_of_gpu(machine: Environment, lang: Language) -> list[str]:
    """'CUDA 13.0', 'driver 580.95'; none on a CPU."""
    cuda = [lang.plain_value(f"CUDA {machine.cuda}")] if machine.cuda else []
    return cuda + ([lang.plain("driver", version=machine.driver)] if machine.driver else [])


def compiled_title(result: RunResult, lang: Language) -> str:
    """'Did it really compile? Yes: the whole model is one graph'; '' for a run that ended before compiling."""
    if result.compilation is None:
        return ""
    answer = _really_compiled(result, result.compilation, lang)
    if result.compilation.compiled_first is not None:
        answer = lang.composed("compiled_after_eager", answer=answer)
    return lang.composed("section_compiled", answer=answer)


def _really_compiled(result: RunResult, compiled: Compilation, lang: Language) -> str:
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
    if compiled.package_bytes is not None:
        return lang.plain("compiled_package")
    if result.spec.scope == "layers":
        return lang.composed("compiled_layers", graphs=counted)
    return lang.plain("compiled_whole") if compiled.graphs == 1 else lang.composed("compiled_graphs", graphs=counted)


def another_size_title(result: RunResult, lang: Language) -> str:
    """'Another size? Batch 2, 224 × 224: first call 6.1 s, then 1.21×'; '' for a run that cannot try one."""
    if result.failure is not None or result.compilation is None or result.spec.compiler == "aot":
        return ""
    if result.spec.task == OWN_MODEL:
        return ""
    answer = lang.plain("another_size_untried")
    if result.another_sizes:
        first = result.another_sizes[0]
        answer = lang.composed(
            "another_size_answer",
            size=size(first, lang),
            time=lang.plain_value(fmt.start_time(first.first_call_seconds)),
            ratio=lang.plain_value(fmt.ratio(first.speedup.ratio)),
        )
    return lang.composed("section_another_size", answer=answer)


def size(inputs: AnotherSize, lang: Language) -> str:
    """'Batch 2, 224 × 224', width before height; of a text model 'Batch 2, prompt of 7 tokens, cache of 71 places'."""
    batch = lang.capital(lang.plain("asked_batch", size=inputs.batch_size))
    if inputs.prompt_tokens:
        prompt = lang.plain("another_prompt", tokens=inputs.prompt_tokens)
        return lang.listed([batch, prompt, lang.plain("another_cache", places=inputs.cache_tokens)])
    return lang.listed([batch, lang.plain_value(f"{inputs.width} × {inputs.height}")])


def pays(result: RunResult, lang: Language) -> list[str]:
    """A sentence for each state of the cache whose first call was measured, but for that of each start: see `worth`."""
    compiled = result.compilation
    if compiled is None:
        return []
    *others, _ = compiled.known_costs.items()
    told = [
        _paid(result, seconds, lang.plain(f"cost_{cost_key(compiled, cache)}", time=fmt.start_time(seconds)), lang)
        for cache, seconds in others
    ]
    return list(map(lang.sentence, [*told, *([lang.plain("pays_after_eager")] if compiled.compiled_first else [])]))


def _paid(result: RunResult, seconds: float, cost: str, lang: Language) -> str:
    """`cost`, the text about a first call that takes `seconds`, and when it has paid for itself."""
    even = result.break_even(seconds)
    if even is None or outcome(result) in (None, "void", "unsure"):
        return cost
    if even.calls is None or outcome(result) != "faster":
        return lang.composed("paid_never", cost=cost)
    paid = lang.composed("paid_after", cost=cost, calls=calls_to_pay(even, lang))
    if even.answers is not None:
        answers = count(fmt.two_digits(even.answers), "answer", lang)
        return lang.listed([paid, lang.composed("about", value=answers)])
    return paid


def request_title(result: RunResult, lang: Language) -> str:
    requests = result.request_seconds
    if requests is None:
        return ""
    return lang.composed("section_request", answer=request_faster(requests, result, lang))


def request_faster(requests: tuple[float, float], result: RunResult, lang: Language) -> str:
    """The speed-up of a whole request; where the model has none, the model's verdict ('too noisy to tell')."""
    certain = outcome(result) in ("faster", "slower")
    return faster(requests[0] / requests[1], lang) if certain else speedup(result, lang)


def faster(ratio: float, lang: Language) -> str:
    """'2.00× faster', 'no difference'."""
    size = max(ratio, 1 / ratio)
    if size - 1 < stats.SMALLEST_DIFFERENCE:
        return lang.plain("answer_same")
    return lang.plain("answer_faster" if ratio > 1 else "answer_slower", ratio=fmt.ratio(size))


def request(result: RunResult, lang: Language) -> str:
    """The model's share of an eager request."""
    requests = result.request_seconds
    if requests is None:
        return ""
    own = result.answer_seconds[0] if result.answer_seconds else result.latencies["eager"]
    return lang.composed("request_share", share=lang.plain_value(fmt.percent(own / requests[0])))


NOTICEABLE = 0.05
"""Share of the machine's CPU that other programs have to use before it is mentioned."""


def machine_title(result: RunResult, lang: Language) -> str:
    machine = result.environment
    name = lang.plain_value(machine.device_name if machine else result.spec.device)
    return lang.composed("section_machine", answer=_disturbed(result, name, lang))


def _disturbed(result: RunResult, machine: str, lang: Language) -> str:
    """The machine's name, and what disturbed the run: throttling, other GPU processes, other programs."""
    foreign = [state.foreign_cpu for state in result.machine_states if state.foreign_cpu is not None]
    gpus = [state.gpu for state in result.machine_states if state.gpu is not None]
    if reasons := throttle_reasons(gpus, lang):
        return lang.composed("machine_throttled", name=machine, reasons=reasons)
    if any(gpu.foreign_processes for gpu in gpus):
        return lang.composed("machine_shared", name=machine)
    if not foreign:
        return machine
    mean = sum(foreign) / len(foreign)
    if mean > NOTICEABLE:
        return lang.composed("machine_used", name=machine, share=lang.plain_value(fmt.percent(mean)))
    return lang.composed("machine_idle", name=machine)


def throttle_reasons(gpus: Sequence[GpuSample], lang: Language) -> str:
    """Each reason for a lowered GPU clock once, in alphabetical order."""
    reasons = sorted({reason for gpu in gpus for reason in gpu.throttle_reasons})
    return lang.listed([worker_word("throttled", reason, lang) for reason in reasons])
