"""What the commands share: exit codes, the options of a run, files to write, questions on a terminal."""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from demo.core import catalog, images
from demo.core.codec import plain
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, BadInput, Option, RunSpec
from demo.store.export import check_place
from demo.store.history import History
from demo.sweep.grid import PICTURE

PROGRAM = "python -m demo"
OK, FAILED, BAD_INPUT = 0, 1, 2
"""Exit codes."""


def add_options(parser: argparse.ArgumentParser, names: Iterable[str] = OPTIONS) -> None:
    """Adds the options of a run with these names. What is not given is None."""
    for option in (OPTIONS[name] for name in names):
        note: dict[str, Any] = {"dest": option.name, "help": _help(option)}
        if option.kind == "switch":
            parser.add_argument(option.flag, action="store_true", default=None, **note)
        else:
            metavar = {"whole": "N", "number": "X"}.get(option.kind, option.name.upper())
            parser.add_argument(option.flag, metavar=metavar, **note)


def given_options(options: argparse.Namespace, names: Iterable[str] = OPTIONS) -> dict[str, Any]:
    """What was given of the options with these names, as it was typed: `make_spec` reads and checks it."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _help(option: Option) -> str:
    """'auto (default), cpu or cuda. "auto" takes the GPU where there is one.', safe for argparse's formatting."""
    values = [f"{option.values[0]} (default)", *option.values[1:]] if option.values else []
    text = f"{alternatives(values)}. {option.help}" if values else option.help
    if option.kind in ("whole", "number") and option.default is not None:
        text += f" Default: {option.default:g}."
    return text.replace("%", "%%")


def alternatives(names: Sequence[str]) -> str:
    """'a, b or c'."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def to_json(value: Any) -> str:
    """Dataclasses as indented JSON."""
    return json.dumps(plain(value), allow_nan=False, ensure_ascii=False, indent=2)


def file_to_write(given: str | None, what: str) -> Path | None:
    """The file to write a `what` to. Raises BadInput, before anything runs, where it could not be written."""
    if given is None:
        return None
    path = Path(given)
    check_place(path, what)
    return path


def find_stored(history: History, id: str) -> RunResult:
    """Raises BadInput for an id that no stored result has."""
    if (result := history.get(id)) is None:
        raise BadInput(f"No stored result has the id {id!r}. {PROGRAM} history lists them.")
    return result


def add_model(parser: argparse.ArgumentParser, tasks: str = "") -> None:
    """Adds what a run is of: a checkpoint, or a model of one's own."""
    named = f"a name of `{PROGRAM} list` (default: {catalog.DEFAULT}), a hub id or a local folder"
    parser.add_argument("--checkpoint", metavar="ID", help=named)
    own = "in place of a checkpoint a model of your own: a function that returns (module, inputs)"
    parser.add_argument("--model", metavar="FILE.py:FUNCTION", help=own)
    parser.add_argument("--task", help=f"only for a checkpoint that is not in the list{tasks}")
    parser.add_argument("--image", metavar="PATH", help="the picture to run on (default: a drawn scene, 4:3)")


def confirm() -> bool:
    """Whether to start: asks on a terminal, and is True anywhere else."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    sys.stderr.write("Start? [Y/n] ")
    sys.stderr.flush()
    return sys.stdin.readline().lower() in ("\n", "y\n", "yes\n")  # without its end it is Ctrl-D, which is no answer


def picture(given: str | None, specs: Sequence[RunSpec]) -> Path:
    """The path of the picture that was given, else of a drawn scene. Raises BadInput for what is no picture, and where
    none of the specs sees one."""
    if given is not None and not any(spec.sees_picture for spec in specs):
        raise BadInput(f"{specs[0].task} sees no picture: leave out --image.")
    path = Path(PICTURE if given is None else given)
    images.decode(path)
    return path
