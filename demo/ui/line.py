"""Who runs next. The page and the API stand in one line: first come, first served, one run at a time."""

from __future__ import annotations

import threading

from demo.schema import BadInput

LONGEST = 20
"""More would wait for an hour; it is kinder to say so at once."""


class Line:
    def __init__(self, longest: int = LONGEST) -> None:
        self._places: list[Place] = []
        self._changed = threading.Condition()
        self._longest = longest

    def join(self) -> Place:
        """Takes the last place. Raises BadInput where the line is full."""
        with self._changed:
            if len(self._places) >= self._longest:
                raise BadInput(f"{len(self._places)} runs are waiting already. Try again in a few minutes.")
            place = Place(self)
            self._places.append(place)
            return place

    def ahead_of(self, place: Place) -> int:
        with self._changed:
            return self._places.index(place)

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

    def __init__(self, line: Line) -> None:
        self._line = line

    def wait(self, seconds: float) -> int:
        """How many are ahead: 0 when it is this one's turn. Returns early for that only."""
        return self._line.wait(self, seconds)

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.leave(self)
