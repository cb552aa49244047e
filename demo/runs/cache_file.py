"""The compile cache as a file that another machine of the same kind, or the next start of a Space, can load.

`demo.backend.cache_file` does the work in a process of its own, because it needs torch.
"""

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

MODULE = "demo.backend.cache_file"


def save(file: Path, specs: Sequence[RunSpec], image: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Compiles the specs and writes their part of the compile cache: {"cells", "bytes", "failed"}.

    `say` gets the name of each cell before it is compiled. Raises BadInput, and WorkerDied where the process ends
    without an answer.
    """
    check_place(file, "cache file")
    if not all(spec.cached for spec in specs):
        raise BadInput(
            "What is compiled with compiler aot or with freezing is not in the compile cache: choose compiler jit and "
            "switch freezing off."
        )
    job = {"do": "save", "specs": [plain(spec) for spec in specs], "image": str(image.resolve())}
    return _ask({**job, "file": str(file.resolve())}, say)


def load(file: Path) -> dict[str, Any]:
    """Puts the file's entries into the compile cache of this machine: {"cells", "entries", "cache"}.

    Raises BadInput where the file is damaged, or was made with another torch, triton, device or driver, and WorkerDied
    as `save` does. The entries hold code that will be run: only load what you or somebody you trust has saved.
    """
    return _ask({"do": "load", "file": str(file.resolve())}, lambda text: None)


def _ask(job: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    with child_process(MODULE, stdout=subprocess.PIPE) as child:
        child.send(job)
        for line in child.lines():
            if line is None:
                continue
            message: dict[str, Any] = json.loads(line)
            if "refused" in message:
                raise BadInput(message["refused"])
            if "said" in message:
                say(message["said"])
            else:
                answer: dict[str, Any] = message.get("saved") or message["loaded"]
                return answer
        raise WorkerDied(child.last_words())
