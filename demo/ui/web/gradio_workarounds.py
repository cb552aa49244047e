"""Work-arounds for faults of gradio 6.31 that have no issue upstream.

If gradio mends one of these faults, `tests/ui/web/test_gradio_workarounds.py` fails. More work-arounds are in `look/`:
`events.js` (downloads, gradio issue 9230), `form.js` (the Tab key), `theme.py` (semi-bold letters), and
`figure_names.js` (names of thumbnails; of figures, plotly.js issue 6920).
"""

import asyncio
import contextlib
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import gradio as gr
import gradio.networking
import gradio.queueing
from gradio.blocks import BlockFunction

from ...core import format as fmt
from ...core.options import BadInput
from ...store.history import HistoryError

_log = logging.getLogger(__name__)


POLL_SECONDS = 0.05
"""The time between gradio's checks of its queue. gradio's own, shorter time costs a fifteenth of a core."""


def prepare(page: gr.Blocks) -> None:
    """Changes what gradio does before and between the calls of `page`. Call it before the page is launched."""
    # else gradio requests its own page at the start, which a busy machine answers later than gradio allows
    gradio.networking.url_ok = lambda url: True
    queue: Any = page._queue
    queue.sleep_when_free = queue.progress_update_sleep_when_free = POLL_SECONDS
    # on ZeroGPU gradio lets only one event of all visitors wait, but a page that opens sends several
    queue.max_size = None
    queue.ANAYLTICS_CACHE_FREQUENCY = sys.maxsize  # else gradio sums up the last 10 000 events after each event
    queue.__class__, queue.pending_messages_per_session = Queue, Messages()
    queue.pending_event_ids_session = defaultdict(set)


# Two faults of gradio's queue:
# - When the stream of a page's messages breaks off, gradio drops all calls of the page, even if the page opens a new
#   stream at that moment. The page then shows "404: Not Found".
# - Beyond 2000 sessions gradio removes the oldest. A message to that session is a KeyError that ends the whole queue.

MOST_SESSIONS = 2000
CLOSED_SECONDS = 2.0
"""A page counts as closed if its stream of messages broke off and no new stream is opened within this time."""


class Messages(dict[str, "asyncio.Queue[Any]"]):
    """Maps a session to its queue of messages, which is made at its first use."""

    def __missing__(self, session: str) -> "asyncio.Queue[Any]":
        self[session] = asyncio.Queue()
        return self[session]

    def __setitem__(self, session: str, messages: "asyncio.Queue[Any]") -> None:
        if session not in self and len(self) >= MOST_SESSIONS:
            self.pop(next(iter(self)))
        super().__setitem__(session, messages)

    def __delitem__(self, session: str) -> None:
        """Does nothing: gradio deletes a session's messages when a stream breaks off, but the page may be open."""


class Queue(gradio.queueing.Queue):
    """gradio's queue, but the calls of a page whose stream of messages breaks off go on if a new stream opens soon."""

    async def clean_events(self, *, session_hash: str | None = None, event_id: str | None = None) -> None:
        if session_hash is None:
            await super().clean_events(event_id=event_id)
            return
        # not awaited, because gradio cancels this coroutine together with the broken stream
        task = asyncio.create_task(self._clean_closed(session_hash))
        self._asyncio_tasks.add(task)
        task.add_done_callback(self._asyncio_tasks.discard)

    async def _clean_closed(self, session: str) -> None:
        end = time.monotonic() + CLOSED_SECONDS
        while time.monotonic() < end:
            messages: Any = self.pending_messages_per_session.get(session)
            if messages is not None and messages._getters:  # a new stream of the page waits for messages
                return
            await asyncio.sleep(POLL_SECONDS)
        self.pending_messages_per_session.pop(session, None)
        await super().clean_events(session_hash=session)


NOT_UPLOADED = "The image must be an uploaded file: with gradio_client, wrap its path in handle_file()."


class Blocks(gr.Blocks):
    """gradio's `Blocks`, but a call that fails is answered with a sentence, without a traceback."""

    async def process_api(self, *given: Any, **named: Any) -> dict[str, Any]:
        with errors_as_sentences():
            return await super().process_api(*given, **named)

    async def preprocess_data(self, block_fn: BlockFunction, inputs: list[Any], *more: Any) -> list[Any]:
        name, wanted = block_fn.api_name, len(block_fn.inputs)
        if len(inputs) != wanted:
            by_name = f"/gradio_api/call/v2/{name} takes only those that you name."
            raise gr.Error(f"/{name} takes {wanted} values. Given: {len(inputs)}. {by_name}")
        try:
            return await super().preprocess_data(block_fn, inputs, *more)
        except gr.Error:
            raise
        except Exception as error:
            raise BadInput(f"A value could not be read. {NOT_UPLOADED}") from error


@contextlib.contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Turns an exception into a gr.Error. Keeps the text of BadInput and HistoryError; other texts are only logged."""
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
