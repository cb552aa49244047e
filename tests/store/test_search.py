"""A search reads no stored JSON. What it finds is held in test_history.py."""

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from samples import failed_result, measurement, ok_result

from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.store import search as searches
from demo.store.history import History

SEARCHES = [
    "slower",
    "FASTER vit",
    "out of memory",
    "差なし",
    "2026-11-21 default",
    "interrupted",
    "nothing-like-it",
    "",
]


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "history.sqlite3")
    for number in range(4):
        history.append(ok_result(id=f"faster-{number}"))
        history.append(ok_result(id=f"slower-{number}", compiled=measurement(0.004)))
        history.append(failed_result(id=f"failed-{number}"))
    return history


def found(history: History) -> list[list[str]]:
    return [[result.id for result in history.all(search=search)] for search in SEARCHES]


def test_a_search_looks_into_no_stored_json(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[bytes] = []
    made = sqlite3.connect

    def is_json(text: bytes) -> bool:
        texts.append(text)
        return True

    def counting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        database = made(*arguments, **options)
        database.create_function("json_valid", 1, is_json, deterministic=True)
        return database

    monkeypatch.setattr(sqlite3, "connect", counting)
    found(history)
    assert history.count("slower") == 4 and texts == []
    history.append(ok_result(id="one more", compiled=measurement(0.004)))
    assert history.count("slower") == 5 and len(texts) == 1


def test_a_search_parses_no_more_results_than_it_gives(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    from_json = RunResult.from_json
    monkeypatch.setattr(RunResult, "from_json", lambda data: parsed.append(data["id"]) or from_json(data))
    for number in range(3):  # not yet read by any test
        history.append(ok_result(id=f"unread-{number}-{history.path.parent}", compiled=measurement(0.004)))
    results = history.each(search="slower unread")
    assert next(results).id.startswith("unread-2") and len(parsed) == 1
    assert history.count("slower unread") == 3 and len(parsed) == 1
    assert [result.id[:8] for result in results] == ["unread-1", "unread-0"] and len(parsed) == 3


def test_a_file_without_the_index_is_searched_all_the_same_and_gets_it_with_the_next_result(history: History) -> None:
    """As one of an older version, whose program also adds and deletes results."""
    expected = found(history)
    with closing(sqlite3.connect(history.path)) as database, database:
        database.execute("DROP INDEX results_by_words")
        assert searches.source(database) == "results"
    assert found(history) == expected
    assert [history.count(search) for search in SEARCHES] == [len(ids) for ids in expected]
    history.append(ok_result(id="the next one"))
    with closing(sqlite3.connect(history.path)) as database:
        assert "INDEXED BY" in searches.source(database)


def test_a_run_is_found_by_the_options_that_its_row_shows(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    spec = RunSpec("shapes-vit", "image-classification", device="cpu")
    history.append(ok_result(id="plain", spec=spec))
    changes: dict[str, dict[str, Any]] = {
        "freezing": {"freezing": True},
        "freezing shapes-vit": {"freezing": True},
        "layers": {"scope": "layers"},
        "graph breaks": {"graph_break": True},
        "repeats": {"repeats": 3},
        "aot": {"compiler": "aot"},
        "dynamic": {"dynamic": "on"},
    }
    for search, change in changes.items():
        history.append(ok_result(id=search, spec=dataclasses.replace(spec, **change)))
        assert search in [one.id for one in history.each(search=search)]
        assert "plain" not in [one.id for one in history.each(search=search)]
