"""The queue of the page and the API: first come, first served, one run at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from demo.core import limits
from demo.core.errors import BadInput

WAITING_SECONDS = 0.5


class Full(BadInput):
    """The queue has no place left, for anybody."""


class Ticket:
    """One place in the queue."""

    def __init__(self, visitor: str) -> None:
        self.visitor = visitor


class RunQueue:
    def __init__(self, longest: int | None = None) -> None:
        """`longest` is for tests; without it the limit from the settings holds."""
        self._tickets: list[Ticket] = []
        self._changed = threading.Condition()
        self.longest = longest or limits.current().queue

    def __len__(self) -> int:
        """Runs that wait or run."""
        return len(self._tickets)

    @contextmanager
    def join(self, visitor: str = "", patient: bool = False) -> Iterator[Iterator[int]]:
        """A place at the end of the queue, left with the context. Yields the numbers of runs ahead, every
        WAITING_SECONDS until it is this one's turn.

        Raises Full if there is no place, BadInput if this visitor has too many. One that is `patient` waits for a place
        while its numbers are read.
        """
        ticket = Ticket(visitor)
        if not patient:
            self._take_place(ticket)
        try:
            yield self._ahead(ticket)
        finally:
            with self._changed:
                if ticket in self._tickets:
                    self._tickets.remove(ticket)
                    self._changed.notify_all()

    def _take_place(self, ticket: Ticket) -> None:
        with self._changed:
            if len(self._tickets) >= self.longest:
                raise Full(f"The queue is full: {len(self._tickets)} runs are waiting. Try again in a few minutes.")
            own = sum(other.visitor == ticket.visitor for other in self._tickets if ticket.visitor)
            if own >= limits.current().runs_a_visitor:
                raise BadInput("Your last run is not over yet. Wait for its result, or cancel it, and try again.")
            self._tickets.append(ticket)

    def _ahead(self, ticket: Ticket) -> Iterator[int]:
        while ticket not in self._tickets:
            try:
                self._take_place(ticket)
            except Full:
                time.sleep(WAITING_SECONDS)
                yield self.longest
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._tickets[0] is ticket, WAITING_SECONDS)
                ahead = self._tickets.index(ticket)
            if ahead == 0:
                return
            yield ahead
