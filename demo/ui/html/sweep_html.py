"""A sweep as HTML: what it would do, is doing and has done, and its heat map.

The map has checkpoints down, batch sizes across, and a facet for each mode and number format. It is plain HTML, because
it fills while the sweep runs, and each cell is a button that opens its run. A cell has the colour of the faster
variant: blue for compiled, orange for eager.
"""

import math
from collections.abc import Sequence

from markupsafe import Markup

from demo.core import format as fmt, hub
from demo.core.languages import ENGLISH, Language
from demo.present import sentences
from demo.sweep.grid import Cell, downloads
from demo.ui.html.elements import drawn
from demo.ui.jobs import Sweep

BYTES_A_PARAMETER = 4
"""The published weights are float32."""
FULL_COLOUR_AT = 3.0
"""A cell has its full colour from this speed-up or slow-down on."""


def heatmap(cells: Sequence[Cell], lang: Language, running: int | None = None, share: float = 0.0) -> Markup:
    """`running` is the place of the running cell, `share` its progress from 0 to 1."""
    shown = {}
    for place, cell in enumerate(cells):
        spec = cell.spec
        known = _cell(cell, lang) if cell.done else {"running": place == running}
        shown[spec.mode, spec.dtype, spec.checkpoint, spec.batch_size] = {"place": place} | known
    checkpoints = list(dict.fromkeys(cell.spec.checkpoint for cell in cells))
    batches = sorted({cell.spec.batch_size for cell in cells})
    facets = []
    for facet in dict.fromkeys((cell.spec.mode, cell.spec.dtype) for cell in cells):
        rows = []
        for checkpoint in checkpoints:
            row = [shown.get((*facet, checkpoint, batch)) for batch in batches]
            rows.append((checkpoint, Markup(lang.value(sentences.short(checkpoint))), row))
        facets.append((*facet, rows))
    return drawn("heatmap.sweep", lang, [Markup(lang.value(batch)) for batch in batches], facets, f"{share * 100:.0f}")


def _cell(cell: Cell, lang: Language) -> dict[str, object]:
    """What the template shows of a cell that is done."""
    spec, result = cell.spec, cell.result
    if result is None:
        known: dict[str, object] = {"kind": "failed", "strength": 0, "figure": lang.plain("heat_refused")}
    else:
        ratio = result.speedup.ratio if result.speedup is not None else None
        told = sentences.speedup(result, ENGLISH)
        known = shaded(result.status, sentences.outcome(result), ratio, told, lang)
        if result.status == "out_of_memory":
            known["figure"] = cell.value  # which is short
    times = sentences.times(result) if result is not None and result.failure is None else ""
    setting = [spec.checkpoint, lang.plain("asked_batch", size=spec.batch_size), spec.mode, spec.dtype, cell.value]
    return known | {
        "times": times.replace(" ms", "\N{NO-BREAK SPACE}ms").split(" → "),
        "title": cell.value,
        "label": lang.listed(setting),
    }


def shaded(status: str, verdict: str | None, ratio: float | None, shown: str, lang: Language) -> dict[str, object]:
    """The class of a cell's colour, its strength in per cent, and its figure, with a sign that says the same.

    `shown` is the ratio as text. The figure is '▲ 1.45×', 'no difference' or 'Did not compile'.
    """
    if status != "ok":
        return {"kind": "failed", "strength": 0, "figure": lang.plain(f"status_{status}")}
    if ratio is None or verdict not in ("faster", "slower"):
        open_figure = lang.plain("answer_same" if verdict == "same" else "heat_unsure")
        return {"kind": "same", "strength": 0, "figure": open_figure if verdict is not None else "–"}
    full = min(1.0, abs(math.log(ratio)) / math.log(FULL_COLOUR_AT))
    kind, sign = ("fast", "▲") if verdict == "faster" else ("slow", "▼")
    return {"kind": kind, "strength": round(18 + 72 * full), "figure": lang.plain_value(f"{sign} {shown}")}


def plan(sweep: Sweep, lang: Language) -> Markup:
    """What Start would do: cells, time, and the checkpoints that it would download, or cannot."""
    wanted, size = downloads(sweep.cells), ""
    if wanted and hub.reachable():
        size = fmt.size(sum(entry.parameters for entry in wanted) * BYTES_A_PARAMETER)
    stored = sum(cell.done for cell in sweep.cells)
    return drawn("sweep_status.plan", lang, sweep.forecast(), len(sweep.cells), stored, len(wanted), size)


def status(step: str, cells: Sequence[Cell], seconds: float | None, more: str, lang: Language) -> Markup:
    """`step` is the end of a text's key; `seconds` the time to go, if known; `more` HTML."""
    done = sum(cell.done for cell in cells)
    return drawn("sweep_status.status", lang, step, done, len(cells), seconds, Markup(more))


def summary(cells: Sequence[Cell], lang: Language) -> str:
    verdicts = [cell.result.speedup.verdict for cell in cells if cell.result and cell.result.speedup]
    failed = sum(cell.result is None or cell.result.failure is not None for cell in cells)
    counts = {"faster": verdicts.count("faster"), "slower": verdicts.count("slower")}
    if failed:
        counts["failed"] = failed
    figures = lang.listed([lang.plain(f"sweep_{what}", count=count) for what, count in counts.items()])
    took = sum(cell.result.elapsed_seconds for cell in cells if cell.result)
    time = lang.plain_value(fmt.duration(took))
    return lang.marked(lang.composed("sweep_summary", figures=figures, time=time))
