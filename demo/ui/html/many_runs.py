"""Many runs as HTML: a sweep and its heat map, a search for the best way.

The heat map of a sweep has checkpoints down, batch sizes across, and a facet for each mode and number format. It is
plain HTML, because it fills while the sweep runs, and each cell is a button that opens its run. A cell has the colour
of the faster variant: blue for compiled, orange for eager.
"""

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go
from markupsafe import Markup

from demo.core import format as fmt, hub
from demo.present import sentences
from demo.present.figure import LINE, TEXT, add_line, dressed, mark_crossing, provenance, scale_of
from demo.present.pictures import COMPILED, EAGER
from demo.sweep import best_words
from demo.sweep.best_table import EAGER as PLAIN, BestTable, Row
from demo.sweep.grid import Cell, downloads
from demo.sweep.run_grid import Event, Timing, Waiting
from demo.ui.html import results
from demo.ui.html.elements import drawn
from demo.ui.jobs import BestSearch, Sweep

COUNTED = {"faster": "{count} faster compiled", "slower": "{count} slower", "failed": "{count} without a figure"}

BYTES_A_PARAMETER = 4
"""The published weights are float32."""
FULL_COLOUR_AT = 3.0
"""A cell has its full colour from this speed-up or slow-down on."""


def heatmap(cells: Sequence[Cell], running: int | None = None, share: float = 0.0) -> Markup:
    """`running` is the place of the running cell, `share` its progress from 0 to 1."""
    shown = {}
    for place, cell in enumerate(cells):
        spec = cell.spec
        known = _cell(cell) if cell.done else {"running": place == running}
        shown[spec.mode, spec.dtype, spec.checkpoint, spec.batch_size] = {"place": place} | known
    checkpoints = list(dict.fromkeys(cell.spec.checkpoint for cell in cells))
    batches = sorted({cell.spec.batch_size for cell in cells})
    facets = []
    for facet in dict.fromkeys((cell.spec.mode, cell.spec.dtype) for cell in cells):
        rows = []
        for checkpoint in checkpoints:
            row = [shown.get((*facet, checkpoint, batch)) for batch in batches]
            rows.append((checkpoint, Markup(escape(str(sentences.short(checkpoint)))), row))
        facets.append((*facet, rows))
    return drawn("heatmap.sweep", [Markup(escape(str(batch))) for batch in batches], facets, f"{share * 100:.0f}")


def _cell(cell: Cell) -> dict[str, object]:
    """What the template shows of a cell that is done."""
    spec, result = cell.spec, cell.result
    if result is None:
        known: dict[str, object] = {"kind": "failed", "strength": 0, "figure": "refused"}
    else:
        ratio = result.speedup.ratio if result.speedup is not None else None
        told = sentences.speedup(result)
        known = shaded(result.status, sentences.outcome(result), ratio, told)
        if result.status == "out_of_memory":
            known["figure"] = cell.value  # which is short
    times = sentences.times(result) if result is not None and result.failure is None else ""
    setting = [spec.checkpoint, f"batch {spec.batch_size}", spec.mode, spec.dtype, cell.value]
    return known | {
        "times": times.replace(" ms", "\N{NO-BREAK SPACE}ms").split(" → "),
        "title": cell.value,
        "label": ", ".join(setting),
    }


def shaded(status: str, verdict: str | None, ratio: float | None, shown: str) -> dict[str, object]:
    """The class of a cell's colour, its strength in per cent, and its figure: '▲ 1.45×', where '1.45×' is `shown`,
    'no difference' or 'Did not compile'."""
    if status != "ok":
        return {"kind": "failed", "strength": 0, "figure": sentences.STATUSES[status]}
    if ratio is None or verdict not in ("faster", "slower"):
        open_figure = "no difference" if verdict == "same" else "unsure"
        return {"kind": "same", "strength": 0, "figure": open_figure if verdict is not None else "–"}
    full = min(1.0, abs(math.log(ratio)) / math.log(FULL_COLOUR_AT))
    kind, sign = ("fast", "▲") if verdict == "faster" else ("slow", "▼")
    return {"kind": kind, "strength": round(18 + 72 * full), "figure": f"{sign} {shown}"}


def plan(sweep: Sweep) -> Markup:
    """What Start would do: cells, time, and the checkpoints that it would download, or cannot."""
    wanted, size = downloads(sweep.cells), ""
    if wanted and hub.reachable():
        size = fmt.size(sum(entry.parameters for entry in wanted) * BYTES_A_PARAMETER)
    stored = sum(cell.done for cell in sweep.cells)
    return drawn("sweep_status.plan", sweep.forecast(), len(sweep.cells), stored, len(wanted), size)


def status(step: str, cells: Sequence[Cell], seconds: float | None, more: str) -> Markup:
    """`step` is 'Starting', 'Running', 'Stopped' or 'Done'; `seconds` the time to go, if known; `more` HTML."""
    done = sum(cell.done for cell in cells)
    return drawn("sweep_status.status", step, done, len(cells), seconds, Markup(more))


def summary(cells: Sequence[Cell]) -> str:
    verdicts = [cell.result.speedup.verdict for cell in cells if cell.result and cell.result.speedup]
    failed = sum(cell.result is None or cell.result.failure is not None for cell in cells)
    counts = {"faster": verdicts.count("faster"), "slower": verdicts.count("slower")}
    if failed:
        counts["failed"] = failed
    figures = ", ".join([COUNTED[what].format(count=count) for what, count in counts.items()])
    took = sum(cell.result.elapsed_seconds for cell in cells if cell.result)
    time = fmt.duration(took)
    return escape(f"{figures}; {time} of runs.")


# The search for the best way, and its charts: total time by calls, and what comes before the first answer

BEST_KINDS = {"way": "way", "agreement": "note"}
"""The CSS class of a column; the others have figures."""


def best_head(going: BestSearch, table: BestTable) -> Markup:
    """The answer so far or in the end, and while the search goes on what it is doing and the time left."""
    search, spec = going.search, going.spec
    spent = search.seconds - search.left_seconds
    to_go = search.left_seconds if search.expected_seconds is None else search.expected_seconds
    share = spent / (spent + to_go) if to_go else 1.0
    ways = (spec.mode, spec.dtype)
    every = [part for part in sentences.settings_apart(spec) if part not in ways]  # what every way is asked to do
    asked = " · ".join([spec.checkpoint, *every])
    return drawn("best.head", going, asked, best_words.answer(table), share, to_go, _trying(going))


def _trying(going: BestSearch) -> Markup:
    event: Event | None = going.doing
    match event:
        case Waiting(ahead):
            return Markup(f"Runs ahead of yours: {escape(str(ahead))}.")
        case Timing(place, timing):
            way = fmt.capital(best_words.name(going.search.ways[place]))
            return Markup(f"<b>{escape(way)}</b> · {results.doing(timing)}")
    return Markup("Choosing what to try next")


def best_table(going: BestSearch, table: BestTable) -> Markup:
    """A row a way, the best first; a way whose run is stored has a link that opens it."""
    columns = [(name, title, BEST_KINDS.get(name, "figure")) for name, title in best_words.COLUMNS.items()]
    ranks = Counter(row.rank for row in table.rows)
    lines = []
    for row in table.rows:
        line: dict[str, object] = dict(best_words.cells(row))
        place, wins = going.search.ways.index(row.way), table.winner is not None and row.way == table.winner.way
        lines.append(line | {"row": row, "place": place, "wins": wins, "shared": ranks[row.rank] > 1})
    return drawn("best.table", columns, lines)


HEIGHT, KEY_HEIGHT, BAR_HEIGHT = 260, 22, 46
"""Pixels: between the axes of `crossover`, a line of its key, and a bar of `ladder` with the name above it."""
BEYOND = 10
"""`crossover` ends at so many times the calls after which calls outweigh every start."""
SHADES = {"import": (LINE, 0.4), "load": (LINE, 0.85), "compile": (COMPILED, 1.0), "first run": (TEXT, 1.0)}
"""Colour and opacity of each part of a first answer."""
TOTAL_WHY = (
    "Calls since the start of a process; both scales are logarithmic. Each line begins with the first answer over what "
    "an earlier process left. Thick: the way of the answer."
)
POINT = "Point: from there on it is ahead of the way that answers first, with its interval."


def crossover(table: BestTable) -> go.Figure | None:
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
    names: dict[str, str] = {}
    for row, start, seconds in sorted(known, key=lambda one: -list(_STYLES).index(_kind(one[0], table))):
        kind = _kind(row, table)  # the winner is drawn last, on top
        colour, dash, _ = _STYLES[kind]
        names[kind] = fmt.capital(best_words.name(row.way))
        times = [start + step * seconds for step in steps]
        add_line(figure, steps, times, colour, 4 if kind == "winner" else 2, dash)
    shown = [kind for kind in _STYLES if kind in names]
    for place, kind in enumerate(shown):
        colour, _, sign = _STYLES[kind]
        name = "the other ways" if kind == "other" else names[kind]
        figure.add_annotation(
            text=f'<span style="color:{colour}">{sign}</span> {name}',
            **{"x": 0, "xref": "paper", "xanchor": "left", "xshift": 8},
            **{"y": 1, "yref": "paper", "yanchor": "top", "yshift": -KEY_HEIGHT * place},
        )
    marked = _mark(figure, table, steps[-1])
    low = math.log10(min(start for _, start, _ in known) / 1.5)
    high = math.log10(1.1 * max(start + steps[-1] * seconds for _, start, seconds in known))
    figure.update_xaxes(type="log", range=[0, decades], dtick=1, tickformat="~s", tickangle=0, showgrid=False)
    figure.update_yaxes(type="log", range=[low, high], dtick=1, ticksuffix=" s", showgrid=True)
    told = [
        f"{best_words.name(row.way)}: {fmt.duration(start)} to the first answer, then {fmt.latency(seconds)} a call"
        for row, start, seconds in known
    ]
    source = [TOTAL_WHY, *([POINT] if marked else []), *_source(table)]
    return dressed(figure, "Total time by number of calls", source, left=62, right=12, plot=HEIGHT, told=told)


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


def _mark(figure: go.Figure, table: BestTable, most: float) -> bool:
    """The point from which on the winner is ahead of the way that answers first; False where there is none."""
    crossed, winner = table.crossover, table.winner
    start = winner.first_answer("next") if winner is not None else None
    if crossed is None or winner is None or winner.seconds is None or start is None:
        return False
    height = start + crossed.calls * winner.seconds
    mark_crossing(figure, crossed.calls, height, crossed.low, crossed.high, most)
    return True


def ladder(table: BestTable) -> go.Figure | None:
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
    names = [fmt.capital(best_words.name(row.way)) for row in rows]
    for place, (name, total) in enumerate(zip(names, totals, strict=True)):
        figure.add_annotation(x=total * scale, y=place, text=fmt.duration(total), xanchor="left", xshift=8)
        figure.add_annotation(x=0, y=place, text=name, xanchor="left", yanchor="bottom", yshift=8)
    figure.update_layout(barmode="stack")
    figure.update_yaxes(range=[len(rows) - 0.6, -0.8], showticklabels=False, ticks="", showgrid=False, zeroline=False)
    figure.update_xaxes(range=[0, max(totals) * scale], nticks=5, showgrid=True, zeroline=True)
    parts = best_words.PARTS
    source = [
        f"In one process, from the left: {', '.join(parts.values())}. Over what an earlier process left",
        *_source(table),
    ]
    told = []
    for name, row in zip(names, rows, strict=True):
        seconds = row.first_answers["next"]
        each = [f"{word} {fmt.latency(seconds.get(part, 0.0))}" for part, word in parts.items()]
        told.append(f"{name}: {', '.join(each)}")
    title = f"Start to first answer, {unit}"
    return dressed(figure, title, source, told, left=8, right=72, plot=BAR_HEIGHT * len(rows))


def _source(table: BestTable) -> Sequence[str]:
    return next((provenance(row.result) for row in table.rows if row.result is not None), [])
