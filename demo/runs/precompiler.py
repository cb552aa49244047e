"""Compiles coming runs side by side into inductor's shared cache, so that the runs themselves start with a warm one.

Compiling keeps CPU cores busy and timing needs a quiet machine, so the two never happen at the same time: `compile`
returns when its last process has ended.
"""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from demo.core import format as fmt
from demo.core import limits
from demo.core.codec import plain
from demo.core.machine import usable_cores
from demo.core.spec import RunSpec
from demo.runs.child import child_process

MODULE = "demo.backend.precompile"
MAX_PROCESSES = 8
"""Each holds a model in memory, the GPU's too."""
LOT_A_PROCESS = 4

_log = logging.getLogger(__name__)


def should_precompile(spec: RunSpec) -> bool:
    """Whether compiling `spec` ahead would leave what its run can use.

    Not where the run measures a cold compile, nor where compiling times kernels, which needs a quiet GPU.
    """
    return spec.cached and spec.cache == "keep" and not spec.mode.startswith("max-autotune")


class Precompiler:
    """Compiles with `processes` processes at a time. A sweep compiles `lot` cells before it times the first of them."""

    def __init__(self, processes: int | None = None, module: str = MODULE) -> None:
        self.processes = processes or min(usable_cores(), MAX_PROCESSES)
        self.lot = self.processes * LOT_A_PROCESS
        self._module = module

    def compile(self, specs: Sequence[RunSpec], input_file: Path) -> Iterator[tuple[int, int]]:
        """Yields (ended compiles, all compiles) at least every 0.2 s until all have ended; closing it kills them.

        Compiles that fail, and those that have not ended within the time limit of one run, leave nothing in the cache;
        the runs themselves then say why. A single spec is not compiled ahead: its own run would be no slower.
        """
        specs = [spec for spec in specs if should_precompile(spec)]
        if len(specs) < 2 or self.processes < 2:
            return
        job = {
            "specs": [plain(spec) for spec in specs],
            "input_file": str(input_file.resolve()),
            "processes": self.processes,
        }
        limit = limits.current().seconds
        deadline = time.monotonic() + limit
        try:
            with child_process(self._module, stdout=subprocess.PIPE) as child:
                ended = 0
                yield ended, len(specs)
                child.send(job)
                for line in child.lines():
                    if time.monotonic() > deadline:
                        _log.warning("compiling ahead was stopped: it took longer than %s", fmt.duration(limit))
                        return
                    ended += line is not None
                    yield ended, len(specs)
                    if ended == len(specs):
                        return
        except OSError as error:
            _log.warning("nothing is compiled ahead: %s", error)  # each run compiles for itself, or says why not
