"""`python -m demo doctor`: would a run work on this machine? What is there, what is in the way, what to do about it."""

import argparse
import os
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from demo.cli.common import FAILED, OK, to_json
from demo.cli.terminal import hanging
from demo.core import catalog, format as fmt, hub, refusals
from demo.core.machine import HostInfo
from demo.runs.process import WorkerDied, child_process, ending
from demo.store.history import FOLDER_VARIABLE, History, HistoryError


def add_to(commands: Any) -> None:
    parser = commands.add_parser("doctor", help="would a run work on this machine, and what is in the way")
    parser.set_defaults(command=_doctor)
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--gpu", action="store_true", help="check how the GPU measures and compiles, in two minutes")


def _doctor(options: argparse.Namespace) -> int:
    if options.gpu:
        return FAILED if subprocess.run([sys.executable, "-m", "demo.backend.gpu_check"]).returncode else OK
    diagnosis = examine()
    print(to_json(diagnosis) if options.json else report(diagnosis))
    return FAILED if diagnosis.problems else OK


@dataclass(frozen=True)
class Folder:
    path: str
    bytes: int
    """0 where there is no such folder yet."""


@dataclass(frozen=True)
class Diagnosis:
    machine: HostInfo | None
    """None where the worker process does not start."""
    hub: str
    """The address that is asked."""
    hub_reachable: bool
    cached: list[str]
    """Checkpoints of the catalogue whose weights are on this machine."""
    inductor_cache: Folder | None
    hub_cache: Folder
    results: str
    """The file that results are stored in; '' where it cannot be read."""
    stored: int
    """How many it holds."""
    problems: list[str]
    """What makes a run fail, each with its remedy."""
    notes: list[str]
    """A run works all the same, but not as one might expect."""


def examine() -> Diagnosis:
    """Starts one worker process to ask it, and the Hub for at most 2 s. Changes nothing."""
    from huggingface_hub import constants  # which no other command needs

    problems: list[str] = []
    notes: list[str] = []
    machine = _machine(problems, notes)
    if not (reachable := hub.reachable()):
        notes.append(
            "The Hugging Face Hub cannot be reached. Checkpoints that ship with the project or are in the cache still "
            "run, all others with --weights random."
        )
    cached = [checkpoint.id for checkpoint in catalog.CHECKPOINTS if hub.holds_weights(checkpoint.id)]
    history, results, stored = History(), "", 0
    try:
        stored = history.count()
        folder = next(parent for parent in history.path.parents if os.path.exists(parent))
        if not os.access(folder, os.W_OK):
            raise HistoryError(
                f"Results cannot be stored in {history.path}: {folder} does not allow writing. "
                f"Set {FOLDER_VARIABLE} to a folder that can be written."
            )
        results = str(history.path)
    except HistoryError as error:
        notes.append(str(error))
    inductor = _folder(machine.inductor_cache) if machine is not None else None
    hubs = _folder(constants.HF_HUB_CACHE)
    return Diagnosis(machine, hub.endpoint(), reachable, cached, inductor, hubs, results, stored, problems, notes)


def _machine(problems: list[str], notes: list[str]) -> HostInfo | None:
    from demo.runs.runner import Runner

    with closing(Runner(None)) as runner:
        try:
            machine = runner.inspect()
        except (WorkerDied, OSError) as error:
            why, remedy = str(error), "Set TMPDIR and TORCHINDUCTOR_CACHE_DIR to folders that can be written."
            if isinstance(error, WorkerDied):
                why, remedy = error.reason, "Install what it needs: pip install -r requirements.txt"
            problems.append(f"The worker process does not start: {why}. {remedy}")
            return None
    if refused := refusals.refusal(refusals.on_machine(catalog.make_spec(catalog.DEFAULT), machine), machine):
        problems.append(str(refused))
    else:
        problems += compile_problems()
    if machine.gpu_problem is not None:
        notes.append(f"The GPU cannot be used: {machine.gpu_problem}. Until then runs use the CPU.")
    return machine


def compile_problems() -> list[str]:
    """Why code cannot be built and loaded in a worker's environment, as a process there finds out: at most one."""
    with child_process("demo.backend.machine_probe") as child:
        code, said = child.exit_code(None), child.output()
    found = said[-1] if said else f"A process that loads a small C++ extension {ending(code)}."
    return [found] * (found != "nothing")


def _folder(path: str) -> Folder:
    """The folder with the size of all files below; links are not followed, and a file that vanishes is left out."""
    size = 0
    for parent, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(parent, name)).st_size
    return Folder(path, size)


def report(diagnosis: Diagnosis) -> str:
    """What is there, then whether a run would work, then what to do."""
    rows: list[tuple[str, str]] = []
    if machine := diagnosis.machine:
        memory = f", {fmt.size(machine.gpu_memory_bytes)} of memory" if machine.gpu_memory_bytes else ""
        gpu = f"{machine.gpu}{memory}, driver {machine.driver or 'not known'}"
        rows += [
            ("versions", f"torch {machine.torch}, transformers {machine.transformers}, Python {machine.python}"),
            ("processor", f"{machine.cpu}, {fmt.size(machine.memory_bytes)} of memory"),
            ("gpu", gpu if machine.gpu else "none that torch can use"),
            ("triton", machine.triton or "not installed"),
            ("c++ compiler", machine.compiler or "not found"),
            ("modes", ", ".join(machine.modes)),
        ]
    rows.append(("hub", f"{diagnosis.hub}, {'reachable' if diagnosis.hub_reachable else 'not reachable'}"))
    rows.append(("in its cache", ", ".join(diagnosis.cached) or "no checkpoint of the list"))
    for name, folder in (("hub cache", diagnosis.hub_cache), ("compile cache", diagnosis.inductor_cache)):
        if folder is not None:
            rows.append((name, f"{folder.path}, {fmt.size(folder.bytes)}"))
    if diagnosis.results:
        rows.append(("results", f"{diagnosis.results}, {diagnosis.stored} stored"))
    lines = [line for name, value in rows for line in hanging(f"{name:<14}", value)]
    lines += ["", "A run would fail here:" if diagnosis.problems else "A run would work here."]
    lines += [line for problem in diagnosis.problems for line in hanging("- ", problem)]
    if diagnosis.notes:
        lines += ["", "Notes:", *(line for note in diagnosis.notes for line in hanging("- ", note))]
    return "\n".join(lines)
