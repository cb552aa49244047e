"""Each work-around for gradio is still needed, and still works."""

import contextlib
import inspect
import re
import threading
from collections.abc import Iterator
from typing import Any

import gradio as gr
import httpx
import pytest
from gradio.queueing import Queue
from support.page_support import answering
from support.samples import ok_result
from support.worker_processes import wait_until

from demo.ui.page import Page
from demo.ui.web import gradio_workarounds


def test_the_queue_polls_seldom(monkeypatch) -> None:
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    waits = inspect.getsource(Queue.start_processing) + inspect.getsource(Queue.start_progress_updates)
    names = set(re.findall(r"asyncio\.sleep\(self\.(\w+)\)", waits))
    page = Page(answering(ok_result()))
    seconds = {name: getattr(page._queue, name) for name in names}
    assert names and min(seconds.values()) < gradio_workarounds.POLL_SECONDS  # still needed
    assert page._queue.max_size == page._queue.ANAYLTICS_CACHE_FREQUENCY == 1  # still needed
    gradio_workarounds.prepare(page)
    assert page._queue.max_size is None and page._queue.ANAYLTICS_CACHE_FREQUENCY > 10**9
    assert {getattr(page._queue, name) for name in names} == {gradio_workarounds.POLL_SECONDS}


class CountingPage:
    """A page whose only endpoint counts until `enough`; session "a" has called it."""

    def __init__(self, blocks: type[gr.Blocks]) -> None:
        self.enough = threading.Event()

        def count() -> Iterator[int]:
            yield 0
            while not self.enough.wait(0.1):
                yield 0

        with blocks(analytics_enabled=False) as self.page:
            gr.api(count, api_name="count")
        if blocks is gradio_workarounds.Blocks:
            gradio_workarounds.prepare(self.page)
        _, address, _ = self.page.launch(server_port=None, prevent_thread_lock=True, quiet=True)
        self._queue = f"{address}gradio_api/queue"
        httpx.post(f"{self._queue}/join", json={"session_hash": "a", "fn_index": 0, "data": []})

    def stream(self) -> Any:
        # a heartbeat comes after 15 s
        return httpx.stream("GET", f"{self._queue}/data", params={"session_hash": "a"}, timeout=8)

    def close(self) -> None:
        self.enough.set()
        self.page.close(verbose=False)


@pytest.mark.parametrize(
    ("blocks", "is_answered"), [(gr.Blocks, False), (gradio_workarounds.Blocks, True)], ids=["still needed", "ours"]
)
def test_a_stream_outlives_one_that_breaks_off(blocks: type[gr.Blocks], is_answered: bool) -> None:
    answered = False
    with contextlib.closing(CountingPage(blocks)) as counting:
        with counting.stream() as first:
            next(first.iter_lines())
            second = contextlib.ExitStack()
            lines = second.enter_context(counting.stream()).iter_lines()
        with second, contextlib.suppress(httpx.HTTPError):
            threading.Timer(gradio_workarounds.CLOSED_SECONDS + 1, counting.enough.set).start()
            answered = any("process_completed" in line for line in lines)
    assert answered == is_answered


def test_the_calls_of_a_closed_page_end(monkeypatch) -> None:
    monkeypatch.setattr(gradio_workarounds, "CLOSED_SECONDS", 0.2)
    with contextlib.closing(CountingPage(gradio_workarounds.Blocks)) as counting:
        queue: Any = counting.page._queue
        with counting.stream() as first:
            next(first.iter_lines())
        (call,) = queue.event_ids_to_events.values()
        wait_until(lambda: not call.alive, 10)
        assert "a" not in queue.pending_messages_per_session


def test_a_message_to_a_removed_session_harms_nothing() -> None:
    assert gr.Blocks()._queue.pending_messages_per_session.max_size == 2000  # still needed
    messages = gradio_workarounds.Messages()
    for number in range(gradio_workarounds.MOST_SESSIONS + 1):
        messages[str(number)].put_nowait(number)
    assert len(messages) == gradio_workarounds.MOST_SESSIONS and "0" not in messages
    assert messages["0"].empty()
