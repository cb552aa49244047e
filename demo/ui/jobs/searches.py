"""A search for the best way to run a model, as the page keeps it going."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from demo.core.spec import RunSpec
from demo.runs.any_runner import AnyRunner
from demo.store.history import History
from demo.sweep.best_way import STEADY, Search
from demo.sweep.grid import PICTURE
from demo.sweep.run_grid import Event
from demo.sweep.ways import OTHER_FORMATS
from demo.ui.jobs.queue import RunQueue
from demo.ui.jobs.sweeps import Series, machine_of, turn

MAX_STORED = 500
"""Stored runs of the model, newest first, in which a search looks for what it need not run again."""


def make_search(
    runner: AnyRunner, history: History, spec: RunSpec, image: Path | None, other_formats: bool, minutes: float
) -> Search:
    """The search for a model, an input and a batch size. Raises BadInput and HistoryError."""
    stored = history.all(MAX_STORED, checkpoints={spec.checkpoint})
    return Search(spec, machine_of(runner), stored, image or PICTURE, other_formats, minutes)


class BestSearch(Series):
    """One search. Several pages may watch it; they share its goal."""

    def __init__(
        self, search: Search, spec: RunSpec, image: Path | None, runner: AnyRunner, queue: RunQueue, visitor: str
    ) -> None:
        """`spec` and `image` are what the form asked for, to fill it again."""
        super().__init__()
        self.search = search
        self.spec = spec
        self.image = image
        self.title = f", the search for the best way to run {spec.checkpoint} with batch size {spec.batch_size}"
        self.goal = STEADY
        self._runner = runner
        self._queue = queue
        self._visitor = visitor

    @property
    def other_formats(self) -> bool:
        """Whether it tries other number formats, too."""
        return any(way.name in OTHER_FORMATS for way in self.search.ways)

    @property
    def others(self) -> int:
        """Runs that wait while one of this search goes on; each goes before the next run of it."""
        return len(self._queue) - 1

    def _events(self) -> Generator[Event, None, None]:
        return self.search.run(self._runner, self._cancel, lambda: turn(self._queue, f"search of {self._visitor}"))
