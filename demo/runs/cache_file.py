"""The compile cache as a file that another machine of the same kind, or the next start of a Space, can load.

Torch does the work, in a process of its own; this starts it and hands on what it says.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from demo.core.result import BadInput, Lost, RunSpec, plain
from demo.runs.runner import ROOT, own_folder, worker_environment
from demo.store.export import check_place

MODULE = "demo.backend.cache_file"


def save(file: Path, specs: Sequence[RunSpec], image: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Compiles the specs and writes their part of the compile cache: {"cells", "bytes", "failed"}. Raises BadInput."""
    check_place(file, "cache file")
    job = {"do": "save", "specs": [plain(spec) for spec in specs], "image": str(image.resolve())}
    return _ask({**job, "file": str(file.resolve())}, say)


def load(file: Path) -> dict[str, Any]:
    """Puts the file's entries into the compile cache of this machine: {"cells", "entries", "cache"}.

    Raises BadInput where the file is damaged, or was made with another torch, triton, device or driver. The entries
    hold code that will be run: only load what you or somebody you trust has saved.
    """
    return _ask({"do": "load", "file": str(file.resolve())}, lambda text: None)


def _ask(job: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    folder, hold = own_folder()
    noise = tempfile.TemporaryFile()  # not a pipe: what the process has started may hold it open after its end
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=noise,
        start_new_session=True,
        cwd=ROOT,
        env=worker_environment(folder),
    )
    try:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the process was started without pipes")
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()
        for line in process.stdout:
            message: dict[str, Any] = json.loads(line)
            if "refused" in message:
                raise BadInput(message["refused"])
            if "said" in message:
                say(message["said"])
            else:
                answer: dict[str, Any] = message.get("saved") or message["loaded"]
                return answer
        noise.seek(0)
        raise Lost(noise.read().decode(errors="replace")[-2000:])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, noise):
            if pipe is not None:
                pipe.close()
        shutil.rmtree(folder, ignore_errors=True)
        os.close(hold)
