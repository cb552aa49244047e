"""What calls may hold: the API's arguments, the page's values; and sentences for errors of the operating system."""

from __future__ import annotations

import errno
from typing import Any

import gradio as gr
from gradio.blocks import BlockFunction
from gradio.utils import get_function_params

from demo.core.errors import NO_ROOM
from demo.core.spec import MAX_PROMPT

NO_FILES = {errno.EMFILE, errno.ENFILE}
NOT_UPLOADED = "The image must be an uploaded file: with gradio_client, wrap its path in handle_file()."


def limit_texts(page: gr.Blocks) -> None:
    """Gives every text field of the page a longest text, which the browser keeps to and `misfit` holds."""
    for block in page.blocks.values():
        if isinstance(block, gr.Textbox):
            block.max_length = block.max_length or MAX_PROMPT


def misfit(fn: BlockFunction, asked: dict[str, Any]) -> str | None:
    """Why the page itself would not send this call of one of its events, as a sentence; None where it could have.

    Looks at the number, types and lengths of the values: what is among a list's choices may change with the session,
    and gradio checks it. Endpoints of the API check their own arguments.
    """
    if fn.api_visibility == "public":
        return None
    data = asked.get("data")
    if not isinstance(data, list) or len(data) != len(fn.inputs):
        given = len(data) if isinstance(data, list) else "none"
        return f"This event takes {len(fn.inputs)} values. Given: {given}. Reload the page: it may have changed."
    if fn.collects_event_data and not isinstance(asked.get("event_data"), dict):
        return "This event comes with a description of what was pressed, and this call has none."
    for block, value in zip(fn.inputs, data, strict=True):
        if not _fits(block, filled(block, value)):
            return f"A value of this call does not fit its field, which is a {type(block).__name__}."
        longest = getattr(block, "max_length", None)
        if isinstance(value, str) and len(value) > (longest or MAX_PROMPT):
            return f"A text may have {longest or MAX_PROMPT:,} characters here. Given: {len(value):,}. Shorten it."
    return None


def filled(block: Any, value: Any) -> Any:
    """What a field holds. The browser sends null for one that the page has not drawn yet."""
    if value is None and isinstance(block, gr.Textbox):
        return ""
    chosen = isinstance(block, gr.Radio | gr.Checkbox) or _is_plain_list(block)
    return block.value if value is None and chosen else value


def _is_plain_list(block: Any) -> bool:
    """Whether it is a list from which one of its entries is chosen."""
    return isinstance(block, gr.Dropdown) and not block.multiselect and not block.allow_custom_value


def _fits(block: Any, value: Any) -> bool:
    """Whether a value is of the type that this field of the page sends."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match block:
        case gr.Textbox():
            return isinstance(value, str)
        case gr.Checkbox():
            return isinstance(value, bool)
        case gr.Radio():
            return isinstance(value, str) and value in [one for _, one in block.choices]
        case gr.Dropdown(multiselect=True):
            return value is None or (isinstance(value, list) and all(isinstance(one, str) for one in value))
        case gr.Dropdown():
            return isinstance(value, str) or (value is None and not _is_plain_list(block))
        case gr.Dataset():  # the place of the example
            return number and value in range(len(block.samples or ()))
        case gr.Number():
            return number or value is None
        case gr.Slider():
            return number
        case gr.BrowserState():
            return value is None or isinstance(value, str)
    return True


def arguments(page: gr.Blocks) -> dict[str, tuple[str, ...]]:
    """The names of the API's endpoints, each with the names of its arguments in order."""
    return {str(fn.api_name): argument_names(fn) for fn in page.fns.values() if fn.api_visibility == "public"}


def argument_names(fn: BlockFunction) -> tuple[str, ...]:
    return tuple(parameter[0] for parameter in get_function_params(fn.fn)) if fn.fn else ()


def asked_over_mcp(request: Any) -> bool:
    """Whether gradio's MCP server sent this request. It names itself in a header."""
    return (getattr(request, "headers", None) or {}).get("x-gradio-user") == "mcp"


def no_room(error: BaseException) -> str | None:
    """A sentence for an error of a full disk or of too many open files; None for any other error."""
    if not isinstance(error, OSError):
        return None
    if error.errno in NO_ROOM:
        return "The server's disk for temporary files is full, so it cannot take a picture. Try again later."
    if error.errno in NO_FILES:
        return "The server has as many files and connections open as it may. Try again in a minute."
    return None
