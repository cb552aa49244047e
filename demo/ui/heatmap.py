"""A sweep as a heat map: checkpoints down, batch sizes across, one facet for each mode and number format.

Plain HTML, because it is filled while the sweep goes, and each cell is a button that opens its run. Blue stands for
compiled and orange for eager, as everywhere: the colour of a cell is that of the faster one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from demo import format as fmt
from demo import words
from demo.schema import RunSpec
from demo.sweep import Cell
from demo.ui.parts import esc
from demo.ui.results import short

FULL_COLOUR_AT = 3.0
"""A speed-up, or a slow-down, from which a cell has its full colour."""

OPEN_ON_CLICK = """element.addEventListener('click', (event) => {
  const cell = event.target.closest('button[data-place]');
  if (cell) trigger('select', {place: Number(cell.dataset.place)});
});"""


def heatmap(cells: Sequence[Cell], running: int | None = None, share: float = 0.0) -> str:
    """`running` is the place of the cell in hand, `share` how far it is, 0 to 1."""
    facets = dict.fromkeys((cell.spec.mode, cell.spec.dtype) for cell in cells)
    places = {_key(cell.spec): place for place, cell in enumerate(cells)}
    checkpoints = list(dict.fromkeys(cell.spec.checkpoint for cell in cells))
    batches = sorted({cell.spec.batch_size for cell in cells})
    head = "".join(f'<th scope="col">{batch}</th>' for batch in batches)
    drawn = []
    for mode, dtype in facets:
        rows = []
        for checkpoint in checkpoints:
            row = [places.get((checkpoint, batch, mode, dtype)) for batch in batches]
            drawn_row = "".join("<td></td>" if place is None else _cell(cells, place, running, share) for place in row)
            rows.append(f'<tr><th scope="row" title="{esc(checkpoint)}">{esc(short(checkpoint))}</th>{drawn_row}</tr>')
        drawn.append(
            f'<table class="heat"><caption>{esc(mode)} <span>{esc(dtype)}</span></caption>'
            f'<thead><tr><th scope="col">batch size</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
        )
    return f'<div class="heatmap">{"".join(drawn)}</div>{_LEGEND}'


_LEGEND = (
    '<p class="heat-legend"><span><i class="slow" aria-hidden="true"></i>▼ compiled is slower</span>'
    '<span><i class="same" aria-hidden="true"></i>no difference, or unsure</span>'
    '<span><i class="fast" aria-hidden="true"></i>▲ compiled is faster</span>'
    "<span>Press a cell to see its run.</span></p>"
)


def _key(spec: RunSpec) -> tuple[str, int, str, str]:
    return spec.checkpoint, spec.batch_size, spec.mode, spec.dtype


def _cell(cells: Sequence[Cell], place: int, running: int | None, share: float) -> str:
    cell = cells[place]
    if not cell.done:
        if place == running:
            return f'<td class="now" style="--share:{share * 100:.0f}%"><span>{share * 100:.0f} %</span></td>'
        return '<td class="next"><span role="img" aria-label="not run yet">·</span></td>'
    kind, strength, sign = _heat(cell)
    figure = cell.value if cell.result and cell.result.failure is None else _failure(cell)
    times = words.times(cell.result) if cell.result and cell.result.failure is None else ""
    below = esc(times).replace(" → ", " <wbr>→ ").replace(" ms", "&nbsp;ms")
    spec = cell.spec
    said = f"{spec.checkpoint}, batch {spec.batch_size}, {spec.mode}, {spec.dtype}: {cell.value}"
    return (
        f'<td><button type="button" class="{kind}" data-place="{place}" style="--strength:{strength:.0f}%" '
        f'title="{esc(cell.value)}" aria-label="{esc(said)}"><b>{sign}{esc(figure)}</b>'
        f"<small>{below}</small></button></td>"
    )


def _failure(cell: Cell) -> str:
    """'OOM', 'compile failed', 'refused': what fits into a cell; the rest is in its title."""
    return cell.value.partition(":")[0]


def _heat(cell: Cell) -> tuple[str, float, str]:
    """The colour's class, its strength in per cent, and the sign that says the same without colour."""
    speedup = cell.result.speedup if cell.result and cell.result.failure is None else None
    if speedup is None:
        return "failed", 0.0, ""
    if speedup.verdict not in ("faster", "slower"):
        return "same", 0.0, ""
    full = min(1.0, abs(math.log(speedup.ratio)) / math.log(FULL_COLOUR_AT))
    strength = 18 + 72 * full
    return ("fast", strength, "▲ ") if speedup.verdict == "faster" else ("slow", strength, "▼ ")


def said(cells: Sequence[Cell], seconds: float | None = None) -> str:
    """'12 of 72 cells have a value, about 41 min to go'."""
    done = sum(cell.done for cell in cells)
    to_go = f", about {fmt.duration(seconds)} to go" if seconds and done < len(cells) else ""
    return f"{done} of {len(cells)} cells have a value{to_go}"
