"""`python -m demo cache save|load`: the compile cache as a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from demo.cli import sweep_command
from demo.cli.common import FAILED, OK, picture, print_help
from demo.core import format as fmt
from demo.runs import cache_file


def add_to(commands: Any) -> None:
    parser = commands.add_parser("cache", help="the compile cache as a file: save it here, load it elsewhere")
    parser.set_defaults(command=lambda options: print_help(parser))
    actions = parser.add_subparsers(metavar="ACTION", parser_class=type(parser))
    saving = actions.add_parser("save", help="compile a grid, and write what that left in the compile cache")
    saving.set_defaults(command=_save)
    saving.add_argument("out", metavar="CACHE", help="the file to write")
    sweep_command.add_grid(saving)
    saving.add_argument("--image", metavar="PATH", help="the picture (default: a drawn scene, 4:3)")
    loading = actions.add_parser("load", help="put the entries of such a file into this machine's compile cache")
    loading.set_defaults(command=_load)
    loading.add_argument("out", metavar="CACHE", help="a file of `cache save`; it holds code, so it must be trusted")


def _save(options: argparse.Namespace) -> int:
    specs, out = sweep_command.grid(options).specs(folders=True), Path(options.out)
    image = picture(options.image, specs)
    cells = cache_file.save(out, specs, image, lambda text: print(text, file=sys.stderr, flush=True))
    print(f"{out}: {cells} of {len(specs)} cells, {fmt.size(out.stat().st_size)}.")
    return OK if cells == len(specs) else FAILED


def _load(options: argparse.Namespace) -> int:
    print(cache_file.load(Path(options.out)))
    return OK
