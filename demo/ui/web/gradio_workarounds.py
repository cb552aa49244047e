"""Work-arounds for gradio 6.31, each with the upstream issue that it waits for, as far as there is one.

`tests/ui/web/test_gradio_workarounds.py` fails when gradio no longer needs one of those in this file, upkeep apart.

Others stand in the file that needs them: `look/events.js` (names of thumbnails;
downloads, https://github.com/gradio-app/gradio/issues/9230), `look/form.js` (the Tab key), `look/aloud.js` (names of
figures, https://github.com/plotly/plotly.js/issues/6920), `look/theme.py` (semi-bold letters), `tabs/form.py`
(galleries), `tabs/published_tab.py` (`change`).
"""

import asyncio
import contextlib
import logging
import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any

import gradio as gr
import gradio.networking
import gradio.queueing
from gradio.blocks import BlockFunction
from gradio.components.api_component import Api
from gradio.state_holder import SessionState
from gradio.utils import get_function_params, get_upload_folder

from demo.core.codec import shown
from demo.ui.web.guard import NO_FILES, no_room

_log = logging.getLogger(__name__)

# ---- At its start gradio asks its own page once and allows three seconds, which a busy machine exceeds: gradio then
# ---- ends with "localhost is not accessible". No upstream issue found.


def start_on_busy_machine() -> None:
    gradio.networking.url_ok = lambda url: True


# ---- The queue polls for events a thousand times a second, except on Windows. On ZeroGPU it lets one event of all
# ---- visitors wait, and refuses the others: a page that opens sends several. No upstream issue found for either.

POLL_SECONDS = 0.05
"""gradio's own interval on Windows. Its other one costs a fifteenth of a core, which is missing from what is timed."""


def set_queue(page: gr.Blocks) -> None:
    """How many runs may wait is for `RunQueue` to say."""
    queue: Any = page._queue
    queue.sleep_when_free = queue.progress_update_sleep_when_free = POLL_SECONDS
    queue.max_size = None
    queue.ANAYLTICS_CACHE_FREQUENCY = sys.maxsize  # else pandas sums up the last 10 000 events after each
    queue.__class__, queue.pending_messages_per_session = Queue, Messages()
    queue.pending_event_ids_session = defaultdict(set)


# ---- A stream that breaks off takes along all calls of its page, also those whose stream the page opens that moment:
# ---- the page shows "404: Not Found". And of 2001 sessions the oldest is removed. Its next message is a KeyError that
# ---- ends the queue: each later call is answered "Queue is stopped". No upstream issue found for either.

MOST_SESSIONS = 2000
CLOSED_SECONDS = 2.0
"""A page that opens no stream for so long after one broke off is closed."""


class Messages(dict[str, "asyncio.Queue[Any]"]):
    """What each session is to read. `Queue` removes what gradio would: a broken stream's, and the oldest."""

    def __missing__(self, session: str) -> "asyncio.Queue[Any]":
        self[session] = asyncio.Queue()
        return self[session]

    def __setitem__(self, session: str, messages: "asyncio.Queue[Any]") -> None:
        if session not in self and len(self) >= MOST_SESSIONS:
            self.pop(next(iter(self)))
        super().__setitem__(session, messages)

    def __delitem__(self, session: str) -> None:
        """gradio calls it when a stream breaks off."""


class Queue(gradio.queueing.Queue):
    """gradio's, but a broken stream ends the calls of its page only once that reads no other."""

    async def clean_events(self, *, session_hash: str | None = None, event_id: str | None = None) -> None:
        if session_hash is None:
            await super().clean_events(event_id=event_id)
            return
        # not awaited: what breaks the stream off cancels this, too
        task = asyncio.create_task(self._clean_closed(session_hash))
        self._asyncio_tasks.add(task)
        task.add_done_callback(self._asyncio_tasks.discard)

    async def _clean_closed(self, session: str) -> None:
        end = time.monotonic() + CLOSED_SECONDS
        while time.monotonic() < end:
            messages: Any = self.pending_messages_per_session.get(session)
            if messages is not None and messages._getters:  # a stream waits
                return
            await asyncio.sleep(POLL_SECONDS)
        self.pending_messages_per_session.pop(session, None)
        await super().clean_events(session_hash=session)


# ---- A call with a wrong number of values, or with values that a component cannot read, gets no message, and the log
# ---- gets a traceback. No upstream issue found.


NOT_UPLOADED = "The image must be an uploaded file: with gradio_client, wrap its path in handle_file()."


class Blocks(gr.Blocks):
    """gradio's, but a call that does not fit is answered with a sentence, and a refusal leaves no traceback."""

    async def process_api(self, *args: Any, **more: Any) -> Any:
        try:
            return await super().process_api(*args, **more)
        except gr.Error as refusal:
            refusal.print_exception = False
            raise

    async def preprocess_data(
        self, block_fn: BlockFunction, inputs: list[Any], state: SessionState | None, explicit_call: bool = False
    ) -> list[Any]:
        wanted, given = len(block_fn.inputs), len(inputs)
        if wanted != given:
            names = ", ".join(name for name, *_ in get_function_params(block_fn.fn)) if block_fn.fn else ""
            raise gr.Error(
                f"/{block_fn.api_name} takes {wanted} values, in this order: {names}. "
                f"Given: {given}. /gradio_api/call/v2/{block_fn.api_name} takes only those that you name."
            )
        try:
            inputs = [field_value(block, value) for block, value in zip(block_fn.inputs, inputs, strict=True)]
            values: list[Any] = await super().preprocess_data(block_fn, inputs, state, explicit_call)
        except Exception as error:
            _log.warning("the values of a call could not be read: %s", type(error).__name__)
            known = error.message if isinstance(error, gr.Error) else no_room(error)
            raise gr.Error(known or f"A value could not be read. {NOT_UPLOADED}") from error
        return values


TYPES = {"string": str, "boolean": bool, "number": int | float, "integer": int, "object": dict, "array": list}
"""By their names in JSON."""


def field_value(block: Any, value: Any) -> Any:
    """Returns what a field holds: the browser sends null for one that the page has not drawn yet. Raises gr.Error for a
    value of another type than the field's."""
    kind = "any" if isinstance(block, Api) else str(block.api_info()["type"])  # the API checks its values itself
    if value is None and kind != "integer":
        one_of_a_list = isinstance(block, gr.Dropdown) and not block.multiselect and not block.allow_custom_value
        chosen = isinstance(block, gr.Radio | gr.Checkbox) or one_of_a_list
        return "" if isinstance(block, gr.Textbox) else block.value if chosen else None
    mixed = kind == "array" and isinstance(value, list) and not all(isinstance(one, str) for one in value)
    switch = isinstance(value, bool)
    if kind in TYPES and (mixed or not isinstance(value, TYPES[kind]) or switch is not (kind == "boolean")):
        raise gr.Error(f"A value must be of the JSON type {kind}. Given: {shown(value)}.")
    return value


# ---- MCP tools describe a picture as an http address, and name an upload tool that this server does not offer.
# ---- No upstream issue found; https://github.com/gradio-app/gradio/pull/11508 introduced the upload tool.

NO_PICTURE = 'Over MCP a picture is given as a data URL, such as "data:image/png;base64,...". No address is fetched.'


def install_mcp_server() -> None:
    """Replaces gradio's MCP server. Call it before `launch(mcp_server=True)`.

    gradio makes the tools' descriptions of docstrings, and reads one line for each argument: the API's have no more.
    """
    import gradio.mcp

    class Server(gradio.mcp.GradioMCPServer):
        """gradio's, but a picture is a data URL, and refusals are sentences."""

        @property
        def _file_data_tool_description(self) -> str:
            return ""

        def get_input_schema(
            self, tool_name: str, parameters: dict[str, str] | None = None
        ) -> tuple[dict[str, Any], list[list[str | int]]]:
            schema, pictures = super().get_input_schema(tool_name, parameters)
            for place in pictures:
                del schema["properties"][place[-1]]["format"]  # "a http or https url to a file"
            return {**schema, "additionalProperties": False}, pictures

        def convert_strings_to_filedata(self, value: Any, filedata_positions: list[list[str | int]]) -> Any:
            for place in filedata_positions:
                given = value.get(place[-1])
                if isinstance(given, str) and not given.startswith("data:"):
                    raise ValueError(f"{NO_PICTURE} Given: {given[:80]!r}.")
            try:
                return super().convert_strings_to_filedata(value, filedata_positions)
            except Exception as error:
                raise ValueError(no_room(error) or NO_PICTURE) from error

    gradio.mcp.GradioMCPServer = Server  # type: ignore[misc]


# ---- `delete_cache` misses aborted uploads, the files of a killed app and those sent over MCP. Related:
# ---- https://github.com/gradio-app/gradio/issues/8098 (open). Not covered: a disk that fills up within an hour (limit
# ---- uploads in front of the server); files outside gradio's folder; the number of connections.

HOUR = 3600.0
DAY = 24 * HOUR
"""gradio removes the uploads that it knows of after a day; `sweep` removes the other files of its folder."""
MINUTE = 60.0


@contextlib.asynccontextmanager
async def upkeep(app: Any) -> AsyncIterator[None]:
    """The lifespan of the server: `app` is gradio's."""
    asyncio.get_running_loop().set_exception_handler(exception_handler())
    sweeping = asyncio.create_task(_sweep_every_hour(app))
    try:
        yield
    finally:
        sweeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sweeping


async def _sweep_every_hour(app: Any) -> None:
    while True:
        blocks = app.get_blocks().blocks.values()
        kept = {str(path) for block in list(blocks) for path in getattr(block, "keep_in_cache", ())}
        await asyncio.to_thread(sweep, Path(get_upload_folder()), kept, time.time())
        await asyncio.sleep(HOUR)


def sweep(folder: Path, kept: Collection[str], now: float) -> None:
    """Removes files of gradio's folder that were last written an hour ago (aborted uploads) or a day ago (all others).

    `kept` are files that a page always shows: their time is renewed, so that another app with this folder keeps them,
    too. Only names of gradio's pattern are removed. An emptied folder goes an hour later.
    """
    for path in kept:
        with contextlib.suppress(OSError):
            os.utime(path, (now, now))
    folders = [one for one in folder.glob("[0-9a-f]" * 64) if not one.is_symlink()]
    files = [(file, HOUR) for name in ("tmp????????", "tmp????????.*") for file in folder.glob(name)]
    files += [(file, DAY) for one in folders for file in one.glob("*")]
    for file, seconds in files:
        with contextlib.suppress(OSError):  # another app was faster
            if now - file.lstat().st_mtime > seconds:
                file.unlink()
    for one in folders:
        with contextlib.suppress(OSError):  # as where something lies in it
            if now - one.stat().st_mtime > HOUR:
                one.rmdir()


def exception_handler() -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """An event loop's exception handler that logs a lack of file descriptors once a minute; asyncio's own writes twenty
    thousand lines a second."""
    next_at = 0.0

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal next_at
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in NO_FILES:
            loop.default_exception_handler(context)
        elif loop.time() >= next_at:
            next_at = loop.time() + MINUTE
            _log.warning(
                "Every file that this process may open is open: new connections wait. Raise the limit (ulimit -n), "
                "or put a proxy that limits connections in front."
            )

    return handle
