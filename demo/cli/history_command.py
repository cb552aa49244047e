"""`history`: the stored results listed, shown, drawn, written to a file or deleted; `script`: one as a program."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from demo.cli import terminal
from demo.cli.common import PROGRAM, find_stored
from demo.core import format as fmt
from demo.core.files import replacing
from demo.core.format import parse_whole
from demo.core.result import RunResult
from demo.core.result_json import dumps
from demo.core.spec import BadInput
from demo.present import markdown, naming, png, race
from demo.present.script import script
from demo.store import export
from demo.store.history import History

LISTED = 50
"""Results that are listed when no limit was given: each one's interval takes some hundredths of a second."""
LARGEST = 999_999_999
RACE_PICTURES: dict[str, Callable[[RunResult], bytes]] = {
    ".svg": lambda result: race.file(result).encode(),
    ".png": png.race_at_rest,
}
_HELP = """the stored results, newest first

  history                       list them
  history ID                    show this one in full
  history export FILE           write them to a .csv, .json, .parquet or .md file
  history card ID FILE          draw its card as a .png
  history race ID FILE          draw its race to break-even, animated as .svg or at rest as .png
  history delete ID ... --yes   remove these for good
"""


def add_to(commands: Any) -> None:
    history = commands.add_parser(
        "history",
        help="the results stored so far, newest first; export, draw and delete them",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    history.set_defaults(command=_history)
    history.add_argument("words", nargs="*", metavar="WORDS", help="as above; nothing: the list")
    history.add_argument("--limit", metavar="N", help=f"the newest N (default: {LISTED}, or with --json all)")
    history.add_argument("--search", default="", metavar="WORDS", help="only those that hold every one of these words")
    history.add_argument("--json", action="store_true", help="print them as JSON")
    history.add_argument("--yes", action="store_true", help="delete for good; without it nothing is deleted")
    program = commands.add_parser(
        "script", help="a stored run as a script that needs torch and transformers, and pillow for a picture"
    )
    program.set_defaults(command=_script)
    program.add_argument("id", metavar="ID", help="as `history` lists it")


def _script(options: argparse.Namespace) -> None:
    print(script(find_stored(History(), options.id)), end="")


def _history(options: argparse.Namespace) -> None:
    history = History()
    history.recover()
    match options.words:
        case []:
            _list(history, options)
        case ["export", file]:
            _export(history, Path(file), options)
        case ["card", id, file]:
            _draw(find_stored(history, id), Path(file), {".png": png.card})
        case ["race", id, file]:
            _draw(find_stored(history, id), Path(file), RACE_PICTURES)
        case ["delete", _, *_]:
            _delete(history, options.words[1:], options)
        case [id] if id not in ("export", "card", "race", "delete"):
            _show(history, id, options)
        case words:
            given = " ".join(["history", *words])
            raise BadInput(f"{PROGRAM} history --help lists what can be asked for. Given: {given}.")


def _list(history: History, options: argparse.Namespace) -> None:
    limit = _limit(options.limit)
    if options.json:
        sys.stdout.writelines(export.json_lines(history.each(limit, options.search)))
        return
    results = history.all(limit or LISTED, options.search)
    if results:
        print(terminal.history_table(results))
    elif options.search:
        print(f"No stored result holds {options.search!r}.")
    else:
        print(f"No results yet. They will be stored in {history.path}.")
    if limit is None and (count := history.count(options.search)) > LISTED:
        print(f"The newest {LISTED} of {count}; --limit N lists more.", file=sys.stderr)


def _show(history: History, id: str, options: argparse.Namespace) -> None:
    result = find_stored(history, id)
    print(dumps(result) if options.json else terminal.report(result))


def _export(history: History, file: Path, options: argparse.Namespace) -> None:
    format = file.suffix.lower().removeprefix(".")
    if format not in (*export.FORMATS, "md"):
        raise BadInput(f"The file's name says how to write it: .csv, .json, .parquet or .md. Given: {str(file)!r}.")
    export.check_place(file, "table")
    results = history.each(_limit(options.limit), options.search)
    with replacing(file) as draft:
        if format == "md":
            cells = ((result.spec, result, naming.status(result)) for result in results)
            draft.write(markdown.of_cells(cells).encode())
        else:
            export.write(results, format, draft)
    print(f"Written to {file}.", file=sys.stderr)


def _draw(result: RunResult, file: Path, by_ending: Mapping[str, Callable[[RunResult], bytes]]) -> None:
    if (ending := file.suffix.lower()) not in by_ending:
        raise BadInput(f"The picture is a {' or '.join(by_ending)} file. Given: {str(file)!r}.")
    export.check_place(file, "picture")
    file.write_bytes(by_ending[ending](result))
    print(f"Written to {file}.", file=sys.stderr)


def _delete(history: History, ids: list[str], options: argparse.Namespace) -> None:
    results = [find_stored(history, id) for id in ids]
    if not options.yes:
        print(terminal.history_table(results), file=sys.stderr)
        raise BadInput("Nothing was deleted. Add --yes to delete these for good.")
    print(f"{fmt.count(history.delete(ids), 'run')} deleted.", file=sys.stderr)


def _limit(given: str | None) -> int | None:
    limit: int | str | None = parse_whole(given)
    if isinstance(limit, str) or not (limit is None or 1 <= limit <= LARGEST):
        raise BadInput(f"The limit must be a whole number from 1 to {LARGEST:,}. Given: {str(given)[:80]!r}.")
    return limit
