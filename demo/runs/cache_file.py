"""The compile cache as a file, which `demo.backend.cache_artifacts` saves and loads in a process that imports torch."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from demo.core.codec import plain
from demo.core.errors import BadInput, WorkerDied
from demo.core.spec import RunSpec
from demo.runs.child import child_process
from demo.store.export import check_place


def save(file: Path, specs: Sequence[RunSpec], image: Path, say: Callable[[str], None]) -> int:
    """Compiles the specs and writes their part of the compile cache. Returns how many of them could be compiled.

    `say` is told what is compiled, and what could not be. Raises BadInput, also where none could be compiled, and
    WorkerDied where the process ends without an answer.
    """
    check_place(file, "cache file")
    if not all(spec.cached for spec in specs):
        raise BadInput(
            "What is compiled with compiler aot or with freezing is not in the compile cache: choose compiler jit and "
            "switch freezing off."
        )
    return int(_ask({"file": str(file.resolve()), "specs": plain(specs), "image": str(image.resolve())}, say))


def load(file: Path) -> str:
    """Puts the file's entries into this machine's compile cache. Returns a sentence that says how many and where.

    Raises BadInput where the file is damaged, or was made with another torch, triton, device or driver, and WorkerDied
    where the process ends without an answer. The entries hold code that will be run: load only what you trust.
    """
    return str(_ask({"file": str(file.resolve())}, print))


def _ask(job: dict[str, Any], say: Callable[[str], None]) -> Any:
    """The answer of a process that does the job."""
    with child_process("demo.backend.cache_artifacts", stdout=subprocess.PIPE) as child:
        child.send(job)
        for line in filter(None, child.lines()):
            message = json.loads(line)
            if "refused" in message:
                raise BadInput(message["refused"])
            if "answer" in message:
                return message["answer"]
            say(message["said"])
        raise WorkerDied(child.last_words())
