"""Work-arounds for gradio 6.31, each with the upstream issue that it waits for, as far as there is one.

`tests/ui/web/test_gradio_workarounds.py` fails when gradio no longer needs one of those in this file.

Others stand in the file that needs them: `look/events.js` (names of thumbnails;
downloads, https://github.com/gradio-app/gradio/issues/9230), `look/form.js` (the Tab key), `look/aloud.js` (names of
figures, https://github.com/plotly/plotly.js/issues/6920), `look/theme.py` (semi-bold letters), `tabs/form.py`
(galleries).
"""

import asyncio
import logging
import sys
import time
from collections import defaultdict
from typing import Any

import gradio as gr
import gradio.networking
import gradio.queueing
from gradio.blocks import BlockFunction
from gradio.state_holder import SessionState

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
# ---- gets a traceback. A browser sends null for a field that the page has not drawn yet. No upstream issue found.


NOT_UPLOADED = "The image must be an uploaded file: with gradio_client, wrap its path in handle_file()."


class Blocks(gr.Blocks):
    """gradio's, but a call that does not fit is answered with a sentence and leaves no traceback."""

    async def preprocess_data(
        self, block_fn: BlockFunction, inputs: list[Any], state: SessionState | None, explicit_call: bool = False
    ) -> list[Any]:
        wanted, given = len(block_fn.inputs), len(inputs)
        if wanted != given:
            raise gr.Error(
                f"/{block_fn.api_name} takes {wanted} values. Given: {given}. "
                f"/gradio_api/call/v2/{block_fn.api_name} takes only those that you name.",
                print_exception=False,
            )
        filled = [
            first_value(block) if value is None else value for block, value in zip(block_fn.inputs, inputs, strict=True)
        ]
        try:
            values: list[Any] = await super().preprocess_data(block_fn, filled, state, explicit_call)
        except Exception as error:
            _log.warning("the values of a call could not be read: %s", type(error).__name__)
            known = error.message if isinstance(error, gr.Error) else None
            raise gr.Error(known or f"A value could not be read. {NOT_UPLOADED}", print_exception=False) from error
        return values


def first_value(block: Any) -> Any:
    """What a field holds that nobody has changed: no text, the choice at the start, else None."""
    if isinstance(block, gr.Textbox):
        return ""
    one_of_a_list = isinstance(block, gr.Dropdown) and not block.multiselect and not block.allow_custom_value
    return block.value if isinstance(block, gr.Radio | gr.Checkbox) or one_of_a_list else None
