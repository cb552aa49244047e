"""`python -m demo cache save|load`: the compile cache as a file, by a process of `demo.backend.cache_artifacts`."""

import argparse
import importlib.util
import subprocess
from pathlib import Path
from typing import Any

from demo.cli import sweep_command
from demo.cli.common import FAILED, PROGRAM, picture, print_help
from demo.core.codec import plain
from demo.core.spec import BadInput
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
    check_place(out, "cache file")
    if not all(spec.cached for spec in specs):
        raise BadInput(
            "What is compiled with compiler aot or with freezing is not in the compile cache: choose compiler jit and "
            "switch freezing off."
        )
    return process({"file": out, "specs": plain(specs), "input_file": picture(options.image, specs)})


def _load(options: argparse.Namespace) -> int:
    return process({"file": options.out})


def process(job: dict[str, Any]) -> int:
    """The exit code of a process that does the job, and says on standard error how it goes. Raises BadInput."""
    if importlib.util.find_spec("torch") is None:
        raise BadInput(f"torch is not installed here, and the compile cache is its own. `{PROGRAM} doctor` says more.")
    with child_process(MODULE, stdout=subprocess.PIPE, own_errors=False) as child:
        child.send({name: str(Path(job[name]).resolve()) if name != "specs" else job[name] for name in job})
        for line in filter(None, child.lines()):
            print(line.decode(), flush=True)
        code = child.exit_code()
    return FAILED if code is None or code < 0 else code
