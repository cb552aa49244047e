"""What sweep, page and API need of a runner, so that tests can give them one without models."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Protocol

from demo.core.machine import HostInfo
from demo.core.result import Progress, RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import ProcessResult
from demo.runs.outcome import NO_FILES, Files


class AnyRunner(Protocol):
    """`demo.runs.runner.Runner`, which says what its members do, or one that answers in its place."""

    @property
    def machine(self) -> HostInfo | None: ...
    @property
    def modes(self) -> tuple[str, ...]: ...
    def run(
        self,
        spec: RunSpec,
        input_file: Path | None,
        cancel: threading.Event | None = None,
        files: Files = NO_FILES,
        earlier: tuple[ProcessResult, ...] = (),
    ) -> Generator[Progress | RunResult, None, None]: ...
