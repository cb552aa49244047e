"""`python -m demo doctor`: says whether a run would work on this machine; if not, why and what to do."""

import argparse
import os
import re
import subprocess
import sys
from contextlib import closing, suppress
from functools import partial

from ..core import catalog, format as fmt, hub, refusals
from ..core.cores import usable_cores
from ..core.machine import HostInfo
from ..core.program import PACKAGE, install_command, missing_libraries
from ..runs.process import WorkerDied, child_process, ending
from ..store.database import HistoryError
from ..store.history import History
from .common import FAILED, OK, PROBE, Commands, json_text
from .terminal import hanging

HINDER = {
    "Invalid log settings": "TORCH_LOGS",
    "Warning: ": "PYTHONWARNINGS",
    "docstring": "PYTHONOPTIMIZE",
    "codec can't decode": "PYTHONUTF8",
}
"""{words in the error of a process that does not start: the environment variable that causes this error}"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser("doctor", help="would a run work on this machine, and what is in the way")
    parser.set_defaults(command=_doctor)
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--gpu", action="store_true", help="check how the GPU measures and compiles, in two minutes")


def _doctor(options: argparse.Namespace) -> int:
    if options.gpu:
        return FAILED if subprocess.run([sys.executable, "-P", "-m", f"{PACKAGE}.backend.gpu_check"]).returncode else OK
    _say("Starting a process with torch ...")
    machine, problems = _machine()  # each problem makes a run fail, and names its remedy
    notes = []  # with a note a run works, but not as the user may expect
    _say("Storing something ...")
    try:
        History().probe()
    except HistoryError as error:
        problems.append(str(error))
    if machine is not None and machine.gpu_problem is not None:
        notes.append(f"The GPU cannot be used: {machine.gpu_problem}. Until then runs use the CPU.")
    _say("Asking the Hub ...")
    if trouble := hub.problem():
        notes.append(
            f"The Hugging Face Hub cannot be reached: {trouble.reason}; {trouble.remedy}. Checkpoints that ship with "
            "the project or are in the cache still run, others of the list with --weights random."
        )
    reachable = trouble is None
    if options.json:
        print(json_text({"machine": machine, "hub_reachable": reachable, "problems": problems, "notes": notes}))
    else:
        print(doctor_report(machine, reachable, problems, notes))
    return FAILED if problems else OK


def _say(step: str) -> None:
    """Prints `step`, the check that begins. A check takes some seconds, the first a minute on a busy machine."""
    print(step, file=sys.stderr, flush=True)


def _machine() -> tuple[HostInfo | None, list[str]]:
    """Returns the machine's facts, and the reasons why a run would fail on it; [] if none was found.

    The facts are None if no process with torch can be started.
    """
    from ..runs.runner import Runner

    with closing(Runner(None)) as runner:
        try:
            machine = runner.inspect(partial(_say, PROBE))
        except (WorkerDied, OSError) as error:
            remedy = ""
            if isinstance(error, OSError):
                remedy = "Set TMPDIR and TORCHINDUCTOR_CACHE_DIR to folders that can be written."
            elif re.search("ModuleNotFoundError|ImportError|No module named", str(error)):
                remedy = missing_libraries() or f"Install what it needs: {install_command()}"
            for words, variable in HINDER.items():
                if words in str(error) and variable in os.environ:
                    remedy = f"{variable} is {os.environ[variable]!r}: correct or unset it."
            return None, [f"The worker process does not start: {error}. {remedy}".strip()]
    refused = refusals.refusal(refusals.on_machine(catalog.make_spec(catalog.DEFAULT), machine), machine)
    if refused:
        return machine, [refused]
    _say("Compiling a small extension ...")
    return machine, compile_problems()


def compile_problems() -> list[str]:
    """Returns why a run could not compile and load C++ code, as a list of at most one sentence; [] if it could."""
    with child_process(f"{PACKAGE}.backend.machine_probe") as child:
        code, lines = child.exit_code(None) or 0, child.output()
    problem = lines[-1] if lines else f"A process that loads a small C++ extension {ending(code)}."
    return [] if problem == "nothing" else [problem]


def doctor_report(machine: HostInfo | None, reachable: bool, problems: list[str], notes: list[str]) -> str:
    facts: dict[str, str] = {}
    if machine is not None:
        memory = f", {fmt.size(machine.gpu_memory_bytes)} of memory" if machine.gpu_memory_bytes else ""
        gpu = f"{machine.gpu}{memory}, driver {machine.driver or 'not known'}"
        cores = fmt.count(usable_cores(), "core")
        facts = {
            "versions": f"torch {machine.torch}, transformers {machine.transformers}, Python {machine.python}",
            "torch lies in": machine.torch_folder,
            "processor": f"{machine.cpu}, {cores}, {fmt.size(machine.memory_bytes)} of memory",
            "gpu": gpu if machine.gpu else "none that torch can use",
            "triton": machine.triton or "not installed",
            "c++ compiler": machine.compiler or "not found",
            "vector probe": f"{fmt.duration(machine.probe_seconds)}, done" if machine.probe_seconds else "",
            "compile cache": machine.inductor_cache,
        }
    with suppress(HistoryError):
        facts["results"] = str(History().path)
    facts["hub"] = f"{hub.shown_endpoint()}, {'reachable' if reachable else 'not reachable'}"
    lines = [line for name, fact in facts.items() if fact for line in hanging(f"{name:<14}", fact)]
    lines += ["", "A run would fail here:" if problems else "A run would work here."]
    lines += [line for problem in problems for line in hanging("- ", problem)]
    if notes:
        lines += ["", "Notes:", *(line for note in notes for line in hanging("- ", note))]
    return "\n".join(lines)
