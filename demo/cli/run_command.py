"""`python -m demo run`: one checkpoint timed, eager and compiled, on one picture or one prompt."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from demo.cli import common, terminal
from demo.cli.summary import summary
from demo.core import catalog, cores, format as fmt
from demo.core.result import RunResult
from demo.core.result_json import dumps
from demo.core.spec import TASKS, TEXT_GENERATION, BadInput, RunSpec
from demo.present import markdown, verdict
from demo.present.script import loading_lines
from demo.runs.outcome import Files
from demo.store.history import History


def add_to(commands: Any) -> None:
    parser = commands.add_parser("run", help="time one checkpoint, eager and compiled, on one picture or prompt")
    parser.set_defaults(command=_run)
    common.add_model(parser, f": {common.alternatives(TASKS)}")
    common.add_options(parser)
    parser.add_argument("--trace", metavar="FILE", help="write what the profiler saw to FILE.json.gz, for Perfetto")
    parser.add_argument("--package", metavar="FILE.pt2", help="build with AOTInductor and keep its package in FILE.pt2")
    parser.add_argument("--export-markdown", metavar="FILE", help="write the figures as a Markdown table")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")
    parser.add_argument("--full", action="store_true", help="print every figure, as `history ID` does")
    parser.add_argument(
        "--at-least", metavar="RATIO", help="end with 1 unless the speed-up is known to be at least this, such as 1.05"
    )


def asked(options: argparse.Namespace) -> dict[str, Any]:
    """The options of a run for what was given on the command line, as it was typed."""
    given = common.given_options(options)
    if options.trace is not None and given.setdefault("profile", "on") == "off":
        raise BadInput("A trace is what the profiler saw: leave out --profile off, or --trace.")
    if options.package is not None and given.setdefault("compiler", "aot") != "aot":
        raise BadInput("A package is what AOTInductor builds: leave out --compiler jit, or --package.")
    return given


def make_spec(options: argparse.Namespace, given: dict[str, Any]) -> RunSpec:
    """The spec of the checkpoint or of the own model that was asked for, with the options that are `given`."""
    if options.model is not None:
        if others := [name for name in ("checkpoint", "task", "image") if getattr(options, name) is not None]:
            raise BadInput(f"A model of your own brings its inputs along: leave out --{', --'.join(others)}.")
        return catalog.own_model_spec(options.model, **given)
    checkpoint = catalog.DEFAULT if options.checkpoint is None and options.task is None else options.checkpoint or ""
    known = catalog.find(checkpoint)
    if TEXT_GENERATION in (options.task, known and known.task):
        given = {"prompt": catalog.PROMPT, **given}
    return catalog.make_spec(checkpoint, options.task, folders=True, **given)


def _run(options: argparse.Namespace) -> int:
    spec = make_spec(options, asked(options))
    image = common.picture(options.image, [spec])
    asked_trace = options.trace and options.trace.removesuffix(".gz").removesuffix(".json")
    trace = _new_file(asked_trace, ".json.gz", "trace")  # Perfetto knows a packed trace by its name
    package = _new_file(options.package, ".pt2", "package")
    files = Files(trace, package)
    table = common.file_to_write(options.export_markdown, "table")
    least = _ratio(options.at_least)
    history = History()
    busy = cores.others_share() or 0.0
    with _cancelled_by_signals() as (cancel, received):
        result = _followed(history, busy, spec, image, cancel, files)
    if trace is not None and trace.is_file():
        print(f"The trace lies in {trace}: open it at https://ui.perfetto.dev.", file=sys.stderr)
    if package is not None and package.is_file():
        print(f"The package lies in {package}. Lines that load it:\n{loading_lines(package)}", file=sys.stderr)
    print(_shown(result, options))
    if options.json and result.failure is not None:
        print(f"{result.failure.message} {result.failure.remedy}", file=sys.stderr)
    if stored := history.get(result.id) is not None:
        print(f"Stored as {result.id}: {common.PROGRAM} history {result.id}", file=sys.stderr)
    if table is not None and verdict.outcome(result) is not None:
        table.write_text(markdown.of_run(result), encoding="utf-8")
    elif table is not None:
        print(f"The run has no figures, so {table} was not written.", file=sys.stderr)
    if received:
        return 128 + received[0]
    if least is not None and not _passes(result, least):
        return common.FAILED
    return common.OK if result.status == "ok" and stored else common.FAILED


def _shown(result: RunResult, options: argparse.Namespace) -> str:
    if options.json:
        return dumps(result)
    if options.full:
        return terminal.report(result)
    return summary(result, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ)


def _ratio(given: str | None) -> float | None:
    """The bound of `--at-least`. Raises BadInput for anything but a positive number."""
    ratio: float | str | None = fmt.parse_number(given)
    if isinstance(ratio, str) or (ratio is not None and ratio <= 0):
        raise BadInput(f"--at-least is a ratio such as 1.05. Given: {given!r}.")
    return ratio


def _passes(result: RunResult, least: float) -> bool:
    """Whether the speed-up is known to be at least this, by the near end of its interval. Says which on stderr."""
    differs = result.parity is not None and result.parity.verdict == "differ"
    known = verdict.outcome(result) not in (None, "void") and not differs
    low = result.speedup.low if known and result.speedup is not None else None
    passed = low is not None and low >= least
    found = "not known, as the outputs differ" if differs else f"at least {low:.2f}×" if low else "not known"
    print(f"{'Passed' if passed else 'Failed'}: the speed-up is {found}, asked {least:g}×.", file=sys.stderr)
    return passed


def _followed(history: History, busy: float, spec: RunSpec, *run: Any) -> RunResult:
    """The result of a run. Its progress is shown on standard error, and that others keep this share of cores `busy`."""
    from demo.runs.runner import Runner

    started = False
    progress = terminal.ProgressLine(sys.stderr)
    try:
        with closing(Runner(history)) as runner:
            for event in runner.run(spec, *run):
                if isinstance(event, RunResult):
                    result = event
                elif not started and runner.machine is not None:
                    started = True
                    if problem := runner.machine.gpu_problem:
                        progress.say(f"The GPU cannot be used: {problem}. Until then runs use the CPU.")
                    if busy >= cores.BUSY_CPU and (spec.device == "cpu" or runner.machine.gpu is None):
                        progress.say(
                            f"Other programs use {fmt.percent(busy)} of this machine: the answer will be rough."
                        )
                else:
                    progress.show(event)
    finally:
        progress.end()
    return result


def _new_file(given: str | None, ending: str, what: str) -> Path | None:
    """The file that `given` names, with this ending. Raises BadInput where it is there, or cannot be written."""
    if given is None:
        return None
    path = Path(given.removesuffix(ending) + ending)
    if os.path.exists(path):
        raise BadInput(f"The {what} file {str(path)!r} exists already. Name a new one.")
    return common.file_to_write(str(path), what)


@contextmanager
def _cancelled_by_signals() -> Iterator[tuple[threading.Event, list[int]]]:
    """Ctrl-C and SIGTERM end the run, not the program: the cancelled result is still to be stored and printed.

    A second Ctrl-C does not wait. A signal that the parent process ignores (nohup, a shell's `&`) stays ignored.
    """
    cancel, received = threading.Event(), []

    def cancelled(number: int, frame: Any) -> None:
        received.append(number)
        cancel.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, cancelled)
    try:
        yield cancel, received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
