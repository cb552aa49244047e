"""How every figure of the page looks: bars, title, source lines, fonts, margins, and its text for screen readers.

Plotly draws text and grid in fixed colours and cannot follow the page's dark mode; a page that shows these figures
has `demo/ui/look/figures.css`, which recolours them as the theme changes. Colours are hex, backgrounds transparent, no
figure of bars has a legend: their names are written beside them. Margins are fixed in pixels, so that the same figure
serves a phone of 390 pixels and a projector of 1920.
"""

import html
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go

from demo.core import format as fmt
from demo.core.result import RunResult
from demo.present.pictures import COMPILED, EAGER

TEXT = "#1F2937"
LINE = "#6B7280"
GRID = "#D1D5DB"
FONT = "'IBM Plex Sans', ui-sans-serif, system-ui, sans-serif"

PLOT_HEIGHT = 200
"""Pixels between the axes of a figure that is not of bars."""
NAMES = 16
"""Height in pixels of the letters of names and values."""
LINE_WIDTH = 52
"""Longest line below a figure, in letters."""
TOP = 46
"""Pixels above the axes, for the title."""
_AXIS = {"fixedrange": True, "gridcolor": GRID, "zerolinecolor": LINE, "tickfont": {"size": 13}, "title": None}
_TEMPLATE = go.layout.Template(
    layout={
        "font": {"family": FONT, "color": TEXT},
        "title": {
            **{"x": 0, "xref": "container", "xanchor": "left", "y": 1, "yref": "container", "yanchor": "top"},
            "pad": {"t": 10, "l": 2},
            "font": {"size": 17},
        },
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "annotationdefaults": {"font": {"size": NAMES}, "showarrow": False},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "legend": {"font": {"size": 14}, "bgcolor": "rgba(0,0,0,0)", "itemclick": False, "itemdoubleclick": False},
        "dragmode": False,
        "hoverlabel": {"font": {"family": FONT, "size": 13}},
    }
)


def room(names: Iterable[str], size: int = NAMES) -> int:
    """Pixels that the longest of these names takes beside an axis, in letters of `size` pixels."""
    return 10 + round(0.58 * size * max(len(_plain(name)) for name in names))


def bars(
    title: str,
    names: Sequence[str],
    seconds: Sequence[float | None],
    texts: Sequence[str],
    source: list[str],
) -> go.Figure:
    """Horizontal bars from zero, eager and compiled in turn, a gap after each pair; `texts` at their ends."""
    scale, unit = scale_of(seconds)
    places = [bar + 0.5 * (bar // 2) for bar in range(len(names))]
    values = [value or 0.0 for value in seconds]
    figure = go.Figure(
        go.Bar(
            orientation="h",
            y=places,
            x=[value * scale for value in values],
            width=0.74,
            marker={
                "color": [EAGER if bar % 2 == 0 else COMPILED for bar in range(len(names))],
                "line": {"width": 0},
            },
            hoverinfo="skip",
        )
    )
    for place, value, text in zip(places, values, texts, strict=True):
        figure.add_annotation(x=value * scale, y=place, text=text, xanchor="left", xshift=8)
    figure.update_yaxes(tickvals=places, ticktext=list(names), range=[places[-1] + 0.6, -0.6], tickfont={"size": NAMES})
    figure.update_yaxes(ticks="", showgrid=False, zeroline=False)
    figure.update_xaxes(range=[0, max(values) * scale or 1], nticks=5, showgrid=True, zeroline=True)
    words = [f"{name} {text}" for name, text in zip(names, texts, strict=True)]
    height = round(34 * (places[-1] + 1.2))
    return layout(figure, f"{title}, {unit}", source, words, left=150, right=110, plot=height)


def error_bar(above: Sequence[float], below: Sequence[float]) -> dict[str, Any]:
    """A line on each bar or point, so far to its right and to its left."""
    line = {"color": TEXT, "thickness": 2, "width": 6}
    return {"type": "data", "symmetric": False, "array": list(above), "arrayminus": list(below), **line}


def layout(
    figure: go.Figure,
    title: str,
    source: list[str],
    words: list[str],
    left: int,
    right: int,
    plot: int = PLOT_HEIGHT,
    top: int = TOP,
) -> go.Figure:
    """Title, source lines, fonts, fixed margins and `plot` pixels of height between them.

    `words` are its values in words: with title and source they are the paragraph that screen readers get.
    """
    lines = [line for text in source for line in textwrap.wrap(text, LINE_WIDTH, break_long_words=False)]
    bottom = 34 + 17 * len(lines)
    figure.add_annotation(
        text="<br>".join(html.escape(line, quote=False) for line in lines),
        align="left",
        font={"size": 12},
        opacity=0.8,
        **{"x": 0, "xref": "paper", "xanchor": "left", "xshift": -left},
        **{"y": 0, "yref": "paper", "yanchor": "top", "yshift": -28},
    )
    paragraph = ". ".join(text for text in (_plain(title), "; ".join(map(_plain, words)), *source) if text)
    figure.update_layout(
        template=_TEMPLATE,
        title={"text": f"<b>{title}</b>"},
        margin={"l": left, "r": right, "t": top, "b": bottom, "pad": 6},
        height=top + plot + bottom,
        autosize=True,
        meta={"aloud": paragraph.replace("<", "‹").replace(">", "›")},  # so that it is never read as HTML
    )
    return figure


def _plain(text: str) -> str:
    """Without HTML tags and signs."""
    return " ".join(re.sub(r"[▲†]", "", html.unescape(re.sub(r"<[^>]*>", "", text))).split())


def scale_of(seconds: Iterable[float | None]) -> tuple[float, str]:
    """Factor from seconds, and the unit of the longest: 'ms' or 's'."""
    longest = max((value for value in seconds if value is not None), default=0.0)
    return (1.0, "s") if longest >= 1 else (fmt.milliseconds(1.0), "ms")


def provenance(result: RunResult) -> list[str]:
    """'google/vit-base-patch16-224, torch 2.13.0, 2026-11-21' and 'Tesla T4'."""
    machine = result.environment
    torch = [f"torch {machine.torch}"] if machine else []
    what = ", ".join(fmt.shortened(part, 48) for part in (result.spec.checkpoint, *torch, result.started_at[:10]))
    return [what, fmt.shortened(machine.device_name, 48)] if machine else [what]
