"""The sections under a result: each a title that already answers, folded, and what stands behind it as HTML or figure.

A section that has nothing to tell (an older result, a machine that does not say) has an empty title and is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from demo.core import format as fmt
from demo.core.languages import ENGLISH, Language
from demo.core.result import GraphBreak, Measurement, RunResult
from demo.present import charts
from demo.present import section_texts as words
from demo.ui.html.elements import esc, facts, lane_name, percentage


@dataclass(frozen=True)
class Section:
    name: str
    """Of the element on the page: 'section-latency'."""
    title: Callable[[RunResult, Language], str]
    """Plain text."""
    html: Callable[[RunResult, Language], str]
    figure: Callable[[RunResult, Language], Any] | None = None
    """A Plotly figure below the HTML, or None where this result has none."""


def latency(result: RunResult, say: Language = ENGLISH) -> str:
    sentences = [
        say.sentence(f"{words.interval(result, say)}{say.texts['semicolon']}{words.noise_floor(result, say)}"),
        words.launch_overhead(result, say),
        words.back_to_back(result, say),
    ]
    clock = any(side.median_device_seconds is not None for _, side in _sides(result))
    columns = ("head_median", "head_p95", *(["head_gpu"] if clock else []), "head_rate")
    header = ["", *(say.marked(say.plain(column)) for column in columns)]
    rows = []
    for variant, side in _sides(result):
        gpu = "–" if side.median_device_seconds is None else fmt.latency(side.median_device_seconds)
        times = [fmt.latency(side.median_seconds), fmt.latency(side.p95_seconds), *([gpu] if clock else [])]
        cells = [*times, fmt.rate(result.spec.batch_size / side.median_seconds)]
        rows.append([lane_name(variant, say), *map(say.value, cells)])
    return _sentences(sentences, say) + _table(header, rows)


def _latency_title(result: RunResult, say: Language) -> str:
    return words.latency_title(result, say) if result.speedup is not None else ""


def why(result: RunResult, say: Language = ENGLISH) -> str:
    rows = words.longest_kernels(result, say)
    told = [say.sentence(said) for said in (words.why(result, say), words.ceiling(result, say)) if said]
    return _sentences(told, say) + (_facts(rows, say) if rows else "")


def compiled(result: RunResult, say: Language = ENGLISH) -> str:
    found = result.compilation
    if found is None:
        return ""
    rows = [words.graphs(found, say), words.cudagraphs(found, say), words.recompiles(found, say)]
    for name, number in (("generated", found.kernels), ("extern", found.extern_kernels)):
        if number is not None:
            rows.append((say.plain(f"row_{name}"), say.plain_value(number), say.plain(f"row_{name}_why")))
    if found.cache_hits or found.cache_misses:
        value = say.plain("row_cache_value", found=found.cache_hits, missing=found.cache_misses)
        rows.append((say.plain("row_cache"), value, say.plain("row_cache_looked_up_why")))
    return (
        _facts(rows, say)
        + _places("breaks", found.graph_breaks, say)
        + _places("recompiles", found.recompiles, say)
        + _places("fallbacks", found.fallbacks, say)
    )


def _places(kind: str, found: Iterable[GraphBreak], say: Language) -> str:
    """Where and why, in torch's own words."""
    nowhere = f"<span>{say.html('places_nowhere')}</span>"
    items = "".join(
        f'<li dir="ltr">{_code(one.location) or nowhere}<span>{say.quoted(one.reason)}</span></li>' for one in found
    )
    title = f"{say.html(f'places_{kind}')} <small>{say.html(f'places_{kind}_why')}</small>"
    return f'<div class="places"><h4>{title}</h4><ol>{items}</ol></div>' if items else ""


def _code(text: str) -> str:
    return f"<code>{esc(text)}</code>" if text else ""


def pays(result: RunResult, say: Language = ENGLISH) -> str:
    parts = words.compile_parts(result, say)
    measured = [any(costs) for costs in zip(*(costs for _, *costs in parts), strict=True)]
    names = [name for name, there in zip(("head_cold", "head_warm"), measured, strict=False) if there]
    rows = [
        (say.marked(stage), *(say.value(cost) for cost, there in zip(costs, measured, strict=True) if there))
        for stage, *costs in parts
    ]
    table = _table(["", *map(say.html, names)], rows) if rows else ""
    return _sentences(words.pays(result, say), say) + table


def memory(result: RunResult, say: Language = ENGLISH) -> str:
    """A bar for each variant: given out, and behind it, hatched, what the allocator reserved."""
    known = [(variant, side, side.peak_memory_bytes) for variant, side in _sides(result)]
    measured = [(variant, peak, max(peak, side.peak_reserved_bytes or 0)) for variant, side, peak in known if peak]
    largest = max((reserved for *_, reserved in measured), default=1)
    lines = "".join(
        f'<div class="measure">{lane_name(variant, say)}<div class="track split">'
        f'<i class="model {variant}" style="width:{percentage(peak / largest)}"></i>'
        f'<i class="decode" style="width:{percentage((reserved - peak) / largest)}"></i></div>'
        f'<span class="value">{say.value(fmt.size(peak))}</span>'
        f"<small>{say.html('reserved', size=fmt.size(reserved)) if reserved > peak else ''}</small></div>"
        for variant, peak, reserved in measured
    )
    return f'<div class="measures">{lines}</div>{_sentences([words.memory_meaning(result, say)], say)}'


REQUEST_PARTS = ("prepare", "copy", "model", "decode")


def request(result: RunResult, say: Language = ENGLISH) -> str:
    """Two bars of a whole request, each split in its four parts, on one scale from zero."""
    around, requests = result.end_to_end, result.request_seconds
    if around is None or requests is None:
        return ""
    batch = result.spec.batch_size
    bars, rows = [], []
    for (variant, side), total in zip(_sides(result), requests, strict=True):
        parts = {
            "prepare": batch * around.preprocess_seconds,
            "copy": around.copy_seconds,
            "model": side.median_seconds,
            "decode": batch * around.postprocess_seconds,
        }
        pieces = "".join(
            f'<i class="{name} {variant}" style="width:{percentage(seconds / max(requests))}"></i>'
            for name, seconds in parts.items()
        )
        bars.append(
            f'<div class="measure">{lane_name(variant, say)}<div class="track split">{pieces}</div>'
            f'<span class="value">{say.value(fmt.latency(total))}</span></div>'
        )
        rows.append([say.value(fmt.latency(parts[name])) for name in REQUEST_PARTS])
    table = _table(
        ("", lane_name("eager", say), lane_name("compiled", say)),
        [
            (
                f'<span class="key"><i class="{name}" aria-hidden="true"></i>{say.html(f"request_{name}")}</span>',
                *values,
            )
            for name, *values in zip(REQUEST_PARTS, *rows, strict=True)
        ],
    )
    return f'<div class="measures">{"".join(bars)}</div>{_sentences([words.request(result, say)], say)}{table}'


def machine(result: RunResult, say: Language = ENGLISH) -> str:
    known = result.environment
    rows = words.machine_states(result, say)
    if known is not None:
        threads = words.count(known.threads, "thread", say)
        cores = say.composed("row_cpu_why", cores=say.plain_value(known.cpu_count), threads=threads)
        rows.append((say.plain("row_cpu"), say.plain_value(known.cpu), cores))
        memory = say.plain_value(fmt.size(known.memory_bytes))
        rows.append((say.plain("row_memory"), memory, say.plain("row_memory_why")))
        versions = f"torch {known.torch}, transformers {known.transformers}, Python {known.python}"
        more = [f"Triton {known.triton}" if known.triton else "", known.compiler or ""]
        told = [*words.versions_of_gpu(known, say), *(say.plain_value(one) for one in more if one)]
        rows.append((say.plain("row_versions"), say.plain_value(versions), say.listed(told)))
    if result.timing_seconds is not None:
        timing = say.plain_value(fmt.duration(result.timing_seconds))
        whole = say.plain("row_timing_why", time=fmt.duration(result.elapsed_seconds))
        rows.append((say.plain("row_timing"), timing, whole))
    return _facts(rows, say)


def _machine_title(result: RunResult, say: Language) -> str:
    return words.machine_title(result, say) if result.environment is not None else ""


SECTIONS = (
    Section("latency", _latency_title, latency, charts.trace),
    Section("why", words.why_title, why, charts.busy_bars),
    Section("compiled", words.compiled_title, compiled),
    Section("pays", words.pays_title, pays, charts.break_even),
    Section("memory", words.memory_title, memory),
    Section("request", words.request_title, request),
    Section("machine", _machine_title, machine),
)
"""In the order of the page; a further section is one more line here."""


def _sides(result: RunResult) -> list[tuple[str, Measurement]]:
    """Each variant that has timed calls."""
    sides = (("eager", result.eager), ("compiled", result.compiled))
    return [(variant, side) for variant, side in sides if side is not None and side.wall_seconds]


def _sentences(sentences: Iterable[str], say: Language) -> str:
    said = "".join(f"<p>{say.marked(say.capital(sentence))}</p>" for sentence in sentences if sentence)
    return f'<div class="sentences">{said}</div>' if said else ""


def _facts(rows: Iterable[words.Row], say: Language) -> str:
    return f'<table class="facts"><tbody>{facts(rows, say)}</tbody></table>'


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A small table of figures. Cells are HTML already."""
    head = "".join(f'<th scope="col">{cell}</th>' if cell else "<td></td>" for cell in header)
    body = ""
    for name, *values in rows:
        body += f'<tr><th scope="row">{name}</th>{"".join(f"<td>{value}</td>" for value in values)}</tr>'
    return f'<table class="figures"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
