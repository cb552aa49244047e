"""The search for the best way as HTML: its answer, what it is doing, and its table."""

from __future__ import annotations

from collections import Counter

from markupsafe import Markup

from demo.core.languages import Language
from demo.core.spec import RunSpec
from demo.present import sentences
from demo.sweep import best_words
from demo.sweep.best_table import BestTable, Row
from demo.sweep.run_grid import Event, Timing, Waiting
from demo.ui.html import progress
from demo.ui.html.elements import drawn
from demo.ui.jobs.searches import BestSearch

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
