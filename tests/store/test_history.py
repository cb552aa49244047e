import contextlib
import dataclasses
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from samples import failed_result, measurement, ok_result

from demo.core.measurement import CompileCost
from demo.core.outputs import ImageInfo
from demo.core.spec import RunSpec
from demo.store.database import FILE_VERSION
from demo.store.history import FOLDER_VARIABLE, History, HistoryError, default_folder
from demo.store.journal import Journal


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "data" / "history.sqlite3")


def _change(history: History, statement: str, *values: object) -> None:
    with sqlite3.connect(history.path) as database:
        database.execute(statement, values)
    database.close()


def test_what_was_appended_is_read_back_failures_too(history: History) -> None:
    assert history.count() == 0
    history.append(ok_result())
    history.append(failed_result())
    assert history.all() == [failed_result(), ok_result()] and history.count() == 2
    assert history.get(ok_result().id) == ok_result() and history.get("no such id") is None


def test_the_newest_come_first_and_of_one_second_those_stored_last_up_to_a_limit(history: History) -> None:
    for minute in (2, 0, 1):
        for id in ("b", "a"):
            history.append(ok_result(id=f"{minute}{id}", started_at=f"2026-11-21T09:0{minute}:00Z"))
    newest = ["2a", "2b", "1a", "1b", "0a", "0b"]
    assert [result.id for result in history.all()] == newest
    assert [result.id for result in history.all(limit=3)] == newest[:3]


def test_the_same_result_twice_is_stored_once(history: History) -> None:
    history.append(ok_result())
    history.append(ok_result())
    assert len(history.all()) == 1


def test_another_result_under_a_taken_id_is_refused_and_the_first_one_stays(history: History) -> None:
    history.append(ok_result())
    with pytest.raises(HistoryError, match="another one with the id"):
        history.append(ok_result(elapsed_seconds=99.0))
    assert history.all() == [ok_result()]


def test_reading_before_anything_was_stored_is_empty_and_creates_nothing(history: History) -> None:
    assert history.all() == []
    assert history.get("x") is None
    assert history.delete(["x"]) == 0
    assert not history.path.parent.exists()


def test_a_row_that_cannot_be_read_never_hides_the_others(history: History, caplog: pytest.LogCaptureFixture) -> None:
    for id in ("one", "broken", "two"):
        history.append(ok_result(id=id))
    for broken in (b"", b"{", b"[]", b'{"id": "x"}', b"\xff\xfe", b'{"status": "ok"}', b"null"):
        _change(history, "UPDATE results SET result = CAST(? AS TEXT) WHERE id = 'broken'", broken)
        caplog.clear()
        assert [result.id for result in history.all()] == ["two", "one"]
        assert [result.id for result in history.all(limit=2)] == ["two", "one"]
        assert "broken" in caplog.text
        assert [result.id for result in history.all(search="shapes")] == ["two", "one"]


def test_asking_for_a_row_that_cannot_be_read_says_so(history: History) -> None:
    history.append(ok_result(id="broken"))
    _change(history, "UPDATE results SET result = '{'")
    with pytest.raises(HistoryError, match="broken"):
        history.get("broken")


def test_the_file_is_in_wal_mode_and_carries_its_version(history: History) -> None:
    history.append(ok_result())
    with sqlite3.connect(history.path) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert database.execute("PRAGMA user_version").fetchone() == (FILE_VERSION,)
    database.close()


def test_a_folder_that_cannot_be_made_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HistoryError, match=f"set {FOLDER_VARIABLE}"):
        History(tmp_path / "file" / "history.sqlite3").append(ok_result())


def test_a_name_that_is_not_unicode_does_not_lose_the_result(history: History) -> None:
    name = os.fsdecode(b"caf\xe9.png")
    result = ok_result(image=ImageInfo(name, 1, 1, "00", ""))
    history.append(result)
    history.append(result)
    assert history.all() == [result]


def _in_a_child(code: str, *arguments: str) -> subprocess.Popen[str]:
    prelude = f"import sys; sys.path[:0] = {[str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]}\n"
    return subprocess.Popen(
        [sys.executable, "-c", prelude + textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _writer(folder: Path, name: int, rounds: int, start: Barrier, problems: SimpleQueue) -> None:
    for round in range(rounds):
        history = History(folder / f"{round}.sqlite3")
        start.wait()
        try:
            for number in range(3):
                history.append(failed_result(id=f"{name}-{number}"))
        except HistoryError as error:
            problems.put(str(error))


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    """The first write creates the file, so each round begins with all of them creating the same one."""
    writers, rounds = 6, 10
    processes = multiprocessing.get_context("fork")
    start, problems = processes.Barrier(writers), processes.SimpleQueue()
    children = [
        processes.Process(target=_writer, args=(tmp_path, name, rounds, start, problems)) for name in range(writers)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert problems.empty(), problems.get()
    expected = {f"{name}-{number}" for name in range(writers) for number in range(3)}
    for round in range(rounds):
        assert {result.id for result in History(tmp_path / f"{round}.sqlite3").all()} == expected


def test_a_full_disk_is_an_error_and_what_was_stored_stays(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    child = _in_a_child(
        """
        import resource, signal
        from pathlib import Path
        from samples import ok_result
        from demo.store.history import History, HistoryError
        history = History(Path(sys.argv[1]))
        history.append(ok_result(id="before"))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            history.append(ok_result(id="after", warnings=("x" * 200_000,)))
        except HistoryError as error:
            print(error)
        """,
        str(path),
    )
    said, errors = child.communicate()
    assert errors == ""
    assert "cannot be stored" in said and "Make room" in said
    assert [result.id for result in History(path).all()] == ["before"]


def test_a_process_killed_right_after_appending_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    child = _in_a_child(
        """
        import os, signal
        from pathlib import Path
        from samples import ok_result
        from demo.store.history import History
        History(Path(sys.argv[1])).append(ok_result())
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        str(path),
    )
    child.communicate()
    assert History(path).all() == [ok_result()]


# ---- runs that were interrupted


RUN = ok_result(status="interrupted", eager=None, compiled=None, control_times=None, predictions=None)
BEGIN = """
    import time
    from pathlib import Path
    from tests.store.test_history import RUN
    from demo.store.history import History
    from demo.store.journal import Journal
    entry = Journal(History(Path(sys.argv[1]))).begin(RUN)
    print("begun", flush=True)
    time.sleep(600)
"""


def test_an_interrupted_run_is_stored_once_however_many_look(history: History) -> None:
    child = _in_a_child(BEGIN, str(history.path))
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    child.kill()
    child.communicate()
    threads = [threading.Thread(target=Journal(history).recover) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert history.all() == [RUN]


def test_a_file_of_version_1_is_read_and_written_on(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    with sqlite3.connect(history.path) as database:
        database.executescript((Path(__file__).parents[1] / "fixtures" / "history_v1.sql").read_text())
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()
    (old,) = history.all()
    assert (old.id, old.status) == ("20260801T120000-0ld0ld", "ok")
    history.append(ok_result())
    assert [result.id for result in history.all()] == [ok_result().id, old.id]


# ---- searching and deleting


def test_a_search_leaves_what_holds_every_word(history: History) -> None:
    history.append(ok_result(id="a", spec=RunSpec("shapes-segformer", "image-segmentation", device="cpu")))
    history.append(failed_result(id="b"))
    for search, found in {
        "": ["b", "a"],
        "segformer": ["a"],
        "OWLVIT": ["b"],
        "out_of_memory": ["b"],
        "2026-11-21": ["b", "a"],
        "shapes default cpu": ["a"],
        "shapes owlvit": [],
        "%": [],
        "' OR 1=1 --": [],
        "2.13.0 example": ["b", "a"],
        "faster": ["a"],
        "slower": [],
        "Out of memory": ["b"],
        "finished": ["a"],
    }.items():
        assert [result.id for result in history.all(search=search)] == found, search
        assert history.count(search) == len(found), search


def test_a_search_knows_what_came_of_a_run_in_every_language(history: History) -> None:
    history.append(ok_result(id="faster"))
    history.append(ok_result(id="slower", compiled=measurement(0.004)))
    history.append(ok_result(id="same", compiled=measurement(0.002)))
    history.append(ok_result(id="failed", status="compile_failed", compiled=None))
    for id, words in {
        "slower": ("slower", "أبطأ"),
        "same": ("no difference", "差なし"),
        "failed": ("did not compile", "编译失败"),
    }.items():
        for word in words:
            assert [result.id for result in history.all(search=word)] == [id], word
    assert history.all(search="{ratio}") == []  # a place for a value is no word


def test_what_is_deleted_is_gone_from_the_log_beside_the_file_while_another_program_has_both_open(
    history: History,
) -> None:
    """The last program that closes the file empties the log; here that is not the one that deletes."""
    history.append(failed_result())
    with contextlib.closing(sqlite3.connect(history.path)) as other:
        assert other.execute("SELECT COUNT(*) FROM results").fetchone() == (1,)
        history.append(ok_result(warnings=("a very particular sentence",)))
        assert history.delete([ok_result().id, "never there"]) == 1 and history.all() == [failed_result()]
        files = [file for file in history.path.parent.iterdir() if file.is_file()]
        assert not any(b"a very particular sentence" in file.read_bytes() for file in files)


def test_the_environment_moves_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "elsewhere"))
    History().append(ok_result())
    assert (tmp_path / "elsewhere" / "history.sqlite3").is_file()


def test_results_lie_where_the_platform_keeps_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = (FOLDER_VARIABLE, "XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    for platform, name, value, expected in (
        ("linux", "", "", "{home}/.local/share/worth-compiling"),
        ("linux", "XDG_DATA_HOME", "/data/me", "/data/me/worth-compiling"),
        ("linux", "XDG_DATA_HOME", "not/absolute", "{home}/.local/share/worth-compiling"),
        ("darwin", "XDG_DATA_HOME", "/data/me", "{home}/Library/Application Support/worth-compiling"),
    ):
        for variable in variables:
            monkeypatch.delenv(variable, raising=False)
        if name:
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "platform", platform)
        assert default_folder() == Path(expected.format(home=tmp_path))


def test_a_compile_cost_is_borrowed_from_a_run_with_the_same_versions_only(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    result = ok_result()
    history.append(
        dataclasses.replace(result, compilation=dataclasses.replace(result.compilation, warm=None, cold=COST))
    )
    assert history.compile_costs(result) == {"cold": dataclasses.replace(COST, run_id=result.id)}
    for name in ("torch", "transformers"):
        other = dataclasses.replace(result.environment, **{name: "0.0.1"})
        assert history.compile_costs(dataclasses.replace(result, environment=other)) == {}


def test_a_borrowed_compile_cost_is_not_lent_further(tmp_path: Path) -> None:
    """It would be named after a run that did not measure it."""
    history = History(tmp_path / "history.sqlite3")
    borrowed = dataclasses.replace(COST, run_id="another")
    compilation = dataclasses.replace(ok_result().compilation, cold=borrowed, warm=None)
    history.append(ok_result(compilation=compilation))
    assert history.compile_costs(ok_result()) == {}


COST = CompileCost(5.5, {"dynamo": 1.0, "first run": 4.5})


@pytest.mark.parametrize("use", [History.all, History.count, lambda history: history.get("x")])
def test_a_folder_whose_name_no_system_takes_is_a_sentence(tmp_path: Path, use: Any) -> None:
    with pytest.raises(HistoryError, match=f"File name too long. Allow writing .*, or set {FOLDER_VARIABLE}"):
        use(History(tmp_path / ("x" * 300) / "history.sqlite3"))
