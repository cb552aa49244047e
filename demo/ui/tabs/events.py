"""What the events of the tabs share: gradio's options, the card of a refusal, a view of work that goes on."""

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr
from markupsafe import Markup

from demo.core import format as fmt
from demo.core.spec import BadInput
from demo.store.history import HistoryError
from demo.ui.jobs import Supervisor, Work, result_or_error, visitor_name
from demo.ui.tabs.headline import problem

EVENT_OPTIONS: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
"""For every event that calls the server. Two more options stand where they are needed:

- `preprocess=False`: the handler gets the values as the browser sent them. gradio would otherwise decode the picture,
  and fail on a broken one; the worker reads it and says what is wrong.
- `trigger_mode="always_last"`: without it gradio drops an event of a field while an earlier one is still answered.
"""


def error_card(error: Exception, title: str = "This cannot be run") -> Markup:
    """The card for work that had no result; `title` is that of a refusal."""
    if isinstance(error, BadInput | HistoryError):
        return problem(title, fmt.redact(str(error)))
    return problem(
        "Something went wrong on the server",
        "An unexpected error occurred. It is written to the server's log. Nothing you entered is lost.",
        "Press Run again. If it happens again, tell whoever runs this server.",
    )


class WorkView:
    """A part of the page that shows a visitor's work: as it begins, while it goes on, and its end.

    gradio redraws every output of a running event at each update, which costs the machine that is timed. Therefore:

    1. While work goes on, `_show_progress` updates the few components of `live`.
    2. `_show_cells` updates others of them, such as a chart, only after a run of a series has ended.
    3. `_show_end` updates those of `ending`, in an event of its own.
    """

    _show_refusal: Callable[[Markup], dict[Any, Any]]
    _show_start: Callable[[Any], dict[Any, Any]]
    _show_progress: Callable[[Any], dict[Any, Any]]
    _show_end: Callable[[Any], dict[Any, Any]]

    def __init__(self, works: Supervisor, live: list[Any], ending: list[Any]) -> None:
        self.works = works
        self.work_shown = gr.State(None)
        """The work that this page shows."""
        self._live, self._ending = live, ending

    def work_of(self, request: gr.Request, visitor: str | None) -> Work | None:
        """The visitor's latest work, running or ended; `visitor` is what the browser keeps."""
        return self.works.of(visitor_name(visitor, request.session_hash))

    def _start(self, request: gr.Request, visitor: str | None, make: Callable[[str], Work]) -> dict[Any, Any]:
        """Starts the work that `make` gives for the visitor's id, or says why it cannot."""
        name = visitor_name(visitor, request.session_hash)
        work = result_or_error(lambda: self.works.start(make(name)))
        return self._show_refusal(error_card(work)) if isinstance(work, Exception) else self._show_start(work)

    def _cancel(self, request: gr.Request, visitor: str | None) -> Any:
        """Asks the visitor's work to end. Every page that watches it then shows the outcome."""
        if (work := self.work_of(request, visitor)) is not None:
            work.cancel()
        return gr.update(interactive=False)

    def _watch_after(self, event: Any) -> Any:
        """Connects what is shown once `event` has made this page watch something; returns the last event."""
        followed = event.then(self._follow, self.work_shown, self._live, **EVENT_OPTIONS)
        return followed.then(self._over, self.work_shown, self._ending, **EVENT_OPTIONS)

    def _follow(self, request: gr.Request, going: Any) -> Iterator[dict[Any, Any]]:
        """A page that stops watching does not end the work."""
        if going is None or going.ended or going.early_result is not None:
            yield {self._live[0]: gr.skip()}  # gradio empties the outputs of a handler that yields nothing
            return
        ended = 0
        for _ in going.watch():
            now = self._show_progress(going)
            if going.runs_ended != ended:
                ended = going.runs_ended
                now |= self._show_cells(going)
            yield now
            if going.early_result is not None:
                return

    def _show_cells(self, going: Any) -> dict[Any, Any]:
        return {}

    def _over(self, request: gr.Request, going: Any) -> dict[Any, Any]:
        """No change if the connection broke before the end."""
        if going is None or not going.ended:
            return {self._ending[0]: gr.skip()}
        return self._show_end(going)
