"""Who runs next. The page and the API stand in one line: first come, first served, one run at a time."""

from __future__ import annotations

import threading

from demo.core import limits
from demo.core.result import BadInput


class Full(BadInput):
    """No place is left in the line, for anybody."""


class Line:
    def __init__(self, longest: int | None = None) -> None:
        """`longest` is for tests; without it the limit holds that was set."""
        self._places: list[Place] = []
        self._changed = threading.Condition()
        self._longest = longest or limits.current().queue

    def join(self, visitor: str = "") -> Place:
        """Takes the last place. Raises Full where there is none, BadInput where this visitor has enough of them."""
        with self._changed:
            if len(self._places) >= self._longest:
                raise Full(f"The queue is full: {len(self._places)} runs are waiting. Try again in a few minutes.")
            mine = sum(place.visitor == visitor for place in self._places if visitor)
            if mine >= limits.current().runs_a_visitor:
                raise BadInput("Your last run is not over yet. Wait for its result, or cancel it, and try again.")
            place = Place(self, visitor)
            self._places.append(place)
            return place

    def wait(self, place: Place, seconds: float) -> int:
        """How many are ahead of `place`, after at most so many seconds; at once when its turn has come."""
        with self._changed:
            self._changed.wait_for(lambda: self._places.index(place) == 0, seconds)
            return self._places.index(place)

    def leave(self, place: Place) -> None:
        with self._changed:
            if place in self._places:
                self._places.remove(place)
                self._changed.notify_all()


class Place:
    """One place in a line; as a context it leaves the line at the end, however that end comes."""

    def __init__(self, line: Line, visitor: str) -> None:
        self._line = line
        self.visitor = visitor

    def wait(self, seconds: float) -> int:
        """How many are ahead: 0 when it is this one's turn. Returns early for that only."""
        return self._line.wait(self, seconds)

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.leave(self)
