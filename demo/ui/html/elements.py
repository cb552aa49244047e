"""Small pieces of HTML that the live strip and the results share. Whatever comes from outside goes through `esc`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from demo.core import format as fmt
from demo.core.languages import ENGLISH, Language
from demo.present.section_texts import Row

_REACHES = {
    1.1: 1.05,
    1.25: 1.1,
    1.5: 1.25,
    2.0: 1.5,
    3.0: 2.0,
    5.0: 2.0,
    10.0: 3.0,
    20.0: 5.0,
    50.0: 10.0,
    100.0: 10.0,
}
"""How far a ruler reaches to either side of 1×, and the mark between."""


def esc(value: object) -> str:
    """Text that may hold anything (a label, a file name, an error), made harmless inside HTML."""
    return escape(str(value), quote=True)


def percentage(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0) * 100:.2f}%"


def lane_name(variant: str, say: Language = ENGLISH) -> str:
    """'Eager' or 'Compiled' with its swatch: the colour never stands alone."""
    return f'<span class="lane-name {variant}"><i aria-hidden="true"></i>{say.html(f"variant_{variant}")}</span>'


def facts(rows: Iterable[Row], say: Language) -> str:
    """Rows of a table: a name, its value and what it means."""
    return "".join(
        f'<tr><th scope="row">{say.marked(name)}</th><td class="value">{say.marked(value)}</td>'
        f'<td class="why">{say.marked(why)}</td></tr>'
        for name, value, why in rows
    )


def ruler(ratio: float, low: float, high: float, noise: float, say: Language = ENGLISH) -> str:
    """Where the speed-up lies between slower and faster: a logarithmic axis around 1×, the interval on it.

    The hatched band around 1 is the noise floor. The axis reaches equally far to both sides, to the first of
    `_REACHES` that holds the interval.
    """
    farthest = max(high, 1 / low, 1 + noise) * 1.03
    reach = next((limit for limit in _REACHES if limit >= farthest), farthest)
    between = _REACHES.get(reach, math.sqrt(reach))

    def place(value: float) -> float:
        return 0.5 + math.log(value) / math.log(reach) / 2

    start, end, band = place(low), place(high), place(1 + noise) - 0.5
    ticks = "".join(
        f'<span class="tick" style="left:{percentage(place(value))}">{_short(value)}×</span>'
        for value in (1 / reach, 1 / between, 1.0, between, reach)
    )
    least, most = fmt.ratio_ends(low, high)
    said = say.plain("ruler", low=least, high=most, start=f"{_short(1 / reach)}×", end=f"{_short(reach)}×")
    return (
        f'<div class="ruler" role="img" aria-label="{esc(said)}"{say.ltr}><div class="axis">'
        f'<i class="noise" style="left:{percentage(0.5 - band)};width:{percentage(2 * band)}"></i>'
        '<i class="one"></i>'
        f'<i class="range" style="left:{percentage(start)};width:{percentage(end - start)}"></i>'
        f'<b class="point" style="left:{percentage(place(ratio))}">{fmt.ratio(ratio)}</b>'
        f'</div><div class="ticks">{ticks}</div>'
        f'<div class="ends"><span>◀ {say.html("ruler_slower")}</span>'
        f"<span>{say.html('ruler_faster')} ▶</span></div></div>"
    )


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 1 else f"{value:.3g}"


def bar(variant: str, share: float) -> str:
    """A lane's bar from zero; `share` of the longer one."""
    return f'<div class="track"><i class="bar {variant}" style="width:{percentage(share)}"></i></div>'
