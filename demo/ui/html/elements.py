"""HTML from the templates of `demo/ui/templates/`, and the ruler, which several of them draw.

A template takes plain text and escapes it. Only `Markup` goes in unchanged: what a template gave, or what a function of
`Language` made of a text of this program, with everything else in it escaped.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.stats import Interval


class _Joined(Extension):
    """Removes line breaks between tags and expressions: a browser would show them as spaces."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return re.sub(r"(?<=[>}])\s*\n\s*(?=[<{])", "", source)


@functools.cache
def _environment() -> Environment:
    folder = FileSystemLoader(Path(__file__).parents[1] / "templates")
    found = Environment(loader=folder, autoescape=True, undefined=StrictUndefined, extensions=[_Joined])
    found.filters["percentage"] = percentage
    return found


def drawn(macro: str, lang: Language, /, *values: object, **named: object) -> Markup:
    """What a macro gives for these values; 'results.card' is `card` of results.html.

    In a template `html`, `marked`, `value` and `quoted` are the functions of `lang`, and `composed(key, ...)` is a text
    with HTML in it.
    """

    def safe(function: Callable[..., str]) -> Callable[..., Markup]:
        return lambda *args, **values: Markup(function(*args, **values))

    known: dict[str, Any] = {name: safe(getattr(lang, name)) for name in ("html", "marked", "value", "quoted")}
    known["composed"] = lambda key, **phrases: Markup(lang.texts[key]).format(**phrases)
    file, _, name = macro.partition(".")
    module = _environment().get_template(f"{file}.html").make_module({"lang": lang, "ltr": Markup(lang.ltr), **known})
    html: Markup = getattr(module, name)(*values, **named)
    return html


def percentage(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0) * 100:.2f}%"


_REACHES = {1.1: 1.05, 1.25: 1.1, 1.5: 1.25, 2: 1.5, 3: 2, 5: 2, 10: 3, 20: 5, 50: 10, 100: 10}
"""A ruler's end on either side of 1×, and the tick between."""


def ruler(
    speedup: Interval,
    known: bool,
    noise: float,
    lang: Language,
    within: Interval | None = None,
    processes: Sequence[float] = (),
) -> Markup:
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

    def span(of: Interval) -> tuple[float, float]:
        return place(of.low), place(of.high) - place(of.low)

    least, most = fmt.ratio_ends(low, high)
    spoken = lang.plain("ruler", low=least, high=most, start=f"{_short(1 / reach)}×", end=f"{_short(reach)}×")
    if processes:
        ratios = lang.listed([lang.plain_value(fmt.ratio(ratio)) for ratio in processes])
        spoken += lang.texts["semicolon"] + lang.composed("ruler_processes", ratios=ratios)
    return drawn(
        "elements.ruler",
        lang,
        spoken=spoken,
        whole=span(speedup),
        within=span(within) if within is not None else None,
        dots=list(map(place, processes)),
        noise=place(1 + noise) - 0.5,
        point=place(speedup.ratio),
        ratio=fmt.estimate(speedup.ratio, low, high) if known else "",
        ticks=[(place(value), _short(value)) for value in (1 / reach, 1 / between, 1.0, between, reach)],
    )


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 1 else f"{value:.3g}"
