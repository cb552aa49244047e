"""Progress and reports as a terminal shows them."""

import io

from support.samples import ok_result
from support.scripted_runner import Terminal

from demo.cli import terminal
from demo.cli.summary import summary
from demo.core.outputs import Predictions
from demo.core.progress import Progress


def test_the_report_is_the_summary_and_what_stands_behind_it() -> None:
    result = ok_result()
    out = terminal.report(result)
    assert out.startswith(summary(result))
    parts = ["Picture: ", "circle 98 %", "timed calls of each", "In your own code:"]
    assert parts == sorted(parts, key=out.index)


def test_predictions_of_both_variants_are_told() -> None:
    both = {"eager": Predictions(text="a \x1b[31mred"), "compiled": Predictions(boxes=())}
    text = terminal.report(ok_result(predictions=both))
    assert "eager: a \ufffd[31mred" in text and "compiled: nothing" in text


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
    for phase in ("compile", "compile", "time"):
        line.show(Progress(phase, 0.5, 1.0))
    line.end()
    assert [text.split()[2] for text in stream.getvalue().splitlines()] == ["compile", "time"]


def test_progress_tells_the_figures_so_far() -> None:
    looked = Progress("time", 0.42, 3.2, 12.0, "", 0.00147, 0.00102, repeat=2, repeats=3)
    told = " 42 %  run 2 of 3 · time · 3.2 s, about 10 s left · eager 1.47 ms, compiled 1.02 ms"
    assert terminal.progress_text(looked) == told
