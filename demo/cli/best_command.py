"""`python -m demo best`: finds the best way to run a model on this machine, from eager to an AOTInductor package."""

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial

from ..core import format as fmt, program
from ..core.options import OWN_MODEL
from ..present.report import Report
from ..present.script import script
from ..store.history import History
from ..sweep import best_costs, best_words
from ..sweep.best_table import BestTable, Way
from ..sweep.best_way import MAX_MINUTES, MIN_MINUTES, MINUTES, SEARCH_OPTIONS, Search
from ..sweep.run_grid import Done
from . import common, terminal


def add_to(commands: common.Commands) -> None:
    parser = commands.add_parser("best", help="find the best way to run a checkpoint here")
    parser.set_defaults(command=_best)
    common.add_model(parser)
    common.add_options(parser, SEARCH_OPTIONS)
    minutes = f"time for it, {MIN_MINUTES:g} to {MAX_MINUTES:g} (default: {MINUTES:g})"
    parser.add_argument("--minutes", metavar="N", type=fmt.parse_number, default=MINUTES, help=minutes)
    parser.add_argument("--other-formats", action="store_true", help="try half formats (and TF32 on a GPU), too")
    text = "write the winner as a script of its own"
    parser.add_argument("--script", metavar="FILE.py", type=common.output_file, help=text)
    common.add_calls(parser, " The best way depends on it.")
    parser.add_argument("--json", action="store_true", help="print the table as JSON, and nothing else")


def _best(options: argparse.Namespace) -> int:
    from ..runs.runner import Runner

    began, calls = time.monotonic(), common.asked_calls(options)
    spec = common.spec_of_options(options, common.option_values(options, SEARCH_OPTIONS))
    image = common.input_picture(options.image, [spec])
    history = History()
    with closing(Runner(history)) as runner:
        # The user may have changed the file of a model of their own since its runs were stored.
        stored = [] if spec.task == OWN_MODEL else history.all(checkpoints={spec.checkpoint})
        machine = runner.inspect(partial(print, common.PROBE, file=sys.stderr))
        spent = time.monotonic() - began
        search = Search(spec, machine, stored, image, options.other_formats, options.minutes, spent)
        ways = ", ".join(best_words.name(way) for way in search.ways if not way.refused)
        print(f"At most {fmt.rounded_duration(search.seconds)}, for {ways}.", file=sys.stderr)
        with common.stop_by_signal() as stop:
            events = search.run(runner, stop)
            terminal.follow(events, partial(line_so_far, search), stop, goes_on=spec.task != OWN_MODEL)
    table = search.table()
    report = best_report(table, search.missing, stop.is_set(), calls)
    whole_work = {} if calls is None else {"whole_work": best_costs.sentences(table, calls)}
    print(common.json_text(best_words.as_json(table) | whole_work) if options.json else report)
    if options.script is not None:
        said = f"{options.script} was not written: no way is known to be faster than eager."
        if table.winner is not None and table.winner.result is not None:
            options.script.write_text(script(Report(table.winner.result)), encoding="utf-8")
            said = f"The winner's script lies in {options.script}."
        print(said, file=sys.stderr)
    return stop.exit_code or (common.FAILED if table.winner is None else common.OK)


def line_so_far(search: Search, event: Done) -> str:
    """Returns a line on the way whose run has just ended: 'So far freezing: 1.66× (1.62 to 1.70×), 2 min left at most'.

    A way is how the model is run, such as a compile mode.
    """
    way = search.ways[event.place]
    row = next(row for row in search.table().rows if row.way is way)
    text = row.out or best_words.cells(row)["speedup"]
    return f"So far {best_words.name(way)}: {text}, {fmt.rounded_duration(search.left_seconds)} left at most"


def best_report(
    table: BestTable, missing: Sequence[tuple[Way, bool]], stopped: bool = False, calls: int | None = None
) -> str:
    """Returns the report of a search as text: the conclusion, a table of the ways to run the model, and the next step.

    `missing`: the runs that the search would have made next, as (way, whether this way has run before).
    `stopped`: whether the user ended the search; if not, and runs are missing, the time of the search was up.
    `calls`: a number of calls that a process makes between two restarts; the report then also names the best way for
    this number.
    """
    lines = best_words.conclusion(table) + ([] if calls is None else best_costs.sentences(table, calls))
    if missing:
        why = "It was stopped" if stopped else "The time was up"
        then = "begins anew" if missing[0][0].spec.task == OWN_MODEL else "goes on"
        lines.append(f"{best_words.missing(why, missing)}; the same command {then}.")
    rows = [("", *best_words.WAY_COLUMNS.values())]
    refused = []
    for row in table.rows:
        if row.way.refused:
            refused.append(f"Not here: {best_words.name(row.way)}. {row.way.refused}")
        else:
            cells = best_words.cells(row).values()
            rows.append((str(row.rank or ""), *(fmt.shorten(text, 80) for text in cells)))
    lines += ["", *terminal.table(rows)]
    if refused:
        lines += ["", *refused]
    if table.winner is not None and table.winner.result is not None:
        lines += ["", f"The winner as a script of its own: {program.PROGRAM} script {table.winner.result.id} > run.py"]
    return "\n".join(lines)
