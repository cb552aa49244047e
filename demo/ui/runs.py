"""What the page and the API need of a runner."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Protocol, cast

from demo.schema import Machine, Progress, RunResult, RunSpec

Event = Progress | RunResult


class AnyRunner(Protocol):
    """`demo.runner.Runner` is one, `demo.ui.fake.FakeRunner` another."""

    @property
    def machine(self) -> Machine | None: ...
    @property
    def modes(self) -> tuple[str, ...]: ...
    def run(self, spec: RunSpec, image: Path, cancel: threading.Event | None = None) -> Iterator[Event]: ...
    def close(self) -> None: ...


def start(
    runner: AnyRunner, spec: RunSpec, image: Path, cancel: threading.Event | None = None
) -> contextlib.closing[Generator[Event, None, None]]:
    """A run as a context: leaving it early closes the runner's generator, which ends the worker."""
    return contextlib.closing(cast(Generator[Event, None, None], runner.run(spec, image, cancel)))
