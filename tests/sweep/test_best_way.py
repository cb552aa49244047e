"""Tests of a whole search for the best way to compile, with a fake runner: what it tries, stores and when it ends."""

import dataclasses
import itertools
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.fake_runner import FakeRunner
from support.samples import ENVIRONMENT, MACHINE, info_of, measurement, ok_result

from demo.core import catalog
from demo.core.comparison import Spread
from demo.core.files import temporary_folder
from demo.core.machine import HostSample
from demo.core.measurement import Compilation, StartUp
from demo.core.options import BadInput, RunSpec
from demo.core.result import Failure, RunResult
from demo.store.history import History
from demo.store.reruns import compiled_spec
from demo.sweep import best_way
from demo.sweep.best_table import WAYS, ways
from demo.sweep.best_way import QUICK_SECONDS, Search
from demo.sweep.grid import PICTURE
from demo.sweep.run_grid import Done

SPEC = catalog.make_spec("shapes-vit")
NUMBERS = itertools.count()
SECONDS = {"freezing": 0.004, "lite": 0.005, "package": 0.007, "layers": 0.009, "default": 0.008}


def seconds_of(name: str) -> float:
    return SECONDS.get(name, 0.009)


def way_of(spec: RunSpec) -> str:
    return next(way.name for way in reversed(ways(SPEC, MACHINE, True)) if way.spec == compiled_spec(spec))


def answering(answer_of: Callable[[str], Any], history: History | None = None) -> FakeRunner:
    """Returns a fake runner.

    For a way's name, `answer_of` returns the seconds of a compiled call, changes of the result, or an error.

    An eager call always takes 10 ms.
    """
    before: Counter[RunSpec] = Counter()

    def answer(spec: RunSpec, image: Path | None) -> RunResult | Exception:
        before[compiled_spec(spec)] += 1
        outcome = answer_of(way_of(spec))
        if isinstance(outcome, Exception):
            return outcome
        eager, first = measurement(0.010), before[compiled_spec(spec)] == 1
        result = ok_result(
            id=f"run-{next(NUMBERS)}", spec=spec, eager=eager, control_times=eager, image=info_of(PICTURE)
        )
        compilation = Compilation(5.0, "cold" if first or spec.freezing else "warm", 1)
        result = dataclasses.replace(result, compilation=compilation, start_up=StartUp(4.5, 0.1))
        changes = {"compiled": measurement(outcome)} if isinstance(outcome, float) else outcome
        return dataclasses.replace(result, **changes)

    return FakeRunner(answer, history=history)


def ran(runner: FakeRunner) -> list[tuple[str, bool]]:
    """Returns the ways that were run, in order, each with whether it was a short run."""
    return [(way_of(spec), spec.max_seconds == QUICK_SECONDS) for spec in runner.runs]


def searched(runner: FakeRunner, minutes: float = 60.0, **more: Any) -> Search:
    search = Search(SPEC, MACHINE, more.pop("stored", []), PICTURE, minutes=minutes, **more)
    for _ in search.run(runner, threading.Event()):
        pass
    return search


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    """Replaces the clock of a search by one that a test sets."""
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(best_way, "time", clock)
    return clock


def test_every_way_is_tried_and_the_best_two_in_two_processes() -> None:
    runner = answering(seconds_of)
    search = searched(runner)
    tried = {way.name for way in search.ways} - {"eager"}
    assert {name for name, _ in ran(runner)} == tried == set(WAYS) & (tried | {"default"})
    quick = Counter(name for name, quick in ran(runner) if quick)
    full = Counter(name for name, quick in ran(runner) if not quick)
    # a way that had to compile is run once more over the filled cache, a package loaded; no cache holds the last one
    assert [quick[name] for name in ("layers", "default", "package", "lite", "freezing")] == [2, 2, 2, 1, 0]
    assert full == {"freezing": 2, "lite": 1}
    assert search.complete and search.table().winner.way.name == "freezing"
    processes = {row.way.name: len(row.result.as_processes()) for row in search.table().rows if row.result}
    assert processes["freezing"] == processes["lite"] == 2
    (kept,) = {files.kept_packages for files in runner.files}
    assert kept is not None and not kept.exists() and runner.runs_after[0] > 1 and runner.runs_after[-1] == 0


def test_a_model_of_ones_own_keeps_no_package() -> None:
    """The model's file may give each process other weights, so no package is kept for the next process."""
    own = FakeRunner(lambda *_: BadInput("Not here."))
    list(Search(catalog.own_model_spec(f"{__file__}:ran"), MACHINE, [], PICTURE).run(own, threading.Event()))
    assert {files.kept_packages for files in own.files} == {None}


def test_of_the_faster_half_the_first_rank_is_timed_as_usual() -> None:
    runner = answering(lambda name: 0.00401 if name in ("package", "lite") else seconds_of(name))
    searched(runner)
    assert Counter(name for name, quick in ran(runner) if not quick) == {"freezing": 2, "package": 1, "lite": 1}


def test_a_way_that_is_only_not_known_to_be_better_is_timed_as_usual() -> None:
    """The way's short runs have an interval from 0.7 to 7 and rank below eager. It still gets a run of usual length."""
    wide = {"compiled": measurement(0.0045), "spread": Spread("assumed", 0.6, None)}
    before = Counter[str]()

    def answer(name: str) -> Any:
        before[name] += 1
        return (wide if before[name] <= 2 else 0.0042) if name == "layers" else seconds_of(name)

    runner = answering(answer)
    searched(runner)
    assert ("layers", False) in ran(runner)


def test_a_search_goes_on_from_what_this_machine_has_stored(history: History) -> None:
    first, cancel = answering(seconds_of, history), threading.Event()
    begun = Search(SPEC, MACHINE, [], PICTURE)
    for count, _ in enumerate(begun.run(first, cancel)):
        if count == 3:
            cancel.set()
    assert not begun.complete and len(ran(first)) == 4
    second = answering(seconds_of, history)
    search = searched(second, stored=history.all())
    assert ran(second)[0][0] not in {name for name, _ in ran(first)} and search.complete
    third = answering(seconds_of, history)
    assert searched(third, stored=history.all()).table().winner.way.name == "freezing" and ran(third) == []


def test_a_run_on_a_busy_machine_is_run_again_by_the_next_search(history: History) -> None:
    busy = (HostSample(1.0, 0.9, None, 0.1), HostSample(2.0, 0.9, None, 0.1))
    first = answering(lambda name: {"compiled": measurement(0.004), "machine_states": busy}, history)
    search = searched(first)
    assert search.complete and search.table().disturbed
    again = answering(seconds_of)
    assert searched(again, stored=history.all()).table().winner.way.name == "freezing" and ran(again)


def with_threads(count: int) -> dict[str, Any]:
    return {"environment": dataclasses.replace(ENVIRONMENT, threads=count)}


def test_all_processes_get_the_threads_that_are_free_at_the_beginning() -> None:
    runner = answering(seconds_of)
    runner.free = 1
    searched(runner)
    assert set(runner.threads) == {1}


def test_a_way_with_fewer_threads_than_the_others_cannot_win() -> None:
    fewer = {"compiled": measurement(0.004)} | with_threads(1)
    search = searched(answering(lambda name: fewer if name == "freezing" else seconds_of(name)))
    (row,) = (row for row in search.table().rows if row.way.name == "freezing")
    assert row.out.startswith("Threads: 1. The other ways had 2") and search.table().winner.way.name == "lite"


@pytest.mark.parametrize(("free", "again"), [(1, True), (2, False), (None, False)])
def test_what_is_stored_with_other_threads_is_run_again(free: int | None, again: bool, history: History) -> None:
    searched(answering(seconds_of, history))
    runner = answering(lambda name: {"compiled": measurement(seconds_of(name))} | with_threads(1))
    runner.free = free
    searched(runner, stored=history.all())
    assert bool(runner.runs) == again


def test_a_disturbed_run_takes_nothing_away_from_a_quiet_one() -> None:
    busy = {"compiled": measurement(0.012), "machine_states": (HostSample(1.0, 0.9, None, 0.1),) * 2}
    before = Counter[str]()

    def answer(name: str) -> Any:
        before[name] += 1
        return busy if (name, before[name]) == ("freezing", 2) else seconds_of(name)

    ranking = searched(answering(answer)).table()
    assert before["freezing"] >= 2 and ranking.winner.way.name == "freezing"
    assert not ranking.winner.result.oversubscribed


def test_a_search_that_ends_early_knows_what_is_missing(clock: SimpleNamespace) -> None:
    def in_ten_seconds(name: str) -> float:
        clock.now += 10.0
        return seconds_of(name)

    runner = answering(in_ten_seconds)
    search, tried = searched(runner, minutes=1.0), {name for name, _ in ran(runner)}
    assert not search.complete and all(again == (way.name in tried) for way, again in search.missing)
    assert {way.name for way, again in search.missing if not again} == set(search._by_spec.values()) - tried


def test_the_time_before_the_first_run_is_a_part_of_the_budget(clock: SimpleNamespace) -> None:
    for spent, left in ((0.0, 60.0), (50.0, 10.0), (90.0, 0.0)):
        search = Search(SPEC, MACHINE, [], PICTURE, minutes=1.0, spent_seconds=spent)
        assert search.left_seconds == left
        if not left:
            assert list(search.run(answering(seconds_of), threading.Event())) == []


def test_a_way_that_fails_is_tried_once() -> None:
    crashed = {"status": "crashed", "failure": Failure("time", "It died.", ""), "compiled": None}
    odd = {"package": BadInput("There is no compiler."), "freezing": crashed}
    runner = answering(lambda name: odd.get(name, seconds_of(name)))
    search = searched(runner)
    rows = {row.way.name: row.out for row in search.table().rows}
    assert "crashed" in rows["freezing"] and rows["package"] == "There is no compiler."
    assert search.table().winner.way.name == "lite" and search.complete
    counts = Counter(name for name, _ in ran(runner))
    assert counts["freezing"] == counts["package"] == 1


def test_a_search_ends_with_its_budget(clock: SimpleNamespace) -> None:
    def in_ten_seconds(name: str) -> float:
        clock.now += 10.0
        return seconds_of(name)

    runner = answering(in_ten_seconds)
    search = searched(runner, minutes=1.0)
    assert 50.0 <= clock.now - 1000.0 <= 70.0
    # Four ways in the first 60 % of six runs, however many are left; the rest is for those.
    assert len({name for name, _ in ran(runner)[:4]}) == len({name for name, _ in ran(runner)}) == 4
    assert len(ran(runner)) > 4
    assert not search.complete and search.table().winner is not None


def test_waiting_for_the_runs_of_other_visitors_is_not_counted(clock: SimpleNamespace) -> None:
    def passing(seconds: float, value: Any) -> Any:
        clock.now += seconds
        return value

    def ahead() -> Iterator[int]:
        yield passing(60.0, 1)

    search, runner = Search(SPEC, MACHINE, [], PICTURE, minutes=1.0), answering(lambda _: passing(10.0, 0.009))
    events = search.run(runner, threading.Event(), lambda: nullcontext(ahead()))
    assert next(event for event in events if isinstance(event, Done)) and search.left_seconds == 50.0


def test_a_cancel_ends_the_run_that_is_going_on() -> None:
    cancel, runner = threading.Event(), answering(seconds_of)
    runner.seconds = 600.0
    for _ in Search(SPEC, MACHINE, [], PICTURE).run(runner, cancel):
        cancel.set()
    assert len(runner.runs) == 1 and not runner.running


def test_the_packages_of_a_killed_search_go_with_the_next_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder() as of_another_search:
        (tmp_path / "worth-compiling-killed.locked").mkdir()  # nobody holds its lock
        searched(answering(seconds_of))
        assert list(tmp_path.iterdir()) == [of_another_search]


def test_formats_and_channels_are_tried_where_they_mean_something() -> None:
    def tried(checkpoint: str, **more: Any) -> set[str]:
        return {way.name for way in ways(catalog.make_spec(checkpoint), MACHINE, **more)}

    assert "channels_last" in tried("microsoft/resnet-50") and "channels_last" not in tried("shapes-vit")
    assert "bfloat16" not in tried("shapes-vit") and "bfloat16" in tried("shapes-vit", other_formats=True)
    assert not {"reduce-overhead", "max-autotune"} & tried("shapes-vit")  # on a CPU they are other modes' twins
    assert ways(catalog.make_spec("shapes-vit", graph_break=True), MACHINE) == ways(SPEC, MACHINE)
    text = ways(catalog.make_spec("shapes-gemma", prompt="One"), MACHINE)
    assert {way.name for way in text if way.refused} == {"package", "layers"}


@pytest.mark.parametrize("minutes", [0.5, 61.0, float("nan")])
def test_a_budget_out_of_range_is_refused(minutes: float) -> None:
    with pytest.raises(BadInput, match="1 to 60 minutes"):
        Search(SPEC, MACHINE, [], PICTURE, minutes=minutes)
