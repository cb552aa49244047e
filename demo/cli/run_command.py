"""`python -m demo run`: times one checkpoint, eager and compiled, on one picture or one prompt."""

import argparse
import os
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from ..core.catalog import find
from ..core.machine import HostInfo
from ..core.options import BadInput, RunSpec
from ..core.refusals import on_machine
from ..core.result import RunResult
from ..core.result_json import dumps
from ..present import markdown, verdict
from ..present.script import loading_lines
from ..runs.forecast import memory_doubt
from ..runs.outcome import Files
from ..store.history import History
from . import common, terminal


def add_to(commands: Any) -> None:
    parser = commands.add_parser("run", help="time one checkpoint, eager and compiled, on one picture or prompt")
    parser.set_defaults(command=_run)
    common.add_model(parser)
    common.add_options(parser)
    trace, package = (partial(_new_file, ending=ending) for ending in (".json.gz", ".pt2"))
    text = "write what the profiler saw to FILE.json.gz, for Perfetto, which knows a packed trace by its name"
    parser.add_argument("--trace", type=trace, metavar="FILE", help=text)
    text = "build with AOTInductor and keep its package in FILE.pt2"
    parser.add_argument("--package", type=package, metavar="FILE.pt2", help=text)
    text = "write the figures as a Markdown table"
    parser.add_argument("--export-markdown", type=common.output_file, metavar="FILE", help=text)
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")
    parser.add_argument("--full", action="store_true", help="print every figure, as `history ID` does")
    text = "end with 1 unless the speed-up is known to be at least this, such as 1.05"
    parser.add_argument("--at-least", type=common.above_zero, metavar="RATIO", help=text)


def run_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that the user typed, plus those that --trace (a profile) and --package (AOTInductor) need.

    Raises BadInput if they contradict each other, such as --trace and --profile off.
    """
    given = common.option_values(options)
    if options.trace is not None and given.setdefault("profile", "on") == "off":
        raise BadInput("A trace is what the profiler saw: leave out --profile off, or --trace.")
    if options.package is not None and given.setdefault("compiler", "aot") != "aot":
        raise BadInput("A package is what AOTInductor builds: leave out --compiler jit, or --package.")
    return given


def _run(options: argparse.Namespace) -> int:
    spec = common.make_spec(options, run_options(options))
    image, history = common.picture(options.image, [spec]), History()
    result = _measure(history, spec, image, Files(options.trace, options.package))
    if options.trace is not None and options.trace.is_file():
        print(f"The trace lies in {options.trace}: open it at https://ui.perfetto.dev.", file=sys.stderr)
    if options.package is not None and options.package.is_file():
        lines = loading_lines(options.package)
        print(f"The package lies in {options.package}. Lines that load it:\n{lines}", file=sys.stderr)
    if options.json or options.full:
        print(dumps(result) if options.json else terminal.report(result))
    else:
        print(terminal.summary(result, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ))
    if stored := history.get(result.id) is not None:
        print(f"Stored as {result.id}: {common.PROGRAM} history {result.id}", file=sys.stderr)
    if options.export_markdown is not None:
        options.export_markdown.write_text(markdown.of_run(result), encoding="utf-8")
    passed = options.at_least is None or _passes(result, options.at_least)
    return common.OK if passed and result.status == "ok" and stored else common.FAILED


def _measure(history: History, spec: RunSpec, image: Path, files: Files) -> RunResult:
    """Runs the spec, shows progress on standard error and returns the result."""
    from ..runs.runner import Runner

    machine, stopped = None, "Cancelled. What was measured is stored."
    with terminal.progress_line(stopped) as line, closing(Runner(history)) as runner:
        with closing(runner.run(spec, image, files=files)) as events:
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
    return result


def _memory_doubt(history: History, spec: RunSpec, machine: HostInfo) -> str:
    try:
        stored = history.all(limit=100, checkpoints=[spec.checkpoint])
    except BadInput:  # it cannot be read; the end of the run says so
        stored = []
    return memory_doubt(on_machine(spec, machine), find(spec.checkpoint), stored, machine)


def _passes(result: RunResult, least: float) -> bool:
    """Returns whether outputs agree and the speed-up's interval begins at `least` or above. Prints that to stderr."""
    known = verdict.outcome(result) not in (None, "void") and not (result.outputs_differ or result.outputs_unknown)
    low = result.speedup.low if known and result.speedup is not None else 0.0
    passed = low >= least
    found = f"at least {low:.2f}×" if low else "not known"
    print(f"{'Passed' if passed else 'Failed'}: the speed-up is {found}, asked {least:g}×.", file=sys.stderr)
    return passed


def _new_file(text: str, ending: str) -> Path:
    """Returns the path of a new file, with `ending` added if the text lacks it; for argparse."""
    for part in reversed(ending.split(".")):
        text = text.removesuffix(f".{part}")
    path = common.output_file(text if os.path.isdir(text) else text + ending)
    if path.exists():
        raise argparse.ArgumentTypeError(f"the file {str(path)!r} exists already. Name a new one")
    return path
