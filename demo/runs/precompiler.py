"""Compiles coming runs side by side into inductor's shared cache, so that the runs themselves start with a warm one.

Compiling is work for a CPU core and timing needs a quiet machine, so the two never happen at the same time: `compile`
returns when its last process has ended.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo.core import format as fmt
from demo.core import limits
from demo.core.result import RunSpec, plain
from demo.runs.runner import ROOT, own_folder, worker_environment

MODULE = "demo.backend.precompile"
MOST_PROCESSES = 8
"""Each holds a model in memory, the GPU's too."""
LOT_A_PROCESS = 4
POLL_SECONDS = 0.2

_log = logging.getLogger(__name__)


def worth_it(spec: RunSpec) -> bool:
    """Not where the run measures a cold compile, nor where compiling times kernels, which needs a quiet GPU."""
    return spec.cache == "keep" and not spec.mode.startswith("max-autotune")


class Precompiler:
    """`processes` at a time; a lot is as many cells as are compiled before the first of them is timed."""

    def __init__(self, processes: int | None = None, module: str = MODULE) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.processes = processes or min(cores, MOST_PROCESSES)
        self.lot = self.processes * LOT_A_PROCESS
        self._module = module

    def compile(self, specs: Sequence[RunSpec], image: Path) -> Iterator[tuple[int, int]]:
        """Yields (compiled, of all) now and then until all are done; closing it ends the processes.

        A compile that fails leaves nothing in the cache, and its run then says why. So does one that has not ended
        after the time that one run may take: others wait meanwhile.
        """
        specs = [spec for spec in specs if worth_it(spec)]
        if len(specs) < 2 or self.processes < 2:
            return  # alone it would be done no sooner than by its own run
        job = {"specs": [plain(spec) for spec in specs], "image": str(image.resolve()), "processes": self.processes}
        try:
            with self._started() as process:
                yield from _watched(process, job, len(specs))
        except OSError as error:
            _log.warning("nothing is compiled ahead: %s", error)  # each run compiles for itself, or says why not

    @contextmanager
    def _started(self) -> Iterator[subprocess.Popen[bytes]]:
        """The process, which ends here with all that it has started. Raises OSError where none can be started."""
        folder, hold = own_folder()
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd=ROOT,
                env=worker_environment(folder),
            )
            try:
                # when memory runs out, Linux shall end it and its forks, not the app
                with contextlib.suppress(OSError):
                    Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        with contextlib.suppress(OSError):
                            pipe.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(hold)


def _watched(process: subprocess.Popen[bytes], job: dict[str, Any], specs: int) -> Iterator[tuple[int, int]]:
    """(compiled, of all) until all are done, the process has ended, or the time of one run is over."""
    deadline = time.monotonic() + limits.current().seconds
    yield 0, specs
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the precompiler was started without pipes")
    with contextlib.suppress(OSError):
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.flush()
    done, said = 0, b"."
    while said and done < specs:
        if time.monotonic() > deadline:
            _log.warning("compiling ahead was stopped: it took longer than %s", fmt.duration(limits.current().seconds))
            return
        ready, _, _ = select.select([process.stdout], [], [], POLL_SECONDS)
        said = os.read(process.stdout.fileno(), 4096) if ready else b"."
        done += said.count(b"\n")
        yield done, specs
