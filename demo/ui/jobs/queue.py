"""The queue of the page and the API: first come, first served, one run at a time."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from demo.core import limits
from demo.core.errors import BadInput

WAITING_SECONDS = 0.5


class Full(BadInput):
    """The queue has no place left, for anybody."""


class RunQueue:
    def __init__(self, longest: int | None = None) -> None:
        """`longest` is for tests; without it the limit from the settings holds."""
        self._places: dict[object, str] = {}
        """The visitors by their tickets, in order."""
        self._changed = threading.Condition()
        self.longest = longest or limits.current().queue

    def __len__(self) -> int:
        """Runs that wait or run."""
        return len(self._places)

    @contextmanager
    def join(self, visitor: str = "", patient: bool = False) -> Iterator[Iterator[int]]:
        """A place at the end of the queue, left with the context. Yields the numbers of runs ahead, every
        WAITING_SECONDS until it is this one's turn.

        Raises Full if there is no place, BadInput if this visitor has too many. One that is `patient` waits for a place
        while its numbers are read.
        """
        ticket = object()
        if not patient:
            self._take_place(ticket, visitor)
        try:
            yield self._ahead(ticket, visitor)
        finally:
            with self._changed:
                self._places.pop(ticket, None)
                self._changed.notify_all()

    def _take_place(self, ticket: object, visitor: str) -> None:
        with self._changed:
            if len(self) >= self.longest:
                raise Full(f"The queue is full: {len(self)} runs are waiting. Try again in a few minutes.")
            if visitor and list(self._places.values()).count(visitor) >= limits.current().runs_a_visitor:
                raise BadInput("Your last run is not over yet. Wait for its result, or cancel it, and try again.")
            self._places[ticket] = visitor

    def _ahead(self, ticket: object, visitor: str) -> Iterator[int]:
        while ticket not in self._places:
            try:
                self._take_place(ticket, visitor)
            except Full:
                time.sleep(WAITING_SECONDS)
                yield self.longest
        while True:
            with self._changed:
                self._changed.wait_for(lambda: next(iter(self._places)) is ticket, WAITING_SECONDS)
                ahead = list(self._places).index(ticket)
            if ahead == 0:
                return
            yield ahead
