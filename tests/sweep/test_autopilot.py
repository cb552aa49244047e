"""The autopilot: what counts as agreeing, and a whole search with a runner that makes times up."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import LABELS, MACHINE, measurement, ok_result

from demo.cli.autopilot_command import again, report
from demo.core import agreement, catalog
from demo.core.errors import BadInput
from demo.core.machine import HostInfo
from demo.core.outputs import Box, Label, Parity, Predictions
from demo.core.result import Failure, RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import ProcessResult
from demo.store.history import History
from demo.sweep import autopilot
from demo.sweep.autopilot import Answer
from demo.sweep.cells import Cell
from demo.sweep.grid import PICTURE

SPEC = catalog.make_spec("shapes-vit")


# Agreement


def labels(name: str, score: float) -> Predictions:
    return Predictions(labels=(Label(name, score), Label("other", 0.01)))


def boxes(*found: Box) -> Predictions:
    return Predictions(boxes=found)


ONE, ELSEWHERE = Box("cat", 0.9, (0, 0, 10, 10)), Box("cat", 0.9, (5, 5, 15, 15))


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (LABELS, LABELS, None),
        (labels("cat", 0.9), labels("cat", 0.88), None),
        (labels("cat", 0.9), labels("dog", 0.9), "sees dog where plain eager sees cat"),
        (labels("cat", 0.9), labels("cat", 0.7), "70 % where plain eager gives 90 %"),
        (boxes(ONE), boxes(dataclasses.replace(ONE, box=(0, 0, 10, 9.9))), None),
        (boxes(ONE), boxes(ELSEWHERE), "2 boxes more, fewer or elsewhere"),
        (labels("cat", 0.9), Predictions(labels=()), "gives no finite score where plain eager sees cat"),
        (Predictions(labels=()), labels("cat", 0.9), None),
        (boxes(ONE), boxes(), "1 boxes"),
        (boxes(), boxes(ONE), "1 boxes"),
        (boxes(ONE), boxes(dataclasses.replace(ONE, label="dog")), "2 boxes"),
        (boxes(ONE, ONE), boxes(ONE), "1 boxes"),
    ],
)
def test_a_user_sees_a_difference_in_labels_and_boxes(first: Predictions, second: Predictions, words: Any) -> None:
    found = agreement.difference(first, second)
    assert found is None if words is None else found is not None and words in found


# A whole search


class Made:
    """A runner whose compiled time is what `seconds` says of the spec; eager always takes 10 ms."""

    def __init__(self, history: History, seconds: Any) -> None:
        self.history = history
        self.seconds = seconds
        self.ran: list[RunSpec] = []

    def run(
        self,
        spec: RunSpec,
        image: Path,
        cancel: threading.Event | None = None,
        *,
        earlier: tuple[ProcessResult, ...] = (),
    ) -> Iterator[RunResult]:
        import hashlib

        self.ran.append(spec)
        made = ok_result(id=f"run-{len(self.history.all()) + 1}", spec=spec, eager=measurement(0.010))
        made = dataclasses.replace(
            made, image=dataclasses.replace(made.image, sha256=hashlib.sha256(image.read_bytes()).hexdigest())
        )
        answer = self.seconds(spec)
        if isinstance(answer, float):
            made = dataclasses.replace(made, compiled=measurement(answer))
        else:
            made = answer(made)
        self.history.append(made)
        yield made


def found(seconds: Any, tmp_path: Path, ran_into: str = "history") -> tuple[Answer, Made]:
    """The answer of a search that knows `history.sqlite3`, and its runner, which stores into the file named."""
    history = History(tmp_path / "history.sqlite3")
    runner = Made(History(tmp_path / f"{ran_into}.sqlite3"), seconds)
    chosen = autopilot.candidates(SPEC, MACHINE)
    steps = autopilot.run(SPEC, chosen, runner, MACHINE, history.all(), PICTURE, threading.Event())
    while True:
        try:
            next(steps)
        except StopIteration as stopped:
            return stopped.value, runner


def speed(spec: RunSpec) -> float:
    """bfloat16 with the channels last is the fastest, whatever else is set."""
    return (0.008, 0.004)[spec.dtype == "bfloat16"] - 0.001 * spec.channels_last - 0.0001 * (spec.mode == "lite")


def test_the_fastest_setting_wins_and_is_compared_with_plain_eager_float32(tmp_path: Path) -> None:
    answer, runner = found(speed, tmp_path)
    assert answer.winner is not None and answer.ratio is not None
    winner = answer.winner.spec
    assert (winner.dtype, winner.channels_last, winner.mode) == ("bfloat16", True, "lite")
    assert answer.ratio.ratio == pytest.approx(0.010 / 0.0029)
    assert answer.verdict == "faster"
    last = runner.ran[-6:]
    assert [spec == answer.plain for spec in last] == [True, False, False, True, True, False]
    assert answer.plain.dtype == "float32" and answer.plain.mode == "default" and not answer.plain.channels_last
    assert Counter(one.rung for one in answer.tries) == {1: 12, 2: 4 + 1 + 2}


def test_the_modes_that_try_kernels_out_wait_for_the_last_rung_and_only_with_the_fastest_settings(
    tmp_path: Path,
) -> None:
    answer, _ = found(lambda spec: speed(spec) / (2 if spec.mode in autopilot.LATE_MODES else 1), tmp_path)
    late = [one for one in answer.tries if one.spec.mode in autopilot.LATE_MODES]
    assert {(one.rung, one.spec.dtype, one.spec.channels_last) for one in late} == {(2, "bfloat16", True)}
    assert answer.winner is not None and answer.winner.spec.mode == "max-autotune-no-cudagraphs"


def test_the_forecast_counts_no_fewer_runs_than_there_are_and_few_that_autotune(tmp_path: Path) -> None:
    gpu = dataclasses.replace(MACHINE, gpu="A GPU")
    search, last = autopilot.planned(SPEC, autopilot.candidates(SPEC, gpu), gpu)
    assert sum(spec.mode in autopilot.LATE_MODES for spec in search) == 6
    assert len(search) == 1 + 24 + 8 + 6
    assert len(last) == 2 * autopilot.ROUNDS
    _, runner = found(speed, tmp_path)
    assert len(runner.ran) <= sum(map(len, autopilot.planned(SPEC, autopilot.candidates(SPEC, MACHINE), MACHINE)))


def test_a_faster_setting_that_does_not_agree_is_dropped_with_the_reason(tmp_path: Path) -> None:
    def seconds(spec: RunSpec) -> Any:
        if spec.dtype == "bfloat16":
            return lambda made: dataclasses.replace(made, parity=Parity("differ", 1.0, "Too far away."))
        if spec.dtype == "float16":
            other = {"eager": labels("star", 0.9), "compiled": labels("star", 0.9)}
            return lambda made: dataclasses.replace(made, predictions=other)
        return speed(spec)

    answer, _ = found(seconds, tmp_path)
    assert answer.winner is not None and answer.winner.spec.dtype == "float32"
    reasons = {one.spec.dtype: one.dropped for one in answer.tries}
    assert "Too far away" in reasons["bfloat16"]
    assert reasons["float16"] == "sees star where plain eager sees circle"
    assert reasons["float32"] == ""


@pytest.mark.parametrize(("error", "dropped"), [(None, True), (0.1, False)])
def test_a_setting_that_cannot_be_compared_is_dropped_unless_only_the_reference_was_missing(
    error: float | None, dropped: bool, tmp_path: Path
) -> None:
    def seconds(spec: RunSpec) -> Any:
        if spec.dtype == "float16":
            unknown = Parity("not comparable", error, "Nobody knows.")
            return lambda made: dataclasses.replace(made, parity=unknown, compiled=measurement(0.0001))
        return speed(spec)

    answer, _ = found(seconds, tmp_path)
    assert answer.winner is not None and (answer.winner.spec.dtype != "float16") == dropped
    reasons = {one.dropped for one in answer.tries if one.spec.dtype == "float16"}
    assert reasons == ({"cannot be compared with its own eager: Nobody knows."} if dropped else {""})


def test_a_setting_whose_compiled_model_sees_something_else_is_dropped_although_its_eager_one_agrees() -> None:
    reference = ok_result()
    other = Predictions(labels=(Label("something else", 0.9),))
    result = dataclasses.replace(reference, predictions={"eager": LABELS, "compiled": other})
    assert reference.predictions is not None and reference.predictions["eager"] == LABELS
    assert autopilot.judge(Cell(SPEC, result), reference, 1).dropped.startswith("sees something else where plain eager")
    assert autopilot.judge(Cell(SPEC, reference), reference, 1).dropped == ""


def test_a_setting_that_fails_is_a_try_with_its_reason(tmp_path: Path) -> None:
    def seconds(spec: RunSpec) -> Any:
        if spec == autopilot.plain(SPEC, MACHINE):
            return 0.008
        failure = Failure("compile", "No such kernel.", "Try another.")
        return lambda made: dataclasses.replace(made, status="compile_failed", failure=failure, compiled=None)

    answer, _ = found(seconds, tmp_path)
    assert answer.winner is None and answer.verdict == "unsure"
    assert {one.dropped for one in answer.tries} == {"compile failed: No such kernel."}
    assert "None of the settings" in report(answer)


def test_without_plain_eager_there_is_nothing_to_search(tmp_path: Path) -> None:
    failure = Failure("warm up", "Out of memory.", "Less.")

    def seconds(spec: RunSpec) -> Any:
        return lambda made: dataclasses.replace(
            made, status="out_of_memory", failure=failure, eager=None, compiled=None
        )

    with pytest.raises(BadInput, match="Plain eager float32 cannot be run"):
        found(seconds, tmp_path)


def test_plain_eager_is_not_beaten_by_what_is_slower(tmp_path: Path) -> None:
    answer, _ = found(lambda spec: 0.020, tmp_path)
    assert answer.verdict == "slower"
    assert "Plain eager float32 is the fastest" in report(answer)


def test_a_search_that_is_asked_again_runs_only_the_last_comparison(tmp_path: Path) -> None:
    found(speed, tmp_path)
    _, runner = found(speed, tmp_path, ran_into="other")  # ids start anew
    assert len(runner.ran) == 2 * autopilot.ROUNDS


def test_the_report_names_the_winner_its_interval_every_try_and_the_command(tmp_path: Path) -> None:
    answer, _ = found(speed, tmp_path)
    text = report(answer)
    assert text.startswith("lite, bfloat16, channels last, attention ")
    assert "3.45× as fast as plain eager float32" in text
    assert "from 3 runs of each in alternation" in text
    assert text.count("run-") == 19 + 1
    assert answer.winner is not None
    assert again(answer.winner.spec) in text
    assert text.endswith(f"python -m demo script {answer.winner.id} > run.py")
    assert "--mode lite --dtype bfloat16" in text and "--channels-last" in text


# The command


def commanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *more: str) -> int:
    """`python -m demo autopilot` with a runner that makes times up."""
    from demo.cli import autopilot_command as command
    from demo.cli import main
    from demo.runs import runner

    class Quick(Made):
        def __init__(self, history: History) -> None:
            super().__init__(history, speed)

        def inspect(self) -> HostInfo:
            return MACHINE

        def close(self) -> None:
            pass

    monkeypatch.setenv("WORTH_COMPILING_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(runner, "Runner", Quick)
    monkeypatch.setattr(command, "Precompiler", lambda: None)
    return main.main(["autopilot", "--checkpoint", "shapes-vit", *more])


def test_a_search_that_is_stopped_says_what_is_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(steps: Any) -> Answer:
        next(steps)
        raise KeyboardInterrupt

    monkeypatch.setattr("demo.cli.autopilot_command._followed", stopped)
    assert commanded(monkeypatch, tmp_path, "--mode", "lite", "--dtype", "bfloat16") == 130
    assert "Stopped: what was tried is stored" in capsys.readouterr().err
