"""Runs, searches and sweeps outlive the page that started them: a reload, a lost connection or a closed tab ends none.

Each works on a thread of its own and keeps its latest state. Any number of pages may watch it, from any time on. It is
found by the id of its visitor, which the browser keeps.
"""

from __future__ import annotations

import contextvars
import logging
import re
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from demo.core import format as fmt
from demo.core import limits
from demo.core.errors import BadInput
from demo.store.history import HistoryError

KEPT_SECONDS = 3600.0
"""How long ended work can be found. Its results stay in the history."""
AGAIN_SECONDS = 10.0
"""A page that opens so soon after the end of a run shows it, although another did: that one may have been loaded anew
before its address had the run."""
MAX_SESSIONS = 1024
"""New visitors whose session is remembered."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refused:
    """The work was not possible as requested."""

    sentence: str
    """The reason, fit for a browser."""


@dataclass(frozen=True)
class Broken:
    """An unexpected error. The log has it."""


class Work:
    """One run, search or sweep, from its place in the queue to its outcome."""

    title = ""
    """What it works on, for a sentence that begins with 'A run of yours is going on already'."""

    def __init__(self) -> None:
        self.delivered = False
        """Whether a page has shown the outcome."""
        self.ended_at: float | None = None
        self._outcome: Any = None
        self._cancel = threading.Event()
        self._changed = threading.Condition()

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

    @property
    def ended_just_now(self) -> bool:
        return self.ended_at is not None and time.monotonic() - self.ended_at < AGAIN_SECONDS

    def cancel(self) -> None:
        """Asks the work to end. It does within a second, with an outcome."""
        self._cancel.set()

    def outcome(self) -> Any:
        """What `_work` returned, Refused or Broken, which then counts as delivered; None while the work goes on."""
        self.delivered = self.ended
        return self._outcome

    def forget(self) -> None:
        """Gives back its place in the queue and removes its files."""

    def run(self) -> None:
        """Works to the end. Called on the work's own thread."""
        try:
            outcome = self._work()
        except (BadInput, HistoryError) as refused:
            outcome = Refused(fmt.redact(str(refused)))
        except Exception:
            _log.exception("a run or a sweep failed inside the page")
            outcome = Broken()
        with self._changed:
            self._outcome = outcome
            self.ended_at = time.monotonic()
            self._changed.notify_all()

    def _work(self) -> Any:
        """Works, and returns the outcome."""
        raise NotImplementedError


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

    def start(self, visitor: str, make: Callable[[], W]) -> W:
        """Starts what `make` makes. Raises BadInput if work of this visitor goes on, if too many others' does, if
        `make` refuses, or if no thread can be started."""
        with self._lock:
            current = self._works.get(visitor)
            if current is not None and not current.ended:
                raise BadInput(
                    f"A {self._kind} of yours is going on already{current.title}: wait until it has ended, or cancel "
                    "it. It is shown where this page is opened anew."
                )
            new = make()
            try:
                self._make_room()
                # The visitor's request goes with the context: on ZeroGPU the package `spaces` reads whose quota it is.
                run = contextvars.copy_context().run
                threading.Thread(target=run, args=[new.run], daemon=True).start()
            except BadInput:
                new.forget()
                raise
            except Exception as error:  # without its thread the work would never leave the queue
                new.forget()
                _log.warning("a %s could not be started: %s", self._kind, error)
                raise BadInput(
                    f"This machine cannot start another {self._kind} just now. Try again in a few minutes."
                ) from error
            if (old := self._works.pop(visitor, None)) is not None:
                old.forget()
            self._works[visitor] = new  # so that the newest stands last
        return new

    def _make_room(self) -> None:
        """Forgets old work, and all but the newest of what has ended. Raises BadInput where too much goes on."""
        places = limits.current().queue
        going = sum(not work.ended for work in self._works.values())
        if going >= places:
            raise BadInput(f"{going} {self._kind}s are going on here already. Try again in a few minutes.")
        ended = [name for name, work in self._works.items() if work.ended]
        for name in ended:
            work = self._works[name]
            if len(ended) > places or (work.ended_at or 0.0) < time.monotonic() - KEPT_SECONDS:
                ended = ended[1:]
                self._works.pop(name).forget()

    def __len__(self) -> int:
        """How many are kept, running or ended."""
        return len(self._works)

    def of(self, visitor: str) -> Work | None:
        """The latest work of this visitor: running, or ended within KEPT_SECONDS."""
        return self._works.get(visitor)

    def is_running(self, visitor: str) -> bool:
        work = self.of(visitor)
        return work is not None and not work.ended

    def cancel(self, visitor: str) -> None:
        """Asks this visitor's work to end. Every page that watches it then shows the outcome."""
        if (work := self.of(visitor)) is not None:
            work.cancel()


class Visitors:
    """Gives an id to each visitor who has none.

    A new page may send its first Run before it has received its id. The id is therefore remembered by gradio's session
    too: all first requests of a page get the same id.
    """

    def __init__(self) -> None:
        self._given: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def name(self, kept: object, session: str | None) -> str:
        """`kept` is the id that the browser sent, which may be anything; `session` is gradio's session hash."""
        if isinstance(kept, str) and re.fullmatch("[0-9a-f]{32}", kept):
            return kept
        with self._lock:
            name = self._given.setdefault(session or "", uuid.uuid4().hex)
            while len(self._given) > MAX_SESSIONS:
                self._given.popitem(last=False)
        return name
