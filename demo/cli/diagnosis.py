"""Would a run work on this machine? What is there, what is in the way, and what to do about it."""

from __future__ import annotations

import os
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants

from demo.core import catalog, hub, refusals
from demo.core.errors import WorkerDied
from demo.core.machine import HostInfo
from demo.core.refusals import on_machine
from demo.runs.runner import Runner
from demo.store.history import FOLDER_VARIABLE, History, HistoryError


@dataclass(frozen=True)
class Finding:
    what: str
    remedy: str


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
    cached: tuple[str, ...]
    """Checkpoints of the catalogue whose weights are on this machine."""
    inductor_cache: Folder | None
    hub_cache: Folder
    results: str
    """The file that results are stored in."""
    stored: int
    """How many it holds."""
    problems: tuple[Finding, ...]
    """Each of these makes a run fail."""
    notes: tuple[Finding, ...]
    """A run works all the same, but not as one might expect."""


def examine() -> Diagnosis:
    """Starts one worker process to ask it, and the Hub for at most 2 s. Changes nothing."""
    problems: list[Finding] = []
    notes: list[Finding] = []
    machine = _machine(problems, notes)
    reachable = hub.reachable()
    cached = tuple(checkpoint.id for checkpoint in catalog.CHECKPOINTS if hub.holds_weights(checkpoint.id))
    if not reachable:
        notes.append(
            Finding(
                "The Hugging Face Hub cannot be reached.",
                "Checkpoints that ship with the project or are in the cache still run, "
                "all others with --weights random.",
            )
        )
    path, stored = _results(notes)
    return Diagnosis(
        machine=machine,
        hub=hub.endpoint(),
        hub_reachable=reachable,
        cached=cached,
        inductor_cache=_folder(Path(machine.inductor_cache)) if machine else None,
        hub_cache=_folder(Path(constants.HF_HUB_CACHE)),
        results=path,
        stored=stored,
        problems=tuple(problems),
        notes=tuple(notes),
    )


def _machine(problems: list[Finding], notes: list[Finding]) -> HostInfo | None:
    with closing(Runner(None)) as runner:
        try:
            machine = runner.inspect()
        except WorkerDied as error:
            problems.append(
                Finding(
                    f"The worker process does not start: {error.reason}",
                    "Install what it needs: pip install -r requirements.txt",
                )
            )
            return None
    if refused := refusals.refusal(on_machine(catalog.make_spec(catalog.DEFAULT), machine), machine):
        problems.append(Finding(refused.what, refused.remedy))
    else:
        notes += [Finding(one.what, one.remedy) for one in refusals.limits_of(machine)]
    if machine.gpu_problem is not None:
        notes.append(Finding(f"The GPU cannot be used: {machine.gpu_problem}.", "Until then runs use the CPU."))
    return machine


def _results(notes: list[Finding]) -> tuple[str, int]:
    """The file of the results, and how many it holds; ('', 0) where it cannot be read."""
    history = History()
    try:
        stored = history.count()
        folder = next(parent for parent in history.path.parents if os.path.exists(parent))
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise HistoryError(f"Results cannot be stored in {history.path}: {folder} does not allow writing.")
        return str(history.path), stored
    except HistoryError as error:
        notes.append(Finding(str(error), f"Set {FOLDER_VARIABLE} to a folder that can be written."))
        return "", 0


def _folder(path: Path) -> Folder:
    """The folder with the size of all files below; links are not followed, and a file that vanishes is left out."""
    size = 0
    for parent, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(parent, name)).st_size
    return Folder(str(path), size)
