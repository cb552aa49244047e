"""A sweep as a heat map: checkpoints down, batch sizes across, one facet for each mode and number format.

Plain HTML, because it fills while the sweep runs, and each cell is a button that opens its run. A cell has the colour
of the faster variant: blue for compiled, orange for eager.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from demo.core.languages import ENGLISH, Language
from demo.core.spec import RunSpec
from demo.core.stats import Verdict
from demo.present import sentences
from demo.sweep.cells import Cell
from demo.ui.html.elements import esc

FULL_COLOUR_AT = 3.0
"""A cell has its full colour from this speed-up or slow-down on."""

OPEN_ON_CLICK = """element.addEventListener('click', (event) => {
  const cell = event.target.closest('button[data-place]');
  if (cell) trigger('select', {place: Number(cell.dataset.place)});
});"""


def heatmap(cells: Sequence[Cell], lang: Language, running: int | None = None, share: float = 0.0) -> str:
    """`running` is the place of the running cell, `share` its progress from 0 to 1."""
    facets = dict.fromkeys((cell.spec.mode, cell.spec.dtype) for cell in cells)
    places = {_key(cell.spec): place for place, cell in enumerate(cells)}
    checkpoints = list(dict.fromkeys(cell.spec.checkpoint for cell in cells))
    batches = sorted({cell.spec.batch_size for cell in cells})
    head = "".join(f'<th scope="col">{lang.value(batch)}</th>' for batch in batches)
    drawn = []
    for mode, dtype in facets:
        rows = []
        for checkpoint in checkpoints:
            row = [places.get((checkpoint, batch, mode, dtype)) for batch in batches]
            drawn_row = "".join(
                "<td></td>" if place is None else _cell(cells, place, running, share, lang) for place in row
            )
            name = lang.value(sentences.short(checkpoint))
            rows.append(f'<tr><th scope="row" title="{esc(checkpoint)}">{name}</th>{drawn_row}</tr>')
        drawn.append(
            f'<table class="heat"><caption>{lang.value(mode)} <span>{lang.value(dtype)}</span></caption>'
            f'<thead><tr><th scope="col">{lang.html("batch_size")}</th>{head}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table>"
        )
    return f'<div class="heatmap">{"".join(drawn)}</div>{legend("heat_press", lang)}'


def legend(last: str, lang: Language) -> str:
    """What the colours say, and behind it the text of the key `last`."""
    colours = "".join(
        f'<span><i class="{kind}" aria-hidden="true"></i>{sign}{lang.html(key)}</span>'
        for kind, sign, key in (("slow", "▼ ", "heat_slower"), ("same", "", "heat_same"), ("fast", "▲ ", "heat_faster"))
    )
    return f'<p class="heat-legend">{colours}<span>{lang.html(last)}</span></p>'


def _key(spec: RunSpec) -> tuple[str, int, str, str]:
    return spec.checkpoint, spec.batch_size, spec.mode, spec.dtype


def _cell(cells: Sequence[Cell], place: int, running: int | None, share: float, lang: Language) -> str:
    cell = cells[place]
    if not cell.done:
        if place == running:
            return f'<td class="now" style="--share:{share * 100:.0f}%"><span{lang.ltr}>{share * 100:.0f} %</span></td>'
        return f'<td class="next"><span role="img" aria-label="{esc(lang.plain("heat_not_run"))}">·</span></td>'
    kind, strength, sign = _heat(cell)
    figure = "".join(f"<b>{line}</b>" for line in _figure(cell, sign, lang))
    times = sentences.times(cell.result) if cell.result and cell.result.failure is None else ""
    below = esc(times).replace(" → ", " <wbr>→ ").replace(" ms", "&nbsp;ms")
    spec = cell.spec
    setting = [spec.checkpoint, lang.plain("asked_batch", size=spec.batch_size), spec.mode, spec.dtype, cell.value]
    return (
        f'<td><button type="button" class="{kind}" data-place="{place}" style="--strength:{strength:.0f}%" '
        f'title="{esc(cell.value)}" aria-label="{esc(lang.listed(setting))}">{figure}'
        f"<small{lang.ltr}>{below}</small></button></td>"
    )


def _figure(cell: Cell, sign: str, lang: Language) -> list[str]:
    """The lines of a cell as HTML: the ratio, 'no difference', 'OOM', 'Did not compile'. The title has the details."""
    if cell.result is None:
        return [lang.html("heat_refused")]
    if cell.result.status == "out_of_memory":
        return [esc(cell.value)]
    if cell.result.failure is not None:
        return [lang.html(f"status_{cell.result.status}")]
    match sentences.outcome(cell.result):
        case None:
            return [lang.html("heat_no_figures")]
        case "faster" | "slower":
            return [f"<span{lang.ltr}>{sign}{esc(sentences.speedup(cell.result, ENGLISH))}</span>"]
        case "same":
            return [lang.html("answer_same")]
        case _:
            return [lang.html("heat_unsure")]


def _heat(cell: Cell) -> tuple[str, float, str]:
    """The colour's class, its strength in per cent, and the sign that says the same without colour."""
    speedup = cell.result.speedup if cell.result and cell.result.failure is None else None
    return heat(speedup.verdict, speedup.ratio) if speedup is not None else ("failed", 0.0, "")


def heat(verdict: Verdict, ratio: float) -> tuple[str, float, str]:
    """The same for a speed-up with its verdict."""
    if verdict not in ("faster", "slower"):
        return "same", 0.0, ""
    full = min(1.0, abs(math.log(ratio)) / math.log(FULL_COLOUR_AT))
    strength = 18 + 72 * full
    return ("fast", strength, "▲ ") if verdict == "faster" else ("slow", strength, "▼ ")
