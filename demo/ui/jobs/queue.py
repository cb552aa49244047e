"""The queue of the page and the API: first come, first served, one run at a time."""

from __future__ import annotations

import threading

from demo.core import limits
from demo.core.errors import BadInput


class Full(BadInput):
    """The queue has no place left, for anybody."""


class RunQueue:
    def __init__(self, longest: int | None = None) -> None:
        """`longest` is for tests; without it the limit from the settings holds."""
        self._tickets: list[Ticket] = []
        self._changed = threading.Condition()
        self.longest = longest or limits.current().queue

    def __len__(self) -> int:
        """Runs that wait or run."""
        return len(self._tickets)

    def join(self, visitor: str = "") -> Ticket:
        """Takes the last place. Raises Full if there is none, BadInput if this visitor has too many."""
        with self._changed:
            if len(self._tickets) >= self.longest:
                raise Full(f"The queue is full: {len(self._tickets)} runs are waiting. Try again in a few minutes.")
            own = sum(ticket.visitor == visitor for ticket in self._tickets if visitor)
            if own >= limits.current().runs_a_visitor:
                raise BadInput("Your last run is not over yet. Wait for its result, or cancel it, and try again.")
            ticket = Ticket(self, visitor)
            self._tickets.append(ticket)
            return ticket

    def wait(self, ticket: Ticket, seconds: float) -> int:
        """The number of runs ahead of `ticket`, after at most this time; at once when its turn has come."""
        with self._changed:
            self._changed.wait_for(lambda: self._tickets.index(ticket) == 0, seconds)
            return self._tickets.index(ticket)

    def leave(self, ticket: Ticket) -> None:
        with self._changed:
            if ticket in self._tickets:
                self._tickets.remove(ticket)
                self._changed.notify_all()


class Ticket:
    """One place in a queue. As a context manager it leaves the queue at the end, after an error too."""

    def __init__(self, queue: RunQueue, visitor: str) -> None:
        self._queue = queue
        self.visitor = visitor

    def wait(self, seconds: float) -> int:
        """The number of runs ahead, after at most this time; 0, at once, when it is this ticket's turn."""
        return self._queue.wait(self, seconds)

    @property
    def others(self) -> bool:
        """Whether other runs are in the queue."""
        return len(self._queue) > 1

    def __enter__(self) -> Ticket:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        self._queue.leave(self)
