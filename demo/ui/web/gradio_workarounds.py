"""Work-arounds for faults of gradio 6.31 that have no issue upstream.

Some tests of `tests/ui/web/test_gradio_workarounds.py`, such as those marked "still needed", fail once gradio has fixed
the fault. More work-arounds are in `look/`: `events.js` (downloads, gradio issue 9230), `form.js` (the Tab key),
`theme.py` (semi-bold letters), `frames.js` (an animation without end), and `figure_names.js` (names for screen readers:
of thumbnails, and of charts, plotly.js issue 6920).
"""

import asyncio
import contextlib
import logging
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterator
from types import SimpleNamespace
from typing import Any, Literal, NoReturn

import gradio as gr
import gradio.blocks
import gradio.networking
import gradio.processing_utils
import gradio.queueing
import gradio.route_utils
import gradio.routes
import gradio.state_holder
from fastapi import HTTPException, Request
from gradio.blocks import BlockFunction
from gradio.components.api_component import Api
from gradio.data_classes import BlocksConfigDict, PredictBodyInternal
from gradio.server_messages import EventMessage
from jinja2 import ChoiceLoader, DictLoader, FileSystemLoader

from ...core import format as fmt, limits
from ...core.codec import JsonObject
from ...core.options import BadInput
from ...store.database import HistoryError
from ..look import source
from .uploads import bound_uploads

_log = logging.getLogger(__name__)


POLL_SECONDS = 0.05
"""The time between gradio's checks of its queue. gradio's own, shorter time costs a fifteenth of a core."""


def prepare(page: gr.Blocks) -> None:
    """Applies this file's workarounds for faults of gradio to `page`. Call it before the page is launched."""
    # else gradio requests its own page at the start, which a busy machine answers later than gradio allows
    gradio.networking.url_ok = lambda url: True
    queue: Any = page._queue
    queue.sleep_when_free = queue.progress_update_sleep_when_free = POLL_SECONDS
    # on ZeroGPU gradio lets only one event of all visitors wait, but a page that opens sends several
    queue.max_size = None
    queue.ANAYLTICS_CACHE_FREQUENCY = sys.maxsize  # else gradio sums up the last 10 000 events after each event
    queue.__class__, queue.pending_messages_per_session, queue.clients = Queue, Messages(), {}
    queue.pending_event_ids_session = defaultdict(set)
    for module in (gradio.state_holder, gradio.route_utils, gradio.blocks):
        module.SessionState = Session  # type: ignore[attr-defined]
    end_loading_animation()
    refuse_addresses()
    bound_uploads()


def end_loading_animation() -> None:
    """Puts `frames.js` before gradio's own scripts, which would otherwise keep the browser busy for ever."""
    environment, name = gradio.routes.templates.env, "frontend/index.html"
    files = FileSystemLoader(gradio.routes.STATIC_TEMPLATE_LIB)
    early = files.get_source(environment, name)[0].replace("<head>", f"<head><script>{source('frames.js')}</script>", 1)
    environment.loader = ChoiceLoader([DictLoader({name: early}), files])


NOT_UPLOADED = "The image must be an uploaded file: with gradio_client, wrap its path in handle_file()."
NO_ADDRESS = f"This server fetches nothing from an address. {NOT_UPLOADED}"


def refuse_addresses() -> None:
    """Keeps gradio from fetching an http address that a visitor sends, in a request's path or as a picture.

    gradio fetches every address that it considers public, even a file of many gigabytes. Such an address may be a
    cloud's metadata server. Outside a Space, this also removes the headers with which gradio lets scripts of other
    sites read its answers.
    """

    async def refuse_stream(*_: object, **__: object) -> NoReturn:
        raise HTTPException(403, NO_ADDRESS)

    async def refuse(*_: object, **__: object) -> NoReturn:
        raise BadInput(NO_ADDRESS)

    gradio.routes.secure_url_stream_response = refuse_stream
    gradio.processing_utils.async_ssrf_protected_get = refuse
    gradio.processing_utils.async_ssrf_protected_download = refuse  # also behind the one that is not async
    if not limits.on_space():
        gradio.routes.CustomCORSMiddleware = lambda app, **_: app  # type: ignore[misc,assignment]


# Four faults of gradio's queue:
# - When the stream of a page's messages breaks off, gradio drops all calls of the page, even if the page opens a new
#   stream at that moment. The page then shows "404: Not Found".
# - Beyond 2000 sessions gradio removes the oldest, although somebody may read it.
# - A message to a removed session is a KeyError, which ends the whole queue.
# - A queue that ended answers every call with "Queue is stopped".

MOST_SESSIONS = 2000
MOST_UNREAD_OF_A_CLIENT = 60
"""The most sessions of one client (`Queue.clients`) whose messages nobody reads. An open page reads its messages at
once, so unread sessions belong to closed pages and to calls of the API. 60, because 50 visitors may come through one
proxy."""
OPEN_SECONDS = 30.0
"""The time in which a browser opens the stream of its messages after a call. A busy machine answers late, and an unread
session is removed only afterwards, unless there are too many sessions in all."""
MOST_UNREAD_BYTES = 200_000_000
"""The most bytes of answers that nobody has read yet, of all sessions. The answer of `/history` may have 100 MB."""
MOST_WAITING = 500
"""The most calls that wait until the server starts them. Each holds what its request sent."""
CLOSED_SECONDS = 2.0
"""A page counts as closed if its stream of messages broke off and no new stream is opened within this time."""


class MessageQueue(asyncio.Queue[EventMessage]):
    """The messages to one session. `bytes` is their size as JSON."""

    bytes = 0

    def _put(self, message: EventMessage) -> None:
        size = 0
        with contextlib.suppress(ValueError):  # gradio cannot send it either
            size = len(message.model_dump_json(fallback=str))
        self.bytes += size
        self._queue.append((message, size))  # type: ignore[attr-defined]

    def _get(self) -> EventMessage:
        message, size = self._queue.popleft()  # type: ignore[attr-defined]
        self.bytes -= size
        return message  # type: ignore[no-any-return]


class Messages(dict[str, MessageQueue]):
    """The queue of messages of each session. A session that was removed gets a queue that nobody reads."""

    def __missing__(self, session: str) -> MessageQueue:
        return MessageQueue()

    def __setitem__(self, session: str, messages: object) -> None:
        """Gives the session a `MessageQueue` in place of `messages`, the queue that gradio made."""
        super().__setitem__(session, MessageQueue())

    def __delitem__(self, session: str) -> None:
        """Does nothing: gradio deletes a session's messages when its stream breaks off, but its page may be open."""

    def is_read(self, session: str) -> bool:
        """Returns whether a page reads the session's messages: a stream waits for them, or has taken all of them."""
        messages: Any = self.get(session)
        return messages is not None and (messages.empty() or bool(messages._getters))


class Queue(gradio.queueing.Queue):
    """gradio's queue, but an error does not end it.

    - If there are too many sessions, those whose messages no page reads are removed before others.
    - If there are too many waiting calls or unread bytes, sessions of the client that has the most are removed.
    - If a page's stream of messages breaks off, its calls go on, provided that the page opens a new stream soon.
    """

    clients: dict[str, tuple[object, float]]
    """Maps each session to its client (IP address and X-Forwarded-For) and the time of its last call, in seconds of
    `time.monotonic`. The session that was silent longest is first."""

    async def push(
        self, body: PredictBodyInternal, request: Request, username: str | None
    ) -> tuple[bool, Any, Literal["success", "error", "queue_full", "validator_error"]]:
        """Adds an event to the queue. Of too many sessions, removes one: if possible, one that no page reads."""
        if body.simple_format:
            body.session_hash = None  # a call over HTTP is a session of its own, whatever name it sends
        client = (request.client and request.client.host, request.headers.get("x-forwarded-for"))
        messages: Any = self.pending_messages_per_session
        now = time.monotonic()
        self.clients = {session: known for session, known in self.clients.items() if session in messages}
        unread = [session for session in self.clients if not messages.is_read(session)]
        theirs = [session for session in unread if self.clients[session][0] == client]
        if len(theirs) >= MOST_UNREAD_OF_A_CLIENT and now - self.clients[theirs[0]][1] > OPEN_SECONDS:
            await self._remove(theirs[0])
        elif len(messages) >= MOST_SESSIONS:
            await self._remove(next(iter(theirs or unread or self.clients)))
        if len(self) >= MOST_WAITING:
            lines = self.event_queue_per_concurrency_id.values()
            await self._remove(self._heaviest(Counter(event.session_hash for line in lines for event in line.queue)))
        pushed = await super().push(body, request, username)
        if body.session_hash is not None:  # gradio gives a call without a session one of its own
            self.clients.pop(body.session_hash, None)
            self.clients[body.session_hash] = client, now
        return pushed

    def send_message(self, event: gradio.queueing.Event, event_message: EventMessage) -> None:
        """Adds a message to those of the event's session. If there are too many unread bytes, removes sessions."""
        messages: Any = self.pending_messages_per_session
        while sum(held.bytes for held in messages.values()) > MOST_UNREAD_BYTES:
            unread = {session: held.bytes for session, held in messages.items() if not messages.is_read(session)}
            if not any(unread.values()):
                break
            session = self._heaviest(Counter(unread))
            messages.pop(session)
            self._later(self._remove(session))
        super().send_message(event, event_message)

    def _heaviest(self, sizes: Counter[str]) -> str:
        """Returns the session with the largest size, of the client whose sessions have the largest sum of sizes.

        `sizes`: the number of waiting calls, or the bytes of unread messages, by session.
        """

        def client(session: str) -> object:
            return self.clients.get(session, (None, 0.0))[0]

        of_client: Counter[object] = Counter()
        for session, size in sizes.items():
            of_client[client(session)] += size
        return max(sizes, key=lambda session: (of_client[client(session)], sizes[session]))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._asyncio_tasks.add(task)
        task.add_done_callback(self._asyncio_tasks.discard)

    async def _remove(self, session: str) -> None:
        """Removes a session, its calls and its state."""
        self.clients.pop(session, None)
        self.pending_messages_per_session.pop(session, None)
        self.pending_event_ids_session.pop(session, None)
        self.blocks.state_holder.session_data.pop(session, None)
        await super().clean_events(session_hash=session)

    async def process_events(
        self, events: list[gradio.queueing.Event], batch: bool, begin_time: float, fn: BlockFunction
    ) -> None:
        await super().process_events(events, batch, begin_time, fn)
        for event in events:
            if event.session_hash == event._id:  # a call over HTTP, which is a session of its own
                self.blocks.state_holder.session_data.pop(event._id, None)

    async def start_processing(self) -> None:
        while True:
            try:
                return await super().start_processing()
            except Exception:
                _log.exception("gradio's queue ended with an error and is started again")
            self.stopped = False
            await asyncio.sleep(POLL_SECONDS)

    def _cancel_asyncio_tasks(self) -> None:
        """Does nothing: gradio calls it when the queue ends, but calls in progress should go on."""

    async def clean_events(self, *, session_hash: str | None = None, event_id: str | None = None) -> None:
        if session_hash is None:
            await super().clean_events(event_id=event_id)
            return
        # not awaited, because gradio cancels this coroutine together with the broken stream
        self._later(self._clean_closed(session_hash))

    async def _clean_closed(self, session: str) -> None:
        end = time.monotonic() + CLOSED_SECONDS
        while time.monotonic() < end:
            messages: Any = self.pending_messages_per_session.get(session)
            if messages is not None and messages._getters:  # a new stream of the page waits for messages
                return
            await asyncio.sleep(POLL_SECONDS)
        self.pending_messages_per_session.pop(session, None)
        await super().clean_events(session_hash=session)


class Session(gradio.state_holder.SessionState):
    """gradio's state of a session, but without a copy of the page's configuration.

    Only gradio's deep links need the copy, and this server has none. To make it took 15 ms of the processor for each
    session, during which the server answered nobody, and a third of a megabyte.
    """

    def __init__(self, blocks: gr.Blocks) -> None:
        no_blocks: Any = SimpleNamespace(default_config=blocks.default_config, blocks={})
        super().__init__(no_blocks)

    def _update_config(self, key: int) -> None:
        """Does nothing: gradio would update its copy of the page's configuration, and a `Session` has none."""

    def _update_value_in_config(self, key: int, value: object) -> None:
        """Does nothing: gradio would update its copy of the page's configuration, and a `Session` has none."""


class Blocks(gr.Blocks):
    """gradio's `Blocks`, but a call that fails is answered with a sentence instead of a traceback.

    It also refuses values of a wrong type, and leaves out two features that are costly for every open page
    (`get_config_file`).
    """

    def get_config_file(self) -> BlocksConfigDict:
        """Returns gradio's configuration of the page, without two features that are costly for every open page.

        - Each browser tab with the page keeps a connection open. A browser has six connections to a server, so the
          seventh tab would stay blank. gradio's server ends a session when this connection ends. Without the
          connection, a session's state is dropped when newer sessions need its place.
        - Each component that waits for an answer runs a timer, even if it is hidden. Three timers asked for 180 frames
          a second on an idle page, which took a tenth of a core from the timed model.
        """
        config: Any = super().get_config_file()
        events = [event | {"show_progress_on": []} for event in config["dependencies"]]
        changed: BlocksConfigDict = config | {"connect_heartbeat": False, "dependencies": events}
        return changed

    async def process_api(self, block_fn: Any, *args: Any, **named: Any) -> JsonObject:
        tables = {id for id, event in block_fn.targets if event == "select"} & {
            id for id, block in self.blocks.items() if isinstance(block, gr.Dataframe)
        }
        with errors_as_sentences():
            if tables:
                check_pressed_cell(getattr(named.get("event_data"), "_data", None))
            return await super().process_api(block_fn, *args, **named)

    async def preprocess_data(self, block_fn: BlockFunction, inputs: list[Any], *more: Any) -> list[object]:
        name, wanted = block_fn.api_name, len(block_fn.inputs)
        if len(inputs) != wanted:
            by_name = f"/gradio_api/call/v2/{name} takes only those that you name."
            raise gr.Error(f"/{name} takes {wanted} values. Given: {len(inputs)}. {by_name}")
        try:
            fitting = [fitting_value(block, value) for block, value in zip(block_fn.inputs, inputs, strict=True)]
            values: list[object] = await super().preprocess_data(block_fn, fitting, *more)
            return values
        except (gr.Error, BadInput):
            raise
        except Exception as error:
            raise BadInput(f"A value could not be read. {NOT_UPLOADED}") from error


TYPES = {"string": str, "boolean": bool, "number": int | float, "integer": int, "object": dict, "array": list}
"""Python's types by their names in JSON."""


def fitting_value(block: Any, value: object) -> object:
    """Returns `value`, which a browser sent for the field `block`. Raises BadInput if `value` has a wrong type.

    gradio itself would pass a wrong type to the handler. A browser sends null for a number field that was emptied, and
    for a field that it has not drawn yet. For null, a text field gives '', and a field with several choices []. A
    checkbox, or a field with one choice, gives the value that it has on a new page. Any other field gives None, except
    a list of examples (`gr.Dataset`), which refuses null.
    """
    if block.stateful or isinstance(block, Api):  # the server's own value; the API checks its values itself
        return value
    kind = "string" if isinstance(block, gr.BrowserState) else str(block.api_info().get("type", "any"))
    if value is None and not isinstance(block, gr.Dataset):
        one_of_a_list = isinstance(block, gr.Dropdown) and not block.multiselect and not block.allow_custom_value
        chosen = isinstance(block, gr.Radio | gr.Checkbox) or one_of_a_list
        if kind == "array":
            return []
        return "" if isinstance(block, gr.Textbox) else block.value if chosen else None
    mixed = kind == "array" and isinstance(value, list) and not all(isinstance(entry, str) for entry in value)
    is_switch = isinstance(value, bool)
    if kind in TYPES and (mixed or not isinstance(value, TYPES[kind]) or is_switch is not (kind == "boolean")):
        raise BadInput(f"A value must be of the JSON type {kind}. Given: {fmt.excerpt(value)}.")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadInput("A text holds half a character (a lone surrogate). Type it anew.") from None
    return value


def check_pressed_cell(data: object) -> None:
    """Raises BadInput if `data` is not what a browser sends when a cell of a table is pressed."""
    cell = data if isinstance(data, dict) else {}
    place, row = cell.get("index"), cell.get("row_value")
    fits = isinstance(place, list) and len(place) == 2 and all(type(number) is int and number >= 0 for number in place)
    if not fits or not isinstance(row, list) or not row or any(isinstance(text, dict | list) for text in row):
        raise BadInput("A pressed cell has a place (two whole numbers) and the texts of its row.")


@contextlib.contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Turns an exception in the `with` block into a gr.Error.

    The gr.Error has the text of a BadInput or HistoryError. The text of any other exception is only logged.
    """
    try:
        yield
    except gr.Error as error:  # gradio's own, such as a value that a list does not offer
        error.print_exception = False
        raise
    except (BadInput, HistoryError) as error:
        raise gr.Error(fmt.redact(str(error)), print_exception=False) from error
    except Exception as error:
        _log.exception("what a visitor asked for failed")
        sentence = "The server met an error that it did not expect; it is in its log."
        raise gr.Error(sentence, print_exception=False) from error
