"""A sweep as a heat map: checkpoints down, batch sizes across, one facet for each mode and number format.

Plain HTML, because it fills while the sweep runs, and each cell is a button that opens its run. A cell has the colour
of the faster variant: blue for compiled, orange for eager.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from demo.core.languages import ENGLISH, Language
from demo.core.spec import RunSpec
from demo.core.stats import Verdict
from demo.present import sentences
from demo.sweep.cells import Cell
from demo.ui.html.elements import drawn

FULL_COLOUR_AT = 3.0
"""A cell has its full colour from this speed-up or slow-down on."""


def heatmap(cells: Sequence[Cell], lang: Language, running: int | None = None, share: float = 0.0) -> Markup:
    """`running` is the place of the running cell, `share` its progress from 0 to 1."""
    facets = dict.fromkeys((cell.spec.mode, cell.spec.dtype) for cell in cells)
    places = {_key(cell.spec): place for place, cell in enumerate(cells)}
    checkpoints = list(dict.fromkeys(cell.spec.checkpoint for cell in cells))
    batches = sorted({cell.spec.batch_size for cell in cells})

    def drawn_at(place: int | None) -> dict[str, object] | None:
        if place is None:
            return None
        if not cells[place].done:
            return {"running": place == running, "share": f"{share * 100:.0f}"}
        return {"place": place} | _cell(cells[place], lang)

    shown = []
    for mode, dtype in facets:
        rows = []
        for checkpoint in checkpoints:
            row = [drawn_at(places.get((checkpoint, batch, mode, dtype))) for batch in batches]
            rows.append((checkpoint, Markup(lang.value(sentences.short(checkpoint))), row))
        shown.append((mode, dtype, rows))
    return drawn("heatmap.sweep", lang, [Markup(lang.value(batch)) for batch in batches], shown)


def _key(spec: RunSpec) -> tuple[str, int, str, str]:
    return spec.checkpoint, spec.batch_size, spec.mode, spec.dtype


def _cell(cell: Cell, lang: Language) -> dict[str, object]:
    """What the template shows of a cell that is done."""
    spec, result = cell.spec, cell.result
    speedup = result.speedup if result and result.failure is None else None
    kind, strength, sign = heat(speedup.verdict, speedup.ratio) if speedup is not None else heat(None, None)
    if result is None:
        told = lang.plain("heat_refused")
    elif result.status == "out_of_memory":
        told = cell.value
    else:
        ratio = f"{sign}{sentences.speedup(result, ENGLISH)}"
        told = figure(result.status, sentences.outcome(result), ratio, lang)
    times = sentences.times(result) if result and result.failure is None else ""
    setting = [spec.checkpoint, lang.plain("asked_batch", size=spec.batch_size), spec.mode, spec.dtype, cell.value]
    return {
        "kind": kind,
        "strength": round(strength),
        "figure": told,
        "times": times.replace(" ms", "\N{NO-BREAK SPACE}ms").split(" → "),
        "title": cell.value,
        "label": lang.listed(setting),
    }


def figure(status: str, verdict: str | None, ratio: str, lang: Language) -> str:
    """'▲ 1.45×', 'no difference', 'Did not compile'; `ratio` is the speed-up with its sign."""
    if status != "ok":
        return lang.plain(f"status_{status}")
    if verdict in ("faster", "slower"):
        return lang.plain_value(ratio)
    return "–" if verdict is None else lang.plain("answer_same" if verdict == "same" else "heat_unsure")


def heat(verdict: Verdict | None, ratio: float | None) -> tuple[str, float, str]:
    """The colour's class, its strength in per cent, and the sign that says the same without colour."""
    if ratio is None:
        return "failed", 0.0, ""
    if verdict not in ("faster", "slower"):
        return "same", 0.0, ""
    full = min(1.0, abs(math.log(ratio)) / math.log(FULL_COLOUR_AT))
    strength = 18 + 72 * full
    return ("fast", strength, "▲ ") if verdict == "faster" else ("slow", strength, "▼ ")
