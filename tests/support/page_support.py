"""The page without a browser, for tests: its events are triggered as gradio triggers them, and answer with updates."""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
from gradio.helpers import special_args
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder
from support.fake_runner import FakeRunner
from support.samples import ok_result

from demo.core.result import RunResult
from demo.core.result_json import from_json
from demo.ui.jobs import Work
from demo.ui.page import Page, launch
from demo.ui.tabs import form
from demo.ui.tabs.events import WorkView

FIXTURES = Path(__file__).parents[1] / "fixtures"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


# ---- events


def from_browser(session: str = "a page", **query: str) -> Any:
    """A request as gradio hands it to a handler, by a link with this query."""
    return SimpleNamespace(session_hash=session, query_params=query)


def handler(
    page: Page,
    takes: Any = None,
    changes: Any = None,
    of: tuple[Any, str] | None = None,
    only: list[Any] | None = None,
) -> Callable[..., Any]:
    """The function behind an event. A test calls it with the values of the event's inputs.

    The event has the input `takes`, the output `changes`, the outputs `only`, and is triggered by `of`, a component
    and the name of its event; None is any. The function takes `request` and `data`, which came with the event, too.
    """
    found = {
        event.fn
        for event in page.fns.values()
        if event.fn is not None
        and (takes is None or takes in event.inputs)
        and (changes is None or changes in event.outputs)
        and (only is None or list(event.outputs) == only)
        and (of is None or (of[0]._id, of[1]) in event.targets)
    }
    assert len(found) == 1, found
    (function,) = found

    def call(*values: Any, request: Any = None, data: Any = None) -> Any:
        event = gr.EventData(None, data)
        arguments, *_ = special_args(function, list(values), request or from_browser(), event)
        return function(*arguments)

    return call


def press(page: Page, component: Any, *values: Any, event: str = "click", request: Any = None, data: Any = None) -> Any:
    """What this event of a component sends, for the values of its inputs."""
    return handler(page, of=(component, event))(*values, request=request, data=data)


def press_row(page: Page, table: Any, *values: Any, row: Any = (), place: Any = (0, 1), request: Any = None) -> Any:
    """What a press on a row sends: `row` are the values of its cells, `place` its row and column."""
    data = {"index": list(place), "row_value": list(row)}
    return press(page, table, *values, event="select", request=request, data=data)


def shown(update: dict[str, Any]) -> list[list[str]]:
    """The rows of a table as a reader sees them."""
    rows: list[list[str]] = update["value"]["metadata"]["display_value"]
    assert len(rows) == len(update["value"]["data"]) and update["visible"] is bool(rows)
    return rows


def followed(page: Page, part: WorkView, begun: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
    """What a page gets: `begun`, then the progress of the work that `part` of it watches from here on, then its end."""
    yield begun
    if (going := begun[part.work_shown]) is not None:
        yield from handler(page, takes=part.work_shown, only=part._live)(going)
        yield handler(page, takes=part.work_shown, only=part._ending)(going)


def ended(work: Work) -> Work:
    """Waits for its end."""
    assert work._ended.wait(20)
    return work


@contextlib.contextmanager
def serving(page: Page, **how: Any) -> Iterator[str]:
    """The address of the page, on a server of its own, with a slash at its end."""
    _, address, _ = launch(page, prevent_thread_lock=True, **{"server_port": None} | how)
    yield address
    page.close(verbose=False)


# ---- the Run tab


def answering(answer: RunResult | Exception, seconds: float = 0.0) -> FakeRunner:
    return FakeRunner(lambda spec, image: answer, seconds)


def visitor(name: str) -> str:
    """The id that the browser of this visitor keeps."""
    return hashlib.md5(name.encode()).hexdigest()


def in_the_form(picture: Path) -> dict[str, Any]:
    """A picture as the form's field sends it."""
    path = save_file_to_cache(picture, get_upload_folder())
    return {"path": path, "orig_name": picture.name, "meta": {"_type": "gradio.FileData"}}


def field_values(page: Page, **changes: Any) -> dict[str, Any]:
    """The form's first values, by name, with a scene as its picture and these changed."""
    first = {name: field.value for name, field in page.run_tab.form.inputs.items()}
    return first | {"image": in_the_form(form.scenes()[0])} | changes


def press_run(page: Page, name: str = "one", **changes: Any) -> Iterator[dict[Any, Any]]:
    """What this visitor's press of Run sends, from the form with these fields changed."""
    values = field_values(page, **changes).values()
    run = handler(page, changes=page.run_tab.work_shown, of=(page.run_tab.form.run, "click"))
    yield from followed(page, page.run_tab, run(visitor(name), *values))


def open_page(page: Page, name: str = "one", **query: str) -> Iterator[dict[Any, Any]]:
    """What a page gets when this visitor opens it by a link with this query; nothing if it stays as it is."""
    tab = page.run_tab
    updates = handler(page, changes=tab.visitor)(visitor(name), request=from_browser(**query))
    if updates.keys() - {tab.visitor, tab.work_shown}:
        yield from followed(page, tab, updates)


def cancel(page: Page, name: str) -> None:
    press(page, page.run_tab.form.cancel, visitor(name))


def forecast(page: Page, **changes: Any) -> Any:
    """What stands above the Run button for the form with these fields changed."""
    return handler(page, only=[page.run_tab.form.forecast])(*field_values(page, **changes).values())


def stage_of(page: Page, updates: dict[Any, Any]) -> str:
    """The HTML that an update puts into the result pane, all pieces together, without the folded sections."""
    pane = page.run_tab.pane
    shown = [updates.get(part, "") for part in (pane.notice, pane.live, pane.top, pane.outputs.words)]
    return "".join(str(update.get("value", "")) if isinstance(update, dict) else str(update) for update in shown)


def is_ready(page: Page, updates: dict[Any, Any]) -> bool:
    buttons = page.run_tab.form
    return updates[buttons.run]["interactive"] and not updates[buttons.cancel]["interactive"]


# ---- results


def stored(name: str) -> RunResult:
    """A result of `tests/fixtures`."""
    return from_json(json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8")))


def noisy_result(**changes: Any) -> RunResult:
    """A run whose compiled calls take anything between half and twice as long as the eager ones."""
    steady = ok_result().eager
    times = tuple(seconds * (0.5, 2.0, 1.1, 0.8)[place // 4 % 4] for place, seconds in enumerate(steady.wall_seconds))
    return ok_result(compiled=dataclasses.replace(steady, wall_seconds=times), **changes)
