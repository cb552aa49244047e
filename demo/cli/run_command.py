"""`python -m demo run`: times one model, eager and compiled, on a picture, a prompt, or a user's own inputs."""

import argparse
import contextlib
import os
import re
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..core import format as fmt, program
from ..core.catalog import find
from ..core.machine import HostInfo
from ..core.options import BadInput, OptionValues, RunSpec
from ..core.progress import Progress
from ..core.refusals import on_machine
from ..core.result import RunResult
from ..core.result_json import dumps
from ..core.stats import Interval
from ..present import markdown, share, whole_work
from ..present.report import Report
from ..present.script import loading_lines
from ..runs.forecast import memory_doubt
from ..runs.ongoing import Files
from ..store import hub_dataset
from ..store.database import HistoryError
from ..store.history import History
from . import common, terminal

NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML file may hold: https://www.w3.org/TR/xml/#charsets."""


def add_to(commands: common.Commands) -> None:
    parser = commands.add_parser("run", help="time one checkpoint, eager and compiled, on one picture or prompt")
    parser.set_defaults(command=_run)
    common.add_model(parser)
    common.add_options(parser)
    trace, package = (partial(_new_file, ending=ending) for ending in (".json.gz", ".pt2"))
    text = "write what the profiler saw to FILE.json.gz, for Perfetto, which knows a packed trace by its name"
    parser.add_argument("--trace", type=trace, metavar="FILE", help=text)
    text = "build with AOTInductor and keep its package in FILE.pt2"
    parser.add_argument("--package", type=package, metavar="FILE.pt2", help=text)
    text = "write the result with all details as Markdown"
    parser.add_argument("--export-markdown", type=common.output_file, metavar="FILE", help=text)
    text = "write the result as one HTML file to send: race, slider, machine; without FILE into this folder"
    names = ("--share", "--html")
    parser.add_argument(*names, type=common.output_file, nargs="?", const=Path(), metavar="FILE.html", help=text)
    common.add_calls(parser, " With --at-least the gate is over the whole work.")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")
    parser.add_argument("--full", action="store_true", help="print every figure, as `history ID` does")
    text = "end with 0 if the speed-up is known to be at least this, such as 1.05; with 1 if it is known to be less "
    text += "or the outputs differ; with 3 if this run cannot tell"
    parser.add_argument("--at-least", type=common.above_zero, metavar="RATIO", help=text)
    text = "what --at-least makes of a run that cannot tell: pass ends with 0, fail with 1; default: it ends with 3"
    parser.add_argument("--undecided", choices=("pass", "fail"), help=text)
    text = "write how the gate ended as a JUnit report: one test, skipped where the run cannot tell"
    parser.add_argument("--junit", type=common.output_file, metavar="FILE.xml", help=text)


def run_options(options: argparse.Namespace) -> OptionValues:
    """Returns the options that the user typed, and those that --trace (a profile) and --package (AOTInductor) need.

    Raises BadInput if the options contradict each other, as --trace and --profile off do.
    """
    values = common.option_values(options)
    if options.trace is not None and values.setdefault("profile", "on") == "off":
        raise BadInput("A trace is what the profiler saw: leave out --profile off, or --trace.")
    if options.package is not None and values.setdefault("compiler", "aot") != "aot":
        raise BadInput("A package is what AOTInductor builds: leave out --compiler jit, or --package.")
    return values


def _run(options: argparse.Namespace) -> int:
    if (options.undecided or options.junit) is not None and options.at_least is None:
        name = "--undecided" if options.undecided is not None else "--junit"
        raise BadInput(f"{name} says how a gate ends: give --at-least RATIO with it.")
    calls = common.asked_calls(options)
    if options.share is not None:
        hub_dataset.dataset_name()  # a wrong one is refused before the run
    spec = common.spec_of_options(options, run_options(options))
    image, history = common.input_picture(options.image, [spec]), History()
    began = time.monotonic()
    with common.stop_by_signal() as stop:
        result = _measure(history, spec, image, Files(options.trace, options.package), stop)
    seconds, report = time.monotonic() - began, Report(result)
    if options.trace is not None and options.trace.is_file():
        print(f"The trace lies in {options.trace}: open it at https://ui.perfetto.dev.", file=sys.stderr)
    if options.package is not None and options.package.is_file():
        lines = loading_lines(options.package)
        print(f"The package lies in {options.package}. Lines that load it:\n{lines}", file=sys.stderr)
    if options.json or options.full:
        print(dumps(result, calls) if options.json else terminal.in_full(report, calls))
    else:
        print(terminal.summary(report, terminal.obeys_codes(sys.stdout) and "NO_COLOR" not in os.environ, calls))
    if stored := _is_stored(history, result):
        print(f"Stored as {result.id}: {program.PROGRAM} history {result.id}", file=sys.stderr)
    if options.share is not None:
        _share(history, report, options.share, calls)
    if options.export_markdown is not None:
        options.export_markdown.write_text(markdown.of_run(report), encoding="utf-8")
    code, answer = common.OK, ""
    if options.at_least is not None and not stop.exit_code:
        code, answer = _gate(report, options, calls)
        word = {common.OK: "Passed", common.FAILED: "Failed", common.UNDECIDED: "Undecided"}[code]
        print(f"{word}: {answer}", file=sys.stderr)
        if options.junit is not None:
            _write_junit(options.junit, report, f"at least {options.at_least:g}×", code, answer, seconds)
    if stop.exit_code:
        return stop.exit_code
    return code if result.status == "ok" and stored else common.FAILED


def _write_junit(file: Path, report: Report, name: str, code: int, answer: str, seconds: float) -> None:
    """Writes a JUnit report with one test: the gate, which asks for a least speed-up (--at-least).

    The test fails if the gate fails, is skipped if the gate is undecided, and is an error if the run failed.

    - `name`: what the gate asks, 'at least 1.2×'. `seconds`: how long the run took.
    - `code` and `answer`: the exit code of the gate, and the reason in words.
    """
    result = report.result
    kind = {common.OK: "", common.FAILED: "failures", common.UNDECIDED: "skipped"}[code]
    if result.status != "ok":
        kind, answer = "errors", report.headline
    suites = ElementTree.Element("testsuites")
    counts = {end: str(int(end == kind)) for end in ("failures", "errors", "skipped")}
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "worth-compiling", "tests": "1", **counts})
    checkpoint = NO_XML.sub("\N{REPLACEMENT CHARACTER}", result.spec.checkpoint)
    case = ElementTree.SubElement(suite, "testcase", classname=checkpoint, name=name, time=f"{seconds:.3f}")
    if kind:
        message = NO_XML.sub("\N{REPLACEMENT CHARACTER}", answer)
        ElementTree.SubElement(case, kind.removesuffix("s"), message=message)
    summary = NO_XML.sub("\N{REPLACEMENT CHARACTER}", terminal.summary(report))
    ElementTree.SubElement(case, "system-out").text = summary
    ElementTree.ElementTree(suites).write(file, encoding="utf-8", xml_declaration=True)


def _share(history: History, report: Report, file: Path, calls: int | None) -> None:
    """Writes the result as one HTML file to send, and prints its path.

    If WORTH_COMPILING_DATASET names a dataset on the Hub, also uploads the file there, and prints where it is. If
    `file` is an empty path, a new file in the current folder is written, named after the run. `calls`: the number of
    calls at which the slider of the file starts; None for `USUAL_CALLS`.
    """
    if file == Path():
        file = Path(f"worth-compiling-{report.result.id}.html")
    text = share.page(report, calls or whole_work.USUAL_CALLS)
    file.write_text(text, encoding="utf-8")
    common.say_where_sent(history, report.result, file, text)


def _measure(history: History, spec: RunSpec, image: Path, files: Files, stop: threading.Event) -> RunResult:
    """Runs the spec, shows progress on standard error and returns the result.

    If `stop` is set, the run is cancelled, and a line says what was measured. With --repeats, the stored result of the
    newest process that had ended is then returned; if there is none, the cancelled result.
    """
    from ..runs.runner import Runner

    machine, latest = None, Progress("start", 0.0, 0.0)
    with terminal.progress_line() as line, closing(Runner(history)) as runner:
        with closing(runner.run(spec, image, stop, files)) as events:
            for event in events:
                if machine is None and (machine := runner.machine) is not None:
                    if machine.gpu_problem:
                        line.say(f"The GPU cannot be used: {machine.gpu_problem}. Until then runs use the CPU.")
                    if doubt := _memory_doubt(history, spec, machine):
                        line.say(doubt)
                if isinstance(event, RunResult):
                    result = event
                else:
                    line.show(event)
                    latest = event
        if result.status == "cancelled":
            line.say(f"Cancelled. {terminal.measured_so_far(latest)}")
            stored = _newest(history, spec, latest.repeat) if latest.repeat > 1 else []
            answered = [run for run in stored if replace(run.spec, device=spec.device) == spec and run.id != result.id]
            if answered:
                line.say(f"The answer of the run before it, of {latest.repeats} that were asked for:")
                return answered[0]
    return result


def _newest(history: History, spec: RunSpec, limit: int) -> list[RunResult]:
    """Returns the newest stored results of the spec's checkpoint, at most `limit`.

    Returns [] if they cannot be read: then the run's result cannot be stored either, and a note in it says so.
    """
    with contextlib.suppress(HistoryError):
        return history.all(limit, checkpoints=[spec.checkpoint])
    return []


def _is_stored(history: History, result: RunResult) -> bool:
    """Returns whether the result is stored. False if that cannot be read: then it could not be stored either."""
    with contextlib.suppress(HistoryError):
        return history.get(result.id) is not None
    return False


def _memory_doubt(history: History, spec: RunSpec, machine: HostInfo) -> str:
    return memory_doubt(on_machine(spec, machine), find(spec.checkpoint), _newest(history, spec, 100), machine)


def _gate(report: Report, options: argparse.Namespace, calls: int | None) -> tuple[int, str]:
    """Returns the exit code of the gate (is the speed-up at least --at-least?) and the reason in words.

    - FAILED also if the outputs differ. UNDECIDED, or what `--undecided` says, if the measurement cannot tell.
    - `calls`: None, or a number of calls. The gate then asks for the speed-up of a process with so many calls, first
      call included. With an empty and with a filled compile cache there are two: the lower one counts.
    """
    result, least, undecided = report.result, options.at_least, options.undecided
    known: Interval | None = report.speedup if report.kind != "void" else None
    over = ""
    if calls is not None:
        work = result.whole_work(calls) if result.failure is None else {}
        known = min((start.speedup for start in work.values()), key=lambda start: start.ratio, default=None)
        over = f" over {fmt.count(calls, result.main)}"
    compared = result.parity is not None and result.parity.verdict == "match"
    answer = f"the speed-up{over} is " + (fmt.ends(known.low, known.high) if known is not None else "not known")
    code = common.UNDECIDED
    if result.outputs_differ:
        code, answer = common.FAILED, "the outputs of eager and compiled differ"
    elif known is not None and known.high < least:
        code = common.FAILED
    elif known is not None and not compared:
        answer += ", and nobody knows whether the outputs agree"
    elif known is not None and known.low >= least:
        code = common.OK
    if code == common.UNDECIDED and undecided is not None:
        code, answer = (common.OK if undecided == "pass" else common.FAILED), f"{answer} (--undecided {undecided})"
    return code, f"{answer}, asked {least:g}×."


def _new_file(text: str, ending: str) -> Path:
    """An argparse type: returns the path of a new file, with `ending` added if the text lacks it.

    Refuses a file that exists already, or a path that cannot be written.
    """
    for part in reversed(ending.split(".")):
        text = text.removesuffix(f".{part}")
    path = common.output_file(text if os.path.isdir(text) else text + ending)
    if path.exists():
        raise argparse.ArgumentTypeError(f"the file {str(path)!r} exists already. Name a new one")
    return path
