"""What the worker is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from demo.core.spec import RunSpec


@dataclass(frozen=True)
class Job:
    """One line of JSON on the worker's standard input."""

    spec: RunSpec
    image: str | None = None
    """The path of the picture."""
    id: str = ""
    started_at: str = ""
    cache_folder: str | None = None
    """An empty folder for this run's compile cache, where the spec asks for an empty one."""
    trace: str | None = None
    """A file to write the profiler's trace to, for Perfetto."""
    package: str | None = None
    """A file to write AOTInductor's package to; without it the package goes with the run's temporary files."""

    @property
    def picture(self) -> Path | None:
        """The picture's file; None for a model that sees none, whatever the job holds."""
        return Path(self.image) if self.image is not None and self.spec.sees_picture else None
