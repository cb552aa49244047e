"""Drives the page without a browser: tests call the functions behind its events, which return gradio's updates."""

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
from demo.ui.page import Page, launch
from demo.ui.tabs import form
from demo.ui.tabs.events import WorkView
from demo.ui.works import Work

FIXTURES = Path(__file__).parents[1] / "fixtures"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


# ---- events


def from_browser(session: str = "a page", **query: str) -> Any:
    """Returns a request as gradio gives it to a handler; `query` is the query of the page's address."""
    return SimpleNamespace(session_hash=session, query_params=query)


def handler(
    page: Page,
    takes: Any = None,
    changes: Any = None,
    of: tuple[Any, str] | None = None,
    only: list[Any] | None = None,
) -> Callable[..., Any]:
    """Returns the function behind the only event that matches.

    A test calls it with the values of the event's inputs. The event has the input `takes`, the output `changes`,
    exactly the outputs `only`, and the trigger `of`: a component and the name of its event. None matches any. The
    function also takes the event's `request` and `data`.
    """
    functions = {
        event.fn
        for event in page.fns.values()
        if event.fn is not None
        and (takes is None or takes in event.inputs)
        and (changes is None or changes in event.outputs)
        and (only is None or list(event.outputs) == only)
        and (of is None or (of[0]._id, of[1]) in event.targets)
    }
    assert len(functions) == 1, functions
    (function,) = functions

    def call(*values: Any, request: Any = None, data: Any = None) -> Any:
        event = gr.EventData(None, data)
        arguments, *_ = special_args(function, list(values), request or from_browser(), event)
        return function(*arguments)

    return call


def press(page: Page, component: Any, *values: Any, event: str = "click", request: Any = None, data: Any = None) -> Any:
    """Returns the updates that an event of `component` sends; `values` are those of the event's inputs."""
    return handler(page, of=(component, event))(*values, request=request, data=data)


def press_row(page: Page, table: Any, *values: Any, row: Any = (), place: Any = (0, 1), request: Any = None) -> Any:
    """Returns the updates for a press on a cell: `row` has the values of its row, `place` is (row, column)."""
    data = {"index": list(place), "value": None, "row_value": list(row)}
    return press(page, table, *values, event="select", request=request, data=data)


def shown(update: dict[str, Any]) -> list[list[str]]:
    """Returns the texts of a table's cells, row by row, from the update that shows the table."""
    rows: list[list[str]] = update["value"]["metadata"]["display_value"]
    assert len(rows) == len(update["value"]["data"]) and update["visible"] is bool(rows)
    return rows


def followed(page: Page, part: WorkView, begun: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
    """Yields the updates that a page gets: `begun`, then the progress of the work that `part` shows, then its end."""
    yield begun
    if (going := begun[part.work_shown]) is not None:
        yield from handler(page, takes=part.work_shown, only=part._live)(going)
        yield handler(page, takes=part.work_shown, only=part._ending)(going)


def ended(work: Work) -> Work:
    """Waits up to 20 s for the end of `work`, and returns `work`."""
    assert work._ended.wait(20)
    return work


@contextlib.contextmanager
def serving(page: Page, **how: Any) -> Iterator[str]:
    """Yields the address of the page, 'http://127.0.0.1:7860/', on a server that stops at the end of the context."""
    _, address, _ = launch(page, prevent_thread_lock=True, **{"server_port": None} | how)
    yield address
    page.close(verbose=False)


# ---- the Run tab


def answering(answer: RunResult | Exception, seconds: float = 0.0) -> FakeRunner:
    return FakeRunner(lambda spec, image: answer, seconds)


def visitor(name: str) -> str:
    return hashlib.md5(name.encode()).hexdigest()


def in_the_form(picture: Path) -> dict[str, Any]:
    path = save_file_to_cache(picture, get_upload_folder())
    return {"path": path, "orig_name": picture.name, "meta": {"_type": "gradio.FileData"}}


def field_values(page: Page, **changes: Any) -> dict[str, Any]:
    """Returns the form's initial values by name, with a scene as the picture, and with `changes`."""
    first = {name: field.value for name, field in page.run_tab.form.inputs.items()}
    return first | {"image": in_the_form(form.scenes()[0])} | changes


def press_run(page: Page, name: str = "one", **changes: Any) -> Iterator[dict[Any, Any]]:
    """Yields the updates after the visitor `name` changed fields of the form by `changes` and pressed Run."""
    values = field_values(page, **changes).values()
    run = handler(page, changes=page.run_tab.work_shown, of=(page.run_tab.form.run, "click"))
    yield from followed(page, page.run_tab, run(visitor(name), *values))


def open_page(page: Page, name: str = "one", **query: str) -> Iterator[dict[Any, Any]]:
    """Yields the updates after the visitor `name` opened the page with this query; none if the page needs no change."""
    tab = page.run_tab
    updates = handler(page, changes=tab.visitor)(visitor(name), request=from_browser(**query))
    if updates.keys() - {tab.visitor, tab.work_shown}:
        yield from followed(page, tab, updates)


def cancel(page: Page, name: str) -> None:
    press(page, page.run_tab.form.cancel, visitor(name))


def forecast(page: Page, **changes: Any) -> Any:
    """Returns the update of the text above the Run button, for the form with `changes`."""
    return handler(page, only=[page.run_tab.form.forecast])(*field_values(page, **changes).values())


def stage_of(page: Page, updates: dict[Any, Any]) -> str:
    """Returns the HTML that `updates` put into the result pane, joined, without the folded sections."""
    pane = page.run_tab.pane
    shown = [updates.get(part, "") for part in (pane.notice, pane.live, pane.top, pane.outputs.words)]
    return "".join(str(update.get("value", "")) if isinstance(update, dict) else str(update) for update in shown)


def is_ready(page: Page, updates: dict[Any, Any]) -> bool:
    buttons = page.run_tab.form
    return updates[buttons.run]["interactive"] and not updates[buttons.cancel]["interactive"]


# ---- results


def stored(name: str) -> RunResult:
    """Returns the result in `tests/fixtures/<name>.json`."""
    return from_json(json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8")))


def noisy_result(**changes: Any) -> RunResult:
    """Returns a run whose compiled calls take between half and twice as long as the eager calls."""
    steady = ok_result().eager
    times = tuple(seconds * (0.5, 2.0, 1.1, 0.8)[place // 4 % 4] for place, seconds in enumerate(steady.wall_seconds))
    return ok_result(compiled=dataclasses.replace(steady, wall_seconds=times), **changes)
