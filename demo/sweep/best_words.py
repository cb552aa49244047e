"""What the search for the best way says: its answer as sentences, and the cells of its table.

Page and terminal show the same.
"""

from typing import Any

from demo.core import codec, format as fmt
from demo.core.spec import MODES, OPTIONS
from demo.present import verdict
from demo.sweep.best_table import CLOSE_RATIO, EAGER, WAYS, BestTable, Row, Way

NAMES = {"default": "default mode", "package": "a package", "layers": "layer by layer"}
COLUMNS = {
    "way": "Way",
    "speedup": "Speed-up over eager",
    "seconds": "Latency",
    "nothing": "First answer from nothing",
    "next": "First answer in the next process",
    "memory": "Memory",
    "agreement": "Outputs",
}
"""The columns of the table and their titles."""
PARTS = {"import": "import", "load": "weights and inputs", "compile": "compile or load", "first run": "first call"}
"""The parts of a first answer in their order, and what they are called."""


def name(way: Way) -> str:
    """'freezing', 'mode lite', 'bfloat16'."""
    if way.name in OPTIONS:
        return OPTIONS[way.name].label.lower()
    known = NAMES.get(way.name, way.name)
    return f"mode {known}" if known in MODES else known


def _speedup(row: Row) -> tuple[str, str]:
    """'1.66×' and its interval, '1.5 to 1.8×'; two times '' where they are not known."""
    one = row.speedup
    if one is None or row.way.name == EAGER:
        return "", ""
    return fmt.estimate(one.ratio, one.low, one.high), fmt.ends(one.low, one.high)


def cells(row: Row) -> dict[str, str]:
    """The texts of a row by column; '–' for what is not known."""
    start = {state: row.first_answer(state) for state in ("nothing", "next")}
    ratio, interval = _speedup(row)
    agreement = "–" if row.way.name == EAGER else "agrees" if row.result is not None else "not tried yet"
    return {
        "way": fmt.capital(name(row.way)),
        "speedup": f"{ratio} ({interval})" if ratio else "–",
        "seconds": fmt.latency(row.seconds) if row.seconds is not None else "–",
        **{state: fmt.duration(known) if known else "–" for state, known in start.items()},
        "memory": fmt.size(row.memory_bytes) if row.memory_bytes else "–",
        "agreement": row.out or agreement,
    }


def answer(table: BestTable) -> list[str]:
    """The answer, the sentence that matters first; a statement that nothing is known where there is none."""
    winner = table.winner
    if winner is None:
        return ["There is no answer yet: no way could be compared with eager."]
    first = "Nothing is known to be better than eager here." if winner.way.name == EAGER else _steady(winner)
    said = [fmt.capital(first)]
    guess = table.rows[0]  # the way that looks best; it cannot be told from eager where eager wins
    if winner.way.name != EAGER and table.equals:
        ways = ", ".join([name(row.way) for row in table.equals])
        said.append(
            f"It cannot be told from {ways}; it is the simplest within {100 * CLOSE_RATIO - 100:.0f} % of the best."
        )
    elif table.equals and guess.way.name != EAGER and guess.speedup is not None:
        ratio, interval = _speedup(guess)
        said.append(f"The best estimate is that of {name(guess.way)}: {ratio} ({interval}).")
    if winner.result is not None and not winner.way.changes_eager and (pays := verdict.worth(winner.result)):
        said.append(f"{pays}.")
    if table.disturbed:
        said.append("Other programs kept the cores busy while ways were timed: nothing is sure of those.")
    return said


def _steady(winner: Row) -> str:
    """The way and what it brings."""
    ratio, interval = _speedup(winner)
    said = f"{name(winner.way)}: {ratio} as fast as eager ({interval})"
    if (start := winner.first_answer("next")) is not None:
        said = f"{said}, first answer after {fmt.duration(start)} in each process"
    return said


def as_json(table: BestTable) -> dict[str, Any]:
    """The table for other programs: seconds and bytes, null for what is not known; `id` names the stored run."""
    return {
        "answer": answer(table),
        "winner": table.winner and table.winner.way.name,
        "equals": [row.way.name for row in table.equals],
        "rows": [
            {
                "way": row.way.name,
                "settings": WAYS[row.way.name],
                "rank": row.rank,
                "speedup": codec.plain(row.speedup),
                "seconds": row.seconds,
                "first_answers": row.first_answers,
                "memory_bytes": row.memory_bytes,
                "out": row.out,
                "processes": len(row.result.as_processes()) if row.result is not None else 0,
                "id": row.result.id if row.result is not None else None,
            }
            for row in table.rows
        ],
    }
