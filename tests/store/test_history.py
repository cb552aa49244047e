import contextlib
import dataclasses
import itertools
import multiprocessing
import os
import sqlite3
import threading
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st
from support.samples import failed_result, measurement, ok_result

from demo.core.caveat import note
from demo.core.measurement import CompileCost
from demo.core.options import BadInput, RunSpec
from demo.core.outputs import ImageInfo
from demo.store.database import SetAside, open_database
from demo.store.history import FOLDER_VARIABLE, History, HistoryError


def ids(history: History, search: str = "") -> list[str]:
    return [result.id for result in history.all(search=search)]


def test_reading_creates_nothing(history: History) -> None:
    assert history.all() == [] and history.get("x") is None
    assert history.delete(["x"]) == history.count() == 0
    assert not history.path.parent.exists()


def test_what_was_appended_is_read_back_once(history: History) -> None:
    for result in (ok_result(), failed_result()):
        history.append(result)
    with pytest.raises(HistoryError, match="UNIQUE"):
        history.append(ok_result(elapsed_seconds=99.0))
    assert history.all() == [failed_result(), ok_result()] and history.count() == 2
    assert history.get(ok_result().id) == ok_result() and history.get("no such id") is None


def test_what_is_stored_is_on_the_disk_when_the_power_fails(history: History) -> None:
    history.append(ok_result())
    with open_database(history.path, "stored") as database:
        modes = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert modes == [b"wal", 2]  # FULL


def test_the_newest_come_first(history: History) -> None:
    for minute in (2, 0, 1):
        for id in ("b", "a"):
            history.append(ok_result(id=f"{minute}{id}", started_at=f"2026-11-21T09:0{minute}:00Z"))
    assert ids(history) == ["2a", "2b", "1a", "1b", "0a", "0b"]
    assert [result.id for result in history.all(limit=3)] == ["2a", "2b", "1a"]


@pytest.mark.parametrize("broken", [b"", b'{"id": "x"}', b"\xff\xfe", b"null"])
def test_a_row_that_cannot_be_read_never_hides_the_others(broken: bytes, history: History) -> None:
    for id in ("one", "broken", "two"):
        history.append(ok_result(id=id))
    with contextlib.closing(sqlite3.connect(history.path)) as database, database:
        database.execute("UPDATE results SET result = CAST(? AS TEXT) WHERE id = 'broken'", [broken])
    assert ids(history) == ids(history, "shapes") == ["two", "one"]
    assert [result.id for result in history.all(limit=2)] == ["two", "one"]
    with pytest.raises(HistoryError, match="broken"):
        history.get("broken")


@pytest.mark.parametrize("folder", ["file", "x" * 300], ids=["a file", "too long"])
def test_an_impossible_folder_is_an_error_with_the_way_out(folder: str, tmp_path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HistoryError, match=f"set {FOLDER_VARIABLE}"):
        History(tmp_path / folder / "history.sqlite3").append(ok_result())


def test_a_file_damaged_anywhere_loses_no_new_result(tmp_path) -> None:
    """A new result is stored, or lies in a file that is kept, if damage is found only when results are read.

    Or an error says that it is not stored: the damage makes the file read-only, or one of a newer or another program.
    """
    whole = History(tmp_path / "whole.sqlite3")
    for number in range(12):
        whole.append(ok_result(id=f"run {number}"))
    with contextlib.closing(sqlite3.connect(whole.path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = whole.path.read_bytes()
    files = itertools.count()

    @given(st.integers(0, len(content) - 1), st.binary(min_size=1, max_size=200), st.booleans())
    @example(44, b"\xff\xff\xff\xff", False)  # the format of the schema, in the header
    @example(content.index(b"torch TEXT"), b"x", False)  # the name of a column
    @settings(max_examples=80, derandomize=True)
    def damaged(at: int, damage: bytes, cut: bool) -> None:
        history = History(tmp_path / f"{next(files)}.sqlite3")
        history.path.write_bytes(content[:at] + damage + (b"" if cut else content[at + len(damage) :]))
        try:
            history.append(ok_result(id="new"))
        except HistoryError as error:
            assert any(reason in str(error) for reason in ("readonly", "another version", "no such table"))
            return
        try:
            assert "new" in ids(history)
        except SetAside as error:
            (kept,) = tmp_path.glob(f"{history.path.name}.damaged-*")
            assert kept.name in str(error) and b"new" in kept.read_bytes()

    damaged()


def test_a_name_that_is_not_unicode_does_not_lose_the_result(history: History) -> None:
    name = os.fsdecode(b"caf\xe9.png")
    result = ok_result(image=ImageInfo(name, 1, 1, "00", ""))
    history.append(result)
    assert [stored.id for stored in history.all()] == [result.id]


def _write(path: Path, name: int) -> None:
    for number in range(3):
        History(path).append(failed_result(id=f"{name}-{number}"))


@pytest.mark.parametrize("before", [None, b"no database, and long enough " * 99], ids=["none", "damaged"])
def test_processes_that_write_at_once_lose_nothing(before: bytes | None, tmp_path) -> None:
    """In each of three rounds, six processes create the same file at once, or rename the same damaged one."""
    writers = 6
    pool = multiprocessing.get_context("fork").Pool(writers)
    for path in (tmp_path / "first", tmp_path / "second", tmp_path / "third"):
        if before is not None:
            path.write_bytes(before)
        pool.starmap(_write, [(path, name) for name in range(writers)], chunksize=1)
        expected = {f"{name}-{number}" for name in range(writers) for number in range(3)}
        assert {result.id for result in History(path).all()} == expected
    pool.close()  # not terminated: a fork inherits this process's handlers of signals, and one waited for ever
    pool.join()


def test_an_interrupted_run_is_stored_once(history: History) -> None:
    marker = history.begin_run(ok_result(status="interrupted"))
    history.recover()
    assert marker is not None and history.count() == 0  # it goes on
    marker.close()  # as the kernel does when the process dies
    threads = [threading.Thread(target=history.recover) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert history.all() == [ok_result(status="interrupted")]


def test_a_file_is_not_renamed_while_it_is_open(history: History) -> None:
    """When SQLite closes a file, it removes the write-ahead log by its name.

    After a rename that would be the new file's log.
    """
    history.append(ok_result())
    with open_database(history.path, "read"):
        history.path.write_bytes(b"no database, and long enough " * 99)
        other = threading.Thread(target=history.append, args=[failed_result()])
        other.start()
        other.join(0.5)
        assert not list(history.path.parent.glob("*.damaged-*"))
    other.join(20)
    (stored,) = history.all()
    assert stored.id == failed_result().id and "was damaged" in stored.warnings[-1]


def test_an_older_file_is_kept_unchanged(history: History, caplog) -> None:
    history.path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(history.path)) as database, database:
        database.execute("CREATE TABLE results (id TEXT PRIMARY KEY, started_at TEXT, status TEXT, result TEXT)")
        database.execute("PRAGMA user_version = 1")
    older = history.path.read_bytes()
    with pytest.raises(HistoryError, match=r"is of an older version\. It is kept as"):
        history.all()
    assert "is kept as" in caplog.text and history.all() == []
    assert "is of an older version. It is kept as" in history.append(ok_result()).warnings[-1]
    (aside,) = history.path.parent.glob("*.version-1-*")
    assert aside.read_bytes() == older
    assert history.append(failed_result()) == failed_result()


SPEC = RunSpec("shapes-vit", "image-classification", device="cpu")
FREEZING = dataclasses.replace(SPEC, freezing=True, repeats=3)


@pytest.mark.parametrize(
    ("search", "ids_found"),
    [
        ("", ["slow", "frozen", "failed"]),
        ("OWLVIT", ["failed"]),
        ("out_of_memory", ["failed"]),
        ("zebra", ["failed"]),
        ("shapes default cpu", ["slow", "frozen"]),
        ("shapes owlvit", []),
        ("%", []),
        ("freezing shapes-vit", ["frozen"]),
        ("slower", ["slow"]),
    ],
)
def test_a_search_keeps_what_holds_every_word(search: str, ids_found: list[str], history: History) -> None:
    spec = dataclasses.replace(failed_result().spec, text=("a zebra",))
    history.append(failed_result(id="failed", spec=spec, started_at="2026-11-21T08:00:00Z"))
    history.append(ok_result(id="frozen", spec=FREEZING))
    history.append(ok_result(id="slow", spec=SPEC, compiled=measurement(0.004)))
    assert ids(history, search) == ids_found
    assert history.count(search) == len(ids_found)


def test_a_search_of_too_many_words_is_refused(history: History) -> None:
    history.append(ok_result())
    with pytest.raises(BadInput, match=r"at most 20 words\. Given: 1100"):
        history.all(search="a " * 1100)
    assert len(history.all(search="vit " * 20)) == 1


def test_a_search_looks_into_the_newest(history: History, monkeypatch) -> None:
    monkeypatch.setattr("demo.store.history.MAX_SEARCHED", 2)
    for id in ("one", "two", "three"):
        history.append(ok_result(id=id))
    assert ids(history, "shapes") == ["three", "two"]
    assert ids(history) == ["three", "two", "one"]


def test_what_is_deleted_is_gone_from_the_log_beside_the_file(history: History) -> None:
    """SQLite empties the log when the last program closes the file. Here another program still has it open."""
    history.append(failed_result())
    with contextlib.closing(sqlite3.connect(history.path)) as other:
        assert other.execute("SELECT COUNT(*) FROM results").fetchone() == (1,)
        history.append(ok_result(caveats=(note("a very particular sentence"),)))
        assert history.delete([ok_result().id, "never there"]) == 1 and history.all() == [failed_result()]
        files = [file for file in history.path.parent.iterdir() if file.is_file()]
        assert not any(b"a very particular sentence" in file.read_bytes() for file in files)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("XDG_DATA_HOME", "", "HOME/.local/share/worth-compiling"),
        ("XDG_DATA_HOME", "/data/me", "/data/me/worth-compiling"),
        (FOLDER_VARIABLE, "/elsewhere", "/elsewhere"),
    ],
)
def test_results_lie_where_the_user_keeps_data(name, value, expected, tmp_path, monkeypatch):
    for variable in (FOLDER_VARIABLE, "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, value if variable == name else "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(History().path.parent) == expected.replace("HOME", str(tmp_path))


def test_a_compile_cost_is_borrowed_from_the_run_that_measured_it(history: History) -> None:
    cost, result = CompileCost(5.5, {"dynamo": 1.0, "first run": 4.5}), ok_result()
    for id, run_id in (("measured", ""), ("borrowed", "another")):
        compilation = dataclasses.replace(result.compilation, cold=dataclasses.replace(cost, run_id=run_id), warm=None)
        history.append(ok_result(id=id, compilation=compilation))
    assert history.compile_costs(result) == {"cold": [dataclasses.replace(cost, run_id="measured")]}
    other = dataclasses.replace(result.environment, transformers="0.0.1")
    assert history.compile_costs(dataclasses.replace(result, environment=other)) == {}
