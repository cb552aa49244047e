"""`python -m demo published`: prints the tables of the Transformers guide and of this project, with filters."""

import argparse
from collections.abc import Sequence

from ..core import format as fmt
from ..core.options import TASKS
from ..store import published
from ..store.published import OOM, PublishedRow, setting_words
from . import terminal
from .common import Commands


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "published", help="the Transformers guide's tables, and those that this project measured"
    )
    parser.set_defaults(command=_list_rows)
    parser.add_argument("--subset", help="release, nightly, reduce-overhead, or a measured one")
    parser.add_argument("--gpu", help="A100, V100, T4, or a measured device")
    parser.add_argument("--batch-size", metavar="N", help="1, 4 or 16 in the Transformers guide")
    parser.add_argument("--task", help=", ".join(TASKS))
    parser.add_argument("--model", metavar="PART", help="a part of a model's name or checkpoint")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the rows as JSON, and nothing else")
    form.add_argument("--csv", action="store_true", help="print the rows as CSV, and nothing else")


def _list_rows(options: argparse.Namespace) -> None:
    filters = (options.subset, options.gpu, options.batch_size, options.task, options.model)
    rows = published.select(published.all_rows(), *filters)
    if options.json:
        print(published.rows_as_json(rows))
    elif options.csv:
        print(published.to_csv(rows), end="")
    elif rows:
        print(_table(rows))
    else:
        print("No row has all of this. Leave out one of the filters.")


def _table(rows: list[PublishedRow]) -> str:
    head = ("gpu", "batch", "torch", "mode", "task", "model", "eager ms", "compiled ms", "speed-up", "")
    lines: list[Sequence[str]] = [head]
    notes = list(dict.fromkeys(note for row in rows for note in published.notes_of(row)))
    for row in rows:
        speedup = OOM if row.speedup is None else fmt.ratio(row.speedup)
        seconds = (row.eager_seconds, row.compiled_seconds)
        times = [OOM if time is None else f"{fmt.milliseconds(time):.3f}" for time in seconds]
        last = [_conditions(row)] if row.measured else []
        last += [f"[{notes.index(note) + 1}]" for note in published.notes_of(row)]
        settings = (row.gpu, str(row.batch_size), row.torch, row.mode, row.task, row.model)
        lines.append((*settings, *times, speedup, " ".join(last)))
    numbered = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
    source = [f"Published: mean of 300 calls, {published.SOURCE}"] if not all(row.measured for row in rows) else []
    return "\n".join([*terminal.table(lines), "", *numbered, *source]).rstrip()


def _conditions(row: PublishedRow) -> str:
    """Returns how a row was measured: 'measured by this project: 1.60 to 1.64×, float32, 2 threads, 2026-11-21'."""
    interval = fmt.ends(row.speedup_low, row.speedup_high) if row.speedup_low and row.speedup_high else ""
    threads = fmt.count(row.threads, "thread") if row.threads else ""
    repeats = f"{row.repeats} repeats" if row.repeats and row.repeats > 1 else ""
    conditions = (interval, row.dtype, *setting_words(row), threads, repeats, row.date)
    return f"{published.MEASURED}: {', '.join(filter(None, conditions))}"
