"""Small pieces of HTML that the live strip and the results share. Whatever comes from outside goes through `esc`."""

from __future__ import annotations

import math
from html import escape

from demo import format as fmt

_REACHES = (1.25, 1.5, 2, 3, 4, 6, 10, 20, 50, 100, 1000)


def esc(value: object) -> str:
    """Text that may hold anything (a label, a file name, an error), made harmless inside HTML."""
    return escape(str(value), quote=True)


def percentage(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0) * 100:.2f}%"


def lane_name(variant: str) -> str:
    """'Eager' or 'Compiled' with its swatch: the colour never stands alone."""
    return f'<span class="lane-name {variant}"><i aria-hidden="true"></i>{variant.capitalize()}</span>'


def ruler(ratio: float, low: float, high: float, noise: float) -> str:
    """Where the speed-up lies between slower and faster: a logarithmic axis around 1×, the interval on it.

    The hatched band around 1 is the noise floor. The axis reaches equally far to both sides, to the first of
    `_REACHES` that holds the interval.
    """
    farthest = max(high, 1 / low, 1 + 1.5 * noise) * 1.08
    reach = next((limit for limit in _REACHES if limit >= farthest), farthest)

    def place(value: float) -> float:
        return 0.5 + math.log(max(value, 1e-9)) / math.log(reach) / 2

    start, end = place(low), place(high)
    band = place(1 + noise) - place(1 / (1 + noise))
    ticks = "".join(
        f'<span class="tick" style="left:{percentage(place(value))}">{fmt.ratio(value)}</span>'
        for value in (1 / reach, 1 / math.sqrt(reach), 1.0, math.sqrt(reach), reach)
    )
    said = f"Speed-up {fmt.ratio_interval(low, high)} on an axis from {fmt.ratio(1 / reach)} to {fmt.ratio(reach)}"
    return (
        f'<div class="ruler" role="img" aria-label="{said}">'
        '<div class="ends"><span>◀ compiled slower</span><span>compiled faster ▶</span></div>'
        '<div class="axis">'
        f'<i class="noise" style="left:{percentage(0.5 - band / 2)};width:{percentage(band)}"></i>'
        '<i class="one"></i>'
        f'<i class="range" style="left:{percentage(start)};width:{percentage(end - start)}"></i>'
        f'<i class="point" style="left:{percentage(place(ratio))}"></i>'
        f'</div><div class="ticks">{ticks}</div></div>'
    )


def bar(variant: str, share: float) -> str:
    """A lane's bar from zero; `share` of the longer one."""
    return f'<div class="track"><i class="bar {variant}" style="width:{percentage(share)}"></i></div>'
