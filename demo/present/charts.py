"""The figures of the page: latency of the two variants, every timed call, when compiling pays, what the guide measured.

Plotly draws text and grid in fixed colours and cannot follow the page's dark mode; a page that shows these figures
puts `PAGE_CSS` into its style sheet, which recolours them as the theme changes. Colours are hex, backgrounds
transparent, no figure has a legend: names are written where the bars and dots are. Margins are fixed in pixels, so
that the same figure serves a phone of 390 pixels and a projector of 1920.
"""

from __future__ import annotations

import html
import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence

import numpy as np
import plotly.graph_objects as go

from demo.core import format as fmt
from demo.core.languages import ENGLISH, Language
from demo.core.result import PUBLISHED_CALLS, Measurement, PublishedRow, RunResult
from demo.present import section_texts as words
from demo.present.canvas import COMPILED, COMPILED_ON_DARK, EAGER

TEXT = "#1F2937"
LINE = "#6B7280"
GRID = "#D1D5DB"
FONT = "'IBM Plex Sans', ui-sans-serif, system-ui, sans-serif"

_BLUE, _INK = (
    f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})" for colour in (COMPILED, TEXT)
)
PAGE_CSS = f"""
.js-plotly-plot .modebar-container {{ display: none !important; }}
.js-plotly-plot .plotly text {{ fill: var(--body-text-color) !important; font-variant-numeric: tabular-nums; }}
.js-plotly-plot .plotly .gridlayer path {{ stroke: var(--border-color-primary) !important; }}
.js-plotly-plot .plotly .zerolinelayer path {{ stroke: var(--body-text-color-subdued) !important; }}
.js-plotly-plot .plotly .errorbar path {{ stroke: var(--body-text-color) !important; }}
.js-plotly-plot .plotly .point[style*="fill: {_INK}"] {{ fill: var(--body-text-color) !important; }}
.dark .js-plotly-plot .plotly [style*="fill: {_BLUE}"] {{ fill: {COMPILED_ON_DARK} !important; }}
.dark .js-plotly-plot .plotly [style*="stroke: {_BLUE}"] {{ stroke: {COMPILED_ON_DARK} !important; }}
.dark .js-plotly-plot .plotly tspan[style*="{COMPILED}"] {{ fill: {COMPILED_ON_DARK} !important; }}
"""
"""Uses Gradio's variables. Plotly's buttons lie unseen in the way of the Tab key and are of no use here: they go.
Browsers write Plotly's inline colours as 'rgb(0, 114, 178)', those of spans as given."""

GPUS = ("A100", "V100", "T4")
SLOWEST_SHOWN = 3.0
"""`trace` ends its scale at so many times the slower median."""
WAITING = 0.28
"""Opacity of the part of a bar in which the GPU waits."""
PLOT_HEIGHT = 200
"""Pixels between the axes of a figure that is not of bars."""
NAMES = 16
"""Height in pixels of the letters of names and values."""
LINE_WIDTH = 52
"""Of the lines below a figure, in letters; those of Chinese and Japanese count twice."""
_SIGN = 28
"""Pixels of the sign before a name, and of the gaps around it."""
NO_TIMES = ("ok", "failed")
"""Statuses that do not say why a variant has no times."""


def latency_bars(result: RunResult, say: Language = ENGLISH) -> go.Figure:
    """Median wall time of one call, eager above compiled, with the range of nine calls in ten.

    The line on each bar goes from the 5th to the 95th percentile of the timed calls: what one caller may meet.
    How well the *speed-up* is known is another question, answered by its interval in the headline. A variant
    without times has a word instead of a bar.
    """
    sides = _timed(result)
    medians = [side.median_seconds if side else None for side in sides]
    ranges = [tuple(np.quantile(side.wall_seconds, (0.05, 0.95)).tolist()) if side else None for side in sides]
    missing = say.plain("chart_not_timed" if result.status in NO_TIMES else f"status_{result.status}").lower()
    batch = result.spec.batch_size
    names = [words.variant(variant, say) for variant in ("eager", "compiled")]
    return bars(
        title=say.plain("chart_latency_batch", size=batch) if batch > 1 else say.plain("chart_latency"),
        names=names,
        seconds=medians,
        texts=[missing if median is None else fmt.latency(median) for median in medians],
        ranges=ranges,
        source=[_counted(sides, say), *_provenance(result)],
        left=room(names),
        right=78,
        say=say,
    )


def published_bars(rows: Iterable[PublishedRow], checkpoint: str, say: Language = ENGLISH) -> go.Figure | None:
    """What the guide measured for `checkpoint` on its three GPUs at batch 1, mode default, with the release of its day.

    None where the guide has no such row. 'OOM' of the guide is written out.
    """
    found = {
        row.gpu: row
        for row in rows
        if (row.checkpoint, row.subset, row.batch_size, row.mode) == (checkpoint, "release", 1, "default")
    }
    shown = [found[gpu] for gpu in GPUS if gpu in found]
    if not shown:
        return None
    names, seconds, texts = [], [], []
    for row in shown:
        names += [f"<b>{row.gpu}</b>  {words.variant('eager', say)}", words.variant("compiled", say)]
        seconds += [row.eager_seconds, row.compiled_seconds]
        texts += [words.out_of_memory(say) if value is None else fmt.latency(value) for value in seconds[-2:]]
        if row.speedup is not None:
            texts[-1] += f"  <b>{fmt.ratio(row.speedup)}</b>"
    return bars(
        title=say.plain("chart_title"),
        names=names,
        seconds=seconds,
        texts=texts,
        ranges=[None] * len(names),
        source=[
            _short(checkpoint),
            say.plain("chart_conditions", calls=PUBLISHED_CALLS, torch=shown[0].torch),
            say.plain("chart_source"),
        ],
        left=max(112, room(names)),
        right=118,
        say=say,
    )


def room(names: Iterable[str], size: int = NAMES) -> int:
    """Pixels that the longest of these names takes beside an axis, in letters of `size` pixels."""
    return 10 + round(0.58 * size * max(_width(_plain(name)) for name in names))


def trace(result: RunResult, say: Language = ENGLISH) -> go.Figure:
    """Every timed call of both variants in the order timed: drift, steps and outliers that a median hides.

    The scale ends at `SLOWEST_SHOWN` times the slower median; calls beyond it sit on the edge as triangles, and the
    line below says how many and how slow. A call's number counts its variant's own calls: between them lie the other
    variant's, in A B B A order.
    """
    sides = {
        name: (side, colour)
        for name, side, colour in zip(("eager", "compiled"), _timed(result), (EAGER, COMPILED), strict=True)
        if side is not None
    }
    medians = {name: side.median_seconds for name, (side, _) in sides.items()}
    slowest = max((max(side.wall_seconds) for side, _ in sides.values()), default=1.0)
    end = min(SLOWEST_SHOWN * max(medians.values(), default=1.0), slowest * 1.05)
    scale, unit = scale_of([slowest if end == slowest else end])
    told = {name: words.variant(name, say) for name in sides}
    hover = directed(say.plain("chart_call", number="%{x}", time="%{text}"))
    figure = go.Figure()
    beyond = 0
    for name, (side, colour) in sides.items():
        times = np.asarray(side.wall_seconds)
        far = times > end
        shape, sign = ("circle", "●") if name == "eager" else ("diamond", "◆")  # the colour never stands alone
        beyond += int(far.sum())
        figure.add_trace(
            go.Scatter(
                name=told[name],
                x=list(range(1, len(times) + 1)),
                y=(np.minimum(times, end) * scale).tolist(),
                text=[fmt.latency(time) for time in side.wall_seconds],
                mode="markers",
                marker={
                    "color": colour,
                    "size": [9 if out else 5 for out in far],
                    "symbol": ["triangle-up" if out else shape for out in far],
                    "opacity": 0.75,
                    "line": {"width": 0},
                },
                hovertemplate=f"{hover}<extra>{told[name]}</extra>",
                cliponaxis=False,
            )
        )
        nudge = 0 if len(medians) < 2 else _nudge(medians, name, end)
        figure.add_annotation(
            x=1,
            xref="paper",
            xanchor="left",
            xshift=10,
            y=medians[name] * scale,
            yshift=nudge,
            text=f'<span style="color:{colour}">{sign}</span> {told[name]}',
            showarrow=False,
        )
    source = [say.plain("chart_trace_why"), *_provenance(result)]
    if beyond:
        source.append(say.plain("chart_beyond", count=beyond, time=fmt.latency(slowest)))
    figure.update_yaxes(range=[0, end * scale], showgrid=True, nticks=5)
    calls = max((len(side.wall_seconds) for side, _ in sides.values()), default=0)
    figure.update_xaxes(showgrid=False, nticks=6, range=[0, calls + 1])
    right = _SIGN + room(told.values() or [""])
    return dressed(figure, titled("chart_trace", unit, say), source, left=44, right=right, plot=PLOT_HEIGHT)


def break_even(result: RunResult, say: Language = ENGLISH) -> go.Figure | None:
    """Total time against number of calls: eager, and compiled after each first call that was measured.

    Compiled starts at the seconds of its first call and rises more slowly, if it is faster; where it crosses eager it
    has paid for itself. The line through a crossing is its range by the speed-up's 95 % interval. The lines
    use eager's median and the estimated speed-up, so they cross where `RunResult.break_even` says. None where
    there is no speed-up, none that is sure enough for two lines, or no first call to draw.
    """
    speedup, compilation = result.speedup, result.compilation
    if speedup is None or speedup.verdict == "unsure" or result.eager is None or compilation is None:
        return None
    costs = compilation.known_costs
    eager = result.eager.median_seconds
    compiled = eager / speedup.ratio
    paid = {cache: result.break_even(cost) for cache, cost in costs.items()}
    crossings = {cache: even for cache, even in paid.items() if even is not None and even.calls is not None}
    farthest = max((even.calls or 0 for even in crossings.values()), default=0)
    if farthest == 0 or speedup.verdict != "faster":
        crossings, farthest = {}, math.ceil(max(costs.values()) / eager)
    calls = max(10.0, 1.6 * farthest)
    ends = {"eager": calls * eager} | {cache: cost + calls * compiled for cache, cost in costs.items()}
    scale, unit = _long_scale(max(ends.values()))
    names = {"eager": words.variant("eager", say)} | {cache: say.plain(f"chart_{cache}") for cache in costs}
    shifts = _spread([end / max(ends.values()) * PLOT_HEIGHT for end in ends.values()])
    figure = go.Figure()
    for (name, end), shift in zip(ends.items(), shifts, strict=True):
        colour = EAGER if name == "eager" else COMPILED
        figure.add_trace(
            go.Scatter(
                name=names[name],
                x=[0, calls],
                y=[costs.get(name, 0.0) * scale, end * scale],
                mode="lines",
                line={"color": colour, "width": 3, "dash": "dash" if name == "warm" else "solid"},
                hoverinfo="skip",
            )
        )
        figure.add_annotation(
            x=1,
            xref="paper",
            xanchor="left",
            xshift=8,
            y=end * scale,
            yshift=shift,
            text=f'<span style="color:{colour}">{"┄" if name == "warm" else "━"}</span> {names[name]}',
            showarrow=False,
        )
    for even in crossings.values():
        at = even.calls or 0
        high = calls if even.high is None else min(calls, even.high)
        figure.add_trace(
            go.Scatter(
                name="break-even",
                x=[at],
                y=[at * eager * scale],
                mode="markers",
                marker={"color": TEXT, "size": 11, "line": {"width": 0}},
                error_x={
                    "type": "data",
                    "symmetric": False,
                    "array": [max(0.0, high - at)],
                    "arrayminus": [max(0, at - (even.low or at))],
                    "color": TEXT,
                    "thickness": 2,
                    "width": 6,
                },
                hoverinfo="skip",
            )
        )
        near = at < 0.3 * calls  # too near the axis for a name on its left
        figure.add_annotation(
            x=0 if near else at,
            y=at * eager * scale,
            text=directed(words.count(at, "call", say)),
            xanchor="left" if near else "right",
            xshift=6 if near else -10,
            yshift=22 if near else 14,
            showarrow=False,
        )
    meaning = say.plain("chart_crossing" if crossings else "chart_no_crossing")
    figure.update_xaxes(range=[0, calls], showgrid=False, nticks=4, tickformat="~s", tickangle=0)
    figure.update_yaxes(range=[0, max(ends.values()) * scale * 1.03], showgrid=True, nticks=5)
    title, right = say.plain(f"chart_total_{unit}"), _SIGN + room(names.values())
    return dressed(figure, title, [meaning, *_provenance(result)], left=44, right=right, plot=PLOT_HEIGHT)


def _long_scale(longest: float) -> tuple[float, str]:
    """Factor from seconds, and the unit: of waits, that may last hours."""
    if longest >= 2 * 3600:
        return 1 / 3600, "hours"
    return (1 / 60, "minutes") if longest >= 2 * 60 else (1.0, "seconds")


def _spread(heights: Sequence[float], least: float = 20) -> list[float]:
    """Pixels by which each of the labels at these heights moves so that no two are nearer than `least`."""
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    moved = list(heights)
    for below, above in itertools.pairwise(order):
        moved[above] = max(moved[above], moved[below] + least)
    excess = max(0.0, moved[order[-1]] - max(heights[order[-1]], PLOT_HEIGHT))
    return [moved[place] - excess - height for place, height in enumerate(heights)]


def busy_bars(result: RunResult, say: Language = ENGLISH) -> go.Figure | None:
    """A bar for each variant from zero to its median call: full where the GPU works, faint where it waits.

    A dotted line marks the roofline. None where no profile says how long the GPU worked, as on a CPU.
    """
    sides = [
        (name, colour, side)
        for name, colour, side in (("eager", EAGER, result.eager), ("compiled", COMPILED, result.compiled))
        if side is not None and side.busy_share is not None
    ]
    if not sides:
        return None
    scale, unit = scale_of([side.median_seconds for _, _, side in sides])
    figure = go.Figure()
    for faint in (False, True):
        figure.add_trace(
            go.Bar(
                orientation="h",
                y=list(range(len(sides))),
                x=[_working(side, faint) * scale for _, _, side in sides],
                width=0.74,
                marker={
                    "color": [colour for _, colour, _ in sides],
                    "opacity": WAITING if faint else 1.0,
                    "line": {"width": 0},
                },
                hoverinfo="skip",
            )
        )
    for place, (_, _, side) in enumerate(sides):
        figure.add_annotation(
            x=side.median_seconds * scale,
            y=place,
            text=directed(say.plain("chart_busy_share", share=fmt.percent(side.busy_share or 0.0))),
            xanchor="left",
            xshift=8,
            showarrow=False,
        )
    source = [say.plain("chart_busy_why")]
    if result.roofline is not None:
        least = result.roofline.least_seconds * scale
        figure.add_vline(x=least, line={"dash": "dot", "width": 2, "color": LINE})
        source.append(say.plain("chart_least", time=fmt.latency(result.roofline.least_seconds)))
    names = [words.variant(name, say) for name, _, _ in sides]
    figure.update_layout(barmode="stack")
    figure.update_yaxes(
        tickvals=list(range(len(sides))),
        ticktext=names,
        range=[len(sides) - 0.4, -0.6],
        ticks="",
        showgrid=False,
        zeroline=False,
    )
    figure.update_xaxes(
        range=[0, max(side.median_seconds for _, _, side in sides) * scale], nticks=5, showgrid=True, zeroline=True
    )
    return dressed(
        figure,
        titled("chart_busy", unit, say),
        [*source, *_provenance(result)],
        left=room(names),
        right=128,
        plot=round(34 * (len(sides) + 0.2)),
    )


def _working(side: Measurement, waiting: bool) -> float:
    share = side.busy_share or 0.0
    return side.median_seconds * (1 - share if waiting else share)


def bars(
    title: str,
    names: Sequence[str],
    seconds: Sequence[float | None],
    texts: Sequence[str],
    ranges: Sequence[tuple[float, float] | None],
    source: list[str],
    left: int,
    right: int,
    say: Language = ENGLISH,
) -> go.Figure:
    """Horizontal bars from zero, eager and compiled in turn, a gap after each pair; `texts` at their ends.

    `left` and `right` are the pixels kept free for the longest of `names` and of `texts`.
    """
    scale, unit = scale_of(seconds)
    places = [pair * 2.5 + side for pair in range((len(names) + 1) // 2) for side in (0, 1)][: len(names)]
    ends = [max(value or 0.0, span[1] if span else 0.0) for value, span in zip(seconds, ranges, strict=True)]
    figure = go.Figure(
        go.Bar(
            orientation="h",
            y=places,
            x=[(value or 0.0) * scale for value in seconds],
            width=0.74,
            marker={
                "color": [EAGER if place % 2 == 0 else COMPILED for place in range(len(names))],
                "line": {"width": 0},
            },
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [_above(value, span) * scale for value, span in zip(seconds, ranges, strict=True)],
                "arrayminus": [_below(value, span) * scale for value, span in zip(seconds, ranges, strict=True)],
                "color": TEXT,
                "thickness": 2,
                "width": 6,
                "visible": any(ranges),
            },
            hoverinfo="skip",
        )
    )
    for place, end, text in zip(places, ends, texts, strict=True):
        figure.add_annotation(x=end * scale, y=place, text=text, xanchor="left", xshift=8, showarrow=False)
    figure.update_yaxes(
        tickvals=places, ticktext=list(names), range=[places[-1] + 0.6, -0.6], ticks="", showgrid=False, zeroline=False
    )
    figure.update_xaxes(range=[0, max(ends) * scale or 1], nticks=5, showgrid=True, zeroline=True)
    title = say.listed([title, say.plain_value(unit)])
    return dressed(figure, title, source, left, right, plot=round(34 * (places[-1] + 1.2)))


def titled(key: str, unit: str, say: Language) -> str:
    """'Every timed call, ms'."""
    return say.listed([say.plain(key), say.plain_value(unit)])


def directed(line: str) -> str:
    """A chart runs from left to right; a line of it that holds a script of the other direction runs as that does."""
    if any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in line):
        return f"\N{RIGHT-TO-LEFT ISOLATE}{line}\N{POP DIRECTIONAL ISOLATE}"
    return line


def dressed(figure: go.Figure, title: str, source: list[str], left: int, right: int, plot: int) -> go.Figure:
    """Title, source lines, fonts, fixed margins and `plot` pixels of height between them."""
    lines = [directed(line) for text in source for line in _wrapped(text)]
    top, bottom = 46, 34 + 17 * len(lines)
    axis = {"fixedrange": True, "gridcolor": GRID, "zerolinecolor": LINE, "tickfont": {"size": 13}, "title": None}
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    if figure.data and figure.data[0].type == "bar":
        figure.update_yaxes(tickfont={"size": NAMES})
    figure.update_annotations(font={"size": NAMES})
    figure.add_annotation(
        text="<br>".join(html.escape(line, quote=False) for line in lines),
        align="left",
        font={"size": 12},
        opacity=0.8,
        showarrow=False,
        x=0,
        xref="paper",
        xanchor="left",
        xshift=-left,
        y=0,
        yref="paper",
        yanchor="top",
        yshift=-28,
    )
    figure.update_layout(
        template="none",
        title={
            "text": f"<b>{directed(title)}</b>",
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 10, "l": 2},
            "font": {"size": 17},
        },
        font={"family": FONT, "color": TEXT},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": left, "r": right, "t": top, "b": bottom, "pad": 6},
        height=top + plot + bottom,
        autosize=True,
        showlegend=False,
        dragmode=False,
        hoverlabel={"font": {"family": FONT, "size": 13}},
        meta={"aloud": aloud(figure, title, source)},
    )
    return figure


_STUCK = "、。，；：）！？」"
_PIECE = re.compile(rf"(?:(?:\u2066[^\u2069]*\u2069|[^ \u2066\u3000-\u9fff\uff00-\uffef])+|[^ ])[{_STUCK}]*| +")
"""A word with the values in it that stand in an isolate, or one letter of Chinese or Japanese with what may not begin a
line after it."""


def _wrapped(text: str) -> list[str]:
    """Lines of `LINE_WIDTH` at most, in any of the languages; only a longer word is longer."""
    lines = [""]
    for piece in _PIECE.findall(re.sub(r"[\t-\r]+", " ", text)):
        if _width((lines[-1] + piece).rstrip()) > LINE_WIDTH and lines[-1]:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip()
    return [line.rstrip() for line in lines if line.strip()]


def _width(text: str) -> int:
    """In letters: those of Chinese and Japanese count twice, isolates and accents are not seen."""
    return sum(
        2 if unicodedata.east_asian_width(letter) in "WF" else unicodedata.category(letter) not in ("Cf", "Mn")
        for letter in text
    )


def aloud(figure: go.Figure, title: str, source: Sequence[str]) -> str:
    """The figure in one paragraph for those who do not see it, made of its own texts: title, values, source.

    Each text beside a bar belongs to the nearest name on the axis; a line with marks is read mark by mark. Lines and
    clouds without texts are only named: their figures stand in the tables beside them. `aloud.js` puts it on the page.
    """
    marked = [trace for trace in figure.data if trace.type == "scatter" and trace.mode == "lines+markers"]
    told = [(trace.name, [f"{x:g}: {y:.3g}×" for x, y in zip(trace.x, trace.y, strict=True)]) for trace in marked]
    rest: list[str] = []
    if not marked:
        ticks = figure.layout.yaxis.tickvals or ()
        told = [(_plain(name), []) for name in figure.layout.yaxis.ticktext or ()]
        for note in figure.layout.annotations[:-1]:
            far = [abs(tick - note.y) for tick in ticks]
            (told[far.index(min(far))][1] if far and note.xref != "paper" else rest).append(_plain(note.text))
    values = "; ".join(f"{name} {', '.join(texts)}" for name, texts in told)
    said = ". ".join(text for text in (_plain(title), "; ".join(rest), values, *source) if text)
    return said.replace("<", "‹").replace(">", "›")  # whatever might take it for HTML finds none


def _plain(text: str) -> str:
    """Without Plotly's tags and signs."""
    return " ".join(re.sub(r"[●○◆◇■□▲△✕━┄†]", "", html.unescape(re.sub(r"<[^>]*>", "", text))).split())


def scale_of(seconds: Iterable[float | None]) -> tuple[float, str]:
    """What to multiply seconds by, and the name of what comes out: milliseconds unless something takes a second."""
    if max((value for value in seconds if value is not None), default=0.0) >= 1:
        return 1.0, "s"
    return fmt.milliseconds(1.0), "ms"


def _above(value: float | None, span: tuple[float, float] | None) -> float:
    return 0.0 if value is None or span is None else max(0.0, span[1] - value)


def _below(value: float | None, span: tuple[float, float] | None) -> float:
    return 0.0 if value is None or span is None else max(0.0, value - span[0])


def _nudge(medians: dict[str, float], name: str, end: float) -> int:
    """Pixels by which a name moves away from the other one where the two medians nearly coincide."""
    if abs(medians["eager"] - medians["compiled"]) > 0.1 * end:
        return 0
    slower = max(medians, key=lambda key: medians[key])
    return 10 if name == slower else -10


def _timed(result: RunResult) -> tuple[Measurement | None, Measurement | None]:
    """Both measurements; None for one without a single timed call."""
    eager, compiled = (side if side and side.wall_seconds else None for side in (result.eager, result.compiled))
    return eager, compiled


def _counted(sides: Iterable[Measurement | None], say: Language) -> str:
    counts = sorted({len(side.wall_seconds) for side in sides if side})
    if not counts:
        return ""
    return say.composed("chart_counted", calls=words.enumerated(map(say.plain_value, counts), say))


def _provenance(result: RunResult) -> list[str]:
    """'google/vit-base-patch16-224, torch 2.13.0, 2026-11-21' and 'Tesla T4'."""
    known = result.environment
    torch = [f"torch {_short(known.torch)}"] if known else []
    what = ", ".join([_short(result.spec.checkpoint), *torch, _short(result.started_at[:10])])
    return [what, _short(known.device_name)] if known else [what]


def _short(text: str) -> str:
    """Not endlessly long."""
    return text if len(text) <= 48 else f"{text[:20]}…{text[-26:]}"
