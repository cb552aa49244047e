"""The command line: `python -m demo COMMAND`.

Only the command `page` imports gradio and plotly, so that the others work on a machine without them. Results go to
standard output, everything else to standard error. Exit codes: 0 the command succeeded, 1 it failed (or the doctor
found a problem, or the speed-up misses `run --at-least`), 2 the input was bad, 3 `run --at-least` is undecided, 130
Ctrl-C, 141 the reader of the output left, 143 SIGTERM.
"""

import argparse
import gc
import importlib.util
import os
import platform
import signal
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any, NoReturn

from ..core import catalog, format as fmt, limits
from ..core.files import open_closed_streams
from ..core.options import TEXT_GENERATION, BadInput
from ..core.program import IN_CHECKOUT, PROGRAM, install_command
from ..runs.process import WorkerDied
from ..store.database import HistoryError
from ..store.published import current_commit
from . import (
    best_command,
    deploy_command,
    doctor_command,
    history_command,
    published_command,
    run_command,
    shapes_command,
    sweep_command,
    terminal,
)
from .common import BAD_INPUT, FAILED, OK, json_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Expected errors are printed as one sentence on standard error."""
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # a C locale cannot print "×", and UTF-8 no broken file name
        if (reconfigure := getattr(stream, "reconfigure", None)) is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        limits.current()  # refuses wrong settings before any command
        options = parser().parse_args(arguments)
        code: int | None = (_version if options.version else options.command)(options)
        sys.stdout.flush()
        return code or OK
    except (BadInput, HistoryError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT if isinstance(error, BadInput) else FAILED
    except WorkerDied as error:
        advice = f"{PROGRAM} doctor says what it needs."
        print(f"The process that runs torch ended without an answer: {error}. {advice}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # else Python's flush at exit fails again
        return 128 + signal.SIGPIPE
    except OSError as error:  # from the machine, such as standard output on a full disk
        where = f" ({error.filename})" if error.filename else ""
        print(f"{error.strerror or error}{where}. Make room and allow writing, and try again.", file=sys.stderr)
        sys.stdout = open(os.devnull, "w")
        return FAILED


def parser() -> argparse.ArgumentParser:
    """Returns the parser of all commands. In the options that it parses, `command` is the function to call."""
    program = _Parser(prog=PROGRAM, description="Is torch.compile worth it for this model, on this machine?")
    program.epilog = f"Such as: {PROGRAM} run --checkpoint {catalog.DEFAULT} --batch-size 4"
    program.set_defaults(command=lambda options: program.print_help())
    program.add_argument("--version", action="store_true", help="the project's commit and the libraries' versions")
    commands = program.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    listing = commands.add_parser("list", help="the checkpoints to choose from")
    listing.set_defaults(command=_list)
    listing.add_argument("--json", action="store_true", help="print them as JSON")
    first = (run_command, doctor_command, history_command, published_command, sweep_command)
    for command in (*first, best_command, shapes_command, deploy_command):
        command.add_to(commands)
    serving = commands.add_parser("page", aliases=["serve"], help="open the page, as `python app.py` does")
    serving.set_defaults(command=_serve)
    serving.add_argument("--mcp", action="store_true", help="offer the API as MCP tools, too; needs gradio[mcp]")
    return program


def _version(options: argparse.Namespace) -> None:
    versions = [f"Python {platform.python_version()}"]
    for library in ("torch", "transformers", "gradio"):
        try:
            versions.append(f"{library} {metadata.version(library)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{library} not installed")
    known = f"commit {current_commit() or 'not known'}" if IN_CHECKOUT else f"version {metadata.version(PROGRAM)}"
    print(f"Worth Compiling?, {known}\n{', '.join(versions)}")


def _list(options: argparse.Namespace) -> None:
    rows = [("checkpoint", "task", "model", "parameters", "input", "", "licence")]
    for entry in catalog.CHECKPOINTS:
        size = "prompt" if entry.task == TEXT_GENERATION else "{}x{}".format(*entry.input_size)
        note = "bundled" if entry.bundled else "needs --text" if entry.takes_text else ""
        rows.append((entry.id, entry.task, entry.title, fmt.parameters(entry.parameters), size, note, entry.licence))
    print(json_text(catalog.CHECKPOINTS) if options.json else "\n".join(terminal.table(rows)))


def _serve(options: argparse.Namespace) -> None:
    if lacking := [name for name in ("gradio", "plotly") if importlib.util.find_spec(name) is None]:
        raise BadInput(f"The page needs {' and '.join(lacking)}: {install_command('page')}.")
    gc.disable()  # what is imported stays: a fifth of the time would go into looking for garbage in it
    from ..ui.server import serve

    gc.freeze()
    gc.enable()
    serve(options.mcp)


class _StoreOnce(argparse.Action):
    """Stores an option's value, and refuses a second value, which would otherwise replace the first silently."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if option_string and getattr(namespace, self.dest, None) is not self.default:
            raise argparse.ArgumentError(self, "is given twice. Give it once")
        setattr(namespace, self.dest, values)


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports bad arguments as one sentence, without argparse's usage text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)
        self.register("action", None, _StoreOnce)

    def parse_known_args(self, args: Iterable[str] | None = None, namespace: Any = None) -> Any:
        options, rest = super().parse_known_args(args, namespace)
        if rest:  # said here, the error names the help of the command and not of the whole program
            meant = fmt.did_you_mean(rest[0].partition("=")[0], self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(rest)}", meant)
        return options, rest

    def _check_value(self, action: argparse.Action, value: object) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            self.error(str(error), fmt.did_you_mean(value, action.choices or ()))

    def error(self, message: str, meant: str = "") -> NoReturn:
        raise BadInput(f"{fmt.sentence(message.rstrip('.'))}{meant} See {self.prog} --help.")
