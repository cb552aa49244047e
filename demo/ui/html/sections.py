"""The folded sections under a result. Each has a title that gives the answer, and HTML or a figure with the details.

A section without data (an older result, a machine that does not report it) has an empty title and is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.measurement import GraphBreak, Measurement
from demo.core.result import RunResult
from demo.present import advice, charts, details, section_texts, sentences
from demo.ui.html import actions
from demo.ui.html.elements import esc, facts, lane_name, percentage


@dataclass(frozen=True)
class Section:
    name: str
    """'latency' for the element with the id 'section-latency'."""
    title: Callable[[RunResult, Language], str]
    """Plain text."""
    html: Callable[[RunResult, Language], str]
    figure: Callable[[RunResult, Language], Any] | None = None
    """A Plotly figure below the HTML; gives None if this result has none."""
    file: str = ""
    """A file of the run to download below it, by its name in `Files`."""


def latency(result: RunResult, lang: Language) -> str:
    texts = [
        lang.sentence(
            f"{sentences.interval(result, lang)}{lang.texts['semicolon']}{sentences.noise_floor(result, lang)}"
        ),
        section_texts.launch_overhead(result, lang),
        section_texts.back_to_back(result, lang),
    ]
    latencies = sentences.latencies(result)
    sides = [(name, side) for name, side in sentences.timed(result).items() if side is not None and side.wall_seconds]
    clock = any(side.median_device_seconds is not None for _, side in sides)
    columns = ("head_latency", "head_p95", *(["head_gpu"] if clock else []), f"head_rate_{result.spec.unit}")
    header = ["", *(lang.marked(lang.plain(column)) for column in columns)]
    rows = []
    for variant, side in sides:
        gpu = "–" if side.median_device_seconds is None else fmt.latency(side.median_device_seconds)
        seconds = latencies[variant] or side.median_seconds
        times = [fmt.latency(seconds), fmt.latency(side.p95_seconds), *([gpu] if clock else [])]
        cells = [*times, fmt.rate(result.spec.batch_size / seconds)]
        rows.append([lane_name(variant, lang), *map(lang.value, cells)])
    return paragraphs(texts, lang) + _table(header, rows)


def _latency_title(result: RunResult, lang: Language) -> str:
    return section_texts.latency_title(result, lang) if result.speedup is not None else ""


def why(result: RunResult, lang: Language) -> str:
    rows = details.longest_kernels(result, lang)
    phrases = (section_texts.why(result, lang), section_texts.ceiling(result, lang))
    texts = [lang.sentence(phrase) for phrase in phrases if phrase]
    return paragraphs(texts, lang) + (_facts(rows, lang) if rows else "")


def compiled(result: RunResult, lang: Language) -> str:
    found = result.compilation
    if found is None:
        return ""
    cost = sentences.break_cost(result, lang)
    texts = [*([lang.sentence(cost)] if cost else []), *sentences.compiled_first(result, lang)]
    if result.prefill is not None and found.recompiles:
        texts.append(lang.plain("compiled_two_lengths"))
    rows = [details.graphs(found, lang), *details.captured_first(found, lang)]
    rows += [details.cudagraphs(found, lang), details.recompiles(found, lang)]
    for name, number in (("generated", found.kernels), ("extern", found.extern_kernels)):
        if number is not None:
            rows.append((lang.plain(f"row_{name}"), lang.plain_value(number), lang.plain(f"row_{name}_why")))
    if found.cache_hits or found.cache_misses:
        value = lang.plain("row_cache_value", found=found.cache_hits, missing=found.cache_misses)
        rows.append((lang.plain("row_cache"), value, lang.plain("row_cache_looked_up_why")))
    return (
        paragraphs(texts, lang)
        + _facts(rows, lang)
        + _places("breaks", found.graph_breaks, lang)
        + _places("first", found.compiled_first.graph_breaks if found.compiled_first else (), lang)
        + _places("recompiles", found.recompiles, lang)
        + _places("fallbacks", found.fallbacks, lang)
    )


def _places(kind: str, found: Iterable[GraphBreak], lang: Language) -> str:
    """Where and why, in torch's words."""
    nowhere = f"<span>{lang.html('places_nowhere')}</span>"
    items = "".join(
        f'<li dir="ltr">{_code(one.location) or nowhere}<span>{lang.quoted(sentences.break_reason(one))}</span></li>'
        for one in found
    )
    title = f"{lang.html(f'places_{kind}')} <small>{lang.html(f'places_{kind}_why')}</small>"
    return f'<div class="places"><h4>{title}</h4><ol>{items}</ol></div>' if items else ""


def _code(text: str) -> str:
    return f"<code>{esc(text)}</code>" if text else ""


def pays(result: RunResult, lang: Language) -> str:
    parts = section_texts.compile_parts(result, lang)
    measured = [any(costs) for costs in zip(*(costs for _, *costs in parts), strict=True)]
    states = [cache for cache, there in zip(("cold", "warm"), measured, strict=False) if there]
    rows = [
        (lang.marked(stage), *(lang.value(cost) for cost, there in zip(costs, measured, strict=True) if there))
        for stage, *costs in parts
    ]
    compiled = result.compilation
    names = [lang.html(f"head_{sentences.cost_key(compiled, cache)}") for cache in states] if compiled else []
    table = _table(["", *names], rows) if rows else ""
    return paragraphs(section_texts.pays(result, lang), lang) + table


def another_size(result: RunResult, lang: Language) -> str:
    """What other sizes cost; before they were tried, the button that tries them."""
    if not result.another_sizes:
        return paragraphs([lang.plain("another_size_invites")], lang) + actions.another_size(result, lang)
    return _facts(details.another_sizes(result, lang), lang) + paragraphs([lang.plain("another_size_note")], lang)


def next_steps(result: RunResult, lang: Language) -> str:
    """Other ways to compile, each with a button that tries it where the page can."""
    steps = advice.next_steps(result, lang)
    buttons = "".join(actions.step(result, step.option, step.value, lang) for step in steps)
    return paragraphs([step.words for step in steps], lang) + buttons


def memory(result: RunResult, lang: Language) -> str:
    """A bar for each variant: peak allocated memory, and hatched behind it what the allocator reserved."""
    known = [(variant, side, side.peak_memory_bytes) for variant, side in _sides(result)]
    measured = [(variant, peak, max(peak, side.peak_reserved_bytes or 0)) for variant, side, peak in known if peak]
    largest = max((reserved for *_, reserved in measured), default=1)
    lines = "".join(
        f'<div class="measure">{lane_name(variant, lang)}<div class="track split">'
        f'<i class="model {variant}" style="width:{percentage(peak / largest)}"></i>'
        f'<i class="decode" style="width:{percentage((reserved - peak) / largest)}"></i></div>'
        f'<span class="value">{lang.value(fmt.size(peak))}</span>'
        f"<small>{lang.html('reserved', size=fmt.size(reserved)) if reserved > peak else ''}</small></div>"
        for variant, peak, reserved in measured
    )
    return f'<div class="measures">{lines}</div>{paragraphs([section_texts.memory_meaning(result, lang)], lang)}'


REQUEST_PARTS = ("prepare", "copy", "model", "decode")


def request(result: RunResult, lang: Language) -> str:
    """Two bars of a whole request, each split in its four parts, on one scale from zero."""
    around, requests = result.end_to_end, result.request_seconds
    if around is None or requests is None:
        return ""
    batch = result.spec.batch_size
    bars, rows = [], []
    calls = result.answer_seconds or result.latencies.values()
    for variant, seconds, total in zip(result.latencies, calls, requests, strict=True):
        parts = {
            "prepare": batch * around.preprocess_seconds,
            "copy": around.copy_seconds,
            "model": seconds,
            "decode": batch * around.postprocess_seconds,
        }
        pieces = "".join(
            f'<i class="{name} {variant}" style="width:{percentage(seconds / max(requests))}"></i>'
            for name, seconds in parts.items()
        )
        bars.append(
            f'<div class="measure">{lane_name(variant, lang)}<div class="track split">{pieces}</div>'
            f'<span class="value">{lang.value(fmt.latency(total))}</span></div>'
        )
        rows.append([lang.value(fmt.latency(parts[name])) for name in REQUEST_PARTS])
    table = _table(
        ("", lane_name("eager", lang), lane_name("compiled", lang)),
        [
            (
                f'<span class="key"><i class="{name}" aria-hidden="true"></i>{lang.html(f"request_{name}")}</span>',
                *values,
            )
            for name, *values in zip(REQUEST_PARTS, *rows, strict=True)
        ],
    )
    return (
        f'<div class="measures">{"".join(bars)}</div>{paragraphs([section_texts.request(result, lang)], lang)}{table}'
    )


def machine(result: RunResult, lang: Language) -> str:
    known = result.environment
    rows = details.machine_states(result, lang)
    if known is not None:
        threads = sentences.count(known.threads, "thread", lang)
        cores = lang.composed("row_cpu_why", cores=lang.plain_value(known.cpu_count), threads=threads)
        rows.append((lang.plain("row_cpu"), lang.plain_value(known.cpu), cores))
        memory = lang.plain_value(fmt.size(known.memory_bytes))
        rows.append((lang.plain("row_memory"), memory, lang.plain("row_memory_why")))
        versions = f"torch {known.torch}, transformers {known.transformers}, Python {known.python}"
        more = [f"Triton {known.triton}" if known.triton else "", known.compiler or ""]
        further = [*section_texts.versions_of_gpu(known, lang), *(lang.plain_value(one) for one in more if one)]
        rows.append((lang.plain("row_versions"), lang.plain_value(versions), lang.listed(further)))
    if result.timing_seconds is not None:
        timing = lang.plain_value(fmt.duration(result.timing_seconds))
        whole = lang.plain("row_timing_why", time=fmt.duration(result.elapsed_seconds))
        rows.append((lang.plain("row_timing"), timing, whole))
    return _facts(rows, lang)


def _machine_title(result: RunResult, lang: Language) -> str:
    return section_texts.machine_title(result, lang) if result.environment is not None else ""


SECTIONS = (
    Section("latency", _latency_title, latency, charts.trace),
    Section("why", section_texts.why_title, why, charts.busy_bars, "trace"),
    Section("compiled", section_texts.compiled_title, compiled),
    Section("pays", section_texts.pays_title, pays, charts.break_even, "package"),
    Section("another_size", section_texts.another_size_title, another_size),
    Section("next", advice.next_title, next_steps),
    Section("memory", section_texts.memory_title, memory),
    Section("request", section_texts.request_title, request),
    Section("machine", _machine_title, machine),
)
"""In the order of the page."""


def _sides(result: RunResult) -> list[tuple[str, Measurement]]:
    """Each variant that has timed calls."""
    sides = (("eager", result.eager), ("compiled", result.compiled))
    return [(variant, side) for variant, side in sides if side is not None and side.wall_seconds]


def paragraphs(sentences: Iterable[str], lang: Language) -> str:
    """One for each sentence; '' without any."""
    html = "".join(f"<p>{lang.marked(lang.capital(sentence))}</p>" for sentence in sentences if sentence)
    return f'<div class="sentences">{html}</div>' if html else ""


def _facts(rows: Iterable[details.Row], lang: Language) -> str:
    return f'<table class="facts"><tbody>{facts(rows, lang)}</tbody></table>'


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A small table of figures. Cells are HTML."""
    head = "".join(f'<th scope="col">{cell}</th>' if cell else "<td></td>" for cell in header)
    body = ""
    for name, *values in rows:
        body += f'<tr><th scope="row">{name}</th>{"".join(f"<td>{value}</td>" for value in values)}</tr>'
    return f'<table class="figures"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
