"""Tests that break a worker, a file or the app. The run still ends in a stored result, or says why it is not stored.

The next run works.
"""

import contextlib
import errno
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from support.samples import failed_result, ok_result
from support.worker_processes import needs_linux, processes_with, wait_until

from demo.core import catalog, limits
from demo.core.result import RunResult
from demo.runs.earlier import store
from demo.runs.process import child_process
from demo.runs.runner import Runner
from demo.store.history import FOLDER_VARIABLE, History, HistoryError

ROOT = Path(__file__).resolve().parent.parent
SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
SPEC = catalog.make_spec("shapes-vit", iterations=10)
QUICK = "tests.support.quick_worker"


@pytest.fixture
def run(history: History, monkeypatch) -> Iterator[Callable[..., RunResult]]:
    """Yields a function that makes a run whose worker has the named fault, and returns the result."""
    runner = Runner(history, worker_module=QUICK)

    def result_with(fault: str = "") -> RunResult:
        monkeypatch.setenv("FAULT", fault)
        *_, result = runner.run(SPEC, SCENE)
        return result

    yield result_with
    runner.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# ---- what a worker does to its runner


@needs_linux
def test_a_worker_that_breaks_is_a_stored_crash(run, history, tmp_path, monkeypatch):
    """The worker leaves no file, process or descriptor, and no marker of a run in progress. The next run works."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    marker = f"TRUST_MARKER={tmp_path}"
    monkeypatch.setenv(*marker.split("="))
    run()
    before = descriptors()
    for fault, says in [
        ("half a message", "ended with exit code 0"),
        ("the result of another run", "sent a message that cannot be read"),
        ("SIGSEGV", "killed by signal SIGSEGV"),
        ("leaves files and a child that holds the pipe", "killed by signal SIGKILL"),
    ]:
        result = run(fault)
        assert (result.status, result.failure.stage) == ("crashed", "compile"), fault
        assert says in result.failure.message and result.failure.remedy, fault
        assert history.get(result.id) == result
    assert run().status == "ok"
    wait_until(lambda: not processes_with(marker), seconds=20)
    wait_until(lambda: descriptors() <= before)  # the listening threads close their pipes by themselves
    left = [path.name for path in (tmp_path / "temp").iterdir()]
    assert [name for name in left if not name.startswith("torchinductor_")] == []  # that is torch's cache, for all runs
    assert list((tmp_path / "data").glob("*.running/*")) == []


@needs_linux
def test_when_memory_runs_out_linux_ends_the_worker_first() -> None:
    with child_process(QUICK, "1") as child:
        assert Path(f"/proc/{child.pid}/oom_score_adj").read_text().strip() == "1000"


def test_a_workers_words_are_printable_without_folders(run: Any) -> None:
    result = run("paths and control characters")
    words = f"{result.failure.message} {result.failure.remedy} {result.warnings}"
    assert not any(part in words for part in ("/home", "secret", "/etc", "~", "\x1b", "\x07"))
    assert "file.py" in words and "passwd" in words


@needs_linux
@pytest.mark.parametrize(
    ("function", "code", "remedy"),
    [("subprocess.Popen", errno.EAGAIN, ""), ("tempfile.mkdtemp", errno.ENOSPC, "TMPDIR")],
)
def test_a_worker_that_cannot_be_started_is_a_stored_result(
    function, code, remedy, run, history, monkeypatch, tmp_path
):
    """The run leaves no file and no descriptor, and the next run works."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = descriptors()
    with monkeypatch.context() as broken:
        broken.setattr(function, Mock(side_effect=OSError(code, os.strerror(code))))
        result = run()
    assert f"No worker process could be started: {os.strerror(code)}" in result.failure.message
    assert remedy in result.failure.remedy
    assert history.get(result.id) == result
    assert not list(tmp_path.glob("worth-compiling-*")) and descriptors() <= before
    assert run().status == "ok"


# ---- the app's end


APP = f"""
import sys
from pathlib import Path
from demo.core import catalog
from demo.runs.runner import Runner
from demo.store.history import History
history, spec = History(Path(sys.argv[1])), catalog.make_spec("shapes-vit", iterations=10_000)
endless, scene = "tests.support.endless_import", Path({str(SCENE)!r})
"""
WORK = {
    "a run that compiles": ("cc1plus", "list(Runner(history, spare=True).run(spec, scene))"),
    "a run that imports": ("endless", "list(Runner(history, worker_module=endless).run(spec, scene))"),
}
"""For each state of the app when it is killed: words in the command line of one of its processes, and the app's
code."""


@needs_linux
@pytest.mark.parametrize("what", WORK)
def test_nothing_outlives_an_app_that_is_killed(what: str, history: History, tmp_path) -> None:
    """No process and no folder is left, and the app's run is stored as interrupted.

    One of the cases is a real worker with an empty cache, whose compiler is at work."""
    program, code = WORK[what]
    marker, temporary = f"KILLED_APP={tmp_path}", tmp_path / "temporary"
    temporary.mkdir()
    environment = {"KILLED_APP": str(tmp_path), "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    environment |= {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "TORCHINDUCTOR_WORKER_START": "subprocess"}
    app = subprocess.Popen([sys.executable, "-c", APP + code, str(history.path)], env=os.environ | environment)

    def at_work() -> bool:
        """Returns whether the app, its worker, the worker's watcher and `program` run."""
        pids = processes_with(marker)
        with contextlib.suppress(OSError):  # one has just ended
            return len(pids) >= 3 and any(program in Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)
        return False

    try:
        wait_until(at_work)
        assert list(temporary.glob("worth-compiling-*"))
    finally:
        app.kill()
        app.wait()
    wait_until(lambda: not processes_with(marker), seconds=20)
    assert not list(temporary.glob("worth-compiling-*"))
    assert history.all() == []
    for _ in range(2):
        Runner(history).close()
    (result,) = history.all()
    assert result.status == "interrupted" and "app was ended in the middle" in result.failure.message
    assert list(history.running.glob("*")) == []


def test_a_stored_run_leaves_no_note_of_itself(history: History, monkeypatch) -> None:
    entry = history.begin_run(failed_result(id="one"))
    history.append(ok_result(id="one"))
    entry.close()  # as the end of a process does that was killed between storing and ending the run
    history.recover()
    assert [result.status for result in history.all()] == ["ok"]
    assert list(history.running.iterdir()) == []
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    assert history.begin_run(failed_result()) is None  # a full disk leaves no half note
    assert list(history.running.iterdir()) == []


# ---- the file of results

THEIR_TABLES = "ALTER TABLE results RENAME TO mine; CREATE TABLE summaries (text); PRAGMA user_version = 0"
"""SQL that makes a valid file of another program, whose version is SQLite's default."""


DAMAGE = {
    "another file": lambda data: b"not a database, and long enough to be looked at" * 100,
    "its middle": lambda data: data[:4096] + b"\xa5" * (len(data) - 8192) + data[-4096:],
    "cut short": lambda data: data[: len(data) // 2],
}
"""Functions that damage the bytes of the file, as a bad disk or a wrong copy would."""


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_kept_aside_and_a_new_one_started(damage: Callable[[bytes], bytes], history: History) -> None:
    for number in range(13):
        history.append(ok_result(id=f"old {number}"))
    with contextlib.closing(sqlite3.connect(history.path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damaged = damage(history.path.read_bytes())
    history.path.write_bytes(damaged)
    with contextlib.suppress(HistoryError):
        history.all()  # the page's list of results has met the damage
    result = store(ok_result(), history)
    (warning,) = result.warnings
    assert "was damaged" in warning and str(history.path.parent) not in warning
    assert history.all() == [result]
    (aside,) = history.path.parent.glob("*.damaged-*")
    assert aside.read_bytes() == damaged and aside.name in warning
    assert store(failed_result(), history).warnings == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("PRAGMA user_version = 4", r"another version.* \(format 4, this one knows 3\).* move the file away"),
        (THEIR_TABLES, r"another program.* \(format 0, this one knows 3\).* move the file away"),
        (f"{THEIR_TABLES}; PRAGMA user_version = 3", r"no such table: results\..* or move the file away"),
        (
            "CREATE TRIGGER no BEFORE INSERT ON results BEGIN SELECT RAISE(ABORT, 'not today'); END",
            r"not today\. .* or move the file away",
        ),
    ],
    ids=["a future version", "another program's", "another program's with our version", "a trigger"],
)
def test_a_sound_file_that_is_not_for_us_is_left_as_it_is(change: str, says: str, history: History) -> None:
    history.append(ok_result())
    with contextlib.closing(sqlite3.connect(history.path)) as database:
        database.executescript(change)
        kept = list(database.iterdump())
        with pytest.raises(HistoryError, match=says) as refused:
            history.append(failed_result())
        with contextlib.suppress(HistoryError):
            history.delete(["no such"])
        assert list(database.iterdump()) == kept
    assert f"set {FOLDER_VARIABLE} to another folder" in str(refused.value)
    assert [file.name for file in history.path.parent.iterdir()] == [history.path.name]


def test_a_history_at_its_limit_keeps_what_it_has_and_says_so(history: History, monkeypatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(history_bytes=200_000))
    stored = 0
    with pytest.raises(HistoryError, match="disk is full"):
        for number in range(100):
            history.append(ok_result(id=str(number)))
            stored += 1
    assert 3 < stored == history.count()
    (warning,) = store(ok_result(), history).warnings
    assert "not stored" in warning and history.count() == stored
    assert history.delete(["0", "1"]) == 2
    assert store(ok_result(), history).warnings == []
    assert history.count() == stored - 1
