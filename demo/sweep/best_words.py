"""The texts of a search for the best way to run a model: its conclusion, and the cells of its table."""

from collections.abc import Sequence

from ..core import codec, format as fmt
from ..core.options import MODES, OPTIONS
from ..core.stats import TAKEN_FACTOR
from ..present import naming, speedup_words as words
from ..present.report import Report
from .best_table import CLOSE_RATIO, EAGER_WAY, WAYS, BestTable, Way, WayResult

NAMES = {"default": "default mode", "package": "a package", "layers": "layer by layer"}
WAY_COLUMNS = {
    "way": "Way",
    "speedup": "Speed-up over eager",
    "seconds": "Eager → this way",
    "cold": "First answer from nothing",
    "warm": "First answer with a kept cache",
    "memory": "Memory",
    "agreement": "Outputs",
}
"""Titles by column. A first answer is the time from a process's start to its first output.

"Eager → this way" has two latencies of one run. For a way that changes eager, too, only the latency of
the way is given."""
FIRST_ANSWER_PARTS = {
    "import": "import",
    "load": "weights and inputs",
    "compile": "compile or load",
    "first run": "first call",
}
"""Titles of the parts of `WayResult.first_answers`, in their order."""


def name(way: Way) -> str:
    """Returns a way's name in words: 'freezing', 'mode lite', 'bfloat16', 'a package'."""
    if way.name in OPTIONS:
        return OPTIONS[way.name].label.lower()
    known = NAMES.get(way.name, way.name)
    return f"mode {known}" if known in MODES else known


def _speedup(row: WayResult, between: str = "") -> str:
    """Returns '1.7× (1.50 to 1.80×)' with `between` put before the interval; '' for eager, or if not known.

    If the interval's half-width is over `speedup_words.RANGE` (±30 %), only the interval is returned.
    """
    speedup = row.speedup
    if speedup is None or row.way.name == EAGER_WAY:
        return ""
    if speedup.half_width > words.RANGE:
        return f"{words.ratio_or_range(speedup)}{between}"
    return words.with_ends(f"{words.ratio_or_range(speedup)}{between}", speedup)


def cells(row: WayResult) -> dict[str, str]:
    """Returns the texts of one row of the search's table, by column. '–' stands for what is not known."""
    start = {state: row.first_answer(state) for state in ("cold", "warm")}
    agreement = "–" if row.way.name == EAGER_WAY else "agrees" if row.result is not None else "not tried yet"
    return {
        "way": fmt.capital(name(row.way)),
        "speedup": _speedup(row) or "–",
        "seconds": fmt.latencies([known for known in (row.eager_seconds, row.seconds) if known is not None]) or "–",
        **{state: fmt.duration(known) if known else "–" for state, known in start.items()},
        "memory": fmt.size(row.memory_bytes) if row.memory_bytes else "–",
        "agreement": row.out or agreement,
    }


def conclusion(table: BestTable) -> list[str]:
    """Returns sentences that say what the search found, the most important first."""
    winner = table.winner
    if winner is None:
        out = [row for row in table.rows if row.out and row.result is not None]
        why = f"{name(out[0].way)} {out[0].out.rstrip('.')}" if out else "no way could be compared with eager"
        return [f"There is no answer yet: {why}."]
    if winner.way.name == EAGER_WAY:
        sentences = ["Nothing is known to be better than eager here."]
        unsure = [(speedup.ratio, row) for row in table.rows if row.may_win and (speedup := row.speedup) is not None]
        ratio_of_guess, guess = max(unsure, key=lambda pair: pair[0])
        if ratio_of_guess > 1 and guess.speedup is not None and guess.speedup.verdict == "unsure":
            sentences.append(f"The best estimate is that of {name(guess.way)}: {_speedup(guess)}, perhaps no gain.")
    else:
        start = winner.first_answer("warm")
        first = "" if start is None else f", first answer after {fmt.duration(start)} in each process"
        sentences = [fmt.capital(f"{name(winner.way)}: {_speedup(winner, ' as fast as eager')}{first}")]
        if table.equals:
            ways, close = ", ".join([name(row.way) for row in table.equals]), 100 * CLOSE_RATIO - 100
            sentences.append(f"It cannot be told from {ways}; it is the simplest within {close:.0f} % of the surest.")
    if winner.result is not None and not winner.way.changes_eager and (pays := Report(winner.result).pays):
        sentences.append(f"{pays}{naming.not_counted(winner.result)}.")
    if table.disturbed:
        sentences.append(
            "Other programs took cores while ways were timed: each end of their ranges is moved out by a factor of "
            f"{TAKEN_FACTOR:g}."
        )
    return sentences


def missing(why: str, steps: Sequence[tuple[Way, bool]]) -> str:
    """Returns what a search that ended early left out: 'The time was up; not tried: mode lite; to be timed again: ...'.

    `why`: why the search ended. `steps`: the ways still to run, each with whether it has run before.
    """
    parts = {"not tried": False, "to be timed again": True}
    names = {title: ", ".join(name(way) for way, tried in steps if tried is again) for title, again in parts.items()}
    return "; ".join([why, *(f"{title}: {ways}" for title, ways in names.items() if ways)])


def as_json(table: BestTable) -> dict[str, object]:
    """Returns the table as JSON values for other programs, in seconds and bytes. None: not known."""
    return {
        "answer": conclusion(table),
        "winner": table.winner and table.winner.way.name,
        "equals": [row.way.name for row in table.equals],
        "rows": [
            {
                "way": row.way.name,
                "settings": WAYS[row.way.name],
                "rank": row.rank,
                "speedup": codec.plain(row.speedup),
                "seconds": row.seconds,
                "eager_seconds": row.eager_seconds,
                "first_answers": row.first_answers,
                "memory_bytes": row.memory_bytes,
                "out": row.out,
                "processes": len(row.result.as_processes()) if row.result is not None else 0,
                "id": row.result.id if row.result is not None else None,
            }
            for row in table.rows
        ],
    }
