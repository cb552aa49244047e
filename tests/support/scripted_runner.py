"""Stands in for the runner in tests of the command line, in this process."""

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demo.core.machine import HostInfo
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.runs.outcome import NO_FILES, Files
from demo.store.history import History

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = sorted((ROOT / "assets" / "examples").glob("*.png"))[0]
RUN = ["run", "--checkpoint", "shapes-vit", "--image", str(EXAMPLE)]


class Terminal(io.StringIO):
    """A standard stream that takes itself for a terminal."""

    def isatty(self) -> bool:
        return True


class ScriptedRunner:
    """Stands in for `demo.runs.runner.Runner`: stores and yields what it was told and remembers what it was asked."""

    stores = True
    machine: HostInfo | None = None

    def __init__(self, *events: Progress | RunResult | BaseException) -> None:
        self.events = events
        self.specs: list[RunSpec] = []
        self.files = NO_FILES
        self.closed = False
        self.history: History | None = None

    def __call__(self, history: History) -> "ScriptedRunner":
        self.history = history
        return self

    def run(self, spec: RunSpec, image: Path, files: Files = NO_FILES, **more: Any) -> Iterator[Progress | RunResult]:
        self.specs.append(spec)
        self.files = files
        for event in self.events:
            if isinstance(event, BaseException):
                raise event
            if isinstance(event, RunResult) and self.history is not None and self.stores:
                self.history.append(event)
            yield event

    def close(self) -> None:
        self.closed = True


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, **options
    )
