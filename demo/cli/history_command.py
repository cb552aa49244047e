"""`history`: lists, shows, draws, exports or deletes stored results. `script`: prints a result as a program."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from ..core import format as fmt, program
from ..core.files import replacing
from ..core.options import BadInput
from ..core.result import RunResult
from ..core.result_json import dumps
from ..present import markdown, naming, png, race, share, whole_work
from ..present.report import Report
from ..present.script import script
from ..store import export, hub_dataset
from ..store.history import History
from . import common, terminal
from .common import Commands, above_zero, find_stored

VERBS = ("export", "card", "race", "share", "delete")
LISTED = 50
"""How many results are listed without --limit, because each takes some hundredths of a second."""
Writer = Callable[[BinaryIO], object]
"""A function that writes a file of one format."""
_HELP = """the stored results, newest first

  history                       list them
  history ID                    show this one in full
  history export FILE           write them to a .csv, .json, .parquet or .md file
  history card ID FILE          draw its card as a .png
  history race ID FILE          draw its race to break-even, animated as .svg or at rest as .png
  history share ID FILE         write one .html file to send: verdict, race, slider, machine
  history delete ID ... --yes   remove these for good
"""


def add_to(commands: Commands) -> None:
    history = commands.add_parser(
        "history",
        help="the results stored so far, newest first; export, draw and delete them",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    history.set_defaults(command=_history)
    history.add_argument("words", nargs="*", metavar="WORDS", help="as above, before all options; nothing: the list")
    whole = partial(above_zero, read=fmt.parse_whole)
    text = f"the newest N (default: {LISTED} in the list; all with --json or export)"
    history.add_argument("--limit", metavar="N", type=whole, help=text)
    history.add_argument("--search", default="", metavar="WORDS", help="only those that hold every one of these words")
    history.add_argument("--json", action="store_true", help="print them as JSON")
    common.add_calls(history, " Of one result, `history ID`.")
    history.add_argument("--yes", action="store_true", help="delete for good; without it nothing is deleted")
    text = "a stored run as a script that needs torch and transformers, and pillow for a picture"
    program = commands.add_parser("script", help=text)
    program.set_defaults(command=_script)
    program.add_argument("id", metavar="ID", help="as `history` lists it")


def _script(options: argparse.Namespace) -> None:
    print(script(Report(find_stored(History(), options.id))), end="")


def _history(options: argparse.Namespace) -> None:
    history, calls = History(), common.asked_calls(options)
    history.recover()
    results = islice(history.each(options.search), options.limit)
    match options.words:
        case [] if options.json:
            sys.stdout.writelines(export.json_lines(results))
        case []:
            _list(history, options)
        case ["export", file]:
            _write(Path(file), _exports(results))
        case ["card", id, file]:
            result = find_stored(history, id)
            _write(Path(file), {".png": lambda draft: draft.write(png.card(Report(result)))})
        case ["race", id, file]:
            report = Report(find_stored(history, id))
            drawings: dict[str, Writer] = {
                ".svg": lambda draft: draft.write(
                    race.file(report.race, report.source, whole_work.at_rest(report)).encode()
                ),
                ".png": lambda draft: draft.write(png.race_at_rest(report)),
            }
            _write(Path(file), drawings)
        case ["share", id, file]:
            report = Report(find_stored(history, id))
            text = share.page(report, calls or whole_work.USUAL_CALLS)
            _write(Path(file), {".html": lambda draft: draft.write(text.encode())})
            common.say_where_sent(history, report.result, Path(file), text)
        case ["delete", *ids] if ids:
            _delete(history, ids, options)
        case [id] if id not in VERBS and not fmt.did_you_mean(id, VERBS):
            result = find_stored(history, id)
            print(dumps(result, calls) if options.json else terminal.in_full(Report(result), calls))
        case words:
            command = " ".join(["history", *words])
            meant = "" if words[0] in VERBS else fmt.did_you_mean(words[0], VERBS)
            raise BadInput(f"{program.PROGRAM} history --help lists what can be asked for. Given: {command}.{meant}")


def _list(history: History, options: argparse.Namespace) -> None:
    results = history.all(options.limit or LISTED, options.search)
    if results:
        print(terminal.history_table(results))
    elif options.search:
        print(f"No stored result holds {options.search!r}.")
    else:
        print(f"No results yet. They will be stored in {history.path}.")
    if options.limit is None and (count := history.count(options.search)) > LISTED:
        print(f"The newest {LISTED} of {count}; --limit N lists more.", file=sys.stderr)


def _write(file: Path, writers: Mapping[str, Writer]) -> None:
    """Writes `file` with the function in `writers` for its ending, such as ".png".

    If that fails, an existing file stays as it was. Raises BadInput for any other ending.
    """
    if (write := writers.get(file.suffix.lower())) is None:
        raise BadInput(f"The name of the file must end in {' or '.join(writers)}. Given: {str(file)!r}.")
    export.check_place(file, "file")
    with replacing(file) as draft:
        write(draft)
    print(f"Written to {file}.", file=sys.stderr)


def _exports(results: Iterable[RunResult]) -> dict[str, Writer]:
    cells = ((result.spec, result, naming.status_words(result)) for result in results)
    formats: dict[str, Writer] = {f".{format}": partial(export.write, results, format) for format in export.FORMATS}
    return formats | {".md": lambda draft: draft.write(markdown.of_cells(cells).encode())}


def _delete(history: History, ids: list[str], options: argparse.Namespace) -> None:
    results = [find_stored(history, id) for id in ids]
    if not options.yes:
        print(terminal.history_table(results), file=sys.stderr)
        raise BadInput("Nothing was deleted. Add --yes to delete these for good.")
    hub_dataset.forget(history, ids)
    print(f"{fmt.count(history.delete(ids), 'run')} deleted.", file=sys.stderr)
