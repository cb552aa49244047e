"""The common look of all Plotly charts: title, source lines, fonts, margins, and a text for screen readers.

Plotly cannot follow the page's dark mode, so `demo/ui/look/figures.css` changes the colours of text and grid. Margins
are in pixels, so that the same chart fits screens from 390 to 1920 pixels wide.
"""

import html
import re
import textwrap
from collections.abc import Iterable, Sequence

import plotly.graph_objects as go

from ..core import format as fmt
from ..core.result import RunResult
from . import naming
from .colours import GRID, LINE, TEXT

FONT = "'IBM Plex Sans', ui-sans-serif, system-ui, sans-serif"
NAME_SIZE = 16
"""Font size of a chart's names and values, in pixels."""
SOURCE_LETTERS = 52
"""Lines of text below a chart are wrapped at this number of characters."""
_AXIS = {"fixedrange": True, "tickfont": {"size": 13}, "showgrid": False, "zeroline": False}
_AXIS |= {"gridcolor": GRID, "zerolinecolor": LINE, "ticks": ""}
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
        "annotationdefaults": {"font": {"size": NAME_SIZE}, "showarrow": False, "xanchor": "left"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "legend": {"font": {"size": 14}, "bgcolor": "rgba(0,0,0,0)", "itemclick": False, "itemdoubleclick": False},
        "dragmode": False,
        "hovermode": False,
        "hoverlabel": {"font": {"family": FONT, "size": 13}},
    }
)


def layout(
    figure: go.Figure,
    title: str,
    source: Sequence[str],
    words: Iterable[str],
    left: int,
    right: int,
    plot: int,
    top: int = 46,
) -> go.Figure:
    """Adds a title, lines of text below the chart (`source`), fonts and margins to `figure`, and returns it.

    `left`, `right` and `top` are the margins, and `plot` is the height of the plotting area, all in pixels. `words`:
    the chart's values as text. Screen readers read the title, `words` and `source`.
    """
    lines = [line for text in source for line in textwrap.wrap(text, SOURCE_LETTERS, break_long_words=False)]
    bottom = 34 + 17 * len(lines)
    figure.add_annotation(
        text=" <br>".join(map(escape, lines)),  # the space keeps words apart where the text is copied or read aloud
        align="left",
        font={"size": 12},
        opacity=0.8,
        **{"x": 0, "xref": "paper", "xshift": -left},
        **{"y": 0, "yref": "paper", "yanchor": "top", "yshift": -28},
    )
    paragraph = ". ".join(filter(None, (title, "; ".join(map(_without_html, words)), *source)))
    figure.update_layout(
        template=_TEMPLATE,
        title={"text": f"<b>{title}</b>"},
        margin={"l": left, "r": right, "t": top, "b": bottom, "pad": 6},
        height=top + plot + bottom,
        autosize=True,
        meta={"aloud": paragraph.replace("<", "‹").replace(">", "›")},  # so that it is never read as HTML
    )
    return figure


def escape(text: str) -> str:
    """Returns the text escaped for Plotly, which interprets some HTML in labels."""
    return html.escape(text, quote=False)


def _without_html(label: str) -> str:
    return " ".join(re.sub(r"[▲†]", "", html.unescape(re.sub(r"<[^>]*>", "", label))).split())


def time_scale(seconds: Iterable[float | None]) -> tuple[float, str]:
    """Returns (factor, unit) of an axis for `seconds`: (1, 's') if the longest is 1 s or more, else (1000, 'ms')."""
    longest = max((value for value in seconds if value is not None), default=0.0)
    return (1.0, "s") if longest >= 1 else (fmt.milliseconds(1.0), "ms")


def provenance(result: RunResult) -> list[str]:
    """Returns the line below a run's chart, in a list.

    ['google/vit-base-patch16-224, Tesla T4, torch 2.13.0, 2026-11-21']
    """
    facts = (naming.model(result.spec), *naming.machine_words(result)[:2], result.started_at[:10])
    return [", ".join(fmt.shorten(fact, 48) for fact in facts)]
