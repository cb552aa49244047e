"""Each work-around for gradio is still needed, and still works."""

import asyncio
import inspect
import re
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
from fastapi import HTTPException
from gradio.data_classes import PredictBodyInternal
from gradio.queueing import Queue
from support.page_support import answering
from support.samples import ok_result

from demo.ui.page import Page
from demo.ui.web import gradio_workarounds


def one_endpoint(blocks: type[gr.Blocks]) -> gr.Blocks:
    def double(number: int) -> int:
        return 2 * number

    with blocks(analytics_enabled=False) as page:
        gr.api(double, api_name="double")
    return page


def test_the_queue_polls_as_seldom_as_is_set(monkeypatch) -> None:
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    waits = inspect.getsource(Queue.start_processing) + inspect.getsource(Queue.start_progress_updates)
    names = set(re.findall(r"asyncio\.sleep\(self\.(\w+)\)", waits))
    page = Page(answering(ok_result()))
    seconds = {name: getattr(page._queue, name) for name in names}
    assert names and min(seconds.values()) < gradio_workarounds.POLL_SECONDS  # still needed
    assert page._queue.max_size == page._queue.ANAYLTICS_CACHE_FREQUENCY == 1  # still needed
    gradio_workarounds.set_queue(page)
    assert page._queue.max_size is None and page._queue.ANAYLTICS_CACHE_FREQUENCY > 10**9
    assert {getattr(page._queue, name) for name in names} == {gradio_workarounds.POLL_SECONDS}


def join(queue: Any, session: str, address: str = "a", forwarded: str = "") -> None:
    """A call of a page's only endpoint, whose stream nobody opens."""
    request = SimpleNamespace(client=SimpleNamespace(host=address), headers={"x-forwarded-for": forwarded})
    asyncio.run(queue.push(PredictBodyInternal(session_hash=session, fn_index=0, data=[2]), request, None))


@pytest.fixture
def queue(monkeypatch) -> Any:
    page = one_endpoint(gradio_workarounds.Blocks)
    assert page._queue.pending_messages_per_session.max_size == 2000  # still needed: gradio forgets the oldest
    gradio_workarounds.set_queue(page)
    monkeypatch.setattr(gradio_workarounds, "MOST_UNREAD", 60)
    monkeypatch.setattr(gradio_workarounds, "MOST_UNREAD_OF_A_CLIENT", 20)
    return page._queue


def test_the_oldest_unread_answer_is_forgotten_first(queue: Any) -> None:
    join(queue, "of another", "b")
    for number in range(70):
        join(queue, str(number))
        queue.event_ids_to_events.clear()  # answered
    kept = ["of another", *map(str, range(50, 70))]
    assert list(queue.pending_messages_per_session) == list(queue.clients) == kept
    assert set(queue.pending_event_ids_session) == set(kept)


def test_of_sessions_that_were_read_the_newest_are_kept(queue: Any) -> None:
    """Their streams may be open."""
    for number in range(70):
        join(queue, str(number))
        queue.event_ids_to_events.clear()
        queue.pending_messages_per_session[str(number)].get_nowait()
        queue.pending_event_ids_session[str(number)].clear()
    kept = [str(number) for number in range(9, 70)]  # 60, and the one that joined last
    assert list(queue.pending_messages_per_session) == list(queue.clients) == kept
    read_by_a_stream = queue.pending_messages_per_session["69"]
    join(queue, "69")
    assert queue.pending_messages_per_session["69"] is read_by_a_stream


@pytest.mark.parametrize(("clients", "most", "status"), [(1, 20, 429), (50, 60, 503)], ids=["of one client", "in all"])
def test_too_many_calls_without_an_answer_are_refused(queue: Any, clients: int, most: int, status: int) -> None:
    for number in range(most):
        join(queue, str(number), forwarded=str(number % clients))
    with pytest.raises(HTTPException, match=f"{most} calls wait here") as refused:
        join(queue, "one more", forwarded="0")
    assert refused.value.status_code == status
    assert len(queue.pending_messages_per_session) == most
    queue.pending_messages_per_session["0"].get_nowait()  # somebody reads
    join(queue, "one more", forwarded="0")


def test_a_queue_that_ends_with_an_error_is_started_again(queue: Any, caplog) -> None:
    join(queue, "one")
    events, running = queue.get_events, asyncio.Event()
    queue.active_jobs, queue.get_events = [None], lambda: {}["a visitor's text"]

    async def answered(*_: Any) -> None:
        running.set()

    async def serve() -> None:
        serving = asyncio.create_task(queue.start_processing())
        await asyncio.sleep(0.1)
        queue.get_events, queue.process_events = events, answered
        await asyncio.wait_for(running.wait(), 10)
        queue.close()
        await asyncio.wait_for(serving, 10)

    asyncio.run(serve())
    assert set(caplog.messages) == {"gradio's queue ended with a KeyError and is started again"}


CHOICE: dict[str, Any] = {"choices": ["a", "b"], "value": "a"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (gr.Textbox("a"), ""),
        (gr.Radio(**CHOICE), "a"),
        (gr.Dropdown(**CHOICE), "a"),
        (gr.Dropdown(allow_custom_value=True, **CHOICE), None),
        (gr.Number(1), None),
    ],
    ids=["text", "radio", "one of a list", "any text", "number"],
)
def test_a_field_that_is_not_drawn_yet_has_its_first_value(field: Any, value: Any) -> None:
    assert gradio_workarounds.first_value(field) == value
