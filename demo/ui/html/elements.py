"""HTML from the templates of `demo/ui/templates/`, and what several of them draw: the ruler, links to further runs.

A template takes plain text and escapes it. Only `Markup`, such as what a template gave, goes in unchanged. In each
template `fmt` and `sentences` are the modules.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from demo.core import catalog, format as fmt
from demo.core.machine import HostInfo
from demo.core.spec import OPTIONS, BadInput, RunSpec
from demo.core.stats import Interval
from demo.present import naming, verdict


class _Joined(Extension):
    """Removes line breaks between tags and expressions: a browser would show them as spaces."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return re.sub(r"(?<=[>}])\s*\n\s*(?=[<{])", "", source)


@functools.cache
def _environment() -> Environment:
    folder = FileSystemLoader(Path(__file__).parents[1] / "templates")
    found = Environment(loader=folder, autoescape=True, undefined=StrictUndefined, extensions=[_Joined])
    found.filters["percentage"] = percentage
    found.globals |= {"fmt": fmt, "naming": naming, "verdict": verdict}
    return found


def drawn(macro: str, /, *values: object, **named: object) -> Markup:
    """What a macro gives for these values; 'results.card' is `card` of results.html."""
    file, _, name = macro.partition(".")
    html: Markup = getattr(_environment().get_template(f"{file}.html").module, name)(*values, **named)
    return html


def percentage(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0) * 100:.2f}%"


_REACHES = {1.1: 1.05, 1.25: 1.1, 1.5: 1.25, 2: 1.5, 3: 2, 5: 2, 10: 3, 20: 5, 50: 10, 100: 10}
"""An axis' end on either side of 1×, and the tick between."""


class Axis:
    """A logarithmic axis around 1×. It ends at the first of `_REACHES` that contains all `ratios`, on both sides."""

    def __init__(self, ratios: Iterable[float]) -> None:
        farthest = max(max(ratio, 1 / ratio) for ratio in ratios) * 1.03
        self.reach = next((limit for limit in _REACHES if limit >= farthest), farthest)

    def place(self, ratio: float) -> float:
        """From 0 at the left end to 1 at the right one."""
        return 0.5 + math.log(ratio) / math.log(self.reach) / 2

    def span(self, of: Interval) -> Markup:
        """Where an interval begins and how wide it is, as a style."""
        left, right = self.place(of.low), self.place(of.high)
        return Markup(f"left:{percentage(left)};width:{percentage(right - left)}")

    @property
    def ticks(self) -> list[tuple[float, str]]:
        between = _REACHES.get(self.reach, math.sqrt(self.reach))
        ratios = (1 / self.reach, 1 / between, 1.0, between, self.reach)
        return [(self.place(ratio), f"{ratio:.2g}×" if ratio < 1 else f"{ratio:.3g}×") for ratio in ratios]


def ruler(
    speedup: Interval, known: bool, noise: float, within: Interval | None = None, processes: Sequence[float] = ()
) -> Markup:
    """The interval of the speed-up on an axis.

    `known` shows the ratio above it. The hatched band around 1 is the noise floor. `within` is the interval of one
    process, a stronger part of the whole; `processes` are the speed-ups of several, a dot each.
    """
    low, high = speedup.low, speedup.high
    axis = Axis([low, high, 1 + noise, *processes])
    (_, start), *_, (_, end) = axis.ticks
    spoken = f"Speed-up {fmt.ends(low, high)} on an axis from {start} to {end}"
    if processes:
        ratios = ", ".join([fmt.ratio(ratio) for ratio in processes])
        spoken += "; " + f"processes: {ratios}"
    ratio = fmt.estimate(speedup.ratio, low, high) if known else ""
    return drawn("elements.ruler", spoken, axis, speedup, within, processes, noise, ratio)


# Links to this page that fill the form, and press Run if they say so. Each is an ordinary link: opened in another tab
# it fills the form there; `address.js` handles a plain click.


def query(spec: RunSpec) -> str:
    """What follows the question mark of a link that makes the form ask for `spec`."""
    asked = catalog.arguments(spec)
    return urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in asked.items()})


def _link(spec: RunSpec, words: str, way: Literal["fill", "run", "quiet"]) -> Markup:
    """A link that makes the form ask for `spec`; `words` are HTML."""
    return Markup('<a class="action" href="?{}" data-follow="{}">{}</a>').format(query(spec), way, Markup(words))


def fill(words: str, **asked: Any) -> Markup:
    """A link that makes the form ask for this, given as to `catalog.make_spec`; '' if this page cannot run that."""
    try:
        return _link(catalog.make_spec(**asked), words, "fill")
    except BadInput:
        return Markup()


def when_quiet(spec: RunSpec) -> Markup:
    """A button that runs `spec` once more, as soon as other programs leave the machine alone."""
    return Markup() if catalog.is_folder(spec.checkpoint) else _link(spec, "Run when it is quiet", "quiet")


def other_device(spec: RunSpec, machine: HostInfo | None) -> Markup:
    """For a run refused for lack of a GPU: a button that runs it with device 'auto'; else ''."""
    lacking = machine is not None and machine.gpu is None and spec.device == "cuda"
    return again(spec, {"device": "auto"}) if lacking else Markup()


def again(spec: RunSpec, changes: dict[str, Any]) -> Markup:
    """For each change of a setting a button that runs `spec` with it; '' if the page cannot run that."""
    buttons = Markup()
    if catalog.is_folder(spec.checkpoint):
        return buttons
    for name, value in changes.items():
        try:
            changed = dataclasses.replace(spec, **{name: value})
        except (BadInput, TypeError):  # a stored result may hold anything
            continue
        buttons += _link(changed, escape(f"Run again with {OPTIONS[name].label}: {naming.shown_value(value)}"), "run")
    return buttons
