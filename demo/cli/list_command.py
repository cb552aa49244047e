"""`python -m demo list`: the checkpoints to choose from."""

from __future__ import annotations

import argparse
from typing import Any

from demo.cli import terminal
from demo.cli.common import OK, to_json
from demo.core import catalog
from demo.core import format as fmt
from demo.core.spec import TEXT_GENERATION


def add_to(commands: Any) -> None:
    parser = commands.add_parser("list", help="the checkpoints to choose from")
    parser.set_defaults(command=_list)
    parser.add_argument("--json", action="store_true", help="print them as JSON")


def _list(options: argparse.Namespace) -> int:
    if options.json:
        print(to_json(catalog.CHECKPOINTS))
        return OK
    rows = [("checkpoint", "task", "model", "parameters", "input", "", "licence")]
    for one in catalog.CHECKPOINTS:
        size = "prompt" if one.task == TEXT_GENERATION else "{}x{}".format(*one.input_size)
        note = "bundled" if one.bundled else "needs --text" if one.takes_text else ""
        rows.append((one.id, one.task, one.title, fmt.parameters(one.parameters), size, note, one.licence))
    print("\n".join(terminal.table(rows)))
    return OK
