"""The API's endpoints and their arguments, and sentences for errors of the operating system."""

from __future__ import annotations

import errno
from typing import Any

import gradio as gr
from gradio.blocks import BlockFunction
from gradio.utils import get_function_params

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
NO_FILES = {errno.EMFILE, errno.ENFILE}
NOT_UPLOADED = "The image must be an uploaded file: with gradio_client, wrap its path in handle_file()."


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
