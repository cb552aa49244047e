"""Progress and reports as a terminal shows them."""

import io

import pytest
from support.samples import BOXES, LABELS, SEGMENTS, ok_result
from support.scripted_runner import Terminal

from demo.cli import terminal
from demo.core.caveat import note
from demo.core.outputs import Predictions
from demo.core.progress import Progress
from demo.core.stats import Interval


def test_the_report_gives_the_answer_before_its_reasons() -> None:
    out = terminal.report(ok_result(caveats=(note("The clock of the GPU changed."),)))
    assert out.startswith("Compiled is 2.00× faster, 2.04 ms → 1.02 ms\nPays after ")
    parts = ["95 % confidence", "eager timed against itself: 0.3 %", "Fair: it rests on 1 process.", "circle 98 %"]
    parts += ["The clock of the GPU changed.", "timed calls of each", "In your own code:"]
    assert parts == sorted(parts, key=out.index)


@pytest.mark.parametrize(
    ("predictions", "line"),
    [
        (LABELS, "circle 98 %"),
        (BOXES, "circle 97 % at 10, 20, 60, 80"),
        (SEGMENTS, "sky, 60 % of the picture"),
        (Predictions(text="a \x1b[31mred"), "a \ufffd[31mred"),
        (Predictions(boxes=()), "nothing"),
    ],
)
def test_predictions_of_both_variants_stand_side_by_side(predictions: Predictions, line: str) -> None:
    text = terminal.report(ok_result(predictions={"eager": predictions, "compiled": predictions}))
    assert [row.count(line) for row in text.splitlines() if row.startswith(line)] == [2]


def test_progress_on_a_terminal_rewrites_one_line(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    line = terminal.ProgressLine(stream)
    for step in range(5):
        line.show(Progress("time", step / 5, float(step), code="a long message that does not fit" * 3))
    line.end()
    written = stream.getvalue()
    assert "\n" not in written
    assert written.count("\r") == 6
    assert all(len(text.removeprefix("\x1b[K")) < 40 for text in written.split("\r"))


def test_progress_in_a_file_is_a_line_a_phase() -> None:
    stream = io.StringIO()
    line = terminal.ProgressLine(stream)
    for tenth in range(250):
        line.show(Progress("compile" if tenth < 200 else "time", tenth / 250, tenth / 10))
    line.end()
    assert [text.split()[2] for text in stream.getvalue().splitlines()] == ["compile", "compile", "time"]


@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("I/O operation on closed file")])
def test_a_reader_that_left_does_not_end_the_run(error: Exception) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    line = terminal.ProgressLine(Gone())
    line.show(Progress("load", 0.0, 0.1))
    line.show(Progress("time", 0.5, 1.0))
    line.end()
    assert terminal.progress_text(Progress("load", 0.0, 0.1)).startswith("  0 %")


def test_progress_tells_the_figures_so_far() -> None:
    so_far = Interval(1.44, 1.42, 1.46)
    looked = Progress("time", 0.42, 3.2, 12.0, "", 80, 0.00147, 0.00102, speedup=so_far, repeat=2, repeats=3)
    assert terminal.progress_text(looked) == (
        " 42 %  run 2 of 3 · time · 3.2 s, about 10 s left · "
        "eager 1.47 ms, compiled 1.02 ms, 1.44× ±1.4 % in this process"
    )
