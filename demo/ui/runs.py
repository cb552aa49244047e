"""What the page and the API need of a runner."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Protocol, cast

from demo.core.result import BadInput, Machine, Progress, RunResult, RunSpec

Event = Progress | RunResult


class AnyRunner(Protocol):
    """`demo.runs.runner.Runner` is one, `demo.ui.jobs.fake_runner.FakeRunner` another."""

    @property
    def machine(self) -> Machine | None: ...
    @property
    def modes(self) -> tuple[str, ...]: ...
    def run(
        self, spec: RunSpec, image: Path, cancel: threading.Event | None = None, trace: Path | None = None
    ) -> Iterator[Event]: ...
    def close(self) -> None: ...


def on_zero_gpu() -> bool:
    """On a ZeroGPU Space, where a process holds its GPU for seconds and torch.compile does not work."""
    return bool(os.environ.get("SPACES_ZERO_GPU"))


def refuse_on_zero_gpu() -> None:
    """Raises BadInput there."""
    if on_zero_gpu():
        raise BadInput("There is no torch.compile on ZeroGPU. Run this project on a machine of your own.")


def start(
    runner: AnyRunner,
    spec: RunSpec,
    image: Path,
    cancel: threading.Event | None = None,
    trace: Path | None = None,
) -> contextlib.closing[Generator[Event, None, None]]:
    """A run as a context: leaving it early closes the runner's generator, which ends the worker.

    Raises BadInput on ZeroGPU.
    """
    refuse_on_zero_gpu()
    return contextlib.closing(cast(Generator[Event, None, None], runner.run(spec, image, cancel, trace)))
