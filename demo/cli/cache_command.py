"""`python -m demo cache save|load`: the compile cache as a file, by a process of `demo.backend.cache_artifacts`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from demo.cli import sweep_command
from demo.cli.common import FAILED, picture, print_help
from demo.core.codec import plain
from demo.core.errors import BadInput
from demo.store.export import check_place


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
    check_place(out, "cache file")
    if not all(spec.cached for spec in specs):
        raise BadInput(
            "What is compiled with compiler aot or with freezing is not in the compile cache: choose compiler jit and "
            "switch freezing off."
        )
    return _process({"file": options.out, "specs": plain(specs), "input_file": str(picture(options.image, specs))})


def _load(options: argparse.Namespace) -> int:
    return _process({"file": options.out})


def _process(job: dict[str, Any]) -> int:
    """The exit code of a process that does the job and says itself what came of it."""
    command = [sys.executable, "-m", "demo.backend.cache_artifacts"]
    return FAILED if (code := subprocess.run(command, input=json.dumps(job).encode()).returncode) < 0 else code
