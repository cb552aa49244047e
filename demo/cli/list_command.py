"""`python -m demo list`: the checkpoints to choose from."""

from __future__ import annotations

import argparse
from typing import Any

from demo.cli import terminal
from demo.cli.common import OK, to_json
from demo.core import catalog


def add_to(commands: Any) -> None:
    parser = commands.add_parser("list", help="the checkpoints to choose from")
    parser.set_defaults(command=_list)
    parser.add_argument("--json", action="store_true", help="print them as JSON")


def _list(options: argparse.Namespace) -> int:
    print(to_json(catalog.CHECKPOINTS) if options.json else terminal.checkpoint_table(catalog.CHECKPOINTS))
    return OK
