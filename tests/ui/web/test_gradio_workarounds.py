"""Tests that each work-around for a fault of gradio is still needed, and still works."""

import asyncio
import contextlib
import inspect
import re
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import gradio as gr
import httpx
import pytest
import safehttpx
from gradio import processing_utils
from gradio.components.api_component import Api
from gradio.data_classes import PredictBodyInternal
from gradio.queueing import Queue
from gradio.server_messages import ProcessCompletedMessage
from gradio.state_holder import SessionState, StateHolder
from gradio.utils import LRUCache
from support.page_support import answering, serving
from support.samples import ok_result
from support.worker_processes import wait_until

from demo.core.options import BadInput
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
    """A page with one endpoint, which counts until `enough` is set. Session "a" has called it."""

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


# ---- sessions that nobody reads


def one_endpoint(blocks: type[gr.Blocks]) -> gr.Blocks:
    with blocks(analytics_enabled=False) as page:
        gr.api(lambda: 0, api_name="none")
    page.state_holder = StateHolder()
    page.state_holder.set_blocks(page)
    return page


def join(queue: Any, session: str, address: str = "a") -> None:
    """Calls a page's only endpoint, and does not read the answer."""
    request = SimpleNamespace(client=SimpleNamespace(host=address), headers={})
    asyncio.run(queue.push(PredictBodyInternal(session_hash=session, fn_index=0, data=[]), request, None))


@pytest.fixture
def queue(monkeypatch) -> Any:
    page = one_endpoint(gradio_workarounds.Blocks)
    assert page._queue.pending_messages_per_session.max_size == 2000  # still needed
    gradio_workarounds.prepare(page)
    monkeypatch.setattr(gradio_workarounds, "MOST_SESSIONS", 60)
    monkeypatch.setattr(gradio_workarounds, "MOST_UNREAD_OF_A_CLIENT", 20)
    monkeypatch.setattr(gradio_workarounds, "OPEN_SECONDS", -1.0)  # each session is an old one
    return page._queue


def test_gradios_queue_ends_with_the_message_to_a_session_that_it_forgot() -> None:
    queue: Any = one_endpoint(gr.Blocks)._queue
    queue.pending_messages_per_session = LRUCache(2)
    for session in "abc":
        join(queue, session)
    with pytest.raises(KeyError):
        queue.broadcast_estimations(next(iter(queue.event_queue_per_concurrency_id)))


def test_a_client_that_reads_nothing_pushes_nobody_else_out(queue: Any) -> None:
    join(queue, "of another", "b")
    for number in range(100):
        join(queue, str(number))
    kept = ["of another", *map(str, range(80, 100))]
    assert list(queue.pending_messages_per_session) == list(queue.clients) == kept
    assert set(queue.pending_event_ids_session) == set(kept) == set(queue.blocks.state_holder.session_data)
    assert {event.session_hash for event in queue.event_ids_to_events.values()} == set(kept)


def test_a_page_behind_the_address_of_a_flood_has_time_to_read(queue: Any, monkeypatch) -> None:
    monkeypatch.setattr(gradio_workarounds, "OPEN_SECONDS", 30.0)
    join(queue, "a page")
    for number in range(39):
        join(queue, str(number))
    assert "a page" in queue.pending_messages_per_session
    for number in range(39):  # too many in all: the sessions that were silent longest go
        join(queue, "a page")
        join(queue, f"more {number}")
    assert "a page" in queue.pending_messages_per_session and len(queue.pending_messages_per_session) == 60


def test_of_many_clients_those_that_read_stay(queue: Any) -> None:
    join(queue, "reads", "b")
    for number in range(200):
        queue.pending_messages_per_session["reads"] = None  # a new queue: it has read them all
        join(queue, str(number), f"client {number}")
    assert "reads" in queue.pending_messages_per_session
    assert len(queue.pending_messages_per_session) == gradio_workarounds.MOST_SESSIONS


@pytest.mark.parametrize("of_one_session", [True, False])
def test_unread_answers_are_bounded(of_one_session: bool, queue: Any, monkeypatch) -> None:
    monkeypatch.setattr(gradio_workarounds, "MOST_UNREAD_BYTES", 10_000)
    held = queue.pending_messages_per_session

    async def answers() -> None:
        for number in range(30):
            client, session = ("b", "honest") if number == 0 else ("a", "a" if of_one_session else str(number))
            request = SimpleNamespace(client=SimpleNamespace(host=client), headers={})
            await queue.push(PredictBodyInternal(session_hash=session, fn_index=0, data=[]), request, None)
            *_, event = queue.event_ids_to_events.values()
            queue.send_message(event, ProcessCompletedMessage(output={"data": ["x" * 3000]}, success=True))
            await asyncio.sleep(0)
            assert sum(len(answer.output["data"][0]) for answer in answers_in(held)) <= 13_000
        assert "honest" in held and set(queue.pending_event_ids_session) == set(held)
        while not held["honest"].empty():
            held["honest"].get_nowait()
        assert held["honest"].bytes == 0

    def answers_in(held: Any) -> list[Any]:
        messages = [message for session in held.values() for message, _ in session._queue]
        return [message for message in messages if isinstance(message, ProcessCompletedMessage)]

    asyncio.run(answers())


@pytest.mark.parametrize(
    "output", [{"data": [object(), {1: float("nan")}]}, {"data": ["\ud800"]}], ids=["no JSON", "half a character"]
)
def test_any_message_can_be_held(output: Any) -> None:
    messages = gradio_workarounds.MessageQueue()
    messages.put_nowait(message := ProcessCompletedMessage(output=output, success=True))
    assert messages.get_nowait() is message and messages.bytes == 0


def test_a_client_with_many_waiting_calls_loses_them(queue: Any, monkeypatch) -> None:
    monkeypatch.setattr(gradio_workarounds, "MOST_WAITING", 30)
    for number in range(8):
        join(queue, "honest", "b")
        join(queue, "1", f"client {number}")
    for number in range(200):
        join(queue, str(number % 15))
        assert len(queue) <= 30
    assert "honest" in queue.pending_messages_per_session


def test_a_call_over_http_does_not_name_its_session(queue: Any) -> None:
    request = SimpleNamespace(client=None, headers={})
    call = PredictBodyInternal(session_hash="x" * 100_000, fn_index=0, data=[], simple_format=True)
    _, event, _ = asyncio.run(queue.push(call, request, None))
    assert list(queue.pending_messages_per_session) == [event]


def test_a_message_to_a_removed_session_harms_nothing(queue: Any) -> None:
    queue.pending_messages_per_session["gone"].put_nowait(ProcessCompletedMessage(output={}, success=True))
    assert "gone" not in queue.pending_messages_per_session


def test_a_queue_that_ends_with_an_error_is_started_again(queue: Any, caplog) -> None:
    join(queue, "one")
    events, answered = queue.get_events, asyncio.Event()
    queue.active_jobs, queue.get_events = [None], lambda: {}["a fault"]

    async def answer(*_: Any) -> None:
        answered.set()

    async def serve() -> None:
        serving = asyncio.create_task(queue.start_processing())
        while not caplog.messages:
            await asyncio.sleep(0.01)
        queue.get_events, queue.process_events = events, answer
        await asyncio.wait_for(answered.wait(), 10)
        queue.close()
        await asyncio.wait_for(serving, 10)

    asyncio.run(serve())
    assert set(caplog.messages) == {"gradio's queue ended with an error and is started again"}


def test_the_state_of_a_call_over_http_goes_with_its_end() -> None:
    page = one_endpoint(gradio_workarounds.Blocks)
    with serving(page) as address:  # type: ignore[arg-type]
        call = f"{address}gradio_api/call/none"
        event = httpx.post(call, json={"data": []}).json()["event_id"]
        assert "event: complete" in httpx.get(f"{call}/{event}").text
        wait_until(lambda: event not in page.state_holder.session_data, 10)


def test_no_connection_of_a_tab_stays_open() -> None:
    """A browser has only six connections to a server, for all its tabs."""
    with gr.Blocks(analytics_enabled=False) as plain:
        gr.State()
    assert plain.get_config_file()["connect_heartbeat"] is True  # still needed
    with gradio_workarounds.Blocks(analytics_enabled=False) as ours:
        gr.State()
    assert ours.get_config_file()["connect_heartbeat"] is False


def test_no_part_counts_the_seconds_of_its_event() -> None:
    """gradio's timers of hidden progress ask for 60 frames a second each, and go on while an event has no answer."""
    with gradio_workarounds.Blocks(analytics_enabled=False) as page:
        page.load(lambda: "", None, gr.Textbox(), show_progress="hidden")
    assert [event["show_progress_on"] for event in page.get_config_file()["dependencies"]] == [[]]


def test_a_session_has_no_copy_of_the_page() -> None:
    with gradio_workarounds.Blocks(analytics_enabled=False) as page:
        state, shown, button = gr.State(1), gr.Textbox(), gr.Button()
        button.click(lambda count: (count + 1, gr.update(label=f"{count}")), state, [state, shown])
    assert SessionState(page).config_values  # still needed
    gradio_workarounds.prepare(page)
    page.state_holder = StateHolder()
    page.state_holder.set_blocks(page)
    assert not page.state_holder["one"].config_values
    for count in (1, 2):
        answer = asyncio.run(page.process_api(page.fns[0], [None], page.state_holder["one"]))
        assert answer["data"][1]["label"] == str(count)


# ---- addresses


def test_nothing_is_fetched_from_an_address(monkeypatch) -> None:
    """gradio fetches no address, neither by a route nor for a picture, and does not look one up."""

    def look_up(*_: Any, **__: Any) -> Any:
        raise AssertionError("a name was looked up")

    with serving(one_endpoint(gradio_workarounds.Blocks)) as address:  # type: ignore[arg-type]
        monkeypatch.setattr(safehttpx, "async_validate_url", look_up)
        block = gr.Textbox()
        for url in ("http://127.0.0.1:9/a.png", "https://huggingface.co/a", "http://a.invalid", "http://[::1]:9/a"):
            for method in ("GET", "HEAD"):
                assert httpx.request(method, f"{address}gradio_api/file={url}").status_code == 403
            for fetch in (processing_utils.async_ssrf_protected_get, processing_utils.async_ssrf_protected_download):
                with pytest.raises(BadInput, match="fetches nothing"):
                    asyncio.run(fetch(url, ""))
            with pytest.raises(BadInput, match="fetches nothing"):
                block.move_resource_to_block_cache(url)


# ---- values that no page sends

NO_CHOICE: dict[str, Any] = {"choices": ["a"], "value": "a"}


@pytest.mark.parametrize(
    ("field", "good", "wrong"),
    [
        (gr.Textbox(), ["", "a"], [1, True, [], {}, "\ud800"]),
        (gr.Radio(**NO_CHOICE), ["a", "b"], [1, False, ["a"], {}]),
        (gr.Dropdown(allow_custom_value=True, **NO_CHOICE), ["b", None], [1.5, ["a"], {}]),
        (gr.Dropdown(multiselect=True, **NO_CHOICE), [["a"], []], ["a", [["a"]], [1], {}]),
        (gr.Checkbox(), [True], [0, "true", []]),
        (gr.Number(), [1, 1.5, None], [True, "1", [1]]),
        (gr.Number(precision=0), [1, None], [True, "1", 1.5]),
        (gr.Slider(), [1, 1.5, None], [False, "1", {}]),
        (gr.Image(), [{"path": "a"}, None], ["a", [], 1, True]),
        (gr.Dataset(components=["textbox"], samples=[["a"]]), [0], [None, "0", True, 0.5]),
        (gr.BrowserState(), ["a", None], [1, {}, ["a"]]),
        (Api(None, {"type": "str"}), [1, True, {}, None], []),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, gr.blocks.Block) else "",
)
def test_a_field_takes_only_what_a_browser_sends_for_it(field: Any, good: list[Any], wrong: list[Any]) -> None:
    for value in good:
        assert gradio_workarounds.fitting_value(field, value) == value
    for value in wrong:
        with pytest.raises(BadInput, match=r"A value must be of the JSON type|half a character"):
            gradio_workarounds.fitting_value(field, value)


def test_no_choice_of_several_is_an_empty_list() -> None:
    assert gradio_workarounds.fitting_value(gr.Dropdown(multiselect=True, choices=["a"], value=["a"]), None) == []


CELL = {"index": [0, 1], "row_value": ["a", "b"]}


@pytest.mark.parametrize(
    "wrong",
    [None, [], {}, *({**CELL, "index": place} for place in (0, [0], [0, -1], [True, 0], [0.5, 0], "01")),
     *({**CELL, "row_value": row} for row in (None, [], "ab", [["a"]], [{}]))],
    ids=repr,
)  # fmt: skip
def test_a_pressed_cell_has_a_place_and_a_row(wrong: Any) -> None:
    gradio_workarounds.check_pressed_cell(CELL)
    with pytest.raises(BadInput, match="A pressed cell"):
        gradio_workarounds.check_pressed_cell(wrong)
