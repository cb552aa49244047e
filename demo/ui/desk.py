"""The objects that all parts of the page share."""

from dataclasses import dataclass, field

from ..runs.runner import Runner
from ..store.history import History
from .run_queue import RunQueue
from .works import Supervisor


@dataclass(frozen=True)
class Desk:
    """What all parts of the page share: the runner, its queue, the stored runs, and the works of visitors.

    A work is a run, a search for the best way, or a sweep.
    """

    runner: Runner
    queue: RunQueue
    history: History
    works: Supervisor = field(default_factory=Supervisor)
    """Runs the visitors' works. A visitor has at most one at a time: a run, a search, or a pre-flight of stage mode."""
