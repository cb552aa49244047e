"""Small elements that the progress and the results share, as HTML. Every text from outside is escaped with `esc`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.stats import Interval
from demo.present import palette
from demo.present.details import Row

VARIANTS: tuple[palette.Variant, ...] = ("eager", "compiled")

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
"""A ruler's end on either side of 1×, and the tick between."""


def esc(value: object) -> str:
    """Escapes text that may hold anything (a label, a file name, an error) for HTML and its attributes."""
    return escape(str(value), quote=True)


def percentage(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0) * 100:.2f}%"


def lane_name(variant: str, lang: Language) -> str:
    """'Eager' or 'Compiled' with its colour."""
    return f'<span class="lane-name {variant}"><i aria-hidden="true"></i>{lang.html(f"variant_{variant}")}</span>'


def facts(rows: Iterable[Row], lang: Language) -> str:
    """Rows of a table: a name, its value and what it means."""
    return "".join(
        f'<tr><th scope="row">{lang.marked(name)}</th><td class="value">{lang.marked(value)}</td>'
        f'<td class="why">{lang.marked(why)}</td></tr>'
        for name, value, why in rows
    )


def ruler(
    speedup: Interval,
    known: bool,
    noise: float,
    lang: Language,
    within: Interval | None = None,
    processes: Sequence[float] = (),
) -> str:
    """The interval of the speed-up on a logarithmic axis around 1×.

    `known` shows the ratio above it. The hatched band around 1 is the noise floor. `within` is the interval of one
    process, a stronger part of the whole; `processes` are the speed-ups of several, a dot each. The axis ends at the
    first of `_REACHES` that contains all of them, on both sides.
    """
    low, high = speedup.low, speedup.high
    farthest = max(high, 1 / low, 1 + noise, *processes, *(1 / ratio for ratio in processes)) * 1.03
    reach = next((limit for limit in _REACHES if limit >= farthest), farthest)
    between = _REACHES.get(reach, math.sqrt(reach))

    def place(value: float) -> float:
        return 0.5 + math.log(value) / math.log(reach) / 2

    def span(of: Interval) -> str:
        return f"left:{percentage(place(of.low))};width:{percentage(place(of.high) - place(of.low))}"

    band = place(1 + noise) - 0.5
    inner = f'<i class="within" style="{span(within)}"></i>' if within is not None else ""
    dots = "".join(f'<i class="process" style="left:{percentage(place(ratio))}"></i>' for ratio in processes)
    ticks = "".join(
        f'<span class="tick" style="left:{percentage(place(value))}">{_short(value)}×</span>'
        for value in (1 / reach, 1 / between, 1.0, between, reach)
    )
    least, most = fmt.ratio_ends(low, high)
    ratio = fmt.estimate(speedup.ratio, low, high) if known else ""
    spoken = lang.plain("ruler", low=least, high=most, start=f"{_short(1 / reach)}×", end=f"{_short(reach)}×")
    if processes:
        ratios = lang.listed([lang.plain_value(fmt.ratio(ratio)) for ratio in processes])
        spoken += lang.texts["semicolon"] + lang.composed("ruler_processes", ratios=ratios)
    return (
        f'<div class="ruler" role="img" aria-label="{esc(spoken)}"{lang.ltr}><div class="axis">'
        '<i class="one"></i>'
        f'<i class="range{" outer" if inner or dots else ""}" style="{span(speedup)}"></i>{inner}{dots}'
        f'<i class="noise" style="left:{percentage(0.5 - band)};width:{percentage(2 * band)}"></i>'
        f'<b class="point" style="left:{percentage(place(speedup.ratio))}">{ratio}</b>'
        f'</div><div class="ticks">{ticks}</div>'
        f'<div class="ends"><span>◀ {lang.html("ruler_slower")}</span>'
        f"<span>{lang.html('ruler_faster')} ▶</span></div></div>"
    )


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 1 else f"{value:.3g}"


def bar(variant: str, share: float) -> str:
    """A lane's bar from zero; `share` is its part of the longest one."""
    return f'<div class="track"><i class="bar {variant}" style="width:{percentage(share)}"></i></div>'
