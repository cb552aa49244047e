"""Tests of progress lines, summaries and reports as a terminal shows them."""

import dataclasses
import io
import re
import threading

import pytest
from support.command_line import Terminal
from support.samples import ENVIRONMENT, failed_result, full_result, ok_result, text_result

from demo.cli import terminal
from demo.cli.terminal import ProgressLine, follow, progress_text
from demo.core.caveat import Caveat
from demo.core.options import RunSpec
from demo.core.outputs import Predictions
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.present import details
from demo.present.report import Report
from demo.sweep.run_grid import Timing


def summary(result: RunResult, colour: bool = False) -> str:
    return terminal.summary(Report(result), colour)


EVERYTHING = full_result(
    caveats=(Caveat("compiles_itself"), Caveat("wide", {"calls": "eager 12 %"})), without_breaks=ok_result().speedup
)


@pytest.mark.parametrize(
    "result", [ok_result(), EVERYTHING, text_result(), failed_result()], ids=["plain", "with all", "text", "failed"]
)
def test_a_summary_has_twelve_lines_at_most(result: RunResult) -> None:
    assert 3 <= len(summary(result).splitlines()) <= 12


@pytest.mark.parametrize(("device", "end"), [("cpu", "Example CPU, 2 cores"), ("cuda", "Example CPU")])
def test_a_processor_stands_with_its_cores(device: str, end: str) -> None:
    result = ok_result(spec=ok_result().spec.on(device))
    assert summary(result).splitlines()[0].endswith(f" · {end}")


def test_colours_mark_the_variants_and_the_answer() -> None:
    lines = summary(ok_result(), colour=True).splitlines()
    assert [re.findall(r"\x1b\[([\d;]+)m", line)[0] for line in lines[:4]] == ["1", "33", "34", "1;32"]
    assert re.sub(r"\x1b\[[\d;]+m", "", "\n".join(lines)) == summary(ok_result())


def test_a_line_for_each_variant_has_latency_spread_range_and_calls() -> None:
    eager, compiled = summary(ok_result()).splitlines()[1:3]
    assert re.split(r"\s{2,}", eager.strip()) == [
        "Eager",
        "2.04 ms",
        "middle half 2.00 ms … 2.08 ms, all 2.00 ms … 2.08 ms, 48 calls",
    ]
    assert compiled.split()[:2] == ["Compiled", "1.02"]


def test_a_name_from_outside_sends_no_code_to_the_terminal() -> None:
    environment = dataclasses.replace(ENVIRONMENT, device_name="\x1b[31mGPU")
    result = ok_result(environment=environment, spec=RunSpec("/home/me/a\x1b[2J\nb", "image-classification"))
    assert "\x1b" not in summary(result)
    table = terminal.history_table([result])
    assert "\x1b" not in table and len(table.splitlines()) == 2
    stream = io.StringIO()
    ProgressLine(stream).say("\x1b[2J")
    assert "\x1b" not in stream.getvalue()


def test_a_report_is_the_summary_with_what_stands_behind_it() -> None:
    both = {"eager": Predictions(text="a \x1b[31mred"), "compiled": Predictions(boxes=())}
    text = terminal.in_full(Report(ok_result(predictions=both)))
    assert text.startswith(summary(ok_result(predictions=both)))
    parts = ["Picture: ", "eager: a \ufffd[31mred", "compiled: nothing", "timed calls of each", "In your own code:"]
    assert parts == sorted(parts, key=text.index)


def test_a_report_has_the_reasons_of_its_details() -> None:
    report = Report(EVERYTHING)
    sections = [section for fold in details.tree(report).values() for section in fold]
    text = " ".join(terminal.in_full(report).split())
    reasons = [fact.why for section in sections for fact in section.facts if fact.why]
    assert reasons and all(" ".join(reason.split()) in text for reason in reasons)


def test_progress_on_a_terminal_rewrites_one_line(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    line = ProgressLine(stream)
    for step in range(5):
        line.show(Progress("time", step / 5, float(step), code="a long message that does not fit" * 3))
    line.end()
    written = stream.getvalue()
    assert "\n" not in written
    assert written.count("\r") == 6
    assert all(len(text.removeprefix("\x1b[K")) < 40 for text in written.split("\r"))


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["a file", "a dumb terminal"])
def test_progress_that_cannot_be_rewritten_is_a_line_a_phase(stream: io.StringIO, monkeypatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    line = ProgressLine(stream)
    for phase in ("compile", "compile", "time"):
        line.show(Progress(phase, 0.5, 1.0))
    line.end()
    assert [text.split()[2] for text in stream.getvalue().splitlines()] == ["compile", "time"]


def test_progress_has_the_figures_so_far() -> None:
    progress = Progress("time", 0.42, 3.2, 12.0, "", 0.00147, 0.00102, repeat=2, repeats=3)
    text = " 42 %  run 2 of 3 · time · 3.2 s, about 10 s left · eager 1.47 ms, compiled 1.02 ms"
    assert progress_text(progress) == text


def test_a_long_phase_gives_signs_of_life(monkeypatch) -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    line.show(Progress("compile", 0.5, 1.0))
    line.show(Progress("compile", 0.5, 2.0))
    monkeypatch.setattr("demo.cli.terminal.SIGN_OF_LIFE_SECONDS", -1)
    line.show(Progress("compile", 0.5, 31.0))
    assert [text.split()[4] for text in stream.getvalue().splitlines()] == ["1.0", "31"]


def test_a_further_process_of_a_run_gets_a_line_in_a_log_at_once() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    for repeat in (1, 1, 2):
        line.show(Progress("start", 0.0, 1.0, repeat=repeat, repeats=2))
    first, second = stream.getvalue().splitlines()
    assert "run 2 of 2" in second and "run 2 of 2" not in first


@pytest.mark.parametrize(("expected", "count"), [(0.0, 1), (1e9, 0), (None, 0)])
def test_a_sweep_says_once_that_it_takes_longer(expected: float | None, count: int, capsys) -> None:
    events = (Timing(0, Progress("compile", 0.5, 1.0)) for _ in range(3))
    follow(events, str, threading.Event(), goes_on=True, expected_seconds=expected)
    assert capsys.readouterr().err.count("This takes longer than about 1 s, as it was estimated") == count
