"""`python -m demo cache save|load`: the compile cache as a file, by a process of `demo.backend.cache_artifacts`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demo.cli import sweep_command
from demo.cli.common import FAILED, OK, picture, print_help
from demo.core import format as fmt
from demo.core.codec import plain
from demo.core.errors import BadInput, WorkerDied
from demo.core.spec import RunSpec
from demo.runs.child import child_process
from demo.store.export import check_place

MODULE = "demo.backend.cache_artifacts"


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
    cells = save(out, specs, picture(options.image, specs))
    print(f"{out}: {cells} of {len(specs)} cells, {fmt.size(out.stat().st_size)}.")
    return OK if cells == len(specs) else FAILED


def _load(options: argparse.Namespace) -> int:
    print(load(Path(options.out)))
    return OK


def save(file: Path, specs: Sequence[RunSpec], input_file: Path) -> int:
    """Compiles the specs and writes their part of the compile cache. Returns how many of them could be compiled.

    Raises BadInput, also where none could be compiled, and WorkerDied where the process ends without an answer.
    """
    check_place(file, "cache file")
    if not all(spec.cached for spec in specs):
        raise BadInput(
            "What is compiled with compiler aot or with freezing is not in the compile cache: choose compiler jit and "
            "switch freezing off."
        )
    return int(_ask({"file": str(file.resolve()), "specs": plain(specs), "input_file": str(input_file.resolve())}))


def load(file: Path) -> str:
    """Puts the file's entries into this machine's compile cache. Returns a sentence that says how many and where.

    Raises BadInput where the file is damaged, or was made with another torch, triton, device or driver, and WorkerDied
    where the process ends without an answer. The entries hold code that will be run: load only what you trust.
    """
    return str(_ask({"file": str(file.resolve())}))


def _ask(job: dict[str, Any]) -> Any:
    """The answer of a process that does the job; what it says meanwhile goes to standard error."""
    with child_process(MODULE, stdout=subprocess.PIPE) as child:
        child.send(job)
        for line in filter(None, child.lines()):
            message = json.loads(line)
            if "refused" in message:
                raise BadInput(message["refused"])
            if "answer" in message:
                return message["answer"]
            print(message["said"], file=sys.stderr, flush=True)
        raise WorkerDied(child.last_words())
