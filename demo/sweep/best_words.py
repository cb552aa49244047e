"""What the search for the best way says: its answer as sentences, and the cells of its table.

In any language; page and terminal show the same. Not covered: why a way cannot win, which stays English where torch or
the refusal of a machine says it.
"""

from typing import Any

from demo.core import codec, format as fmt
from demo.core.languages import ENGLISH, Language
from demo.core.spec import DTYPES, MODES, OPTIONS
from demo.present import sentences
from demo.sweep.best_table import CLOSE, DEFAULT, EAGER, WAYS, BestTable, Crossover, Row, Way

COLUMNS = ("way", "speedup", "seconds", "nothing", "next", "memory", "agreement")
"""The columns of the table, each with a text `best_column_<name>`."""
PARTS = ("import", "load", "compile", "first run")
"""The parts of a first answer in their order, each with a text `best_part_<name>`, its space an underscore."""


def name(way: Way, lang: Language) -> str:
    """'Freezing', 'mode lite', 'bfloat16'."""
    if way.name in MODES and way.name != DEFAULT:
        return lang.plain("beside_mode", mode=way.name)
    if way.name in (EAGER, *DTYPES):
        return lang.plain_value(way.name)
    return lang.plain(way.name).lower() if way.name in OPTIONS else lang.plain(f"best_way_{way.name}")


def _speedup(row: Row, lang: Language) -> tuple[str, str]:
    """'1.66×' and its interval, '1.5 to 1.8×'; two times '' where they are not known."""
    one = row.speedup
    if one is None or row.way.name == EAGER:
        return "", ""
    low, high = map(lang.plain_value, fmt.ratio_ends(one.low, one.high))
    ratio = lang.plain_value(fmt.estimate(one.ratio, one.low, one.high))
    return ratio, lang.composed("between", low=low, high=high)


def cells(row: Row, lang: Language) -> dict[str, str]:
    """The texts of a row by column; '–' for what is not known."""
    start = {state: row.first_answer(state) for state in ("nothing", "next")}
    ratio, interval = _speedup(row, lang)
    return {
        "way": lang.capital(name(row.way, lang)),
        "speedup": f"{ratio} ({interval})" if ratio else "–",
        "seconds": lang.plain_value(fmt.latency(row.seconds)) if row.seconds is not None else "–",
        **{state: lang.plain_value(fmt.duration(known)) if known else "–" for state, known in start.items()},
        "memory": lang.plain_value(fmt.size(row.memory_bytes)) if row.memory_bytes else "–",
        "agreement": _agreement(row, lang),
    }


def _agreement(row: Row, lang: Language) -> str:
    if row.out:
        return lang.plain_quoted(row.out)
    if row.way.name == EAGER:
        return "–"
    return lang.plain("best_agrees" if row.result is not None else "best_not_tried")


def answer(table: BestTable, lang: Language) -> list[str]:
    """The answer, the sentence that matters first; a statement that nothing is known where there is none."""
    winner = table.winner
    if winner is None:
        return [lang.plain("best_nothing")]
    said = [lang.capital(_first(table, winner, lang))]
    guess = table.rows[0]  # the way that looks best; it cannot be told from eager where eager wins
    if winner.way.name != EAGER and table.equals:
        ways = lang.listed([name(row.way, lang) for row in table.equals])
        said.append(lang.composed("best_equals", ways=ways, close=lang.plain_value(f"{100 * CLOSE - 100:.0f} %")))
    elif table.equals and guess.way.name != EAGER and guess.speedup is not None:
        said.append(_with_figures("best_guess", guess, lang))
    return [*said, lang.plain("best_disturbed")] if table.disturbed else said


def _first(table: BestTable, winner: Row, lang: Language) -> str:
    """The way and what it brings."""
    if winner.way.name == EAGER:
        return lang.plain("best_eager")
    return _steady(winner, table.crossover, lang)


def _with_figures(key: str, row: Row, lang: Language) -> str:
    ratio, interval = _speedup(row, lang)
    return lang.composed(key, way=name(row.way, lang), ratio=ratio, interval=interval)


def _steady(winner: Row, crossover: Crossover | None, lang: Language) -> str:
    said = _with_figures("best_steady", winner, lang)
    if (start := winner.first_answer("next")) is not None:
        said = lang.composed("best_first", said=said, time=lang.plain_value(fmt.duration(start)))
    if crossover is not None:
        rival = name(crossover.rival.way, lang)
        said = lang.composed("best_cross", said=said, rival=rival, calls=_calls(crossover, lang))
    return said


def _calls(crossover: Crossover, lang: Language) -> str:
    """'20 000 to 60 000', 'at least 20 000'."""
    low = lang.plain_value(sentences.grouped(fmt.two_digits(crossover.low)))
    if crossover.high is None:
        return lang.composed("at_least", low=low)
    high = lang.plain_value(sentences.grouped(fmt.two_digits(crossover.high)))
    return low if low == high else lang.composed("between", low=low, high=high)


def as_json(table: BestTable) -> dict[str, Any]:
    """The table for other programs: seconds and bytes, null for what is not known; `id` names the stored run."""
    crossover = table.crossover
    return {
        "answer": answer(table, ENGLISH),
        "winner": table.winner and table.winner.way.name,
        "equals": [row.way.name for row in table.equals],
        "crossover": crossover and vars(crossover) | {"rival": crossover.rival.way.name},
        "rows": [_row_json(row) for row in table.rows],
    }


def _row_json(row: Row) -> dict[str, Any]:
    return {
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
