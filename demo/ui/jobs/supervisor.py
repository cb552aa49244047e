"""Runs, searches and sweeps outlive the page that started them: a reload, a lost connection or a closed tab ends none.

Each works on a thread of its own and keeps its latest state. Any number of pages may watch it, from any time on. It is
found by the id of its visitor, which the browser keeps.
"""

import contextvars
import hashlib
import logging
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from demo.core import limits
from demo.core.errors import BadInput
from demo.core.result import RunResult
from demo.store.history import HistoryError

UPDATE_SECONDS = 1.0
"""Between two updates that a browser gets: one costs some 20 ms of CPU time on the machine that is timed."""
KEPT_SECONDS = 3600.0
"""How long ended work can be found. Its results stay in the history."""
AGAIN_SECONDS = 10.0
"""A page that opens so soon after the end of a run shows it, although another did: that one may have been loaded anew
before its address had the run."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


def attempted(work: Callable[[], T]) -> T | Exception:
    """What `work` gives, or why it could not: a refusal, or an unexpected error, which the log then has."""
    try:
        return work()
    except (BadInput, HistoryError) as refused:
        return refused.with_traceback(None)
    except Exception as error:
        _log.exception("what a visitor asked for failed inside the page")
        return error.with_traceback(None)


@dataclass(eq=False)
class Work:
    """One run, search or sweep, from its place in the queue to its outcome."""

    title: str = field(default="", init=False)
    """What it works on, for a sentence that begins with 'A run of yours is going on already'."""
    doing: Any = field(default=None, init=False)
    """The latest event."""
    delivered: bool = field(default=False, init=False)
    """Whether a page has shown the outcome."""
    ended_at: float = field(default=0.0, init=False)
    _outcome: Any = field(default=None, init=False)
    _cancel: threading.Event = field(default_factory=threading.Event, init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _watched_at: float = field(default_factory=time.monotonic, init=False)

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    @property
    def ended_just_now(self) -> bool:
        return self.ended and time.monotonic() - self.ended_at < AGAIN_SECONDS

    @property
    def stopped(self) -> bool:
        return self._cancel.is_set()

    def cancel(self) -> None:
        """Asks the work to end. It does within a second, with an outcome."""
        self._cancel.set()

    def watch(self) -> Iterator[Any]:
        """Yields the latest event, at once and then every `pause_seconds`. Ends with the work.

        An unchanged event comes again: gradio notices a closed page only when it sends something.
        """
        while not self.ended:
            self._watched_at = time.monotonic()
            yield self.doing
            self._ended.wait(self.pause_seconds)

    @property
    def pause_seconds(self) -> float:
        return UPDATE_SECONDS

    def outcome(self) -> Any:
        """A result or an exception, which then counts as delivered; None while the work goes on, and where there is
        neither in the end."""
        self.delivered = self.ended
        return self._outcome

    def begin(self) -> None:
        """Takes its place in the queue, if it needs one at once. Raises BadInput if there is none."""

    def forget(self) -> None:
        """Removes its files."""

    def run(self) -> None:
        """Works to the end. Called on the work's own thread."""
        self._outcome = attempted(self._work)
        self.ended_at = time.monotonic()
        self._ended.set()

    def _work(self) -> RunResult | None:
        with closing(self._events()) as events:
            for event in events:
                if isinstance(event, RunResult):
                    return event
                self._note(event)
        return None

    def _events(self) -> Generator[Any, None, None]:
        """What happens, in the end the result of a run."""
        raise NotImplementedError

    def _note(self, event: Any) -> None:
        """Called with each event, on the work's own thread."""
        self.doing = event


W = TypeVar("W", bound=Work)


class Supervisor:
    """The latest work of each visitor. A visitor has one running run or search, and one running sweep, at a time.

    As many go on at once as the queue has places, and as many ended ones are kept: a client can send any number of
    visitor ids.
    """

    def __init__(self, kind: Literal["run", "sweep"]) -> None:
        self._kind = kind
        self._works: dict[str, Work] = {}
        self._lock = threading.Lock()

    def start(self, visitor: str, work: W) -> W:
        """Starts new work. Raises BadInput if work of this visitor goes on, or if there is no place for it; the
        visitor's last work then stays."""
        with self._lock:
            current = self._works.get(visitor)
            if current is not None and not current.ended:
                raise BadInput(
                    f"A {self._kind} of yours is going on already{current.title}: wait until it has ended, or cancel "
                    "it. It is shown where this page is opened anew."
                )
            self._make_room()
            work.begin()
            # The visitor's request goes with the context: on ZeroGPU the package `spaces` reads whose quota it is.
            run = contextvars.copy_context().run
            try:
                threading.Thread(target=run, args=[work.run], daemon=True).start()
            except RuntimeError as error:  # the machine has as many threads as it may
                work.forget()
                raise BadInput("This machine cannot start another run just now. Try again in a minute.") from error
            if (old := self._works.pop(visitor, None)) is not None:
                old.forget()
            self._works[visitor] = work  # so that the newest stands last
        return work

    def _make_room(self) -> None:
        """Forgets old work, and all but the newest of what has ended. Raises BadInput where too much goes on."""
        places = limits.current().queue
        ended = [name for name, work in self._works.items() if work.ended]
        if (going := len(self._works) - len(ended)) >= places:
            raise BadInput(f"{going} {self._kind}s are going on here already. Try again in a few minutes.")
        for name in ended:
            newer = len(ended) - ended.index(name)
            if newer > places or self._works[name].ended_at < time.monotonic() - KEPT_SECONDS:
                self._works.pop(name).forget()

    def of(self, visitor: str) -> Work | None:
        """The latest work of this visitor: running, or ended within KEPT_SECONDS."""
        return self._works.get(visitor)

    def cancel(self, visitor: str) -> None:
        """Asks this visitor's work to end. Every page that watches it then shows the outcome."""
        if (work := self.of(visitor)) is not None:
            work.cancel()


def visitor_name(kept: object, session: str | None) -> str:
    """The id of a visitor: `kept`, which the browser sent and which may be anything, or one made of gradio's session.

    A new page may send its first Run before it has received its id; all its requests have the same session.
    """
    if isinstance(kept, str) and re.fullmatch("[0-9a-f]{32}", kept):
        return kept
    return hashlib.sha256((session or "").encode()).hexdigest()[:32]
