"""Work-arounds for gradio 6.31, each with the upstream issue that it waits for, as far as there is one.

`tests/ui/web/test_gradio_workarounds.py` fails when gradio no longer needs one of those in this file.

Others stand in the file that needs them: `look/events.js` (names of thumbnails;
downloads, https://github.com/gradio-app/gradio/issues/9230), `look/form.js` (the Tab key), `look/aloud.js` (names of
figures, https://github.com/plotly/plotly.js/issues/6920), `look/theme.py` (semi-bold letters), `tabs/form.py`
(galleries), `tabs/published_tab.py` (`change`).
"""

import asyncio
import logging
import sys
from collections import defaultdict
from typing import Any

import gradio as gr
import gradio.networking
import gradio.queueing
from fastapi import HTTPException
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
    queue.__class__, queue.clients = Queue, {}
    queue.pending_messages_per_session = defaultdict(asyncio.Queue)
    queue.pending_event_ids_session = defaultdict(set)


# ---- The queue keeps the messages of 2000 sessions. One more removes the oldest, whose next message is a KeyError that
# ---- ends the queue's task: each later call is answered "Queue is stopped". No upstream issue found.

MOST_UNREAD, MOST_UNREAD_OF_A_CLIENT = 1000, 200
"""Sessions that do not read what they are sent. As many that have read everything are kept, too."""


class Queue(gradio.queueing.Queue):
    """gradio's, but it keeps few sessions, forgets the oldest of the others, and goes on after an error."""

    clients: dict[str, Any]
    """The address of each session; the last to join stands last."""

    async def push(self, body: Any, request: Any, username: str | None) -> Any:
        """Raises HTTPException if too many sessions are unread, and none of them has its answer yet."""
        client = (request.client and request.client.host, request.headers.get("x-forwarded-for"))
        messages, calls = self.pending_messages_per_session, self.pending_event_ids_session
        running = {one for one in self.clients if any(call in self.event_ids_to_events for call in calls[one])}
        unread = [one for one in self.clients if not messages[one].empty()]
        theirs = [one for one in unread if self.clients[one] == client]
        quiet = [one for one in self.clients if one not in running and messages[one].empty()]
        # not all of them: a page's open stream may wait for the next message of its session, and would wait in vain
        ended = set(quiet[:-MOST_UNREAD])
        for some, most, status in ((theirs, MOST_UNREAD_OF_A_CLIENT, 429), (unread, MOST_UNREAD, 503)):
            if len(some) >= most:
                if running.issuperset(some):
                    raise HTTPException(status, f"{most} calls wait here and nobody reads their answers.")
                ended.add(next(one for one in some if one not in running))
        for one in ended:
            del self.clients[one], messages[one], calls[one]
        pushed = await super().push(body, request, username)
        self.clients.pop(body.session_hash, None)
        self.clients[body.session_hash] = client
        return pushed

    async def start_processing(self) -> None:
        while True:
            try:
                return await super().start_processing()
            except Exception as error:
                _log.error("gradio's queue ended with a %s and is started again", type(error).__name__)
            self.stopped = False
            await asyncio.sleep(POLL_SECONDS)

    def _cancel_asyncio_tasks(self) -> None:
        """Called when the task ends. What is being answered goes on."""


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
