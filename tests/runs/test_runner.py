"""The runner against real worker processes, faulty ones above all: each fault ends in a result that says it."""

import contextlib
import dataclasses
import itertools
import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_faults import gone, needs_linux, processes_with, wait_until

from demo.core import catalog
from demo.core.measurement import CompileCost
from demo.core.result import Progress, RunResult
from demo.core.spec import BadInput
from demo.runs.outcome import OngoingRun
from demo.runs.process import Worker
from demo.runs.runner import Runner
from demo.store.history import History

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
TINY = catalog.make_spec(checkpoint="shapes-vit", task="image-classification", iterations=20)
QUICK = "tests.quick_faulty_worker"


def faulty(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setenv("CHILD_FILE", str(tmp_path / "child"))
    return Runner(History(tmp_path / "history.sqlite3"), worker_module=QUICK)


def last(runner: Runner, cancel: threading.Event | None = None) -> RunResult:
    *_, result = runner.run(TINY, SCENE, cancel)
    assert isinstance(result, RunResult)
    return result


def alive(pid: int) -> bool:
    """False for a process that is gone or a zombie nobody has waited for yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture
def child(tmp_path: Path):
    """The pid of the child that the hanging worker starts, once it has."""

    def wait() -> int:
        for _ in range(1200):
            with contextlib.suppress(OSError, IndexError):
                return int((tmp_path / "child").read_text().split()[1])
            time.sleep(0.05)
        raise AssertionError("the worker never started its child")

    return wait


def test_cancel_kills_the_worker_and_its_children(tmp_path, monkeypatch, child):
    runner = faulty("hangs with a child", tmp_path, monkeypatch)
    cancel = threading.Event()
    results: list[RunResult] = []
    thread = threading.Thread(target=lambda: results.append(last(runner, cancel)))
    thread.start()
    pid = child()
    assert alive(pid)
    cancel.set()
    thread.join(20)
    assert not thread.is_alive()
    assert results[0].status == "cancelled"
    assert results[0].failure.message == "Cancelled while compiling."
    assert not alive(pid)
    assert len(History(tmp_path / "history.sqlite3").all()) == 1


def test_cancel_is_heard_while_the_worker_talks_without_a_pause(monkeypatch):
    monkeypatch.setenv("FAULT", "progress without a pause")
    cancel = threading.Event()
    events = Runner(None, worker_module=QUICK).run(TINY, SCENE, cancel)
    next(event for event in events if isinstance(event, Progress) and event.phase == "compile")
    cancel.set()
    *_, result = itertools.islice(events, 50)
    events.close()
    assert isinstance(result, RunResult) and result.status == "cancelled"


def test_a_killed_worker_is_told_with_the_smaller_batch_to_try(monkeypatch):
    monkeypatch.setenv("FAULT", "SIGKILL")
    spec = dataclasses.replace(TINY, batch_size=8)
    *_, result = Runner(None, worker_module=QUICK).run(spec, SCENE)
    assert "ran out of memory" in result.failure.remedy and result.failure.change == {"batch_size": 2}


def test_a_closed_generator_kills_the_worker_and_is_stored_as_cancelled(tmp_path, monkeypatch, child):
    runner = faulty("hangs with a child", tmp_path, monkeypatch)
    events = runner.run(TINY, SCENE)
    next(events)
    pid = child()
    events.close()
    assert not alive(pid)
    assert [result.status for result in History(tmp_path / "history.sqlite3").all()] == ["cancelled"]


@needs_linux
def test_what_a_worker_has_started_ends_with_it_also_where_its_lifeline_is_gone(tmp_path, monkeypatch, child):
    """As after Linux has ended that process for want of memory."""
    events = faulty("hangs with a child", tmp_path, monkeypatch).run(TINY, SCENE)
    next(events)
    pid = child()
    worker = os.getpgid(pid)
    (lifeline,) = (each for each in children(worker) if "lifeline" in Path(f"/proc/{each}/cmdline").read_text())
    os.kill(lifeline, signal.SIGKILL)
    events.close()
    deadline = time.monotonic() + 20
    while (left := alive(pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if (entry / "stat").read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append(int(entry.name))
    return found


def test_a_run_past_its_limit_is_timed_out(tmp_path, monkeypatch):
    runner = faulty("hangs with a child", tmp_path, monkeypatch)
    for event in runner.run(TINY, SCENE):
        if isinstance(event, Progress) and event.phase == "compile":
            runner.timeout_seconds = 0.1
    assert (event.status, event.failure.phase) == ("timed_out", "compile")
    assert "WORTH_COMPILING_TIMEOUT" in event.failure.remedy


def test_what_a_worker_refuses_leaves_no_trace_in_the_history(tmp_path):
    history = History(tmp_path / "history.sqlite3")
    with pytest.raises(BadInput, match="This one is not to be had"):
        list(Runner(history, worker_module="tests.quick_worker").run(dataclasses.replace(TINY, batch_size=104), SCENE))
    assert history.all() == []
    assert list((tmp_path / "history.running").iterdir()) == []


def test_a_run_borrows_the_compile_cost_that_an_earlier_one_measured(tmp_path):
    history = History(tmp_path / "history.sqlite3")
    runner = Runner(history, worker_module="tests.quick_worker")
    first = last(runner)
    cost = CompileCost(5.5, {"dynamo": 1.0, "first run": 4.5})
    compilation = dataclasses.replace(first.compilation, cold=cost)
    history.append(dataclasses.replace(first, id="measured", compilation=compilation))
    later = last(runner).compilation
    assert (later.cold, later.warm) == (dataclasses.replace(cost, run_id="measured"), None)


@needs_linux
def test_the_spare_is_ready_before_the_click_and_replaced_after(tmp_path, monkeypatch):
    marker = f"SPARE={tmp_path}"
    monkeypatch.setenv(*marker.split("="))
    own = set(processes_with(marker))
    runner = Runner(None, spare=True, worker_module="tests.quick_worker")
    wait_until(lambda: runner.machine is not None)
    assert runner.modes[0] == "default"
    first = set(processes_with(marker)) - own
    assert len(first) == 2  # the worker and its lifeline
    assert last(runner).status == "ok"
    assert not any(map(alive, first))
    wait_until(lambda: len(set(processes_with(marker)) - own) == 2)
    runner.close()
    assert gone(marker)


def test_a_worker_does_not_compile_torchs_headers_anew():
    """Inductor keeps them in the folder for temporary files, and every worker has one of its own."""
    worker = Worker("tests.quick_worker")
    (own,) = Path(worker.child.folder).glob("torchinductor_*")
    shared = Path(tempfile.gettempdir(), own.name)
    assert own.resolve() == shared.resolve()
    worker.close()
    assert not own.is_symlink() and shared.is_dir()


def test_closing_the_runner_ends_a_run_of_another_thread_and_stores_it_as_interrupted(child, tmp_path, monkeypatch):
    runner = faulty("hangs with a child", tmp_path, monkeypatch)
    found: list[RunResult] = []
    thread = threading.Thread(target=lambda: found.append(last(runner)))
    thread.start()
    started = child()
    assert History(tmp_path / "history.sqlite3").all() == []  # it goes on, so it is not listed yet
    runner.close()
    thread.join()
    assert found[0].status == "interrupted"
    assert History(tmp_path / "history.sqlite3").all() == found
    assert not alive(started)


def test_the_time_left_counts_down_between_what_the_worker_says_and_runs_out() -> None:
    said = Progress("compile", 0.2, elapsed_seconds=1.0, remaining_seconds=10.0)
    run = OngoingRun(TINY, "made-up", "2026-11-21T09:00:00Z", said, progress_at=1.0)
    later = run.progress_after(4.0)
    assert (later.phase, later.elapsed_seconds, later.remaining_seconds) == ("compile", 4.0, 7.0)
    assert run.progress_after(12.0).remaining_seconds is None


@pytest.mark.parametrize(
    ("code", "phase", "remedy"), [(7, "load", "Your file ran there"), (-signal.SIGKILL, "time", "smaller inputs")]
)
def test_a_model_of_ones_own_that_ends_its_process_is_not_told_of_another_mode_or_checkpoint(
    code: int, phase: str, remedy: str
) -> None:
    run = OngoingRun(catalog.own_model_spec(f"{__file__}:build"), "made-up", "2026-11-21T09:00:00Z")
    run.progress = Progress(phase, 0.1, 0.1)
    child = SimpleNamespace(exit_code=lambda: code, last_words=str)
    failure = run.crashed(SimpleNamespace(unreadable=False, child=child)).failure
    assert remedy in failure.remedy and "mode" not in failure.remedy and "checkpoint" not in failure.remedy
