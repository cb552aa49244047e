"""What several commands use: exit codes, signals, the options of a run, and checks of files and stored results."""

import argparse
import codecs
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from ..core import catalog, format as fmt, images
from ..core.codec import plain
from ..core.hub import NoAnswer
from ..core.options import CALLS, OPTIONS, TASKS, TEXT_GENERATION, BadInput, Option, OptionValues, RunSpec, read_calls
from ..core.program import PROGRAM
from ..core.result import RunResult
from ..store import hub_dataset
from ..store.export import check_place
from ..store.history import History
from ..sweep.grid import PICTURE

OK, FAILED, BAD_INPUT, UNDECIDED = 0, 1, 2, 3
"""The exit codes of a command. Only `run --at-least` ends with UNDECIDED."""
PROBE = "Trying the processor's vector instructions, once for a compile cache ..."
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The object to which each command adds its own parser."""


class Stop(threading.Event):
    """An event that the first Ctrl-C or SIGTERM sets."""

    exit_code = 0
    """130 after Ctrl-C, 143 after SIGTERM; 0 before."""


@contextmanager
def stop_by_signal() -> Iterator[Stop]:
    """Yields an event that the first Ctrl-C or SIGTERM sets, so that a command can end its run and print what it has.

    A second signal raises KeyboardInterrupt. A signal that this process was started to ignore stays ignored.
    """
    stop = Stop()

    def set_stop(number: int, frame: object) -> None:
        if stop.exit_code:
            raise KeyboardInterrupt
        stop.exit_code = 128 + number
        stop.set()

    signals = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, set_stop) for number in signals}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def add_model(parser: argparse.ArgumentParser, own: bool = True) -> None:
    """Adds --checkpoint, --task and --image; if `own`, also --model for a model of the user's own."""
    checkpoint = f"a name of `{PROGRAM} list` (default: {catalog.DEFAULT}), a hub id or a local folder"
    parser.add_argument("--checkpoint", metavar="ID", help=checkpoint)
    parser.add_argument("--task", help=f"only for a checkpoint that is not in the list: {', '.join(TASKS)}")
    parser.add_argument("--image", metavar="PATH", help="the picture to run on (default: a drawn scene, 4:3)")
    parser.set_defaults(model=None)
    if own:
        text = "in place of a checkpoint a function, also package.module:FUNCTION, that returns (module, inputs)"
        parser.add_argument("--model", metavar="FILE.py:FUNCTION", help=text)


def add_options(parser: argparse.ArgumentParser, names: Iterable[str] = OPTIONS) -> None:
    """Adds the run options in `names`. An option that the user leaves out has the value None."""
    for option in (OPTIONS[name] for name in names):
        name, text = option.name, _help(option)
        if option.kind == "switch":
            parser.add_argument(option.flag, dest=name, help=text, action="store_true", default=None)
        elif option.kind == "queries":
            parser.add_argument(option.flag, dest=name, help=text, metavar=name.upper(), action="append")
        else:
            metavar = {"whole": "N", "number": "X"}.get(option.kind, name.upper())
            parser.add_argument(option.flag, dest=name, help=text, metavar=metavar)


def option_values(options: argparse.Namespace, names: Iterable[str] = OPTIONS) -> OptionValues:
    """Returns the options that the user typed, unchecked: {"batch_size": "4", "freezing": True}.

    Repeated lists of text queries are joined: --text "a cat, a dog" --text "a tree" gives three queries.
    """
    typed = {name: value for name in names if (value := getattr(options, name)) is not None}
    return {name: ", ".join(value) if isinstance(value, list) else value for name, value in typed.items()}


def _help(option: Option) -> str:
    text = f"{', '.join(option.values)}. {option.help}" if option.values else option.help
    if option.kind in ("choice", "whole", "number") and option.default is not None:
        text += f" Default: {option.default}."
    return text.replace("%", "%%")  # argparse formats it


def output_file(text: str) -> Path:
    """Returns the path of a file to write. As an argparse type it refuses an unwritable path before any run."""
    try:
        check_place(Path(text), "file")
    except BadInput as refused:
        raise argparse.ArgumentTypeError(str(refused)) from refused
    return Path(text)


def above_zero(text: str, read: Callable[[str], object] = fmt.parse_number) -> object:
    """An argparse type: returns the number above 0 that `read` parses. `fmt.parse_whole` reads whole numbers only."""
    number = read(text)
    if not isinstance(number, int | float) or not 0 < number <= sys.maxsize:
        kind = "whole number" if read is fmt.parse_whole else "number"
        raise argparse.ArgumentTypeError(f"give a {kind} above 0. Given: {text!r}")
    return number


def add_calls(parser: argparse.ArgumentParser, note: str = "") -> None:
    """Adds the option --calls. `note` is put at the end of its help text. `asked_calls` reads the option."""
    parser.add_argument(CALLS.flag, metavar="N", help=CALLS.help + note)


def asked_calls(options: argparse.Namespace) -> int | None:
    """Returns the number of calls given by --calls; None without --calls. Raises BadInput for a number not allowed."""
    return read_calls(options.calls)


def say_where_sent(history: History, result: RunResult, file: Path, text: str) -> None:
    """Prints the path of `file`, an HTML file with a result that the user can send to others.

    If WORTH_COMPILING_DATASET names a dataset on the Hub, also uploads the file there, and prints its address. `text`:
    the content of the file.
    """
    print(f"One file to send lies in {file.absolute()}.", file=sys.stderr)
    if dataset := hub_dataset.dataset_name():
        try:
            print(f"It is in the dataset, too: {hub_dataset.push_page(history, result, text)}", file=sys.stderr)
        except NoAnswer as error:
            print(f"It could not be brought to the dataset {dataset}: {fmt.excerpt(str(error))}.", file=sys.stderr)


def spec_of_options(options: argparse.Namespace, values: OptionValues) -> RunSpec:
    """Returns the spec of a run with these option `values`. Raises BadInput if they do not fit the model."""
    _refuse_undecoded(options.model or options.checkpoint or "")
    if options.model is not None:
        if others := [name for name in ("checkpoint", "task", "image") if getattr(options, name) is not None]:
            raise BadInput(f"A model of your own brings its inputs along: leave out --{', --'.join(others)}.")
        return catalog.own_model_spec(options.model, **values)
    checkpoint = catalog.DEFAULT if options.checkpoint is None and options.task is None else options.checkpoint or ""
    known = catalog.find(checkpoint)
    if TEXT_GENERATION in (options.task, known and known.task):
        values = {"prompt": catalog.PROMPT, **values}
    return catalog.make_spec(checkpoint, options.task, folders=True, **values)


def _refuse_undecoded(name: str) -> None:
    """Raises BadInput for a file name with bytes that Python could not decode: a worker would not find the file."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        encoding = sys.getfilesystemencoding()
        remedy = "Rename it" if encoding == "utf-8" else "Set PYTHONUTF8=1"
        raise BadInput(f"The name {fmt.printable(name)!r} has bytes that are no {encoding} text. {remedy}.") from error


def input_picture(picture: str | None, specs: Sequence[RunSpec]) -> Path:
    """Returns the path of the picture for the runs: `picture`, or the default picture if `picture` is None.

    Raises BadInput if the file is no picture, or if a `picture` is given and no model of `specs` uses pictures.
    """
    if picture is not None and not any(spec.sees_picture for spec in specs):
        raise BadInput(f"{specs[0].task} sees no picture: leave out --image.")
    path = Path(PICTURE if picture is None else picture)
    images.decode(path)
    return path


def read_text(file: str, what: str) -> str:
    """Returns the text of a file in UTF-8, or in UTF-16 (as PowerShell writes it), without a byte order mark.

    Raises BadInput if the file cannot be read. `what`: the word for the file in the message, such as 'grid'.
    """
    try:
        data = Path(file).read_bytes()
        wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return data.decode("utf-16" if wide else "utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", "it is no UTF-8 text")
        raise BadInput(f"The {what} {file!r} cannot be read: {why}.") from error


def find_stored(history: History, id: str) -> RunResult:
    """Returns the stored result with this id. Raises BadInput if there is none."""
    if (result := history.get(id)) is None:
        raise BadInput(f"No stored result has the id {id!r}. {PROGRAM} history lists them.")
    return result


def json_text(value: object) -> str:
    """Returns a value as indented JSON text. A dataclass becomes a JSON object."""
    return json.dumps(plain(value), allow_nan=False, ensure_ascii=False, indent=2)
