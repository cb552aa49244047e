"""Whatever breaks, a run ends in a stored result with a clear sentence, and the next one works. Faults are injected."""

import contextlib
import ctypes
import errno
import os
import random
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from samples import failed_result, ok_result

from demo.core import catalog, limits
from demo.core.files import memory_told
from demo.core.result import RunResult
from demo.runs import outcome
from demo.runs.environment import worker_environment
from demo.runs.process import child_process
from demo.runs.runner import Runner
from demo.store import database as database_file
from demo.store.history import FOLDER_VARIABLE, History, HistoryError, SetAside

ROOT = Path(__file__).resolve().parent.parent
SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
SPEC = catalog.make_spec("shapes-vit", iterations=10)
QUICK = "tests.quick_worker"
needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.fixture
def faulty(history: History, monkeypatch) -> Iterator[Callable[..., Runner]]:
    """A runner whose workers have the named fault; the fault can be named anew for the next run."""
    made = []

    def make(fault: str, **options: Any) -> Runner:
        monkeypatch.setenv("FAULT", fault)
        made.append(Runner(history, worker_module=QUICK, timeout_seconds=30, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def last(runner: Runner) -> RunResult:
    *_, result = runner.run(SPEC, SCENE)
    return result


def processes_with(marker: str) -> list[int]:
    """Living processes whose environment holds `marker`: a worker's whole family, whatever it became."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker.encode() in (folder / "environ").read_bytes() and not is_zombie(folder):
                found.append(int(folder.name))
    return found


def is_zombie(folder: Path) -> bool:
    return (folder / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"


def gone(marker: str) -> bool:
    """Whether no process is left that carries the marker, once they have had time to die on a busy machine."""
    wait_until(lambda: not processes_with(marker), seconds=20)
    return True


# ---- what a worker does to its runner


@needs_linux
def test_a_worker_that_breaks_is_a_stored_crash_the_next_run_works_and_nothing_is_left_over(
    faulty: Any, history: History, tmp_path, monkeypatch
) -> None:
    """No file, process or descriptor, and no note of the run under way."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    marker = f"TRUST_MARKER={tmp_path}"
    monkeypatch.setenv(*marker.split("="))
    with child_process(QUICK, "1") as child:  # whom Linux ends first when memory runs out
        assert Path(f"/proc/{child.pid}/oom_score_adj").read_text().strip() == "1000"
    runner = faulty("")
    last(runner)
    before = descriptors()
    for fault, says in [
        ("half a message", "ended with exit code 0"),
        ("no JSON", "sent a message that cannot be read"),
        ("the result of another run", "sent a message that cannot be read"),
        ("exit code 3", "ended with exit code 3"),
        ("SIGSEGV", "killed by signal SIGSEGV"),
        ("temporary files left over", "killed by signal SIGKILL"),
        ("a child that holds the pipe", "killed by signal SIGKILL"),
    ]:
        monkeypatch.setenv("FAULT", fault)
        result = last(runner)
        assert (result.status, result.failure.stage) == ("crashed", "compile"), fault
        assert says in result.failure.message and result.failure.remedy, fault
        assert history.get(result.id) == result
    monkeypatch.setenv("FAULT", "")
    assert last(runner).status == "ok"
    assert gone(marker)
    wait_until(lambda: descriptors() <= before)  # the listening threads close their pipes by themselves
    left = [path.name for path in (tmp_path / "temp").iterdir()]
    assert [name for name in left if not name.startswith("torchinductor_")] == []  # that is torch's cache, for all runs
    assert list((tmp_path / "data").glob("*.running/*")) == []


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_what_a_worker_says_carries_neither_folders_nor_control_characters(faulty: Any) -> None:
    result = last(faulty("paths and control characters"))
    told = f"{result.failure.message} {result.failure.remedy} {result.warnings}"
    assert "/home" not in told and "secret" not in told and "/etc" not in told and "~" not in told
    assert "file.py" in told and "passwd" in told
    assert "\x1b" not in told and "\x07" not in told


def test_a_worker_that_cannot_be_started_is_a_stored_result_and_leaves_no_file(
    faulty: Any, history: History, monkeypatch, tmp_path
) -> None:
    runner = faulty("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = descriptors() if sys.platform.startswith("linux") else 0
    for what, code in (
        ("subprocess.Popen", errno.EAGAIN),
        ("tempfile.mkdtemp", errno.ENOSPC),
        ("tempfile.TemporaryFile", errno.ENOSPC),
    ):
        with monkeypatch.context() as broken:
            broken.setattr(what, Mock(side_effect=OSError(code, os.strerror(code))))
            result = last(runner)
        assert (result.status, result.failure.stage) == ("failed", "start")
        assert f"No worker process could be started: {os.strerror(code)}" in result.failure.message
        assert code != errno.ENOSPC or "TMPDIR" in result.failure.remedy
        assert history.get(result.id) == result
        assert not list(tmp_path.glob("worth-compiling-*"))
        assert not sys.platform.startswith("linux") or descriptors() <= before
    assert last(faulty("")).status == "ok"


# ---- the app's end


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


APP = f"""
import sys
from pathlib import Path
from demo.core import catalog
from demo.runs.runner import Runner
from demo.store.history import History
history, spec = History(Path(sys.argv[1])), catalog.make_spec("shapes-vit", iterations=10_000)
endless, scene = "tests.endless_import", Path({str(SCENE)!r})
"""
WORK = {
    "a run that compiles": ("cc1plus", "list(Runner(history, spare=True).run(spec, scene))"),
    "a run that imports": ("endless", "list(Runner(history, worker_module=endless).run(spec, scene))"),
}
"""What an app does when it is killed, and what the command line of one of its processes holds by then."""


@needs_linux
@pytest.mark.parametrize("what", WORK)
def test_no_process_and_no_folder_outlives_an_app_that_is_killed_and_its_run_is_stored_as_interrupted(
    what: str, history: History, tmp_path
) -> None:
    """The first is the real worker over an empty cache, with inductor's compiler at work."""
    held, code = WORK[what]
    marker, temporary = f"KILLED_APP={tmp_path}", tmp_path / "temporary"
    temporary.mkdir()
    environment = {"KILLED_APP": str(tmp_path), "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    environment |= {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "TORCHINDUCTOR_WORKER_START": "subprocess"}
    app = subprocess.Popen([sys.executable, "-c", APP + code, str(history.path)], env=os.environ | environment)

    def at_work() -> bool:
        """The app, its process and the watcher of that, and whatever compiles."""
        found = processes_with(marker)
        with contextlib.suppress(OSError):  # one has just ended
            return len(found) >= 3 and any(held in Path(f"/proc/{pid}/cmdline").read_text() for pid in found)
        return False

    try:
        wait_until(at_work)
        assert list(temporary.glob("worth-compiling-*"))
    finally:
        app.kill()
        app.wait()
    assert gone(marker)
    assert not list(temporary.glob("worth-compiling-*"))
    assert history.all() == []
    for _ in range(2):
        Runner(history).close()
    assert [result.status for result in history.all()] == ["interrupted"] * ("a run" in what)
    assert all("app was ended in the middle" in result.failure.message for result in history.all())
    assert list(history.running.glob("*")) == []


def test_a_run_under_way_leaves_no_note_once_it_is_stored_or_where_the_disk_is_full(
    history: History, monkeypatch
) -> None:
    entry = history.begin_run(failed_result(id="one"))
    history.append(ok_result(id="one"))
    entry.close()  # as a process's end does, that was killed between storing and ending the run
    assert history.recover() == 0
    assert history.get("one").status == "ok"
    assert list(history.running.iterdir()) == []
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    assert history.begin_run(failed_result()) is None
    assert list(history.running.iterdir()) == []


@needs_linux
@pytest.mark.parametrize("start", [["-m", "demo", "list"], ["app.py"]], ids=["command", "page"])
def test_a_start_without_memory_ends_in_one_sentence(start: list[str]) -> None:
    command = f"ulimit -v 60000 && exec {shlex.join([sys.executable, *start])}"
    ended = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Memory ran out. End other programs") and ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("algos.so: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    ],
    ids=["Python's", "an import", "a thread", "the system's"],
)
def test_an_error_for_want_of_memory_is_told_as_one(error: Exception) -> None:
    with pytest.raises(SystemExit, match="Memory ran out"), memory_told():
        raise error


def test_another_error_of_the_start_keeps_its_traceback() -> None:
    with pytest.raises(ImportError, match="no module"), memory_told():
        raise ImportError("no module named gradio")


# ---- the file of results

THEIR_TABLES = """
ALTER TABLE results RENAME TO mine;
CREATE TABLE summaries (text);
PRAGMA user_version = 0
"""
"""A sound file of another program, whose version is SQLite's default."""


def corrupt(history: History, how: str) -> None:
    """Damages the file as a bad disk or a wrong copy would."""
    for number in range(13):
        history.append(ok_result(id=f"old {number}"))
    with contextlib.closing(sqlite3.connect(history.path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = history.path.read_bytes()
    damage = {
        "another file": b"not a database, and long enough to be looked at" * 100,
        "its middle": data[:4096] + b"\xa5" * (len(data) - 8192) + data[-4096:],
        "cut short": data[: len(data) // 2],
        "cut to nothing": b"",
    }
    history.path.write_bytes(damage.get(how, data))


@pytest.mark.parametrize("how", ["another file", "its middle", "cut short", "cut to nothing"])
def test_a_damaged_file_is_kept_aside_a_new_one_started_and_said_so(how: str, history: History) -> None:
    corrupt(history, how)
    damaged = history.path.read_bytes()
    with contextlib.suppress(HistoryError):
        history.all()  # the page's list of results has met the damage
    result = outcome.store(ok_result(), history)
    (told,) = result.warnings
    assert "was damaged" in told and "kept as" in told and "new one" in told
    assert str(history.path.parent) not in told
    assert history.all() == [ok_result()]
    (aside,) = history.path.parent.glob("*.damaged-*")
    assert aside.read_bytes() == damaged and aside.name in told
    assert outcome.store(failed_result(), history).warnings == []


def test_whatever_is_wrong_with_the_file_every_call_works_or_says_so_and_the_next_result_is_stored(tmp_path) -> None:
    """Bytes at random places, the header and the table's description more often than others.

    Where SQLite finds no damage in what is left, the file is as good as another program's: it is left alone.
    """
    whole = History(tmp_path / "whole" / "history.sqlite3")
    for number in range(3):
        whole.append(ok_result(id=str(number)))
    with contextlib.closing(sqlite3.connect(whole.path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    good = whole.path.read_bytes()
    chance = random.Random(20261121)
    found_damaged = stored = 0
    for round in range(100):
        data = bytearray(good)
        first, end = chance.choice([(16, 100), (2400, 4096), (0, len(data))])
        for _ in range(chance.choice([1, 1, 3, 30])):
            data[chance.randrange(first, end)] = chance.randrange(256)
        history = History(tmp_path / f"{round}" / "history.sqlite3")
        history.path.parent.mkdir()
        history.path.write_bytes(data)
        calls = {"all": (), "count": ("vit",), "get": ("1",), "compile_costs": (ok_result(),), "delete": (["2"],)}
        for call in chance.sample(sorted(calls), 2):
            try:
                getattr(history, call)(*calls[call])
            except SetAside:
                found_damaged += 1
            except HistoryError:
                pass
        try:
            history.append(failed_result(id="new"))
        except HistoryError as told:
            assert "move the file away" in str(told) and not isinstance(told, SetAside)
            assert not list(history.path.parent.glob("*.damaged-*"))
        else:
            stored += 1
            assert history.get("new") == failed_result(id="new")
    assert found_damaged > 25 and stored > 75


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("PRAGMA user_version = 4", r"another version.* \(format 4, this one knows 3\).* move the file away"),
        (THEIR_TABLES, r"another program.* \(format 0, this one knows 3\).* move the file away"),
        (f"{THEIR_TABLES}; PRAGMA user_version = 1", r"another program.* \(format 1, .* move the file away"),
        (f"{THEIR_TABLES}; PRAGMA user_version = 3", r"no such table: results\..* or move the file away"),
        (
            f"DROP TABLE results; {database_file.TABLE.replace('mode', 'more TEXT NOT NULL, mode', 1)}",
            r"NOT NULL constraint failed.* or move the file away",
        ),
        (
            "CREATE TRIGGER no BEFORE INSERT ON results BEGIN SELECT RAISE(ABORT, 'not today'); END",
            r"not today\. .* or move the file away",
        ),
    ],
    ids=[
        "a future version",
        "another program's",
        "another program's with our older version",
        "another program's with our version",
        "a further column",
        "a trigger",
    ],
)
def test_a_sound_file_that_is_not_for_us_is_left_as_it_is_and_told_so(change: str, says: str, history: History) -> None:
    history.append(ok_result())
    with contextlib.closing(sqlite3.connect(history.path)) as database:
        database.executescript(change)
        kept = list(database.iterdump())
        with pytest.raises(HistoryError, match=says) as told:
            history.append(failed_result())
        with contextlib.suppress(HistoryError):
            history.delete(["no such"])
        assert list(database.iterdump()) == kept
    assert not isinstance(told.value, SetAside)
    assert f"set {FOLDER_VARIABLE} to another folder" in str(told.value)
    assert [file.name for file in history.path.parent.iterdir()] == [history.path.name]


def test_a_history_at_its_limit_keeps_what_it_has_and_says_so(history: History, monkeypatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(history_bytes=200_000))
    stored = 0
    with pytest.raises(HistoryError, match=r"disk is full\..* raise WORTH_COMPILING_HISTORY_MB"):
        for number in range(100):
            history.append(ok_result(id=str(number)))
            stored += 1
    assert 3 < stored == history.count()
    (told,) = outcome.store(ok_result(), history).warnings
    assert "not stored" in told and "WORTH_COMPILING_HISTORY_MB" in told
    assert history.count() == stored
    assert history.delete(["0", "1"]) == 2
    assert outcome.store(ok_result(), history).warnings == []
    assert history.count() == stored - 1


# ---- the clock


def test_a_clock_that_jumps_changes_no_duration_and_loses_no_result(faulty: Any, history: History, monkeypatch) -> None:
    years = iter((2026, 1971, 2199))
    clock = SimpleNamespace(now=lambda zone: datetime(next(years), 1, 1, tzinfo=zone))
    runner_ = faulty("")
    monkeypatch.setattr(outcome, "datetime", clock)
    results = [last(runner_) for _ in range(3)]
    assert [result.started_at[:4] for result in results] == ["2026", "1971", "2199"]
    assert all(result.status == "ok" and 0 <= result.elapsed_seconds < 60 for result in results)
    assert {stored.id for stored in history.all()} == {result.id for result in results}


# ---- a Space


def test_on_a_space_a_worker_gets_what_it_needs_and_no_token_and_no_secret(faulty: Any, monkeypatch) -> None:
    secrets = (
        "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_TOKEN", "OAUTH_CLIENT_SECRET", "MY_PASSWORD", "AWS_ACCESS_KEY_ID",
        "x_api_key", "DATABASE_URL", "MONGO_URI", "PRIVATE_KEY", "GH_PAT", "WANDB_KEY", "SLACK_WEBHOOK",
        "NVIDIA_API_KEY", "HTTPS_PROXY", "WORTH_COMPILING_DATASET",
    )  # fmt: skip
    needed = (
        "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "HF_HOME", "HF_HUB_OFFLINE", "HF_ENDPOINT", "TORCH_LOGS",
        "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "PYTORCH_CUDA_ALLOC_CONF", "CUDA_VISIBLE_DEVICES",
        "NVIDIA_TF32_OVERRIDE", "LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "CXX", "CC",
        "PYTHONPATH", "VIRTUAL_ENV", "XDG_CACHE_HOME", "WORTH_COMPILING_PARAMETERS", "SPACE_ID",
    )  # fmt: skip
    for name in secrets:
        monkeypatch.setenv(name, "hf_secret")
    seen = last(faulty("its environment")).warnings
    assert set(secrets) <= set(seen)
    for name in needed:
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    seen = worker_environment("/tmp")
    assert set(needed) <= set(seen) and set(seen).isdisjoint(secrets)
    assert "hf_secret" not in seen.values()
    assert (seen["HF_TOKEN_PATH"], seen["HF_HUB_DISABLE_TELEMETRY"]) == (os.devnull, "1")


def test_waiting_threads_spin_for_a_bounded_time_unless_the_user_says_otherwise(monkeypatch) -> None:
    for given, spins in [({}, "3000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, None)]:
        for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
            monkeypatch.delenv(name, raising=False)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        assert worker_environment("/tmp").get("GOMP_SPINCOUNT") == spins


READ_THE_APPS = "import os; print(b'hf_secret' in open(f'/proc/{os.getppid()}/environ', 'rb').read(), flush=True)"
AN_APP = f"""
import subprocess, sys
from demo.runs.environment import block_proc_access
look = [sys.executable, "-I", "-S", "-c", {READ_THE_APPS!r}]
subprocess.run(look)
block_proc_access()
subprocess.run(look)
"""


def as_in_a_container() -> None:
    """Without what lets root look into any process: to administer, to trace and to measure others."""
    for capability in (21, 19, 38):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)


@needs_linux
def test_on_a_space_a_worker_cannot_read_the_apps_environment() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AN_APP],
        env=os.environ | {"SECRET": "hf_secret", "PYTHONPATH": str(ROOT)},
        preexec_fn=as_in_a_container,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "True\n"
    assert "PermissionError" in done.stderr
    assert "if limits.on_space():\n        block_proc_access()" in (ROOT / "demo" / "ui" / "server.py").read_text(
        encoding="utf-8"
    )


def test_a_token_file_of_the_machine_is_not_read_on_a_space(tmp_path, monkeypatch) -> None:
    (tmp_path / "token").write_text("hf_secret")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    code = "from huggingface_hub import get_token; print(get_token())"

    def token() -> str:
        environment = worker_environment(str(tmp_path))
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert token() == "hf_secret"
    monkeypatch.setenv("SPACE_ID", "someone/space")
    assert token() == "None"
