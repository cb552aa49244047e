"""The runner against real worker processes, faulty ones above all: each fault ends in a result that says it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path

import pytest

from demo.core import catalog
from demo.core.result import BadInput, Progress, RunResult
from demo.runs.runner import Runner, _Outcome
from demo.store.history import History

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
TINY = catalog.make_spec(checkpoint="shapes-vit", task="image-classification", iterations=20)


def faulty(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeout_seconds: float = 300) -> Runner:
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setenv("CHILD_FILE", str(tmp_path / "child"))
    history = History(tmp_path / "history.sqlite3")
    return Runner(history, timeout_seconds=timeout_seconds, worker_module="tests.faulty_worker")


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
        for _ in range(600):
            with contextlib.suppress(OSError, IndexError):
                return int((tmp_path / "child").read_text().split()[1])
            time.sleep(0.1)
        raise AssertionError("the worker never started its child")

    return wait


@pytest.mark.parametrize(
    ("fault", "status", "stage", "words"),
    [
        ("out of memory", "out_of_memory", "warm up", "ran out of memory"),
        ("raises", "failed", "warm up", "a forward that raises"),
        ("segfault", "crashed", "warm up", "SIGSEGV"),
        ("killed", "crashed", "warm up", "SIGKILL"),
        ("garbage", "crashed", "warm up", "worker"),
        ("compile fails", "compile_failed", "compile", "no such kernel"),
    ],
)
def test_a_fault_becomes_a_stored_result_with_message_and_remedy(fault, status, stage, words, tmp_path, monkeypatch):
    runner = faulty(fault, tmp_path, monkeypatch)
    result = last(runner)
    assert (result.status, result.failure.stage) == (status, stage)
    assert words in result.failure.message
    assert result.failure.remedy
    assert History(tmp_path / "history.sqlite3").get(result.id) == result


def test_a_failed_compile_still_shows_what_eager_does(tmp_path, monkeypatch):
    result = last(faulty("compile fails", tmp_path, monkeypatch))
    assert result.eager.median_seconds > 0
    assert result.compiled is None
    assert result.predictions["eager"].labels


def test_a_graph_break_is_told_with_its_reason_and_source_line(tmp_path, monkeypatch):
    result = last(faulty("graph break", tmp_path, monkeypatch))
    assert result.status == "ok"
    assert result.compilation.graphs == 2
    (graph_break,) = result.compilation.graph_breaks
    assert "Tensor.item()" in graph_break.reason
    assert graph_break.location.startswith("faulty_worker.py:")
    assert any("graph break" in warning for warning in result.warnings)


def test_a_recompile_while_timing_makes_the_figures_void(tmp_path, monkeypatch):
    result = last(faulty("recompiles", tmp_path, monkeypatch))
    assert result.status == "failed"
    assert "void" in result.failure.message
    assert result.compilation.recompiles_while_timing > 0
    assert result.speedup.verdict == "unsure"


def test_a_compiled_model_that_answers_otherwise_is_found_out(tmp_path, monkeypatch):
    result = last(faulty("differs", tmp_path, monkeypatch))
    assert result.status == "ok"
    assert result.parity.verdict == "differ"
    assert result.parity.max_abs_error > 0.01


def test_cancel_kills_the_worker_and_its_children_within_a_second(tmp_path, monkeypatch, child):
    runner = faulty("hangs with a child", tmp_path, monkeypatch)
    cancel = threading.Event()
    results: list[RunResult] = []
    thread = threading.Thread(target=lambda: results.append(last(runner, cancel)))
    thread.start()
    pid = child()
    assert alive(pid)
    cancel.set()
    thread.join(1.0)
    assert not thread.is_alive()
    assert results[0].status == "cancelled"
    assert not alive(pid)
    assert len(History(tmp_path / "history.sqlite3").all()) == 1


def test_a_closed_generator_kills_the_worker_and_is_stored_as_cancelled(tmp_path, monkeypatch, child):
    runner = faulty("hangs with a child", tmp_path, monkeypatch)
    events = runner.run(TINY, SCENE)
    next(events)
    pid = child()
    events.close()
    assert not alive(pid)
    assert [result.status for result in History(tmp_path / "history.sqlite3").all()] == ["cancelled"]


def test_a_run_past_its_limit_is_timed_out(tmp_path, monkeypatch):
    result = last(faulty("hangs with a child", tmp_path, monkeypatch, timeout_seconds=1.0))
    assert result.status == "timed_out"
    assert "WORTH_COMPILING_TIMEOUT" in result.failure.remedy


def test_progress_comes_while_nothing_happens(tmp_path, monkeypatch, child):
    events = faulty("hangs with a child", tmp_path, monkeypatch).run(TINY, SCENE)
    next(events)
    child()
    looks = [next(events) for _ in range(5)]
    events.close()
    assert all(isinstance(look, Progress) for look in looks)
    elapsed = [look.elapsed_seconds for look in looks if isinstance(look, Progress)]
    assert elapsed == sorted(elapsed) and elapsed[0] < elapsed[-1]


def test_a_run_after_a_crash_works(tmp_path, monkeypatch):
    runner = faulty("segfault", tmp_path, monkeypatch)
    assert last(runner).status == "crashed"
    monkeypatch.setenv("FAULT", "graph break")
    assert last(runner).status == "ok"


def test_an_unreadable_picture_is_refused_and_not_stored(tmp_path):
    (tmp_path / "not.png").write_text("no picture")
    history = History(tmp_path / "history.sqlite3")
    with pytest.raises(BadInput, match=r"not\.png"):
        list(Runner(history).run(TINY, tmp_path / "not.png"))
    assert history.all() == []


def test_a_missing_compiler_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(BadInput, match="build-essential"):
        list(Runner(None).run(TINY, SCENE))


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this machine has a GPU")
def test_cuda_asked_where_there_is_none_is_refused():
    spec = catalog.make_spec(checkpoint="shapes-vit", task="image-classification", device="cuda")
    with pytest.raises(BadInput, match="Choose device cpu"):
        list(Runner(None).run(spec, SCENE))


def test_the_spare_is_ready_before_the_click_and_replaced_after(tmp_path, monkeypatch):
    monkeypatch.setenv("FAULT", "raises")
    runner = Runner(None, spare=True, worker_module="tests.faulty_worker")
    first = runner._spare
    first.wait_until_ready()
    assert runner.machine.modes[0] == "default"
    assert last(runner).status == "failed"
    assert runner._spare is not first
    runner.close()
    assert runner._spare is None
    assert not alive(first._process.pid)


def test_a_worker_does_not_compile_torchs_headers_anew():
    """Inductor keeps them in the folder for temporary files, and every worker has one of its own."""
    runner = Runner(None, spare=True, worker_module="tests.quick_worker")
    (own,) = Path(runner._spare._folder).glob("torchinductor_*")
    shared = Path(tempfile.gettempdir(), own.name)
    assert own.resolve() == shared.resolve()
    runner.close()
    assert not own.is_symlink() and shared.is_dir()


def test_a_worker_ends_when_the_app_that_started_it_is_gone():
    runner = Runner(None, spare=True)
    worker = runner._spare
    worker.wait_until_ready()
    worker._process.stdin.close()  # what the kernel does for an app that was killed
    worker._process.wait(30)
    assert not alive(worker._process.pid)
    runner.close()


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


def test_a_job_that_the_worker_refuses_leaves_no_trace_in_the_history(tmp_path, monkeypatch):
    (tmp_path / "no picture.png").write_text("text")
    runner = Runner(History(tmp_path / "history.sqlite3"))
    with pytest.raises(BadInput):
        list(runner.run(TINY, tmp_path / "no picture.png"))
    assert History(tmp_path / "history.sqlite3").all() == []
    assert list((tmp_path / "history.running").iterdir()) == []


def test_the_time_left_counts_down_between_what_the_worker_says_and_runs_out() -> None:
    said = Progress("compile", 0.2, elapsed_seconds=1.0, remaining_seconds=10.0)
    outcome = _Outcome(TINY, "made-up", "2026-11-21T09:00:00Z", said, told_at=1.0)
    told = outcome.progress_after(4.0)
    assert (told.phase, told.elapsed_seconds, told.remaining_seconds) == ("compile", 4.0, 7.0)
    assert outcome.progress_after(12.0).remaining_seconds is None
