"""SQLite's result codes, also where Python does not tell them."""

import sqlite3
from pathlib import Path

import pytest

from demo.store import sqlite_codes


def raised(path: Path, fault: str) -> sqlite3.Error:
    database, other = sqlite3.connect(path, timeout=0), sqlite3.connect(path)
    try:
        if fault == "full":
            database.execute("PRAGMA max_page_count = 2")
        if fault == "read-only":
            database.execute("PRAGMA query_only = 1")
        if fault == "locked":
            other.execute("BEGIN IMMEDIATE")
        if fault == "no table":
            database.execute("SELECT * FROM nothing")
        database.execute("CREATE TABLE t (a UNIQUE)")
        database.executemany("INSERT INTO t VALUES (?)", [("same",), ("same",)])
    except sqlite3.Error as error:
        return error
    raise AssertionError("no error")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("full", sqlite_codes.FULL),
        ("read-only", sqlite_codes.READONLY),
        ("locked", sqlite_codes.BUSY),
        ("no table", sqlite_codes.ERROR),
        ("no database", sqlite_codes.NOTADB),
        ("unique", sqlite_codes.CONSTRAINT),
    ],
)
def test_the_code_of_an_error_with_and_without_pythons_help(fault: str, code: int, tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite3"
    if fault == "no database":
        path.write_bytes(b"not a database, though as long as the header of one is: " * 4)
    error = raised(path, fault)
    assert sqlite_codes.code(error) == code
    assert sqlite_codes.code(type(error)(*error.args)) == code  # as Python 3.10 raises it: text and class only


def test_what_is_not_of_sqlite_has_no_code() -> None:
    assert sqlite_codes.code(OSError("disk I/O")) == sqlite_codes.code(sqlite3.ProgrammingError("closed")) == 0
