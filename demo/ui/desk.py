"""The objects that all parts of the page share."""

from dataclasses import dataclass, field

from ..runs.runner import Runner
from ..store.history import History
from .run_queue import RunQueue
from .works import Supervisor


@dataclass(frozen=True)
class Desk:
    """The runner, its queue, the stored runs, and the works (runs, searches, sweeps) that visitors have started."""

    runner: Runner
    queue: RunQueue
    history: History
    works: Supervisor = field(default_factory=Supervisor)
    """A visitor has one run, search or pre-flight at a time."""
