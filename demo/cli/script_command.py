"""`python -m demo script ID > run.py`: a stored run as a stand-alone Python script."""

from __future__ import annotations

import argparse
from typing import Any

from demo.cli.common import OK, stored
from demo.present.script import script
from demo.store.history import History


def add_to(commands: Any) -> None:
    parser = commands.add_parser(
        "script", help="a stored run as a script that needs torch and transformers, and pillow for a picture"
    )
    parser.set_defaults(command=_print_script)
    parser.add_argument("id", metavar="ID", help="as `history` lists it")


def _print_script(options: argparse.Namespace) -> int:
    print(script(stored(History(), options.id)), end="")
    return OK
