"""The autopilot: what counts as agreeing, and a whole search with a runner that makes times up."""

from __future__ import annotations

import dataclasses
import io
import re
import shlex
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samples import LABELS, MACHINE, measurement, ok_result

from demo.cli.autopilot import again, report
from demo.core import agreement, catalog
from demo.core.errors import BadInput
from demo.core.machine import HostInfo
from demo.core.measurement import GraphBreak
from demo.core.outputs import Box, Label, Parity, Predictions
from demo.core.result import Failure, RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import Repeat
from demo.core.stats import Interval
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
        self, spec: RunSpec, image: Path, cancel: threading.Event | None = None, *, earlier: tuple[Repeat, ...] = ()
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


def found(seconds: Any, tmp_path: Path, modes: tuple[str, ...] = autopilot.CPU_MODES) -> tuple[Answer, Made]:
    history = History(tmp_path / "history.sqlite3")
    runner = Made(history, seconds)
    chosen = [one for one in autopilot.candidates(SPEC, MACHINE) if one.mode in modes]
    steps = autopilot.run(SPEC, chosen, runner, MACHINE, history.all(), PICTURE, threading.Event())
    while True:
        try:
            next(steps)
        except StopIteration as stopped:
            return stopped.value, runner


def speed(spec: RunSpec) -> float:
    """bfloat16 with the channels last is the fastest, whatever else is set."""
    return (0.008, 0.004)[spec.dtype == "bfloat16"] - 0.001 * spec.channels_last - 0.0001 * (spec.mode == "lite")


def test_on_a_cpu_only_settings_that_differ_there_are_tried() -> None:
    chosen = autopilot.candidates(SPEC, MACHINE)
    assert len(chosen) == len(set(chosen)) == 3 * 3 * 2 * 2 + 2 * 3 * 2 * 2
    assert {(spec.compiler, spec.freezing) for spec in chosen} == {("jit", False), ("jit", True), ("aot", False)}
    assert not {spec.dtype for spec in chosen} & {"tf32"}
    assert len(autopilot.candidates(SPEC, dataclasses.replace(MACHINE, gpu="A GPU"))) == 5 * 4 * 2 * 2


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
    assert Counter(one.rung for one in answer.tries) == {1: 24, 2: 8 + 2 + 4}


def test_the_modes_that_try_kernels_out_wait_for_the_last_rung_and_only_with_the_fastest_settings(
    tmp_path: Path,
) -> None:
    answer, _ = found(lambda spec: speed(spec) / (2 if spec.mode in autopilot.LATE_MODES else 1), tmp_path)
    late = [one for one in answer.tries if one.spec.mode in autopilot.LATE_MODES]
    assert {(one.rung, one.spec.dtype, one.spec.channels_last) for one in late} == {(2, "bfloat16", True)}
    assert answer.winner is not None and answer.winner.spec.mode == "max-autotune-no-cudagraphs"


def test_freezing_and_packages_wait_as_well(tmp_path: Path) -> None:
    answer, _ = found(lambda spec: speed(spec) / (1 if spec.cached else 2 + spec.freezing), tmp_path)
    late = [one for one in answer.tries if not one.spec.cached]
    assert {(one.rung, one.spec.mode, one.spec.dtype, one.spec.channels_last) for one in late} == {
        (2, "default", "bfloat16", True)
    }
    assert answer.winner is not None and answer.winner.spec.freezing


def test_where_nothing_else_was_chosen_they_do_not_wait(tmp_path: Path) -> None:
    answer, _ = found(speed, tmp_path, ("max-autotune-no-cudagraphs",))
    assert Counter(one.rung for one in answer.tries) == {1: 12, 2: 4}


def test_the_forecast_counts_no_fewer_runs_than_there_are_and_few_that_autotune(tmp_path: Path) -> None:
    gpu = dataclasses.replace(MACHINE, gpu="A GPU")
    search, last = autopilot.planned(SPEC, autopilot.candidates(SPEC, gpu), gpu)
    assert sum(spec.mode in autopilot.LATE_MODES for spec in search) == 6 * 2
    assert len(search) == 1 + 48 + 16 + 12
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


def test_a_setting_whose_check_failed_is_dropped(tmp_path: Path) -> None:
    def seconds(spec: RunSpec) -> Any:
        if spec.dtype == "float16":
            return lambda made: dataclasses.replace(
                made, parity=None, predictions=None, compiled=measurement(0.0001), warnings=("Not all was examined.",)
            )
        return speed(spec)

    answer, _ = found(seconds, tmp_path)
    assert answer.winner is not None and answer.winner.spec.dtype != "float16"


def test_a_setting_that_fails_is_a_try_with_its_reason(tmp_path: Path) -> None:
    def seconds(spec: RunSpec) -> Any:
        if spec.mode == "default" and spec.attention == "auto":
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


def test_what_fullgraph_would_do_is_told_from_the_graphs(tmp_path: Path) -> None:
    answer, _ = found(speed, tmp_path)
    assert "one graph already" in answer.fullgraph
    assert answer.winner is not None and answer.winner.compilation is not None
    broken = dataclasses.replace(answer.winner.compilation, graphs=2, graph_breaks=(GraphBreak("print", ""),))
    other = dataclasses.replace(answer, winner=dataclasses.replace(answer.winner, compilation=broken))
    assert "would fail" in other.fullgraph


def test_a_search_that_is_asked_again_runs_only_the_last_comparison(tmp_path: Path) -> None:
    found(speed, tmp_path)
    _, runner = found_again(tmp_path)
    assert len(runner.ran) == 2 * autopilot.ROUNDS


def found_again(tmp_path: Path) -> tuple[Answer, Made]:
    history = History(tmp_path / "history.sqlite3")
    runner = Made(history, speed)
    runner.ran = []
    runner.history = History(tmp_path / "other.sqlite3")  # ids start anew
    chosen = autopilot.candidates(SPEC, MACHINE)
    steps = autopilot.run(SPEC, chosen, runner, MACHINE, history.all(), PICTURE, threading.Event())
    while True:
        try:
            next(steps)
        except StopIteration as stopped:
            return stopped.value, runner


def test_the_report_names_the_winner_its_interval_every_try_and_the_command(tmp_path: Path) -> None:
    answer, _ = found(speed, tmp_path)
    text = report(answer)
    assert text.startswith("lite, bfloat16, channels last, attention ")
    assert "3.45× as fast as plain eager float32" in text
    assert "from 3 runs of each in alternation" in text
    assert text.count("run-") == 38 + 1
    assert answer.winner is not None
    assert again(answer.winner.spec) in text
    assert text.endswith(f"python -m demo script {answer.winner.id} > run.py")
    assert "--mode lite --dtype bfloat16" in text and "--channels-last" in text


def test_text_generation_has_neither_memory_formats_nor_packages_to_try() -> None:
    spec = catalog.make_spec("shapes-gemma", prompt="The", tokens=9)
    chosen = autopilot.candidates(spec, MACHINE)
    assert {(one.prompt, one.tokens, one.compiler, one.channels_last) for one in chosen} == {("The", 9, "jit", False)}
    assert {one.freezing for one in chosen} == {False, True} and len(chosen) == len(set(chosen))


# The command


def commanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *more: str) -> int:
    """`python -m demo autopilot` with a runner that makes times up."""
    from demo.cli import autopilot as command
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


@pytest.mark.parametrize(("more", "typed", "runs"), [([], "no\n", False), (["--yes"], "", True), ([], "\n", True)])
def test_a_search_of_minutes_is_asked_for_on_a_terminal(
    more: list[str], typed: str, runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = type("Terminal", (io.StringIO,), {"isatty": lambda self: True})
    monkeypatch.setattr("sys.stdin", terminal(typed))
    monkeypatch.setattr("sys.stderr", shown := terminal())
    assert commanded(monkeypatch, tmp_path, "--mode", "lite", "--dtype", "bfloat16", *more) == 0
    assert ("Start? [Y/n]" in shown.getvalue()) is not more
    assert bool(History(tmp_path / "data" / "history.sqlite3").all()) is runs


def test_a_search_that_is_stopped_says_what_is_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(steps: Any) -> Answer:
        next(steps)
        raise KeyboardInterrupt

    monkeypatch.setattr("demo.cli.autopilot._followed", stopped)
    assert commanded(monkeypatch, tmp_path, "--mode", "lite", "--dtype", "bfloat16") == 130
    assert "Stopped: what was tried is stored" in capsys.readouterr().err


@pytest.mark.parametrize("image", [None, "my photo.png"])
def test_the_command_for_the_winner_can_be_pasted_as_it_is(image: str | None, tmp_path: Path) -> None:
    from demo.cli.main import parser

    answer, _ = found(speed, tmp_path)
    (line,) = [line for line in report(answer, image).splitlines() if line.startswith("  python -m demo run")]
    assert parser().parse_args(shlex.split(line)[3:]).image == image


def test_an_interval_that_says_nothing_is_said_to_say_nothing(tmp_path: Path) -> None:
    answer, _ = found(speed, tmp_path)
    text = report(dataclasses.replace(answer, ratio=Interval(1.1, 0.004, 112.13)))
    assert "112.13" not in text and "1.10×" not in text
    assert "cannot be told" in text and "differ too much from one another" in text
    assert "No difference" in report(dataclasses.replace(answer, ratio=Interval(1.002, 0.99, 1.01)))


def test_the_command_forecasts_the_search_and_writes_the_winners_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "winner.py"
    assert commanded(monkeypatch, tmp_path, "--dtype", "bfloat16", "--script", str(path)) == 0
    told = capsys.readouterr().err
    chosen = [one for one in autopilot.candidates(SPEC, MACHINE) if one.dtype == "bfloat16"]
    planned = sum(map(len, autopilot.planned(SPEC, chosen, MACHINE)))
    assert f"20 settings to choose from; {planned} runs. {planned} to run: about " in told
    assert f"The winner's script lies in {path}." in told
    compile(path.read_text(), str(path), "exec")
    assert "bfloat16" in path.read_text()


def test_the_last_runs_of_a_second_search_are_forecast_since_they_are_always_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert commanded(monkeypatch, tmp_path, "--mode", "lite", "--dtype", "bfloat16") == 0
    _, to_run = re.findall(r"(\d+) to run: about ", capsys.readouterr().err)
    assert int(to_run) >= 2 * autopilot.ROUNDS


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--mode", "fastest", "default, max-autotune-no-cudagraphs, lite"),
        ("--mode", "reduce-overhead", "default, max-autotune-no-cudagraphs, lite"),
        ("--dtype", "int8", "float32, bfloat16, float16"),
    ],
)
def test_what_cannot_be_tried_here_is_refused_before_anything_runs(
    option: str,
    value: str,
    allowed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    more = ("--mode", "lite") if option == "--mode" else ("--dtype", "bfloat16")
    assert commanded(monkeypatch, tmp_path, *more, option, value) == 2
    told = capsys.readouterr().err
    assert repr(value) in told and f"Allowed: {allowed}." in told
    assert "to choose from" not in told


@pytest.mark.parametrize("task", [None, "image-classification"])
def test_the_command_that_runs_the_winner_again_asks_for_exactly_that(task: str | None, tmp_path: Path) -> None:
    """A checkpoint that is not in the list needs its task, and a GPU's machine must be told of the CPU."""
    from demo.cli.main import parser
    from demo.cli.run import asked

    spec = catalog.make_spec(
        str(tmp_path) if task else "shapes-vit",
        task,
        folders=True,
        device="cpu",
        mode="lite",
        channels_last=True,
        attention="sdpa",
    )
    program = ["python", "-m", "demo"]
    words = shlex.split(again(spec))
    assert words[:3] == program
    assert catalog.make_spec(**asked(parser().parse_args(words[3:])), folders=True) == spec


@pytest.mark.parametrize("prompt", ["The picture's", "-1", "--prompt", "two\n lines"])
def test_so_does_the_command_with_a_prompt(prompt: str) -> None:
    from demo.cli.main import parser
    from demo.cli.run import asked

    spec = catalog.make_spec("shapes-gemma", prompt=prompt, tokens=9)
    assert catalog.make_spec(**asked(parser().parse_args(shlex.split(again(spec))[3:]))) == spec


def test_a_script_that_could_not_be_written_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commanded(monkeypatch, tmp_path, "--script", str(tmp_path / "no" / "winner.py")) == 2
    assert "does not exist. Make it, or name another file" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
