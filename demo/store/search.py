"""Finds stored results by words, without reading their JSON.

A result is about 50 kB of JSON, so an index holds what is searched: some columns, the verdict and the settings. SQLite
keeps it in step with the results, whichever program writes them. A file without it gets it with the next result that is
stored; until then a search reads the JSON of every result.
"""

import json
import re
import sqlite3

from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.result import STATUSES
from demo.core.spec import OPTIONS, BadInput

MAX_WORDS = 20
"""Each word of a search is a term of SQLite's condition, and a thousand are too many for it."""
_SEARCHED = (
    "id", "started_at", "status", "task", "checkpoint", "mode", "dtype", "device", "weights", "device_name", "torch"
)  # fmt: skip
_JOINED = " || ' ' || ".join(f"COALESCE({column}, '')" for column in _SEARCHED)
_WORDS = f"lower({_JOINED})"
_TOLD = "CASE WHEN json_valid(result) THEN json_extract(result, '$.speedup.verdict', '$.spec') END"
_INDEX = "results_by_words"
MAKE_INDEX = f"CREATE INDEX IF NOT EXISTS {_INDEX} ON results (started_at, id, status, {_WORDS}, {_TOLD})"


def _in_all_languages(*keys: str) -> str:
    """These texts in every language, in lower case, without their places for values."""
    texts = " ".join(language.texts[key] for language in LANGUAGES.values() for key in keys)
    return re.sub(r"\{\w+\}", "", texts).lower()


_STATUS_WORDS = {status: _in_all_languages(f"status_{status}") for status in STATUSES}
_VERDICT_WORDS = {
    "faster": _in_all_languages("answer_faster"),
    "slower": _in_all_languages("answer_slower"),
    "same": f"same {_in_all_languages('answer_same')}",
    "unsure": f"unsure {_in_all_languages('answer_unsure', 'answer_narrow', 'answer_busy')}",
}
_OPTION_WORDS = {
    name: _in_all_languages(key if (key := f"asked_{name}") in ENGLISH.texts else name)
    for name, option in OPTIONS.items()
    if f"asked_{name}" in ENGLISH.texts or option.kind == "switch"
}
"""What the page says of a run, by what is stored."""


def _departs(name: str) -> str:
    """SQL for the runs whose option of this name is not at its default. Older runs lack newer options."""
    default = json.dumps(OPTIONS[name].default)
    return f"(instr({_TOLD}, '\"{name}\":') > 0 AND instr({_TOLD}, '\"{name}\":{default}') = 0)"


def condition(search: str) -> tuple[str, list[str]]:
    """SQL for the rows of `source` that hold every word of `search`, and its values. Raises BadInput."""
    words = search.lower().split()
    if len(words) > MAX_WORDS:
        raise BadInput(f"A search has at most {MAX_WORDS} words. Given: {len(words)}. Leave some out.")
    terms = []
    for word in words:
        either = [f"instr({_WORDS}, ?) > 0"]
        either.append(f"instr({_TOLD}, ':\"' || ?) > 0")  # the value of an option, such as "layers"
        either += [f"status = '{status}'" for status, text in _STATUS_WORDS.items() if word in text]
        either += [f"{_TOLD} LIKE '[\"{verdict}\"%'" for verdict, text in _VERDICT_WORDS.items() if word in text]
        either += [_departs(name) for name, text in _OPTION_WORDS.items() if word in text]
        terms.append(f"({' OR '.join(either)})")
    values = [word.encode("utf-8", "backslashreplace").decode() for word in words]
    return " AND ".join(terms) or "1", [value for value in values for _ in range(2)]


def source(database: sqlite3.Connection) -> str:
    """What a search selects from: the results by the index, where the file has it."""
    found = database.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (_INDEX,)).fetchone()
    return f"results INDEXED BY {_INDEX}" if found else "results"
