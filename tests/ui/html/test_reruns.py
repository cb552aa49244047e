"""The folded section of reruns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from page_support import HOSTILE
from samples import measurement, ok_result

from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.measurement import Compilation
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.store.history import History
from demo.ui.html import reruns


def run(number: int, **changes: Any) -> RunResult:
    faster = measurement(0.001 / math.exp(0.02 * number))
    return ok_result(**{"id": f"run {number}", "compiled": faster} | changes)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history.sqlite3")


def shown(history: History, result: RunResult) -> tuple[str, str, Any]:
    section = reruns.section(history)
    return section.title(result, ENGLISH), section.html(result, ENGLISH), section.figure(result, ENGLISH)  # type: ignore[misc]


def test_from_three_processes_on_their_mean_and_each_of_them_is_shown(history: History) -> None:
    for number in range(2):
        history.append(run(number))
    assert shown(history, run(1)) == ("", "", None)
    history.append(run(2))
    title, html, figure = shown(history, run(2))
    assert title == "Reruns: 3 processes, 2.04× (1.94 to 2.14×)"
    assert "The answer above rests on 1 process; the others are stored runs." in html
    assert len(figure.data[0].x) == 3


def test_what_an_answer_rests_on_counts_once_stored_or_not(history: History) -> None:
    result = run(0)
    for number in (1, 2):
        history.append(result)
        result = run(number, earlier=result.as_repeats())
    history.append(result)
    assert result.speedup is not None
    for kept in (history, History(history.path.with_name("empty.sqlite3"))):
        title, html, _ = shown(kept, result)
        low, high = f"{result.speedup.low:.2f}", f"{result.speedup.high:.2f}×"
        assert title == f"Reruns: 3 processes, 2.04× ({low} to {high})"
        assert "rests on" not in html


def test_a_deleted_repeat_still_counts_and_another_deleted_run_does_not(history: History) -> None:
    first = run(1)
    result = run(2, earlier=first.as_repeats())
    for one in (first, *(run(number) for number in (3, 4, 5)), result):
        history.append(one)
    assert len(history.processes(result)) == 5
    history.delete(["run 1"])
    assert len(history.processes(result)) == 5
    history.delete(["run 4", "run 5"])
    assert sorted(history.processes(result)) == pytest.approx([2 * math.exp(0.02 * number) for number in (1, 2, 3)])


def test_the_history_is_read_once_for_each_result_that_is_shown(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    result, section = run(2, earlier=run(1, earlier=run(0).as_repeats()).as_repeats()), reruns.section(history)
    processes = history.processes
    monkeypatch.setattr(history, "processes", lambda of: read.append(of.id) or processes(of))
    for _ in range(2):
        assert section.title(result, ENGLISH) and section.html(result, ENGLISH)
        assert section.figure(result, ENGLISH) is not None  # type: ignore[misc]
    assert read == ["run 2", "run 2"]


def test_other_settings_and_void_runs_do_not_count(history: History) -> None:
    void = Compilation(5.5, "cold", 1, recompiles_while_timing=1)
    for number in range(1, 4):
        history.append(run(number, compilation=void))
        history.append(
            run(number + 10, spec=RunSpec("shapes-vit", "image-classification", device="cpu", freezing=True))
        )
    assert shown(history, run(0))[0] == ""
    for number in (5, 6):
        history.append(run(number))
    assert shown(history, run(0))[0].startswith("Reruns: 3 processes")
    assert shown(history, run(0, compilation=void))[0] == ""


def test_a_history_that_cannot_be_read_has_no_section(history: History) -> None:
    history.path.write_bytes(b"not a database, and long enough to be looked at" * 10)
    assert shown(history, run(0)) == ("", "", None)


def test_it_is_told_in_every_language_and_with_harmless_text(history: History) -> None:
    spec = RunSpec(f"{HOSTILE}/model", "image-classification", device="cpu")
    for number in range(3):
        history.append(run(number, spec=spec))
    section = reruns.section(history)
    titles = {section.title(run(2, spec=spec), lang) for lang in LANGUAGES.values()}
    assert len(titles) == len(LANGUAGES)
    for lang in LANGUAGES.values():
        figure = section.figure(run(2, spec=spec), lang)  # type: ignore[misc]
        assert "<img" not in figure.layout.meta["aloud"] + str(figure.layout.annotations[-1].text)
