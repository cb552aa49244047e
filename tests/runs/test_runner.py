"""Tests of the runner with real worker processes, most of them faulty: each fault ends in a result that says it."""

import contextlib
import dataclasses
import errno
import itertools
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.samples import MACHINE, ok_result
from support.worker_processes import alive, needs_linux, processes_with, wait_until

from demo.core import catalog, cores
from demo.core.measurement import CompileCost
from demo.core.options import OWN_MODEL, BadInput, RunSpec
from demo.core.progress import Progress, Provisional
from demo.core.result import RunResult
from demo.core.result_json import from_json, to_json
from demo.runs.earlier import kept_threads, store
from demo.runs.forecast import Forecast
from demo.runs.ongoing import OngoingRun
from demo.runs.process import Worker
from demo.runs.repeats import Repeats
from demo.runs.runner import Runner
from demo.store.history import History, HistoryError

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
TINY = catalog.make_spec(checkpoint="shapes-vit", iterations=20)
OWN = catalog.own_model_spec(f"{__file__}:build")
QUICK = "tests.support.quick_worker"


@pytest.fixture
def faulty(history: History, tmp_path, monkeypatch) -> Callable[[str], Runner]:
    def make(fault: str) -> Runner:
        monkeypatch.setenv("FAULT", fault)
        monkeypatch.setenv("CHILD_FILE", str(tmp_path / "child"))
        return Runner(history, worker_module=QUICK)

    return make


def last(runner: Runner, spec: RunSpec = TINY, **more: Any) -> RunResult:
    *_, result = runner.run(spec, SCENE, **more)
    return result


@contextlib.contextmanager
def on_a_thread(runner: Runner, **more: Any) -> Generator[list[RunResult], None, None]:
    """Starts a run on a thread.

    Yields a list that gets the result once the run has ended, at the end of the block at the latest.
    """
    results: list[RunResult] = []
    thread = threading.Thread(target=lambda: results.append(last(runner, **more)))
    thread.start()
    yield results
    thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def child(tmp_path) -> Callable[[], int]:
    """Returns a function that waits until the hanging worker has started its child, and returns the child's id."""

    def wait() -> int:
        wait_until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().endswith("\n"))
        pid = int((tmp_path / "child").read_text())
        assert alive(pid)
        return pid

    return wait


@pytest.mark.parametrize(("status", "says"), [("cancelled", "Cancelled while compiling."), ("interrupted", "ended")])
def test_an_ended_run_is_stored_without_its_processes(status, says, history, faulty, child):
    runner, cancel = faulty("hangs with a child"), threading.Event()
    with on_a_thread(runner, cancel=cancel) as results:
        pid = child()
        assert history.all() == []  # it goes on, so it is not listed yet
        cancel.set() if status == "cancelled" else runner.close()
    assert results[0].status == status and says in results[0].failure.message
    assert history.all() == results
    assert not alive(pid)


def test_a_closed_generator_is_stored_as_cancelled(history, faulty, child):
    events = faulty("hangs with a child").run(TINY, SCENE)
    next(event for event in events if event.phase == "compile")
    pid = child()
    events.close()
    assert not alive(pid)
    assert [result.status for result in history.all()] == ["cancelled"]


def test_a_worker_that_keeps_sending_progress_is_cancelled(faulty):
    cancel = threading.Event()
    events = faulty("progress without a pause").run(TINY, SCENE, cancel)
    next(event for event in events if isinstance(event, Progress) and event.phase == "compile")
    cancel.set()
    *_, result = itertools.islice(events, 50)
    events.close()
    assert isinstance(result, RunResult) and result.status == "cancelled"


def test_a_run_past_its_limit_is_timed_out(faulty):
    runner = faulty("hangs with a child")
    for event in runner.run(TINY, SCENE):
        if isinstance(event, Progress) and event.phase == "compile":
            runner.timeout_seconds = 0.1
    assert (event.status, event.failure.stage) == ("timed_out", "compile")
    assert "raise WORTH_COMPILING_TIMEOUT" in event.failure.remedy
    assert "mode default" not in event.failure.remedy  # which is at its default


def test_a_model_that_waits_for_input_fails_at_once(history, tmp_path) -> None:
    """As one with a breakpoint() in it does. The worker's own standard input is a pipe that stays open."""
    (tmp_path / "mine.py").write_text("build = input")
    runner = Runner(history)
    runner.timeout_seconds = 60.0
    with pytest.raises(BadInput, match="EOFError"):
        last(runner, catalog.own_model_spec(f"{tmp_path / 'mine.py'}:build"))


def test_what_a_worker_refuses_leaves_no_trace_in_the_history(history):
    with pytest.raises(BadInput, match="This one is not to be had"):
        last(Runner(history, worker_module=QUICK), dataclasses.replace(TINY, batch_size=104))
    assert history.all() == []
    assert list(history.running.iterdir()) == []


@pytest.mark.parametrize(("spec", "borrows"), [(TINY, True), (OWN, False)], ids=["a checkpoint", "an own model"])
def test_a_run_borrows_the_costs_of_a_checkpoint_only(history, spec, borrows):
    runner = Runner(history, worker_module=QUICK)
    first = last(runner, spec)
    cost = CompileCost(5.5, {"dynamo": 1.0, "first run": 4.5})
    compilation = dataclasses.replace(first.compilation, cold=cost)
    history.append(dataclasses.replace(first, id="measured", compilation=compilation))
    later = last(runner, spec).compilation
    assert (later.cold, later.warm) == (dataclasses.replace(cost, run_id="measured") if borrows else None, None)


def test_a_run_that_is_cancelled_before_it_begins_names_its_device(history) -> None:
    runner = Runner(history, worker_module=QUICK)
    last(runner, TINY)
    cancel = threading.Event()
    cancel.set()
    result = last(runner, TINY, cancel=cancel)
    assert (result.status, result.spec.device) == ("cancelled", "cpu")


def test_threads_of_earlier_runs_have_their_code_in_the_cache() -> None:
    machine = dataclasses.replace(ok_result().environment, torch=MACHINE.torch)
    one_thread, three_threads = (dataclasses.replace(machine, threads=threads) for threads in (1, 3))
    longer = dataclasses.replace(ok_result().spec, max_seconds=9.0)
    stored = [ok_result(environment=three_threads), ok_result(environment=one_thread, spec=longer)]
    others = [
        ok_result(environment=dataclasses.replace(machine, threads=2, torch="1.0")),
        ok_result(environment=machine, spec=dataclasses.replace(longer, batch_size=2)),
        ok_result(environment=machine, status="failed"),
        ok_result(environment=machine, spec=dataclasses.replace(longer, cache="empty")),
    ]
    assert kept_threads(ok_result().spec, MACHINE, stored + others) == (1, 3)
    assert kept_threads(dataclasses.replace(longer, freezing=True), MACHINE, stored) == ()


@needs_linux
def test_the_spare_is_ready_before_the_click(tmp_path, monkeypatch):
    marker = f"SPARE={tmp_path}"
    monkeypatch.setenv(*marker.split("="))
    own = set(processes_with(marker))
    runner = Runner(None, spare=True, worker_module=QUICK)
    wait_until(lambda: runner.machine is not None)
    first = set(processes_with(marker)) - own
    assert len(first) == 2  # the worker and its lifeline
    assert last(runner).status == "ok"
    assert not any(map(alive, first))
    wait_until(lambda: len(set(processes_with(marker)) - own) == 2)
    runner.close()
    wait_until(lambda: not processes_with(marker), seconds=20)


@needs_linux
def test_for_runs_to_come_two_workers_import_side_by_side(monkeypatch):
    monkeypatch.setattr(cores, "usable_cores", lambda: 2)
    runner = Runner(None, worker_module=QUICK)
    assert last(runner, runs_after=2).status == "ok"
    first, second = runner._spares
    os.kill(second.child.pid, signal.SIGSTOP)  # it takes long for its imports
    with on_a_thread(runner, runs_after=1) as results:
        wait_until(lambda: first.machine is not None)
        time.sleep(0.5)
        assert results == []  # the run waits: it would share a core
        os.kill(second.child.pid, signal.SIGCONT)
    assert results[0].status == "ok" and first.child.exit_code_now() is not None and runner._spares == [second]
    os.kill(second.child.pid, signal.SIGKILL)
    wait_until(lambda: second.child.exit_code_now() is not None)
    assert last(runner, runs_after=2).status == "ok" and len(runner._spares) == 2
    assert last(runner).status == "ok" and runner._spares == []  # one was for this run, nobody waits for the other
    crashing, cancel = dataclasses.replace(TINY, repeats=3, batch_size=103), threading.Event()
    assert last(runner, crashing).status == "crashed" and runner._spares == []
    cancel.set()
    assert last(runner, cancel=cancel, runs_after=2).status == "cancelled" and runner._spares == []
    runner.close()


def test_a_worker_does_not_compile_torchs_headers_anew():
    """Inductor keeps precompiled headers in the folder of temporary files.

    Each worker's own folder has a link to the shared one.
    """
    worker = Worker(QUICK)
    (own,) = Path(worker.child.folder).glob("torchinductor_*")
    shared = Path(tempfile.gettempdir(), own.name)
    assert own.resolve() == shared.resolve()
    worker.close()
    assert not own.is_symlink() and shared.is_dir()


def test_the_time_left_counts_down_between_events_and_runs_out() -> None:
    run = OngoingRun(TINY)
    run.progress_after(1.0, Progress("compile", 0.2, 1.0, remaining_seconds=10.0, racing_seconds=0.5))
    later = run.progress_after(4.0)
    assert later.racing_seconds == 3.5
    assert (later.phase, later.elapsed_seconds, later.remaining_seconds) == ("compile", 4.0, 7.0)
    assert run.progress_after(12.0).remaining_seconds is None


@pytest.mark.parametrize(
    ("phase", "elapsed", "racing", "left", "exceeded"),
    [
        ("load", 5.0, None, 25.0, None),
        ("compile", 15.0, 10.0, 15.0, None),
        ("compile", 35.0, 27.0, None, 20.0),
        ("check", 35.0, 30.0, None, None),
        ("check", 37.0, 32.0, None, 30.0),
        ("done", 15.0, 10.0, None, None),
    ],
    ids=["loads", "compiles", "compiles too long", "a little late", "late", "done early"],
)
def test_a_phase_past_its_estimate_gives_the_estimate(
    phase: str, elapsed: float, racing: float | None, left: float | None, exceeded: float | None
) -> None:
    run = OngoingRun(TINY, expected=Forecast(30.0, 1, compile_seconds=20.0))
    now = run.progress_after(elapsed, Progress(phase, 0.2, elapsed, racing_seconds=racing))
    assert (now.remaining_seconds, now.exceeded_seconds) == (left, exceeded)
    timing = run.progress_after(elapsed, Progress("time", 0.5, elapsed, remaining_seconds=3.0, racing_seconds=racing))
    assert (timing.remaining_seconds, timing.exceeded_seconds) == (3.0, None)  # the process itself knows better


def test_the_time_left_counts_the_repeats_to_come() -> None:
    repeats = Repeats(4, (), 0, None)
    repeats.number, repeats._before = 3, 20.0
    now = repeats.progress(Progress("time", 0.5, 6.0, remaining_seconds=5.0))
    assert (now.elapsed_seconds, now.remaining_seconds) == (26.0, 5.0 + 20.0 / 2)


@pytest.mark.parametrize(
    ("spec", "code", "phase", "remedy", "change"),
    [
        (dataclasses.replace(TINY, batch_size=8), -signal.SIGKILL, "time", "ran out of memory", {"batch_size": 2}),
        (TINY, -signal.SIGKILL, "time", "ran out of memory. Try a smaller model", {}),
        (TINY, -signal.SIGKILL, "start", "doctor says", {}),  # no model was there to be too large
        # nothing was compiled yet
        (dataclasses.replace(TINY, freezing=True), -signal.SIGSEGV, "warm up", "Run it again.", {}),
        (RunSpec("mine.py:build", OWN_MODEL), -signal.SIGSEGV, "warm up", "in a Python process of your own", {}),
        (dataclasses.replace(TINY, freezing=True), -signal.SIGSEGV, "time", "Without freezing", {"freezing": False}),
    ],
)
def test_a_worker_that_dies_has_a_remedy(spec, code, phase, remedy, change):
    run = OngoingRun(spec, progress=Progress(phase, 0.1, 0.1))
    child = SimpleNamespace(exit_code=lambda: code, last_words=str)
    failure = run.as_crashed(SimpleNamespace(unreadable=False, child=child, machine=MACHINE)).failure
    assert remedy in failure.remedy and failure.change == change


def test_a_folder_that_is_a_file_is_named_as_the_cause() -> None:
    failure = OngoingRun(TINY).not_started(FileExistsError(errno.EEXIST, "File exists")).failure
    assert failure.remedy.startswith("Set TORCHINDUCTOR_CACHE_DIR and TMPDIR to folders: one of them names a file")


def test_a_result_that_was_not_stored_says_so_without_a_folder(history: History, monkeypatch) -> None:
    def refuse(history: History, result: RunResult) -> str:
        raise HistoryError("/home/me/secret/history.sqlite3 cannot be written.")

    monkeypatch.setattr(History, "append", refuse)
    (warning,) = store(ok_result(), history).warnings
    assert "not stored" in warning and "history.sqlite3 cannot be written" in warning and "/home" not in warning


# ---- the later start, measured behind the answer


@pytest.mark.parametrize("how", ["dies", "is cancelled", "times out", "is closed"])
def test_an_answer_that_only_lacks_the_later_start_is_what_is_stored(how: str, history: History, faulty: Any) -> None:
    runner, cancel = faulty(f"after its answer it {'dies' if how == 'dies' else 'hangs'}"), threading.Event()
    events = runner.run(TINY, SCENE, cancel)
    early = next(event.result for event in events if isinstance(event, Provisional))
    assert history.all() == []
    (marker,) = history.running.iterdir()  # what is stored if the program is killed now
    assert from_json(json.loads(marker.read_text())) == early
    if how == "is closed":
        events.close()
    elif how == "is cancelled":
        cancel.set()
    elif how == "times out":
        runner.timeout_seconds = 0.1
    assert [event.status for event in events if isinstance(event, RunResult)] == ["ok"] * (how != "is closed")
    (stored,) = history.all()
    assert stored == early


@pytest.mark.parametrize(
    ("cache", "warm_is_known", "waits"), [("keep", True, False), ("keep", False, True), ("empty", True, True)]
)
def test_a_later_start_that_is_known_is_not_measured_again(
    cache: str, warm_is_known: bool, waits: bool, history: History, faulty: Any
) -> None:
    cost = CompileCost(0.5, {"first run": 0.5})
    before = ok_result(spec=TINY.on("cpu"))
    compilation = dataclasses.replace(before.compilation, warm=cost)
    history.append(dataclasses.replace(before, id="before", compilation=compilation) if warm_is_known else before)
    spec = dataclasses.replace(TINY.on("cpu"), cache=cache)
    with contextlib.closing(faulty("after its answer it hangs").run(spec, SCENE)) as events:
        last = next(event for event in events if isinstance(event, RunResult | Provisional))
    assert isinstance(last, Provisional) == waits
    if not waits:
        assert last.compilation.warm == dataclasses.replace(cost, run_id="before")


def test_only_the_last_repeat_measures_the_later_start(history: History, faulty: Any) -> None:
    """A repeat's second process already times a first call with a filled cache."""
    spec = dataclasses.replace(TINY, repeats=2)
    with contextlib.closing(faulty("after its answer it hangs").run(spec, SCENE)) as events:
        early = next(event for event in events if isinstance(event, Provisional))
    assert early.repeat == 2 and len(early.result.as_processes()) == 2


# ---- repeats: one spec in fresh processes one after another


def repeated(faulty: Any, speedups: str, repeats: int, after: RunResult | None = None) -> list[Progress | RunResult]:
    """Returns the events of a run whose processes have these speed-ups.

    `after`: an earlier result that the run repeats.
    """
    spec, earlier = dataclasses.replace(TINY, repeats=repeats), after.as_processes() if after else ()
    return list(faulty(f"speed-ups {speedups}").run(spec, SCENE, earlier=earlier))


def test_each_repeat_is_stored_and_the_last_rests_on_all(history: History, faulty: Any) -> None:
    *progress, result = repeated(faulty, "1.40 1.50 1.45", 3)
    runs = history.all()
    assert [run.spec.repeats for run in runs] == [3, 3, 3]
    assert to_json(result)["repeats"] == [run.id for run in reversed(runs)]
    assert runs[0] == result
    assert (result.speedup.basis, runs[2].speedup.basis) == ("repeats", "assumed")
    assert runs[2].speedup.low < runs[2].speedup.within.low
    assert result.speedup.ratio == pytest.approx((1.40 * 1.50 * 1.45) ** (1 / 3))
    assert result.latencies["eager"] / result.latencies["compiled"] == pytest.approx(result.speedup.ratio)
    assert result.speedup.within.ratio == pytest.approx(1.45)
    assert {(report.repeat, report.repeats) for report in progress} == {(1, 3), (2, 3), (3, 3)}
    assert all(early.fraction <= late.fraction for early, late in itertools.pairwise(progress))


def test_repeats_end_when_the_time_of_one_run_is_over(history: History, faulty: Any) -> None:
    runner = faulty("speed-ups 1.40 1.50 1.45")
    for event in runner.run(dataclasses.replace(TINY, repeats=3), SCENE):
        if isinstance(event, Progress) and event.repeat == 2:
            runner.timeout_seconds = event.elapsed_seconds
    assert event.status == "ok" and len(event.as_processes()) == 2
    assert "Repeats ended after 2 of 3 processes" in event.warnings[-1]
    assert history.all()[0] == event  # what is shown is stored


def test_one_more_repeat_of_a_stored_answer_runs_one_process(faulty: Any) -> None:
    speedups = "1.40 1.44"
    first = repeated(faulty, speedups, 1)[-1]
    second = repeated(faulty, speedups, 1, after=first)[-1]
    assert to_json(second)["repeats"] == [first.id, second.id]
    assert second.speedup.half_width < first.speedup.half_width
    assert from_json(to_json(second)) == second


def test_a_repeat_that_fails_loses_none_of_those_before(history: History, faulty: Any) -> None:
    assert repeated(faulty, "1.40", 3)[-1].status == "crashed"  # the second process has no speed-up to tell
    assert [run.status for run in history.all()] == ["crashed", "ok"]


def test_a_process_of_other_threads_does_not_count(history: History, faulty: Any) -> None:
    result = repeated(faulty, "1.40 1.20/1 1.25/1", 3)[-1]
    assert [run.figures["call"].within.ratio for run in result.earlier] == [pytest.approx(1.20)]
    first = history.all()[1]
    assert first.earlier == ()
    assert first.warnings[-1].endswith("not counted here: 1.")


@pytest.mark.parametrize(
    ("threads", "caveats", "stored"),
    [(None, ["None threads", "Fewer than 2 cores are free."], 1), (2, ["2 threads"], 3)],
    ids=["refused without the threads of the first", "or fewer threads"],
)
def test_a_refused_repeat_leaves_the_answer_so_far(
    threads: int | None, caveats: list[str], stored: int, history: History, faulty: Any
) -> None:
    spec = dataclasses.replace(TINY, repeats=3)
    result = last(faulty("refuses what is to be exact"), spec, threads=threads)
    assert [str(caveat) for caveat in result.caveats] == caveats
    assert result.status == "ok" and len(history.all()) == stored and history.all()[0] == result


@pytest.mark.parametrize(("free", "own", "threads"), [(1, 2, 1), (2, 1, 1), (2, None, None), (None, 2, None)])
def test_a_run_would_get_torchs_threads_or_as_many_as_cores_are_free(
    free: int | None, own: int | None, threads: int | None, monkeypatch
) -> None:
    monkeypatch.setattr(cores, "free_now", lambda: free)
    monkeypatch.setattr(Runner, "machine", dataclasses.replace(MACHINE, threads=own))
    assert Runner(None).free_threads() == threads
