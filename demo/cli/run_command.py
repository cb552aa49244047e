"""`python -m demo run`: one checkpoint timed, eager and compiled, on one picture or one prompt."""

import argparse
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from demo.cli import common, terminal
from demo.cli.summary import summary
from demo.core import catalog, format as fmt
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
    trace = _new_file(options.trace, ".json.gz", "trace")  # Perfetto knows a packed trace by its name
    package = _new_file(options.package, ".pt2", "package")
    table = common.file_to_write(options.export_markdown, "table")
    least = _ratio(options.at_least)
    history = History()
    result = _followed(history, spec, image, Files(trace, package))
    if trace is not None and trace.is_file():
        print(f"The trace lies in {trace}: open it at https://ui.perfetto.dev.", file=sys.stderr)
    if package is not None and package.is_file():
        print(f"The package lies in {package}. Lines that load it:\n{loading_lines(package)}", file=sys.stderr)
    if options.json:
        print(dumps(result))
    else:
        print(
            terminal.report(result)
            if options.full
            else summary(result, sys.stdout.isatty() and "NO_COLOR" not in os.environ)
        )
    if stored := history.get(result.id) is not None:
        print(f"Stored as {result.id}: {common.PROGRAM} history {result.id}", file=sys.stderr)
    if table is not None:
        table.write_text(markdown.of_run(result), encoding="utf-8")
    if least is not None and not _passes(result, least):
        return common.FAILED
    return common.OK if result.status == "ok" and stored else common.FAILED


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
    low = result.speedup.low if known and result.speedup is not None else 0.0
    passed = low >= least
    found = f"at least {low:.2f}×" if low else "not known"
    print(f"{'Passed' if passed else 'Failed'}: the speed-up is {found}, asked {least:g}×.", file=sys.stderr)
    return passed


def _followed(history: History, spec: RunSpec, image: Path, files: Files) -> RunResult:
    """The result of a run, whose progress is shown on standard error. Ctrl-C ends it as cancelled."""
    from demo.runs.runner import Runner

    told = False
    progress = terminal.ProgressLine(sys.stderr)
    try:
        with closing(Runner(history)) as runner, closing(runner.run(spec, image, files=files)) as events:
            for event in events:
                if not told and runner.machine is not None:
                    told = True
                    if problem := runner.machine.gpu_problem:
                        progress.say(f"The GPU cannot be used: {problem}. Until then runs use the CPU.")
                if isinstance(event, RunResult):
                    return event
                progress.show(event)
    except KeyboardInterrupt:
        progress.say("Cancelled. What was measured is stored.")
        raise
    finally:
        progress.end()
    raise RuntimeError("The run ended without a result.")


def _new_file(given: str | None, ending: str, what: str) -> Path | None:
    """The file that `given` names, with this ending. Raises BadInput where it is there, or cannot be written."""
    path = common.file_to_write(given and given.removesuffix(ending) + ending, what)
    if path is not None and path.exists():
        raise BadInput(f"The {what} file {str(path)!r} exists already. Name a new one.")
    return path
