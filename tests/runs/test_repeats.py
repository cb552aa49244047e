"""Repeats: one spec in fresh processes one after another, each stored, the last resting on all of them."""

import itertools
from pathlib import Path

import pytest

from demo.core import catalog
from demo.core.result import Progress, RunResult
from demo.runs.runner import Runner
from demo.store.history import History

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"


def ran(
    speedups: str, repeats: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: RunResult | None = None
) -> tuple[list[Progress], RunResult]:
    """The progress and the result of a runner whose processes have these speed-ups; `after` is an earlier answer."""
    monkeypatch.setenv("FAULT", f"speed-ups {speedups}")
    monkeypatch.setenv("CHILD_FILE", str(tmp_path / f"played {len(list(tmp_path.iterdir()))}"))
    runner = Runner(History(tmp_path / "history.sqlite3"), worker_module="tests.quick_faulty_worker")
    spec = catalog.make_spec("shapes-vit", repeats=repeats)
    *progress, result = runner.run(spec, SCENE, earlier=after.as_processes() if after else ())
    assert isinstance(result, RunResult)
    return [one for one in progress if isinstance(one, Progress)], result


def test_each_repeat_is_stored_and_the_last_rests_on_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress, result = ran("1.40 1.50 1.45", 3, tmp_path, monkeypatch)
    stored = History(tmp_path / "history.sqlite3").all()
    assert [run.spec.repeats for run in stored] == [3, 3, 3]
    assert result.to_json()["repeats"] == [run.id for run in reversed(stored)]
    assert stored[0] == result
    assert result.speedup is not None and stored[2].speedup is not None
    assert (result.speedup.basis, stored[2].speedup.basis) == ("repeats", "assumed")
    assert stored[2].speedup.low < stored[2].speedup.within.low
    assert result.speedup.ratio == pytest.approx((1.40 * 1.50 * 1.45) ** (1 / 3))
    assert result.latencies["eager"] / result.latencies["compiled"] == pytest.approx(result.speedup.ratio)
    assert result.speedup.within.ratio == pytest.approx(1.45)
    assert {(one.repeat, one.repeats) for one in progress} == {(1, 3), (2, 3), (3, 3)}
    assert all(early.fraction <= late.fraction for early, late in itertools.pairwise(progress))


def test_one_more_repeat_of_a_stored_answer_runs_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = ran("1.40", 1, tmp_path, monkeypatch)
    _, second = ran("1.44", 2, tmp_path, monkeypatch, after=first)
    assert second.to_json()["repeats"] == [first.id, second.id]
    assert first.speedup is not None and second.speedup is not None
    assert second.speedup.half_width < first.speedup.half_width
    assert RunResult.from_json(second.to_json()) == second


def test_a_repeat_that_fails_ends_the_others_and_loses_none_of_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, result = ran("1.40", 3, tmp_path, monkeypatch)  # the second process has no speed-up to tell
    assert result.status == "crashed"
    assert [run.status for run in History(tmp_path / "history.sqlite3").all()] == ["crashed", "ok"]


def test_a_process_with_another_number_of_threads_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, result = ran("1.40 1.20/1 1.25/1", 3, tmp_path, monkeypatch)
    assert [run.within.ratio for run in result.earlier] == [pytest.approx(1.20)]
    first = History(tmp_path / "history.sqlite3").all()[1]
    assert first.earlier == ()
    assert "number of threads" in first.warnings[-1]
