"""The command line in this process with a scripted runner, and in child processes where only a process can tell."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from samples import BOXES, LABELS, SEGMENTS, failed_result, ok_result

from demo.cli import terminal
from demo.cli.history import LISTED
from demo.cli.run import main
from demo.core import catalog
from demo.core import format as fmt
from demo.core.result import BadInput, Predictions, Progress, RunResult, RunSpec
from demo.core.stats import Interval
from demo.runs import runner
from demo.store.history import FOLDER_VARIABLE, History

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = sorted((ROOT / "assets" / "examples").glob("*.png"))[0]
RUN = ["run", "--checkpoint", "shapes-vit", "--image", str(EXAMPLE)]


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "data"))
    return tmp_path / "data"


class ScriptedRunner:
    """Stands in for `demo.runs.runner.Runner`: yields what it was told and remembers what it was asked."""

    def __init__(self, *events: Progress | RunResult | BaseException) -> None:
        self.events = events
        self.specs: list[RunSpec] = []
        self.trace: Path | None = None
        self.closed = False

    def __call__(self, history: History) -> "ScriptedRunner":
        return self

    def run(
        self, spec: RunSpec, image: Path, cancel: threading.Event, trace: Path | None = None
    ) -> Iterator[Progress | RunResult]:
        self.specs.append(spec)
        self.trace = trace
        for event in self.events:
            if isinstance(event, BaseException):
                raise event
            yield event

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Any:
    def script(*events: Progress | RunResult | BaseException) -> ScriptedRunner:
        fake = ScriptedRunner(*events)
        monkeypatch.setattr(runner, "Runner", fake)
        return fake

    return script


def python(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, **options
    )


# What is printed


def test_a_trace_is_asked_of_the_run_which_is_then_profiled(scripted: Any, tmp_path: Path) -> None:
    fake = scripted(ok_result())
    assert main([*RUN, "--trace", str(tmp_path / "seen")]) == 0
    assert fake.trace == tmp_path / "seen.json.gz"
    assert fake.specs[0].profile == "on"


def test_a_trace_never_writes_over_a_file(scripted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scripted(ok_result())
    (tmp_path / "seen.json.gz").write_text("mine")
    assert main([*RUN, "--trace", str(tmp_path / "seen.json.gz")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_json_is_all_that_stands_on_standard_output(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scripted(Progress("time", 0.5, 1.0), ok_result())
    assert main([*RUN, "--json"]) == 0
    said = capsys.readouterr()
    assert said.out == ok_result().dumps() + "\n"
    assert "time" in said.err


def test_the_report_gives_the_answer_its_interval_the_noise_floor_and_what_was_seen(
    scripted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(ok_result(warnings=("The clock of the GPU changed.",)))
    assert main(RUN) == 0
    out = capsys.readouterr().out
    assert out.startswith("Compiled is 2.00× faster, 2.04 ms → 1.02 ms\n")
    for part in ("95 % confidence", "noise floor", "First compiled call", "circle 98 %", "- The clock of the GPU"):
        assert part in out


def test_a_failure_is_told_with_its_remedy_and_is_no_success(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scripted(failed_result())
    assert main(RUN) == 1
    assert capsys.readouterr().out.startswith(
        "Batch size 256 ran out of memory on a T4 (15 GB) while compiling.\nTry 64.\n"
    )


def test_a_failure_as_json_is_told_in_words_on_standard_error(
    scripted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    scripted(failed_result())
    assert main([*RUN, "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["status"] == "out_of_memory"
    assert "Try 64." in said.err


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_result_that_was_not_stored_is_printed_all_the_same(
    scripted: Any, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    scripted(ok_result(warnings=("This result was not stored: the disk is full.",)))
    assert main([*RUN, *form]) == 0
    said = capsys.readouterr()
    assert "not stored" in (said.err if form else said.out)
    assert "2.0" in said.out


@pytest.mark.parametrize(
    ("predictions", "line"),
    [
        (LABELS, "circle 98 %"),
        (BOXES, "circle 97 % at 10, 20, 60, 80"),
        (SEGMENTS, "sky, 60 % of the picture"),
        (Predictions(boxes=()), "nothing"),
        (Predictions(labels=LABELS.labels * 3), "and 4 more"),  # type: ignore[operator]
    ],
)
def test_predictions_of_both_variants_stand_side_by_side(predictions: Predictions, line: str) -> None:
    text = terminal.report(ok_result(predictions={"eager": predictions, "compiled": predictions}))
    assert [row.count(line) for row in text.splitlines() if line in row] == [2]


def test_a_run_without_predictions_shows_none() -> None:
    assert "sees" not in terminal.report(ok_result(predictions=None))


# What is asked


def test_what_was_typed_reaches_the_runner_as_a_spec(scripted: Any) -> None:
    fake = scripted(ok_result())
    arguments = "--batch-size 4 --mode max-autotune --dtype bfloat16 --device cpu --weights random --iterations 40"
    main([*RUN, *arguments.split(), "--fullgraph"])
    assert fake.specs == [
        RunSpec(
            "shapes-vit",
            "image-classification",
            batch_size=4,
            mode="max-autotune",
            fullgraph=True,
            dtype="bfloat16",
            device="cpu",
            weights="random",
            iterations=40,
        )
    ]


@pytest.mark.parametrize("text", [["--text", "a cat, a dog"], ["--text", "a cat", "--text", "a dog"]])
def test_text_is_separated_by_commas_or_given_again(scripted: Any, text: list[str]) -> None:
    fake = scripted(ok_result())
    main(["run", "--checkpoint", "google/owlvit-base-patch32", "--image", str(EXAMPLE), *text])
    assert fake.specs[0].text == ("a cat", "a dog")


def test_a_local_folder_is_a_checkpoint(scripted: Any, tmp_path: Path) -> None:
    fake = scripted(ok_result())
    main(["run", "--checkpoint", str(tmp_path), "--task", "object-detection", "--image", str(EXAMPLE)])
    assert fake.specs[0].checkpoint == str(tmp_path)


LONG = "x" * 300
"""No file can be called so."""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--checkpoint", "shapes-vit"], f"--image {os.path.relpath(EXAMPLE)}"),
        (["run", "--checkpoint", "shapes-vit", "--image", "no-such.png"], "'no-such.png' does not exist"),
        (["run", "--checkpoint", "shapes-vit", "--image", "."], "is not a file"),
        (["run", "--image", str(EXAMPLE)], "No checkpoint"),
        ([*RUN, "--batch-size", "0"], "from 1 to"),
        ([*RUN, "--batch-size", "-1"], "-1"),
        ([*RUN, "--batch-size", "1.5"], "1.5"),
        ([*RUN, "--batch-size", "10000"], "10000"),
        ([*RUN, "--batch-size", "many"], "many"),
        ([*RUN, "--batch-size", ""], "whole number"),
        ([*RUN, "--mode", "fastest"], "max-autotune"),
        ([*RUN, "--dtype", "int8"], "bfloat16"),
        ([*RUN, "--device", "tpu"], "cuda"),
        ([*RUN, "--weights", "heavy"], "random"),
        ([*RUN, "--iterations", "1"], "10"),
        ([*RUN, "--task", "object-detection"], "shapes-rtdetr"),
        ([*RUN, "--task", "poetry"], "image-classification"),
        ([*RUN, "--text", "a cat"], "takes no text"),
        (["run", "--checkpoint", "google/owlvit-base-patch32", "--image", str(EXAMPLE)], "text queries"),
        (["run", "--checkpoint", "shapes-vti", "--image", str(EXAMPLE)], "shapes-vit"),
        (["run", "--checkpoint", "some/model", "--image", str(EXAMPLE)], "task"),
        (["run", "--checkpoint", "./no-such-folder", "--image", str(EXAMPLE)], "does not exist"),
        ([*RUN, "--fast"], "--fast"),
        ([*RUN, "--batch-size"], "--batch-size"),
        (["dance"], "dance"),
        (["history", "--limit", "0"], "whole number"),
        (["history", "--limit", "x"], "'x'"),
        (["history", "--limit", "9" * 5000], "whole number"),
        ([*RUN[:3], "--image", LONG], "File name too long"),
        (["run", "--checkpoint", f"/{LONG}", "--image", str(EXAMPLE)], "does not exist"),
        (["run", "--checkpoint", str(EXAMPLE), "--image", str(EXAMPLE)], "is a file: name the folder that holds it"),
        ([*RUN, "--trace", ""], "needs the name of a file"),
        ([*RUN, "--trace", f"/{LONG}/t"], "in no folder"),
        ([*RUN, "--trace", "t", "--profile", "off"], "leave out --profile off"),
        (["sweep", "--preset", "smoke", "--image", LONG], "File name too long"),
        (["sweep", "--preset", "smoke", "--out", f"/{LONG}/t.csv"], "does not exist"),
        (["autopilot", "--checkpoint", "shapes-vit", "--script", f"/{LONG}/t.py"], "does not exist"),
        (["cache", "save", f"/{LONG}/t", "--checkpoint", "shapes-vit"], "does not exist"),
        (["history", "no-such-id"], "no-such-id"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(
    scripted: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    fake = scripted(ok_result())
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and said in err and err.endswith((".\n", "?\n"))
    assert fake.specs == []


def test_what_only_the_worker_can_see_is_bad_input_too(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    fake = scripted(Progress("load", 0.0, 0.1), BadInput("The file is no image that can be read: x.png."))
    assert main(RUN) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("The file is no image that can be read: x.png.\n")
    assert fake.closed


# Signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_run_and_its_result_is_still_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals, code: int
) -> None:
    class Cancellable(ScriptedRunner):
        def run(
            self, spec: RunSpec, image: Path, cancel: threading.Event, trace: Path | None = None
        ) -> Iterator[Progress | RunResult]:
            yield Progress("time", 0.5, 1.0)
            os.kill(os.getpid(), number)
            assert cancel.wait(5)
            yield failed_result(status="cancelled")

    before = signal.getsignal(number)
    monkeypatch.setattr(runner, "Runner", Cancellable())
    assert main([*RUN, "--json"]) == code
    assert json.loads(capsys.readouterr().out)["status"] == "cancelled"
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(ScriptedRunner):
        def run(
            self, spec: RunSpec, image: Path, cancel: threading.Event, trace: Path | None = None
        ) -> Iterator[Progress | RunResult]:
            for _ in range(3):
                yield Progress("compile", 0.2, 1.0)
                os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("still running after the second Ctrl-C")

    fake = Deaf()
    monkeypatch.setattr(runner, "Runner", fake)
    assert main(RUN) == 130
    assert fake.closed


def _processes_with(marker: str) -> list[int]:
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker.encode() in environment.read_bytes():
                found.append(int(environment.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_ctrl_c_kills_the_worker_and_stores_the_cancelled_result(data_folder: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "demo", *RUN, "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, FOLDER_VARIABLE: str(data_folder)},
    )
    assert child.stderr is not None
    child.stderr.readline()  # the first line of progress: the run has begun
    assert len(_processes_with(str(data_folder))) >= 2
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "Traceback" not in err
    assert [result.status for result in History().all()] == ["cancelled"]
    assert json.loads(out)["status"] == "cancelled"
    assert _processes_with(str(data_folder)) == []


# Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_rewrites_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    line = terminal.ProgressLine(stream)
    for step in range(5):
        line.show(Progress("time", step / 5, float(step), message="a long message that does not fit" * 3))
    line.end()
    written = stream.getvalue()
    assert "\n" not in written
    assert written.count("\r") == 6
    assert all(len(text.removeprefix("\x1b[K")) < 40 for text in written.split("\r"))


def test_progress_in_a_file_is_a_line_a_phase_and_one_now_and_then() -> None:
    stream = io.StringIO()
    line = terminal.ProgressLine(stream)
    for tenth in range(250):
        line.show(Progress("compile" if tenth < 200 else "time", tenth / 250, tenth / 10))
    line.end()
    assert [text.split()[2] for text in stream.getvalue().splitlines()] == ["compile", "compile", "time"]


def test_progress_shows_the_figures_so_far() -> None:
    looked = Progress("time", 0.42, 3.2, 12.0, "", 80, 0.00147, 0.00102, Interval(1.44, 1.42, 1.46))
    assert terminal.progress_text(looked) == (
        " 42 %  time · 3.2 s, about 12 s left · eager 1.47 ms, compiled 1.02 ms, 1.44× ±1.4 %"
    )


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("I/O operation on closed file")])
def test_a_reader_of_the_progress_that_left_does_not_end_the_run(error: Exception) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    line = terminal.ProgressLine(Gone())
    line.show(Progress("load", 0.0, 0.1))
    line.show(Progress("time", 0.5, 1.0))
    line.end()
    assert terminal.progress_text(Progress("load", 0.0, 0.1)).startswith("  0 %")


# list, history


def test_list_names_every_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [checkpoint.id for checkpoint in catalog.CHECKPOINTS]


def test_list_as_json_is_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["id"] for entry in listed] == [checkpoint.id for checkpoint in catalog.CHECKPOINTS]
    assert listed[0]["parameters"] == catalog.CHECKPOINTS[0].parameters


def test_history_lists_what_was_stored_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    for result in (ok_result(), failed_result()):
        History().append(result)
    assert main(["history"]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert "out_of_memory" in first and failed_result().id in first
    assert "2.00× faster" in second and "2026-11-21 09:00:00" in second
    assert first.index("out_of_memory") == head.index("status")


def test_history_as_json_is_the_stored_results(capsys: pytest.CaptureFixture[str]) -> None:
    for result in (ok_result(), failed_result()):
        History().append(result)
    assert main(["history", "--json", "--limit", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == [failed_result().to_json()]


def test_a_long_history_is_cut_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(LISTED + 2):
        History().append(failed_result(id=f"r{number}"))
    assert main(["history"]) == 0
    listed = capsys.readouterr()
    assert len(listed.out.splitlines()) == 1 + LISTED
    assert f"newest {LISTED} of {LISTED + 2}" in listed.err
    assert main(["history", "--limit", "51"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 51
    assert main(["history", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == LISTED + 2


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_history_shows_one_result_in_full(capsys: pytest.CaptureFixture[str], form: list[str]) -> None:
    History().append(ok_result())
    assert main(["history", ok_result().id, *form]) == 0
    expected = ok_result().dumps() if form else terminal.report(ok_result())
    assert capsys.readouterr().out == expected + "\n"


def test_history_without_results_says_where_they_will_be(capsys: pytest.CaptureFixture[str], data_folder: Path) -> None:
    assert main(["history"]) == 0
    assert str(data_folder) in capsys.readouterr().out
    assert main(["history", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"


def test_a_history_that_cannot_be_read_is_a_sentence(capsys: pytest.CaptureFixture[str], data_folder: Path) -> None:
    data_folder.mkdir()
    (data_folder / "history.sqlite3").write_text("not a database, and long enough to be looked at" * 10)
    assert main(["history"]) == 1
    assert "history.sqlite3" in capsys.readouterr().err


# The process


def test_without_a_command_it_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("run", "list", "doctor", "history", "serve"))


def test_serve_opens_the_page_as_app_does(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setitem(sys.modules, "app", SimpleNamespace(main=lambda mcp: opened.append("page")))
    assert main(["serve"]) == 0
    assert opened == ["page"]


@pytest.mark.parametrize("arguments", [["list"], ["history"], ["--help"], ["run", "--help"], ["run"]])
def test_no_command_that_only_looks_imports_torch_or_the_page(arguments: list[str]) -> None:
    code = f"""
import sys
from demo.cli.run import main
try:
    main({arguments!r})
except SystemExit:
    pass
print(sorted({{name.split(".")[0] for name in sys.modules}} & {{"torch", "transformers", "gradio", "plotly"}}))
"""
    assert python("-c", code).stdout.splitlines()[-1] == "[]"


def test_a_whole_run_imports_neither_torch_nor_the_page_into_its_own_process() -> None:
    code = f"""
import sys
from demo.cli import diagnosis as doctor
from demo.runs import runner
from demo.cli import terminal
from demo.cli.run import main
sys.path.insert(0, "tests")
from samples import ok_result
class Fake:
    def __init__(self, history): pass
    def run(self, *asked): yield ok_result()
    def close(self): pass
runner.Runner = Fake
assert main({RUN!r}) == 0
print(sorted({{name.split(".")[0] for name in sys.modules}} & {{"torch", "transformers", "gradio", "plotly"}}))
"""
    assert python("-c", code).stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("arguments", [["history"], ["list", "--json"]], ids=["one line", "many lines"])
def test_a_reader_that_leaves_early_is_no_error(arguments: list[str]) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "demo", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert child.stdout is not None and child.stderr is not None
    child.stdout.close()
    assert child.stderr.read() == ""
    assert child.wait() == 141
    child.stderr.close()


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("list --json >&-", 0, ""),
        ("run 2>&-", 2, ""),
        ("history <&- >&- 2>&-", 0, ""),
        ("list >/dev/full", 1, "No space left on device. Make room"),
    ],
)
def test_a_stream_that_is_closed_or_full_is_no_traceback_and_goes_nowhere_else(
    data_folder: Path, command: str, code: int, said: str
) -> None:
    shell = f'exec "$0" -m demo {command}'
    done = subprocess.run(["sh", "-c", shell, sys.executable], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (RUN, "in phase 'start'. python -m demo doctor says"),
        (["sweep", "--preset", "smoke", "--yes"], "answer: ImportError: no libcudart. python -m demo doctor says"),
        (["autopilot", "--checkpoint", "shapes-vit"], "answer: ImportError: no libcudart. python -m demo doctor says"),
        (["cache", "load", "any"], "answer: ImportError: no libcudart. python -m demo doctor says"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_torch_that_cannot_be_imported_is_a_sentence(
    data_folder: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no libcudart')")
    done = python("-m", "demo", *arguments, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert said in " ".join(f"{done.stdout} {done.stderr}".split())
    assert arguments is RUN or "Traceback" not in done.stderr  # of a crash the worker's last words are logged


def test_output_is_utf_8_whatever_the_locale(data_folder: Path) -> None:
    History().append(ok_result())
    answer = subprocess.run(
        [sys.executable, "-m", "demo", "history"],
        cwd=ROOT,
        capture_output=True,
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", FOLDER_VARIABLE: str(data_folder)},
    )
    assert "2.00× faster" in answer.stdout.decode("utf-8")


def test_a_latency_in_the_report_is_the_one_of_the_json() -> None:
    eager = ok_result().to_json()["eager"]["median_ms"]
    assert fmt.latency(eager / 1e3) in terminal.report(ok_result())
