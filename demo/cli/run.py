"""The command line: `python -m demo run`, `list`, `doctor`, `history`, `published`, `script`, `sweep` and more.

Runs on a machine that has only what a run needs: neither gradio nor plotly is imported, except by `serve`.
Standard output carries the answer, standard error everything else. Exit codes: 0 the run is ok, 1 it is not (or the
doctor found a problem), 2 the input was bad, 130 Ctrl-C, 143 SIGTERM, 141 the reader of the output left.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from demo.cli import autopilot, cache, history, published, script, sweep, terminal
from demo.cli.common import BAD_INPUT, FAILED, OK, picture
from demo.core import catalog
from demo.core.result import (
    ATTENTIONS,
    CACHES,
    DEVICES,
    DTYPES,
    MODES,
    PROFILES,
    PROTOCOLS,
    TASKS,
    WEIGHTS,
    BadInput,
    Lost,
    RunResult,
    RunSpec,
    plain,
)
from demo.store.history import History, HistoryError

PROGRAM = "python -m demo"
READER_LEFT = 128 + signal.Signals["SIGPIPE"].value if hasattr(signal, "SIGPIPE") else FAILED


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code; what the user did wrong is one sentence on standard error."""
    _open_streams()
    _write_any_character()
    try:
        options = _parser().parse_args(arguments)
        code: int = options.command(options)
        sys.stdout.flush()
        return code
    except BadInput as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    except HistoryError as error:
        print(error, file=sys.stderr)
        return FAILED
    except Lost as error:
        advice = f"{PROGRAM} doctor says what it needs."
        print(f"The process that runs torch ended without an answer: {error.reason}. {advice}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        _silence_output()
        return READER_LEFT
    except OSError as error:  # the machine's fault, and no command knew better: standard output on a full disk
        where = f" ({error.filename})" if error.filename else ""
        print(f"{error.strerror or error}{where}. Make room and allow writing, and try again.", file=sys.stderr)
        _silence_output()
        return FAILED


def _run(options: argparse.Namespace) -> int:
    from demo.runs.runner import Runner

    spec = catalog.make_spec(folders=True, **_asked(options))
    image = _image(options.image)
    trace = _trace(options.trace)
    result: RunResult | None = None
    progress = terminal.ProgressLine(sys.stderr)
    with _cancelled_by_signals() as (cancel, received):
        try:
            with closing(Runner(History())) as runner:
                for event in runner.run(spec, image, cancel, trace):
                    if isinstance(event, RunResult):
                        result = event
                    else:
                        progress.show(event)
        finally:
            progress.end()
    if trace is not None and trace.is_file():
        print(f"The trace lies in {trace}: open it at https://ui.perfetto.dev.", file=sys.stderr)
    if result is None:
        raise RuntimeError("the runner ended without a result")
    if options.json:
        if result.failure is not None:
            print(f"{result.failure.message} {result.failure.remedy}", file=sys.stderr)
        for warning in result.warnings:
            print(f"Warning: {warning}", file=sys.stderr)
        print(result.dumps())
    else:
        print(terminal.report(result))
    if received:
        return 128 + received[0]
    return OK if result.status == "ok" else FAILED


def _list(options: argparse.Namespace) -> int:
    print(_json(catalog.CHECKPOINTS) if options.json else terminal.checkpoint_table(catalog.CHECKPOINTS))
    return OK


def _doctor(options: argparse.Namespace) -> int:
    from demo.cli import diagnosis as doctor

    found = doctor.examine()
    print(_json(found) if options.json else terminal.doctor_report(found))
    return FAILED if found.problems else OK


def _serve(options: argparse.Namespace) -> int:
    import app

    app.main(mcp=options.mcp)
    return OK


def _help(options: argparse.Namespace) -> int:
    _parser().print_help()
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description="Is torch.compile worth it for this vision model, on this machine?")
    parser.set_defaults(command=_help)
    commands = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)

    run = commands.add_parser("run", help="time one checkpoint, eager and compiled, on one picture")
    run.set_defaults(command=_run)
    run.add_argument("--checkpoint", metavar="ID", help=f"a name of `{PROGRAM} list`, a hub id or a local folder")
    run.add_argument("--image", metavar="PATH", help="the picture to run on")
    run.add_argument("--task", help=f"only for a checkpoint that is not in the list: {_or(TASKS)}")
    run.add_argument("--batch-size", metavar="N", help="the picture is repeated so often, 1 to 256 (default: 1)")
    run.add_argument("--mode", help=f"of torch.compile: {_choice(MODES)}")
    run.add_argument("--fullgraph", action="store_true", default=None, help="fail where the model is not one graph")
    run.add_argument("--dtype", help=_choice(DTYPES))
    run.add_argument("--device", help=f"{_choice(DEVICES)}: auto takes the GPU where there is one")
    run.add_argument("--weights", help=f"{_choice(WEIGHTS)}: random needs no network")
    run.add_argument("--text", action="append", metavar="QUERIES", help="what to look for, separated by commas")
    run.add_argument("--iterations", metavar="N", help="timed calls of each variant (default: until sure)")
    run.add_argument("--protocol", help=f"{_choice(PROTOCOLS)}: the guide's recipe, 300 calls of each")
    run.add_argument("--precision", metavar="SHARE", help="stop when the speed-up is known so well (default: 0.01)")
    run.add_argument("--most-seconds", metavar="S", help="stop timing after so many seconds anyway (default: 3.5)")
    run.add_argument("--channels-last", action="store_true", default=None, help="memory format of weights and pictures")
    run.add_argument("--attention", help=f"attention implementation: {_choice(ATTENTIONS)}")
    run.add_argument("--threads", metavar="N", help="threads of torch on a CPU (default: torch's choice)")
    run.add_argument("--cache", help=f"{_choice(CACHES)}: empty measures a cold and a warm first call")
    run.add_argument("--graph-break", action="store_true", default=None, help="put one in, to show what it costs")
    run.add_argument("--profile", help=f"{_choice(PROFILES)}: count kernels and operations; auto does on a GPU")
    run.add_argument("--trace", metavar="FILE", help="write what the profiler saw to FILE.json.gz, for Perfetto")
    run.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")

    listing = commands.add_parser("list", help="the checkpoints to choose from")
    listing.set_defaults(command=_list)
    listing.add_argument("--json", action="store_true", help="print them as JSON")

    doctor = commands.add_parser("doctor", help="would a run work on this machine, and what is in the way")
    doctor.set_defaults(command=_doctor)
    doctor.add_argument("--json", action="store_true", help="print what was found as JSON")

    history.add_to(commands)
    published.add_to(commands)
    script.add_to(commands)
    sweep.add_to(commands)
    cache.add_to(commands)
    autopilot.add_to(commands)

    serve = commands.add_parser("serve", help="open the page, as `python app.py` does")
    serve.set_defaults(command=_serve)
    serve.add_argument("--mcp", action="store_true", help="offer the API as MCP tools, too; needs gradio[mcp]")
    return parser


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence instead of printing its usage."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message[:1].upper()}{message[1:]}. See {self.prog} --help.")


def _asked(options: argparse.Namespace) -> dict[str, Any]:
    """What was given, as it was typed: the catalogue's door reads it and says what is wrong with it."""
    names = [field.name for field in dataclasses.fields(RunSpec) if field.name not in ("checkpoint", "text")]
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.trace is not None:
        if given.setdefault("profile", "on") == "off":
            raise BadInput("A trace is what the profiler saw: leave out --profile off, or --trace.")
    if options.text is not None:
        given["text"] = ",".join(options.text)
    return {"checkpoint": options.checkpoint or "", **given}


def _image(given: str | None) -> Path:
    if not given:
        examples = sorted((catalog.ASSETS / "examples").glob("*.png"))
        hint = f", for example --image {os.path.relpath(examples[0])}" if examples else ""
        raise BadInput(f"No image was given. Name one with --image{hint}.")
    return picture(given)


def _trace(given: str | None) -> Path | None:
    """The file for the trace, which must be a new one. Perfetto knows a packed trace by its name."""
    if given is None:
        return None
    path = Path(given if given.endswith(".json.gz") else f"{given}.json.gz")
    if path.name.strip(".") == "json.gz":
        raise BadInput(f"The trace needs the name of a file. Given: {given!r}.")
    if os.path.exists(path) or not os.path.isdir(path.absolute().parent):
        what = "exists already" if os.path.exists(path) else "lies in no folder that exists"
        raise BadInput(f"The trace file {str(path)!r} {what}. Name a new one.")
    return path


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


def _open_streams() -> None:
    """Those that were closed lead nowhere: `print` would write what is meant for standard error to standard output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


def _write_any_character() -> None:
    """UTF-8 whatever the locale says: JSON is UTF-8, and a lone surrogate of a file name becomes its escape."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _silence_output() -> None:
    """Lets Python's own flush at exit succeed although the reader has left."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())


def _json(value: Any) -> str:
    return json.dumps(plain(value), allow_nan=False, ensure_ascii=False, indent=2)


def _choice(names: Sequence[str]) -> str:
    """'auto (default), cpu or cuda': the first is the spec's own default."""
    return _or([f"{names[0]} (default)", *names[1:]])


def _or(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


if __name__ == "__main__":
    sys.exit(main())
