"""What the events of all tabs share: gradio's options, the card of an error, and the view of work in progress."""

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr
from markupsafe import Markup

from ...core import format as fmt
from ...core.options import BadInput
from ...core.progress import Provisional
from ...store.history import HistoryError
from ..templates import render
from ..works import Supervisor, Work, result_or_error, visitor_name

Updates = dict[Any, Any]
"""gradio's updates of components, by component."""
IN_BROWSER: dict[str, Any] = {"fn": None, "api_visibility": "private"}
"""The options of every event that calls JavaScript alone."""
EVENT_OPTIONS: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
"""The options of every event that calls the server."""
RAW: dict[str, Any] = {"preprocess": False, **EVENT_OPTIONS}
"""With these, a handler gets the values as the browser sent them. Otherwise gradio decodes the picture, and fails if it
is broken. The worker decodes it instead, and says what is wrong."""
LATEST: dict[str, Any] = {"trigger_mode": "always_last", **RAW}
"""`RAW`, and the last of several quick changes is always handled. Otherwise gradio may drop it."""


def problem_card(title: str, message: str, remedy: str = "") -> Markup:
    """Returns a card that says what did not work. `remedy` is what to do."""
    return render("results.card", title, message, remedy)


def error_card(error: Exception, title: str = "This cannot be run") -> Markup:
    """Returns the card for work that failed with `error`. An unexpected error has its own title instead of `title`."""
    if isinstance(error, BadInput | HistoryError):
        return problem_card(title, fmt.redact(str(error)))
    return problem_card(
        "Something went wrong on the server",
        "An unexpected error occurred. It is written to the server's log. Nothing you entered is lost.",
        "Press Run again. If it happens again, tell whoever runs this server.",
    )


MOST_FOLLOWING = 3
"""The most pages that follow one work. Each holds a connection, and a browser has six to a server for all its tabs."""


class WorkView:
    """Base class for a part of the page that shows a visitor's work (a run, a sweep ...) from its start to its end.

    A subclass gives two lists of its components, `live` and `ending`. Three methods return updates of them:

    1. `_show_progress`: of the cheap ones in `live`, every two seconds while the work goes on
    2. `_show_cells`: of the costly ones in `live`, such as a chart, when a run of a search or sweep has ended
    3. `_show_end`: of those in `ending`, when the work has ended
    """

    # Three methods, since gradio redraws all outputs of an event at each update, which takes time from the timed model.
    _show_refusal: Callable[[Markup], Updates]
    _show_start: Callable[[Any], Updates]
    _show_progress: Callable[[Any], Updates]
    _show_end: Callable[[Any], Updates]

    def __init__(self, works: Supervisor, live: list[Any], ending: list[Any]) -> None:
        self.works = works
        self.work_shown = gr.State(None)
        """The work that the page shows; None if it shows none."""
        self._live, self._ending = live, ending

    def work_of(self, request: gr.Request, visitor: str | None) -> Work | None:
        """Returns what the visitor started last, running or ended; `visitor` is the id that the browser keeps."""
        return self.works.of(visitor_name(visitor, request.session_hash))

    def _start(self, request: gr.Request, visitor: str | None, make: Callable[[str], Work]) -> Updates:
        """Starts the work that `make` returns for the visitor's id. Returns updates that show the start or refusal."""
        name = visitor_name(visitor, request.session_hash)
        work = result_or_error(lambda: self.works.start(make(name)))
        return self._show_refusal(error_card(work)) if isinstance(work, Exception) else self._show_start(work)

    def _cancel(self, request: gr.Request, visitor: str | None) -> Any:
        """Asks the visitor's work to end, and disables the pressed button."""
        if (work := self.work_of(request, visitor)) is not None:
            work.cancel()
        return gr.update(interactive=False)

    def _watch_after(self, event: Any) -> Any:
        """Connects events that show progress and end of `work_shown`, which `event` sets. Returns the last event."""
        followed = event.then(self._follow, self.work_shown, self._live, **EVENT_OPTIONS)
        return followed.then(self._over, self.work_shown, self._ending, **EVENT_OPTIONS)

    def _follow(self, request: gr.Request, going: Any) -> Iterator[Updates]:
        """Yields updates until the work ends or has a provisional result. Closing the page does not end the work."""
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

    def _show_cells(self, going: Any) -> Updates:
        return {}

    def _over(self, request: gr.Request, going: Any) -> Updates:
        """Returns updates that show the work's end; no change if the work goes on and only the connection broke."""
        if going is None or not going.ended:
            return {self._ending[0]: gr.skip()}
        return self._show_end(going)


def follow_work(going: Work) -> Iterator[Any]:
    """Yields as `Work.watch` does, but ends early on a page if `MOST_FOLLOWING` newer ones follow the same work."""
    page = object()
    going.pages.append(page)
    for doing in going.watch():
        if page not in going.pages[-MOST_FOLLOWING:]:
            return
        yield doing
