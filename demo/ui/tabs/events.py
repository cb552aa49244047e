"""What the events of all tabs use: gradio's options, the card for an error, and the view of work in progress."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Literal, TypedDict, TypeVar

import gradio as gr
from gradio.blocks import Block
from gradio.events import Dependency
from markupsafe import Markup

from ...core import format as fmt
from ...core.options import BadInput
from ...core.progress import Provisional
from ...store.database import HistoryError
from ..templates import render
from ..works import Supervisor, Work, result_or_error, visitor_name

W = TypeVar("W", bound=Work)
Updates = dict[Block, object]
"""gradio's updates of components, by component: new values, or what `gr.update` and `gr.skip` return."""


class InBrowser(TypedDict):
    fn: None
    api_visibility: Literal["private"]


class EventOptions(TypedDict, total=False):
    """Keyword arguments for connecting an event in gradio."""

    preprocess: bool
    show_progress: Literal["hidden"]
    api_visibility: Literal["private"]
    concurrency_limit: int | None
    concurrency_id: str
    trigger_mode: Literal["always_last"]


IN_BROWSER: InBrowser = {"fn": None, "api_visibility": "private"}
"""The options of an event that calls JavaScript alone."""
EVENT_OPTIONS: EventOptions = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
"""The options of an event that calls the server. `RAW` and `LATEST` have further ones."""
RAW: EventOptions = {"preprocess": False, **EVENT_OPTIONS}
"""With these options, a handler gets the values as the browser sent them. Otherwise gradio decodes the picture, and
fails if the picture is broken. So the worker decodes the picture instead, and says what is wrong."""
LATEST: EventOptions = {"trigger_mode": "always_last", **RAW}
"""The options `RAW`, and one more: of several quick changes at least the last is handled. Without it, gradio may drop
the last change."""


def problem_card(title: str, message: str, remedy: str = "") -> Markup:
    """Returns a card that says what did not work. `remedy`: what to do about it."""
    return render("results.card", title, message, remedy)


def error_card(error: Exception, title: str = "This cannot be run") -> Markup:
    """Returns the card for `error`. The card of an unexpected error has a title of its own instead of `title`."""
    if isinstance(error, BadInput | HistoryError):
        return problem_card(title, fmt.redact(str(error)))
    return problem_card(
        "Something went wrong on the server",
        "An unexpected error occurred. It is written to the server's log. Nothing you entered is lost.",
        "Try it again. If it happens again, tell whoever runs this server.",
    )


MOST_FOLLOWING = 3
"""The most pages that follow one `Work`. Each holds a connection, and a browser has six to a server for all tabs."""


class WorkView(ABC, Generic[W]):
    """Base class for a part of the page that shows a visitor's work (a run, a sweep ...) from its start to its end.

    A subclass passes two lists of its components to this class: `live`, which change during the work, and `ending`,
    which change at its end. It has three methods that return updates:

    1. `_show_progress` updates cheap components in `live`. It is called every two seconds during the work.
    2. `_show_cells` updates costly components in `live`, such as a chart. It is called after each run of a search or
       sweep.
    3. `_show_end` updates the components in `ending`. It is called after the work.

    There are three methods because gradio redraws all outputs of an event at each update, which takes processor time
    from the model that is timed.
    """

    def __init__(self, works: Supervisor, live: Sequence[Block], ending: Sequence[Block]) -> None:
        self.works = works
        self.work_shown = gr.State(None)
        """The `Work` that the page shows: a run, a search or a sweep. None if it shows none."""
        self._live, self._ending = list(live), list(ending)

    @abstractmethod
    def _show_refusal(self, card: Markup) -> Updates:
        """Returns updates that show why the work was not started."""

    @abstractmethod
    def _show_start(self, going: W) -> Updates: ...

    @abstractmethod
    def _show_progress(self, going: W) -> Updates: ...

    def _show_cells(self, going: W) -> Updates:
        return {}

    @abstractmethod
    def _show_end(self, going: W) -> Updates: ...

    def work_of(self, request: gr.Request, visitor: str | None) -> Work | None:
        """Returns the visitor's latest work, running or ended; None if there is none.

        `visitor`: the id that the visitor's browser keeps; None if it has none yet.
        """
        return self.works.of(visitor_name(visitor, request.session_hash))

    def _start(self, request: gr.Request, visitor: str | None, make: Callable[[str], W]) -> Updates:
        """Starts the work that `make` creates for the visitor's id. Returns updates that show its start or refusal."""
        name = visitor_name(visitor, request.session_hash)
        work = result_or_error(lambda: self.works.start(make(name)))
        return self._show_refusal(error_card(work)) if isinstance(work, Exception) else self._show_start(work)

    def _cancel(self, request: gr.Request, visitor: str | None) -> object:
        """Asks the visitor's work to end, and disables the button that was pressed."""
        if (work := self.work_of(request, visitor)) is not None:
            work.cancel()
        return gr.update(interactive=False)

    def _watch_after(self, event: Dependency) -> Dependency:
        """Connects two events that follow `event`. Returns the second of them.

        - `event`: stores a run, a search or a sweep in `work_shown`. It is, for example, a press of the button Run.
        - The first of the two shows the progress of this run, search or sweep, the second its end.
        """
        followed = event.then(self._follow, self.work_shown, self._live, **EVENT_OPTIONS)
        over: Dependency = followed.then(self._over, self.work_shown, self._ending, **EVENT_OPTIONS)
        return over

    def _follow(self, request: gr.Request, going: W | None) -> Iterator[Updates]:
        """Yields updates until the work ends, until a run has sent a provisional result, or until `follow_work` ends.

        Closing the page does not end the work.
        """
        if going is None or going.ended or isinstance(going.doing, Provisional):
            yield {self._live[0]: gr.skip()}  # gradio empties the outputs of a handler that yields nothing
            return
        ended = 0
        for _ in follow_work(going):
            now = self._show_progress(going)
            if going.runs_ended != ended:
                ended = going.runs_ended
                now |= self._show_cells(going)
            yield now
            if isinstance(going.doing, Provisional):
                return
        if not going.ended:
            yield {self._live[0]: render("progress.let_go")}

    def _over(self, request: gr.Request, going: W | None) -> Updates:
        """Returns updates that show the end of the work.

        They change nothing if the work still goes on, because `_follow` ended first: the page's connection to the
        server broke, or newer pages follow the work.
        """
        if going is None or not going.ended:
            return {self._ending[0]: gr.skip()}
        return self._show_end(going)


def follow_work(going: Work) -> Iterator[object]:
    """Yields the events of a `Work` for one page. Ends early if `MOST_FOLLOWING` newer pages follow the same work."""
    page = object()
    going.pages.append(page)
    for doing in going.watch():
        if page not in going.pages[-MOST_FOLLOWING:]:
            return
        yield doing
