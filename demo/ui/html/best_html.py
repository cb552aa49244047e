"""The search for the best way as HTML: its answer, what it is doing and its table. And its charts: total time by calls,
and what comes before the first answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import plotly.graph_objects as go
from markupsafe import Markup

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.spec import RunSpec
from demo.present import sentences
from demo.present.figure import LINE, TEXT, directed, dressed, mark_crossing, provenance, scale_of, titled
from demo.present.palette import COMPILED, EAGER
from demo.sweep import best_words
from demo.sweep.best_table import BestTable, Row
from demo.sweep.run_grid import Event, Timing, Waiting
from demo.sweep.ways import EAGER as PLAIN
from demo.ui.html import progress
from demo.ui.html.elements import drawn
from demo.ui.jobs.jobs import BestSearch

KINDS = {"way": "way", "agreement": "note"}
"""The CSS class of a column; the others have figures."""


def head(going: BestSearch, table: BestTable, lang: Language) -> Markup:
    """The answer so far or in the end, and while the search goes on what it is doing and the time left."""
    search, running = going.search, not going.ended
    share, left = None, ""
    if running:
        spent = search.seconds - search.left_seconds
        to_go = search.left_seconds if search.expected_seconds is None else search.expected_seconds
        share = spent / (spent + to_go) if to_go else 1.0
        left = lang.plain("best_left", time=sentences.rounded_duration(to_go))
    more = []
    if running and isinstance(going.doing, Timing) and going.others > 0:
        more.append(lang.plain("best_others", count=going.others))
    if not running and not search.complete:
        stopped = "best_cancelled" if going.stopped else "best_time_is_up"
        more.append(lang.plain(stopped))
    step = "best_so_far" if running else "best_all_tried" if search.complete else "best_stopped"
    answer = best_words.answer(table, lang)
    return drawn("best.head", lang, asked(going.spec, lang), step, answer, share, _doing(going, lang), left, more)


def asked(spec: RunSpec, lang: Language) -> str:
    """'shapes-vit · batch 4': what every way is asked to do."""
    ways = {lang.plain_value(spec.mode), lang.plain_value(spec.dtype)}
    others = [part for part in sentences.settings_apart(spec, lang) if part not in ways]
    return " · ".join([lang.plain_value(spec.checkpoint), *others])


def _doing(going: BestSearch, lang: Language) -> Markup:
    event: Event | None = going.doing
    match event:
        case Waiting(ahead):
            return Markup(lang.html("waiting_ahead", count=ahead))
        case Timing(place, timing):
            way = lang.capital(best_words.name(going.search.ways[place], lang))
            return Markup(f"<b>{lang.marked(way)}</b> · {progress.doing(timing, lang)}")
    return Markup(lang.html("best_choosing"))


def table_of(going: BestSearch, table: BestTable, lang: Language) -> Markup:
    """A row a way, the best first; a way whose run is stored has a link that opens it."""
    columns = [(f"best_column_{name}", KINDS.get(name, "figure")) for name in best_words.COLUMNS]
    ranks = Counter(row.rank for row in table.rows)
    rows = [_line(going, table, row, ranks[row.rank] > 1, lang) for row in table.rows]
    return drawn("best.table", lang, columns, rows, lang.plain("best_ways", count=len(rows)))


def _line(going: BestSearch, table: BestTable, row: Row, shared: bool, lang: Language) -> dict[str, object]:
    """What the template shows of a way: its texts by column, its rank, its place, the id of its run and its kind."""
    rank = ""
    if row.rank is not None:
        rank = lang.plain("best_rank_shared" if shared else "best_rank", rank=row.rank)
    wins = table.winner is not None and row.way == table.winner.way
    return {
        **{f"best_column_{name}": text for name, text in best_words.cells(row, lang).items()},
        "rank": rank,
        "place": going.search.ways.index(row.way),
        "run": row.result.id if row.result is not None else "",
        "kind": "wins" if wins else "out" if row.out else "",
    }


# The charts

HEIGHT, KEY_HEIGHT, BAR_HEIGHT = 260, 22, 46
"""Pixels: between the axes of `crossover`, a line of its key, and a bar of `ladder` with the name above it."""
BEYOND = 10
"""`crossover` ends at so many times the calls after which calls outweigh every start."""
SHADES = {"import": (LINE, 0.4), "load": (LINE, 0.85), "compile": (COMPILED, 1.0), "first run": (TEXT, 1.0)}
"""Colour and opacity of each part of a first answer."""


def crossover(table: BestTable, lang: Language) -> go.Figure | None:
    """Total time against the calls since the start of a process, on logarithmic axes: `start + calls * seconds`.

    A line for each way that can win and whose start over a filled cache is known. The winner, eager and the way that
    answers first are named, in the corner where no line comes. The point is where the winner overtakes that way, with
    its 95 % interval. None for fewer than two lines.
    """
    known = [
        (row, start, row.seconds)
        for row in table.rows
        if row.rank is not None and row.seconds and (start := row.first_answer("next"))
    ]
    if len(known) < 2:
        return None
    farthest = max(start / seconds for _, start, seconds in known)
    crossed = table.crossover.calls if table.crossover is not None else 0
    decades = math.ceil(math.log10(max(10.0, BEYOND * farthest, 2.0 * crossed)))
    steps = [10 ** (step / 12) for step in range(12 * decades + 1)]
    figure = go.Figure()
    named: dict[str, tuple[str, str]] = {}
    kinds = list(_STYLES)
    for row, start, seconds in sorted(known, key=lambda one: -kinds.index(_kind(one[0], table))):  # the winner on top
        kind = _kind(row, table)
        colour, dash, sign = _STYLES[kind]
        named.setdefault(kind, (f'<span style="color:{colour}">{sign}</span>', _named(row, kind, lang)))
        figure.add_trace(
            go.Scatter(
                x=steps,
                y=[start + step * seconds for step in steps],
                mode="lines",
                line={"color": colour, "width": 4 if kind == "winner" else 2, "dash": dash},
                hoverinfo="skip",
            )
        )
    shown = [named[kind] for kind in _STYLES if kind in named]
    for place, (sign, name) in enumerate(shown):
        at = {"x": 0, "xref": "paper", "xanchor": "left", "xshift": 8, "y": 1, "yref": "paper", "yanchor": "top"}
        figure.add_annotation(text=f"{sign} {directed(name)}", yshift=-KEY_HEIGHT * place, **at)
    marked = _mark(figure, table, steps[-1])
    low = math.log10(min(start for _, start, _ in known) / 1.5)
    high = math.log10(1.1 * max(start + steps[-1] * seconds for _, start, seconds in known))
    figure.update_xaxes(type="log", range=[0, decades], dtick=1, tickformat="~s", tickangle=0, showgrid=False)
    figure.update_yaxes(type="log", range=[low, high], dtick=1, ticksuffix=" s", showgrid=True)
    told = [_line_in_words(row, start, lang) for row, start, _ in known]
    notes = ["best_chart_total_why", "best_chart_point"] if marked else ["best_chart_total_why"]
    source = [*(lang.plain(note) for note in notes), *_source(table)]
    return dressed(figure, lang.plain("chart_total"), source, left=62, right=12, plot=HEIGHT, told=told)


_STYLES = {
    "winner": (COMPILED, "solid", "━"),
    "eager": (EAGER, "5px 3px", "┄"),
    "rival": (TEXT, "2px 2px", "┄"),
    "other": (LINE, "5px 3px", "┄"),
}
"""Colour, dashes and sign of a line of `crossover`, by what its way is."""


def _kind(row: Row, table: BestTable) -> str:
    if table.winner is not None and row.way == table.winner.way:
        return "winner"
    if row.way.name == PLAIN:
        return "eager"
    return "rival" if table.crossover is not None and row.way == table.crossover.rival.way else "other"


def _named(row: Row, kind: str, lang: Language) -> str:
    if kind == "other":
        return lang.plain("best_chart_others")
    return lang.capital(best_words.name(row.way, lang))


def _mark(figure: go.Figure, table: BestTable, most: float) -> bool:
    """The point from which on the winner is ahead of the way that answers first; False where there is none."""
    crossed, winner = table.crossover, table.winner
    start = winner.first_answer("next") if winner is not None else None
    if crossed is None or winner is None or winner.seconds is None or start is None:
        return False
    height = start + crossed.calls * winner.seconds
    mark_crossing(figure, crossed.calls, height, crossed.low, crossed.high, most)
    return True


def _line_in_words(row: Row, start: float, lang: Language) -> str:
    times = {"start": lang.plain_value(fmt.duration(start)), "call": lang.plain_value(fmt.latency(row.seconds or 0.0))}
    return lang.composed("best_chart_line", way=best_words.name(row.way, lang), **times)


def ladder(table: BestTable, lang: Language) -> go.Figure | None:
    """A bar a way: the parts of the time from the start of a process to its first answer, over what an earlier process
    left. None where no such time is known."""
    rows = [row for row in table.rows if not row.out and "next" in row.first_answers]
    if not rows:
        return None
    totals = [sum(row.first_answers["next"].values()) for row in rows]
    scale, unit = scale_of(totals)
    figure = go.Figure()
    for part in best_words.PARTS:
        colour, opacity = SHADES[part]
        figure.add_trace(
            go.Bar(
                orientation="h",
                y=list(range(len(rows))),
                x=[row.first_answers["next"].get(part, 0.0) * scale for row in rows],
                width=0.36,
                marker={"color": colour, "opacity": opacity, "line": {"width": 0}},
                hoverinfo="skip",
            )
        )
    for place, total in enumerate(totals):
        figure.add_annotation(x=total * scale, y=place, text=fmt.duration(total), xanchor="left", xshift=8)
    names = [lang.capital(best_words.name(row.way, lang)) for row in rows]
    for place, name in enumerate(names):
        figure.add_annotation(x=0, y=place, text=directed(name), xanchor="left", yanchor="bottom", yshift=8)
    figure.update_layout(barmode="stack")
    figure.update_yaxes(range=[len(rows) - 0.6, -0.8], showticklabels=False, ticks="", showgrid=False, zeroline=False)
    figure.update_xaxes(range=[0, max(totals) * scale], nticks=5, showgrid=True, zeroline=True)
    parts = lang.listed([_part(part, lang) for part in best_words.PARTS])
    return dressed(
        figure,
        titled("best_chart_start", unit, lang),
        [lang.composed("best_chart_parts", parts=parts), *_source(table)],
        left=8,
        right=72,
        plot=BAR_HEIGHT * len(rows),
        told=[f"{name}: {_parts(row.first_answers['next'], lang)}" for name, row in zip(names, rows, strict=True)],
    )


def _part(part: str, lang: Language) -> str:
    return lang.texts[f"best_part_{part.replace(' ', '_')}"]


def _parts(seconds: dict[str, float], lang: Language) -> str:
    return lang.listed([f"{_part(part, lang)} {fmt.latency(seconds.get(part, 0.0))}" for part in best_words.PARTS])


def _source(table: BestTable) -> Sequence[str]:
    return next((provenance(row.result) for row in table.rows if row.result is not None), [])
