"""Finds stored results by words, without reading their JSON.

A result is about 50 kB of JSON, and its columns lie between those of the others. So the columns that are searched,
the verdict and the settings are repeated in a small table, `search_words`. It holds nothing of its own. Each search
first adds the rows that are missing and removes those whose result is gone. So a file of an older version needs no
conversion, and programs of an older version, which do not know the table, can go on using the file.

What is covered:
- A kill while rows are added: they are added in one transaction, all or none; the next search starts again.
- Two searches at once: the second waits a moment for the first.
- A file that cannot be written (read-only, a full disk, its limit, a writer that holds it for long): the search reads
  the JSON of every result instead, as slow as that is.

What is not covered: a program of an older version that removes a result and stores another one under its id between two
searches. The second is then found by the words of the first.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3

from demo.core.errors import BadInput
from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.result import STATUSES
from demo.core.spec import OPTIONS
from demo.store import database as file

MAX_WORDS = 20
"""Of a search. Each is one more term of SQLite's condition, and a thousand are too many for it."""
_WAIT_SECONDS = 2.0
"""For another writer, before the search does without the table."""
_SEARCHED = (
    "id", "started_at", "status", "task", "checkpoint", "mode", "dtype", "device", "weights", "device_name", "torch"
)  # fmt: skip
_WORDS = " || ' ' || ".join(f"COALESCE({column}, '')" for column in _SEARCHED)
_SUMMARY = (
    "id, started_at, checkpoint, status, "
    "CASE WHEN json_valid(result) THEN json_extract(result, '$.speedup.verdict', '$.spec') END AS told, "
    f"lower({_WORDS}) AS words"
)
_TABLE = "CREATE TABLE IF NOT EXISTS search_words (id TEXT PRIMARY KEY, started_at, checkpoint, status, told, words)"
_NOT_SUMMARISED = "NOT EXISTS (SELECT 1 FROM search_words WHERE search_words.id = results.id)"
_REMOVED = "NOT EXISTS (SELECT 1 FROM results WHERE results.id = search_words.id)"

_log = logging.getLogger(__name__)


def _in_all_languages(*keys: str) -> str:
    """These texts in every language, in lower case, without their places for values."""
    texts = " ".join(language.texts[key] for language in LANGUAGES.values() for key in keys)
    return re.sub(r"\{\w+\}", "", texts).lower()


_STATUS_WORDS = {status: _in_all_languages(f"status_{status}") for status in STATUSES}
_VERDICT_WORDS = {
    "faster": _in_all_languages("answer_faster"),
    "slower": _in_all_languages("answer_slower"),
    "same": f"same {_in_all_languages('answer_same')}",
    "unsure": f"unsure {_in_all_languages('unsure_figure', 'unsure_after', 'narrow_figure', 'answer_busy')}",
}
_OPTION_WORDS = {name: _in_all_languages(f"asked_{name}") for name in OPTIONS if f"asked_{name}" in ENGLISH.texts}
"""What the page says of a run, by what is stored."""


def _departs(name: str) -> str:
    """SQL for the runs whose option of this name is not at its default. Older runs lack newer options."""
    default = json.dumps(OPTIONS[name].default)
    return f"(instr(told, '\"{name}\":') > 0 AND instr(told, '\"{name}\":{default}') = 0)"


def condition(search: str) -> tuple[str, list[str]]:
    """SQL for the rows of `source` that hold every word of `search`, and its values. Raises BadInput."""
    words = search.lower().split()
    if len(words) > MAX_WORDS:
        raise BadInput(f"A search has at most {MAX_WORDS} words. Given: {len(words)}. Leave some out.")
    terms = []
    for word in words:
        either = ["instr(words, ?) > 0"]
        either.append("instr(told, ':\"' || ?) > 0")  # the value of an option, such as "layers"
        either += [f"status = '{status}'" for status, text in _STATUS_WORDS.items() if word in text]
        either += [f"told LIKE '[\"{verdict}\"%'" for verdict, text in _VERDICT_WORDS.items() if word in text]
        either += [_departs(name) for name, text in _OPTION_WORDS.items() if word in text]
        terms.append(f"({' OR '.join(either)})")
    values = [word.encode("utf-8", "backslashreplace").decode() for word in words]
    return " AND ".join(terms) or "1", [value for value in values for _ in range(2)]


def source(database: sqlite3.Connection) -> str:
    """What a search selects from: the table, brought up to date, or the results where that cannot be."""
    try:
        if not _is_current(database):
            database.execute(f"PRAGMA busy_timeout = {_WAIT_SECONDS * 1000:.0f}")
            database.execute("PRAGMA max_page_count = 1000000000")  # the limit is for results: this adds 1 % at most
            with file.transaction(database):
                database.execute(_TABLE)
                remove_orphans(database)
                database.execute(
                    f"INSERT INTO search_words SELECT {_SUMMARY} FROM results WHERE {_NOT_SUMMARISED} ORDER BY rowid"
                )
        return "search_words"
    except sqlite3.OperationalError as error:
        _log.info("a search reads every result, because the table of search_words cannot be used: %s", error)
        return f"(SELECT rowid, {_SUMMARY} FROM results)"


def remove_orphans(database: sqlite3.Connection) -> None:
    """Removes the search_words whose result is gone. The file keeps no trace of them."""
    database.execute("PRAGMA secure_delete = ON")
    database.execute("DROP TABLE IF EXISTS summaries")  # of versions before the options could be searched
    if _has_table(database):
        database.execute(f"DELETE FROM search_words WHERE {_REMOVED}")


def _is_current(database: sqlite3.Connection) -> bool:
    if not _has_table(database):
        return False
    return not (_any(database, "results", _NOT_SUMMARISED) or _any(database, "search_words", _REMOVED))


def _has_table(database: sqlite3.Connection) -> bool:
    return _any(database, "sqlite_schema", "name = 'search_words'")


def _any(database: sqlite3.Connection, table: str, where: str) -> bool:
    return database.execute(f"SELECT 1 FROM {table} WHERE {where} LIMIT 1").fetchone() is not None
