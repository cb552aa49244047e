"""A sweep as a heat map: checkpoints down, batch sizes across, one facet for each mode and number format.

Plain HTML, because it fills while the sweep runs, and each cell is a button that opens its run. A cell has the colour
of the faster variant: blue for compiled, orange for eager.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from demo.core.languages import ENGLISH, Language
from demo.core.spec import RunSpec
from demo.core.stats import Verdict
from demo.present import sentences
from demo.sweep.cells import Cell
from demo.ui.html.elements import esc

FULL_COLOUR_AT = 3.0
"""A cell has its full colour from this speed-up or slow-down on."""

OPEN_ON_CLICK = """element.addEventListener('click', (event) => {
  const cell = event.target.closest('[data-place]');
  if (!cell || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  trigger('select', {place: Number(cell.dataset.place)});
});"""


def heatmap(cells: Sequence[Cell], lang: Language, running: int | None = None, share: float = 0.0) -> str:
    """`running` is the place of the running cell, `share` its progress from 0 to 1."""
    facets = dict.fromkeys((cell.spec.mode, cell.spec.dtype) for cell in cells)
    places = {_key(cell.spec): place for place, cell in enumerate(cells)}
    checkpoints = list(dict.fromkeys(cell.spec.checkpoint for cell in cells))
    batches = sorted({cell.spec.batch_size for cell in cells})
    drawn = []
    for mode, dtype in facets:
        rows = []
        for checkpoint in checkpoints:
            row = [places.get((checkpoint, batch, mode, dtype)) for batch in batches]
            drawn_row = ["<td></td>" if place is None else _cell(cells, place, running, share, lang) for place in row]
            rows.append((checkpoint, lang.value(sentences.short(checkpoint)), drawn_row))
        caption = f"<caption>{lang.value(mode)} <span>{lang.value(dtype)}</span></caption>"
        drawn.append(heat_table(lang.html("batch_size"), [lang.value(batch) for batch in batches], rows, caption))
    return f'<div class="heatmap">{"".join(drawn)}</div>{legend("heat_press", lang)}'


def heat_table(
    corner: str, columns: Sequence[str], rows: Iterable[tuple[str, str, Sequence[str]]], caption: str = ""
) -> str:
    """The headings of columns as HTML; each row has its full name as text, its name and its `<td>` cells as HTML."""
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row" title="{esc(title)}">{name}</th>{"".join(cells)}</tr>' for title, name, cells in rows
    )
    return (
        f'<table class="heat" style="--devices:{len(columns)}">{caption}'
        f'<thead><tr><th scope="col">{corner}</th>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


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
    times = sentences.times(cell.result) if cell.result and cell.result.failure is None else ""
    below = esc(times).replace(" → ", " <wbr>→ ").replace(" ms", "&nbsp;ms")
    spec = cell.spec
    setting = [spec.checkpoint, lang.plain("asked_batch", size=spec.batch_size), spec.mode, spec.dtype, cell.value]
    return (
        f'<td><button type="button" class="{kind}" data-place="{place}" style="--strength:{strength:.0f}%" '
        f'title="{esc(cell.value)}" aria-label="{esc(lang.listed(setting))}"><b>{_figure(cell, sign, lang)}</b>'
        f"<small{lang.ltr}>{below}</small></button></td>"
    )


def _figure(cell: Cell, sign: str, lang: Language) -> str:
    """The figure of a cell as HTML. The title has the details."""
    if cell.result is None:
        return lang.html("heat_refused")
    if cell.result.status == "out_of_memory":
        return esc(cell.value)
    speedup = sentences.speedup(cell.result, ENGLISH)
    return figure(cell.result.status, sentences.outcome(cell.result), f"{sign}{speedup}", lang)


def figure(status: str, verdict: str | None, ratio: str, lang: Language) -> str:
    """'▲ 1.45×', 'no difference', 'Did not compile', as HTML; `ratio` is the speed-up with its sign."""
    if status != "ok":
        return lang.html(f"status_{status}")
    if verdict in ("faster", "slower"):
        return f"<span{lang.ltr}>{esc(ratio)}</span>"
    return lang.html({"same": "answer_same", None: "heat_no_figures"}.get(verdict, "heat_unsure"))


def _heat(cell: Cell) -> tuple[str, float, str]:
    speedup = cell.result.speedup if cell.result and cell.result.failure is None else None
    return heat(speedup.verdict, speedup.ratio) if speedup is not None else heat(None, None)


def heat(verdict: Verdict | None, ratio: float | None) -> tuple[str, float, str]:
    """The colour's class, its strength in per cent, and the sign that says the same without colour."""
    if ratio is None:
        return "failed", 0.0, ""
    if verdict not in ("faster", "slower"):
        return "same", 0.0, ""
    full = min(1.0, abs(math.log(ratio)) / math.log(FULL_COLOUR_AT))
    strength = 18 + 72 * full
    return ("fast", strength, "▲ ") if verdict == "faster" else ("slow", strength, "▼ ")
