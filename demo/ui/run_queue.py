"""The queue that the page and the API share: one run at a time, so that no run disturbs the timing of another."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..core import limits
from ..core.options import BadInput

WAITING_SECONDS = 0.5


class RunQueue:
    """A queue that lets one run at a time through, in the order in which they joined."""

    def __init__(self, longest: int | None = None) -> None:
        """`longest`: the most runs in the queue; None for the limit in the settings."""
        self._places: dict[object, str] = {}
        """Maps each run's ticket, the earliest first, to its visitor's id; '' for a run of a sweep or search."""
        self._changed = threading.Condition()
        self.longest = longest or limits.current().queue
        self._ends_at: float | None = None
        """When the present run ends, by `time.monotonic`; None if that is not known."""

    def __len__(self) -> int:
        return len(self._places)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the present run is expected to end, above 0; None if that is not known."""
        left = self._ends_at - time.monotonic() if self._ends_at is not None else 0.0
        return left if left > 0 else None

    def expect_end(self, seconds: float | None) -> None:
        """Notes that the present run is expected to end in `seconds`; None if that is not known."""
        self._ends_at = time.monotonic() + seconds if seconds is not None else None

    @contextmanager
    def join(self, visitor: str = "", patient: bool = False) -> Iterator[Iterator[int]]:
        """Holds a place in the queue during a `with` block.

        The `with` block gets an iterator. It yields the number of runs ahead, at least every WAITING_SECONDS, and ends
        when the run's turn comes. Raises BadInput if the visitor has too many places, except for the visitor ''. Also
        raises BadInput if the queue is full, except with `patient`.
        """
        ticket = object()
        with self._changed:
            if not patient and len(self) >= self.longest:
                raise BadInput(f"The queue is full: it has {self.longest} runs. Try again in a few minutes.")
            if visitor and list(self._places.values()).count(visitor) >= limits.current().runs_a_visitor:
                raise BadInput("Your last run is not over yet. Wait for its result, or cancel it, and try again.")
            self._places[ticket] = visitor
        try:
            yield self._ahead(ticket)
        finally:
            with self._changed:
                if next(iter(self._places), None) is ticket:
                    self._ends_at = None
                self._places.pop(ticket, None)
                self._changed.notify_all()

    def _ahead(self, ticket: object) -> Iterator[int]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: next(iter(self._places)) is ticket, WAITING_SECONDS)
                ahead = list(self._places).index(ticket)
            if ahead == 0:
                return
            yield ahead
