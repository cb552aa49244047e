"""What stands behind an answer, as a tree: folds of parts, each with a title, sentences, a table and rows.

It is made once for a result, as plain text in the language asked for; the page, the terminal and Markdown draw it. Here
are the parts on what compiling costs; `why_parts` has those that explain the answer. A part without data is None.
"""

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.measurement import AnotherSize
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL
from demo.present import why_parts
from demo.present.sentences import calls_to_pay, cost_key, count, outcome, speedup, times_of, variants, worker_word
from demo.present.why_parts import Part, Row, row, table_of


def pays(result: RunResult, lang: Language) -> Part | None:
    """The cost of the first call from each state of the cache, its parts, and when it has paid for itself."""
    found = result.compilation
    if found is None or result.speedup is None:
        return None
    costs = {"cold": found.cold, "warm": found.warm}
    measured = {cache: cost for cache, cost in costs.items() if cost is not None and cost.parts}
    heads = []
    for cache, cost in measured.items():
        head = lang.plain(f"head_{cost_key(found, cache)}")
        heads.append(lang.listed([head, lang.plain("by_run", id=cost.run_id)]) if cost.run_id else head)
    lines = {}
    for name in dict.fromkeys(name for cost in measured.values() for name in cost.parts):
        seconds = [cost.parts.get(name) for cost in measured.values()]
        lines[worker_word("part", name, lang)] = [fmt.start_time(one) if one is not None else "" for one in seconds]
    rows = []
    if found.package_bytes is not None:
        rows.append(row("row_package", lang.plain_value(fmt.size(found.package_bytes)), lang))
    return Part(lang.plain("section_pays"), when_it_pays(result, lang), table_of(heads, lines, lang), rows)


def when_it_pays(result: RunResult, lang: Language) -> list[str]:
    """A sentence for each state of the cache whose first call was measured, but for that of each start: see
    `advice.worth`."""
    compiled = result.compilation
    if compiled is None:
        return []
    *others, _ = compiled.known_costs.items()
    texts, verdict = [], outcome(result)
    for cache, seconds in others:
        cost = lang.plain(f"cost_{cost_key(compiled, cache)}", time=fmt.start_time(seconds))
        even = result.break_even(seconds)
        if even is not None and verdict in ("faster", "slower", "same"):
            pays = even.calls is not None and verdict == "faster"
            cost = lang.composed("paid_after" if pays else "paid_never", cost=cost, calls=calls_to_pay(even, lang))
        texts.append(lang.sentence(cost))
    return texts


def another_size(result: RunResult, lang: Language) -> Part | None:
    """One row for each size that was called after the timed one; before one was, an invitation.

    None for a run that cannot try one.
    """
    if result.failure is not None or result.compilation is None:
        return None
    if result.spec.compiler == "aot" or result.spec.task == OWN_MODEL:
        return None
    answer, rows = lang.plain("another_size_untried"), list[Row]()
    for one in result.another_sizes:
        value = lang.composed(
            "another_size_value",
            time=lang.plain_value(fmt.start_time(one.first_call_seconds)),
            recompiles=count(one.recompiles, "recompile", lang),
            times=lang.plain_value(times_of((one.eager.median_seconds, one.compiled.median_seconds))),
            ratio=lang.plain_value(fmt.ratio(one.speedup.ratio)),
        )
        if one.fallbacks:
            value = lang.listed([value, lang.plain("another_size_eager")])
        calls, pays = one.calls_to_pay, lang.plain("never")
        if calls is not None:
            pays = count(fmt.two_digits(calls), "call", lang)
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
    sides = [(name, side) for _, name, side in variants(result, lang) if side.peak_memory_bytes]
    peaks = [side.peak_memory_bytes or 0 for _, side in sides]
    if len(peaks) < 2 or max(peaks) <= 1.02 * min(peaks):
        return None
    lines = {lang.plain("head_peak"): list(map(fmt.size, peaks))}
    reserved = [side.peak_reserved_bytes or 0 for _, side in sides]
    if all(reserved):
        lines[lang.plain("head_reserved")] = list(map(fmt.size, reserved))
    title = lang.composed(
        "setting", name=lang.plain("row_memory"), value=lang.plain_value(" → ".join(map(fmt.size, peaks)))
    )
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
    table = table_of((name for _, name, _ in variants(result, lang)), times, lang)
    certain = outcome(result) in ("faster", "slower")  # else the model's verdict stands: 'too noisy to tell'
    answer = lang.plain_value(fmt.ratio(requests[0] / requests[1])) if certain else speedup(result, lang)
    share = lang.composed("request_share", share=lang.plain_value(fmt.percent(model[0] / requests[0])))
    return Part(lang.composed("section_request", answer=answer), [share], table)


FOLDS = {
    "fold_why": {
        "calls": why_parts.calls,
        "why": why_parts.why,
        "compiled": why_parts.compiled,
        "outputs": why_parts.outputs,
        "machine": why_parts.machine,
    },
    "fold_cost": {
        "pays": pays,
        "another_size": another_size,
        "memory": memory,
        "request": request,
    },
}
"""By the key of the fold's title and the name of the part, in the order of the page."""


def tree(result: RunResult, lang: Language) -> dict[str, dict[str, Part]]:
    """The parts of each fold that have something to tell, by their names."""
    return {
        fold: {name: part for name, make in makers.items() if (part := make(result, lang)) is not None}
        for fold, makers in FOLDS.items()
    }
