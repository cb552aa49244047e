"""A search reads no stored JSON twice, whoever wrote the file. What it finds is held in test_history.py."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from samples import failed_result, measurement, ok_result

from demo.core.result import RunResult
from demo.core.spec import RunSpec
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


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., sqlite3.Connection]], None]:
    """Replaces `sqlite3.connect` by what is given."""
    return lambda made: monkeypatch.setattr(sqlite3, "connect", made)


@pytest.fixture
def looked_into(connect: Any) -> list[bytes]:
    """The JSON texts that SQLite parses, one after another."""
    texts: list[bytes] = []
    made = sqlite3.connect

    def is_json(text: bytes) -> bool:
        texts.append(text)
        return True

    def counting(*arguments: Any, **options: Any) -> sqlite3.Connection:
        database = made(*arguments, **options)
        database.create_function("json_valid", 1, is_json, deterministic=True)
        return database

    connect(counting)
    return texts


def found(history: History) -> list[list[str]]:
    return [[result.id for result in history.all(search=search)] for search in SEARCHES]


def test_only_the_first_search_looks_into_the_stored_json(history: History, looked_into: list[bytes]) -> None:
    assert history.count("slower") == 4
    assert len(looked_into) == 12
    found(history)
    assert len(looked_into) == 12
    history.append(ok_result(id="one more", compiled=measurement(0.004)))
    assert history.count("slower") == 5
    assert len(looked_into) == 13


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


def test_a_program_of_an_older_version_may_use_the_file(history: History) -> None:
    """It knows the table of results only, or searches a table of its own, whose rows must not outlive a result."""
    before = found(history)
    with closing(sqlite3.connect(history.path)) as database, database:
        names = [column[0] for column in database.execute("SELECT * FROM results LIMIT 0").description]
        row = dict(zip(names, database.execute("SELECT * FROM results WHERE id = 'slower-3'").fetchone(), strict=True))
        row |= {"id": "of the older one", "result": json.dumps(json.loads(row["result"]) | {"id": "of the older one"})}
        database.execute(f"INSERT INTO results VALUES ({', '.join('?' * len(row))})", list(row.values()))
        database.execute("DELETE FROM results WHERE id IN ('faster-1', 'slower-1')")
        database.execute("CREATE TABLE search_words AS SELECT id FROM results")
    gone = {"faster-1", "slower-1"}
    older = [[id for id in ids if id not in gone] for ids in before]
    assert [[id for id in ids if id != "of the older one"] for ids in found(history)] == older
    assert history.all(search="slower")[0].id == "of the older one" and history.count("slower") == 4
    history.delete(["of the older one"])
    assert b"of the older one" not in b"".join(path.read_bytes() for path in history.path.parent.iterdir())


def _read_only(connect: Any, _: History) -> None:
    made = sqlite3.connect
    connect(lambda address, **options: made(address.replace("mode=rw", "mode=ro"), **options))


def _held_by_a_writer(connect: Any, history: History) -> Iterator[None]:
    with closing(sqlite3.connect(history.path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.parametrize("hinder", [_read_only, _held_by_a_writer])
def test_a_file_that_cannot_be_written_is_searched_all_the_same(
    hinder: Callable[..., Any], history: History, tmp_path: Path, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo.store.search._WAIT_SECONDS", 0.01)
    (tmp_path / "copy").mkdir()
    copy = History(tmp_path / "copy" / "history.sqlite3")
    for result in reversed(history.all()):
        copy.append(result)
    expected = found(copy)
    hindrance = hinder(connect, history)
    if hindrance is not None:
        next(hindrance)
    assert found(history) == expected
    assert [history.count(search) for search in SEARCHES] == [len(ids) for ids in expected]


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
