"""The sections under a result: each a title that already answers, folded, and what stands behind it as HTML or figure.

A section that has nothing to tell (an older result, a machine that does not say) has an empty title and is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from demo import charts, stats, words
from demo import format as fmt
from demo.languages import ENGLISH, Language
from demo.schema import GraphBreak, Measurement, RunResult
from demo.ui.parts import esc, lane_name, percentage

Answer = tuple[str, dict[str, str]]
"""The key of a text, and its values."""


@dataclass(frozen=True)
class Section:
    name: str
    """Of the element on the page: 'section-latency'."""
    title: Callable[[RunResult], str]
    html: Callable[[RunResult], str]
    figure: Callable[[RunResult], Any] | None = None
    """A Plotly figure below the HTML, or None where this result has none."""
    answer: Callable[[RunResult], Answer] | None = None
    """What the title answers, for other languages than English; None where the title holds figures alone."""

    def heading(self, result: RunResult, say: Language) -> str:
        """`title`, which answers in English; in another language the same by keys."""
        title = self.title(result)
        if say is ENGLISH or not title:
            return title
        asked = say.plain(f"section_{self.name}", figures=title.partition(": ")[2])
        if self.answer is None:
            return asked
        key, values = self.answer(result)
        return f"{asked}{' ' if asked[-1] in '?؟？' else ': '}{say.plain(key, **values)}"


def latency(result: RunResult) -> str:
    sentences = [
        f"{words.interval(result)}; {words.noise_floor(result)}.",
        words.launch_overhead(result),
        words.back_to_back(result),
    ]
    clock = any(side.median_device_seconds is not None for _, side in _sides(result))
    header = ["", "median", "95 of 100 within", *(["on the GPU"] if clock else []), "images a second"]
    rows = []
    for variant, side in _sides(result):
        gpu = "–" if side.median_device_seconds is None else fmt.latency(side.median_device_seconds)
        times = [fmt.latency(side.median_seconds), fmt.latency(side.p95_seconds), *([gpu] if clock else [])]
        rows.append([lane_name(variant), *times, fmt.rate(result.spec.batch_size / side.median_seconds).split()[0]])
    return _sentences(sentences) + _table(header, rows)


def _latency_title(result: RunResult) -> str:
    return words.latency_title(result) if result.speedup is not None else ""


def why(result: RunResult) -> str:
    rows = words.longest_kernels(result)
    return _sentences([f"{told}." for told in (words.why(result), words.ceiling(result)) if told]) + (
        _facts(rows) if rows else ""
    )


def compiled(result: RunResult) -> str:
    found = result.compilation
    if found is None:
        return ""
    rows = [
        (
            "Graphs",
            f"{found.graphs}, {words.count(len(found.graph_breaks), 'break')}",
            "One graph without a break: torch.compile took the model whole.",
        ),
        (
            "CUDA graphs",
            words.cudagraphs(found),
            "All kernels of a call recorded once and replayed with one launch.",
        ),
        (
            "Recompiles while timing",
            str(found.recompiles_while_timing),
            "Anything but 0 makes the figures void: some calls paid for compiling.",
        ),
    ]
    if found.kernels is not None:
        rows.append(
            (
                "Kernels generated",
                str(found.kernels),
                "Written by inductor for this model: C++ on a CPU, Triton on a GPU.",
            )
        )
    if found.extern_kernels is not None:
        rows.append(
            (
                "Calls left to libraries",
                str(found.extern_kernels),
                "Matrix products and convolutions that a library does better.",
            )
        )
    if found.cache_hits or found.cache_misses:
        rows.append(
            (
                "Compile cache",
                f"{found.cache_hits} found, {found.cache_misses} missing",
                "Graphs that inductor found on disk, and those it had to compile.",
            )
        )
    return (
        _facts(rows)
        + _places("Graph breaks", "where torch.compile had to go back to Python", found.graph_breaks)
        + _places("Recompiles", "why a frame was compiled again", found.recompiles)
        + _places("Fallbacks", "frames that were left to eager", found.fallbacks)
    )


def _compiled_title(result: RunResult) -> str:
    found = result.compilation
    return f"Did it really compile? {words.really_compiled(found)}" if found is not None else ""


def _compiled_answer(result: RunResult) -> Answer:
    """`words.really_compiled`."""
    found = result.compilation
    if found is None or found.graphs == 0:
        return "compiled_none", {}
    if found.fallbacks:
        return "compiled_fallbacks", {"count": str(len(found.fallbacks))}
    if found.graph_breaks:
        return "compiled_breaks", {"graphs": str(found.graphs), "breaks": str(len(found.graph_breaks))}
    if found.recompiles_while_timing:
        return "compiled_void", {}
    return ("compiled_whole", {}) if found.graphs == 1 else ("compiled_graphs", {"count": str(found.graphs)})


def _why_answer(result: RunResult) -> Answer:
    """`words.why_title`."""
    eager, roofline = result.eager, result.roofline
    if eager is None or eager.profile is None:
        return "why_ceiling", {"time": fmt.latency(roofline.least_seconds) if roofline else "–"}
    kernels = words.grouped(round(eager.profile.kernels))
    if eager.busy_share is None:
        return "why_operators", {"operators": kernels}
    bound = "launch_bound" if eager.busy_share < words.LAUNCH_BOUND else "gpu_bound"
    key = "kernels" if words.LAUNCH_BOUND <= eager.busy_share <= words.GPU_BOUND else bound
    return f"why_{key}", {"kernels": kernels, "busy": fmt.percent(eager.busy_share)}


def _pays_answer(result: RunResult) -> Answer:
    """`words.pays_title`."""
    if result.speedup is not None and result.speedup.verdict == "unsure":
        return "pays_unsure", {}
    calls = {cache: words.grouped(number) for cache, number in words.calls_to_pay(result).items()}
    return f"pays_{'both' if len(calls) == 2 else next(iter(calls), 'never')}", calls


def _request_answer(result: RunResult) -> Answer:
    """`words.request_title`."""
    eager, compiled = result.request_seconds or (1.0, 1.0)
    ratio = eager / compiled
    if abs(ratio - 1) < stats.SMALLEST_DIFFERENCE:
        return "answer_same", {}
    told = "answer_faster" if ratio > 1 else "answer_slower"
    return told, {"ratio": fmt.ratio(max(ratio, 1 / ratio))}


def _machine_answer(result: RunResult) -> Answer:
    """`words.machine_title`."""
    kind, much = words.disturbance(result)
    name = result.environment.device_name if result.environment else result.spec.device
    return f"machine_{kind or 'name'}", {"name": name, "share": much, "reasons": much}


def _places(title: str, meaning: str, found: Iterable[GraphBreak]) -> str:
    items = "".join(
        f"<li><code>{esc(one.location or 'no place given')}</code><span>{esc(one.reason)}</span></li>" for one in found
    )
    return f'<div class="places"><h4>{title} <small>{meaning}</small></h4><ol>{items}</ol></div>' if items else ""


def pays(result: RunResult) -> str:
    parts = words.compile_parts(result)
    header = ["", *(["empty cache"] if any(cold for _, cold, _ in parts) else [])]
    header += ["filled cache"] if any(warm for *_, warm in parts) else []
    rows = [
        (esc(stage), *(value for value, name in ((cold, "empty cache"), (warm, "filled cache")) if name in header))
        for stage, cold, warm in parts
    ]
    return _sentences(words.pays(result)) + (_table(header, rows) if rows else "")


def _pays_title(result: RunResult) -> str:
    return words.pays_title(result) if result.compilation is not None and result.speedup is not None else ""


def memory(result: RunResult) -> str:
    """A bar for each variant: given out, and behind it, hatched, what the allocator reserved."""
    known = [(variant, side, side.peak_memory_bytes) for variant, side in _sides(result)]
    measured = [(variant, peak, max(peak, side.peak_reserved_bytes or 0)) for variant, side, peak in known if peak]
    largest = max((reserved for *_, reserved in measured), default=1)
    lines = "".join(
        f'<div class="measure">{lane_name(variant)}<div class="track split">'
        f'<i class="model {variant}" style="width:{percentage(peak / largest)}"></i>'
        f'<i class="decode" style="width:{percentage((reserved - peak) / largest)}"></i></div>'
        f'<span class="value">{fmt.size(peak)}</span>'
        f"<small>{f'{fmt.size(reserved)} reserved' if reserved > peak else ''}</small></div>"
        for variant, peak, reserved in measured
    )
    return f'<div class="measures">{lines}</div>{_sentences([words.memory_meaning(result)])}'


REQUEST_PARTS = (
    ("prepare", "Prepare the picture"),
    ("copy", "Copy to the device"),
    ("model", "The model"),
    ("decode", "Decode the output"),
)


def request(result: RunResult) -> str:
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
            f'<div class="measure">{lane_name(variant)}<div class="track split">{pieces}</div>'
            f'<span class="value">{fmt.latency(total)}</span></div>'
        )
        rows.append([fmt.latency(parts[name]) for name, _ in REQUEST_PARTS])
    table = _table(
        ("", lane_name("eager"), lane_name("compiled")),
        [
            (f'<span class="key"><i class="{name}" aria-hidden="true"></i>{said}</span>', *values)
            for (name, said), *values in zip(REQUEST_PARTS, *rows, strict=True)
        ],
    )
    return f'<div class="measures">{"".join(bars)}</div>{_sentences([words.request(result)])}{table}'


def machine(result: RunResult) -> str:
    known = result.environment
    rows = words.machine_states(result)
    if known is not None:
        threads = f"{known.cpu_count} cores, {words.count(known.threads, 'thread')} for torch"
        rows.append(("CPU", known.cpu, threads))
        rows.append(("Memory", fmt.size(known.memory_bytes), "Of the GPU, where there is one."))
        more = [("CUDA", known.cuda), ("driver", known.driver), ("Triton", known.triton), ("", known.compiler)]
        versions = f"torch {known.torch}, transformers {known.transformers}, Python {known.python}"
        rows.append(("Versions", versions, ", ".join(f"{name} {value}".strip() for name, value in more if value)))
    if result.timing_seconds is not None:
        rows.append(
            ("Timing", fmt.duration(result.timing_seconds), f"Of {fmt.duration(result.elapsed_seconds)} for the run.")
        )
    return _facts(rows)


def _machine_title(result: RunResult) -> str:
    return words.machine_title(result) if result.environment is not None else ""


SECTIONS = (
    Section("latency", _latency_title, latency, charts.trace),
    Section("why", words.why_title, why, charts.busy_bars, _why_answer),
    Section("compiled", _compiled_title, compiled, answer=_compiled_answer),
    Section("pays", _pays_title, pays, charts.break_even, _pays_answer),
    Section("memory", words.memory_title, memory),
    Section("request", words.request_title, request, answer=_request_answer),
    Section("machine", _machine_title, machine, answer=_machine_answer),
)
"""In the order of the page; a further section is one more line here."""


def _sides(result: RunResult) -> list[tuple[str, Measurement]]:
    """Each variant that has timed calls."""
    sides = (("eager", result.eager), ("compiled", result.compiled))
    return [(variant, side) for variant, side in sides if side is not None and side.wall_seconds]


def _sentences(sentences: Iterable[str]) -> str:
    said = "".join(f"<p>{esc(sentence[:1].upper() + sentence[1:])}</p>" for sentence in sentences if sentence)
    return f'<div class="sentences">{said}</div>' if said else ""


def _facts(rows: Iterable[tuple[str, str, str]]) -> str:
    """A name, its value and what it means, as in the table of all figures."""
    body = "".join(
        f'<tr><th scope="row">{esc(name)}</th><td class="value">{esc(value)}</td><td class="why">{esc(why)}</td></tr>'
        for name, value, why in rows
    )
    return f'<table class="facts"><tbody>{body}</tbody></table>'


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A small table of figures. Cells are HTML already."""
    head = "".join(f'<th scope="col">{cell}</th>' if cell else "<td></td>" for cell in header)
    body = ""
    for name, *values in rows:
        body += f'<tr><th scope="row">{name}</th>{"".join(f"<td>{value}</td>" for value in values)}</tr>'
    return f'<table class="figures"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
