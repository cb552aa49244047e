"""The objects that all parts of the page share."""

from dataclasses import dataclass, field

from ..runs.runner import Runner
from ..store.history import History
from .run_queue import RunQueue
from .works import Supervisor


@dataclass(frozen=True)
class Desk:
    """What all parts of the page share: the runner, its queue, the stored runs, and the works of visitors."""

    runner: Runner
    queue: RunQueue
    history: History
    works: Supervisor = field(default_factory=Supervisor)
    """Runs the visitors' works. A visitor has at most one at a time: a run, a search, or a pre-flight, which
    runs each preset of stage mode (the page for a talk) once.

    The sweeps of the tab Sweep have a supervisor of their own, and so have the searches of the API."""
