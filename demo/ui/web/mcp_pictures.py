"""The pictures of MCP tools: a data URL, or a file that was uploaded to this server.

gradio itself would fetch a picture's address for a tool. The schema of a tool does not allow an object as an argument:
with an object, a client could make gradio read any file of this machine.
"""

import base64
import binascii
import logging
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from gradio.utils import get_upload_folder, is_in_or_equal

from ...core.codec import JsonObject
from .guard import API

WANTED = (
    'Over MCP a picture is a "data:image/png;base64,..." URL, or the path or address of a file that was uploaded to '
    f"this server ({API}/upload). No address of another server is fetched"
)


def install() -> None:
    """Replaces gradio's MCP server by `Server`. Call it before a launch with `mcp_server`."""
    import gradio.mcp  # needs the package `mcp`

    class Server(gradio.mcp.GradioMCPServer):
        """gradio's MCP server, but a picture must be a data URL or a file that was uploaded to this server."""

        @property
        def _file_data_tool_description(self) -> str:
            return ""  # gradio's names a tool that this server does not offer

        def get_input_schema(
            self, tool_name: str, parameters: dict[str, str] | None = None
        ) -> tuple[JsonObject, list[list[str | int]]]:
            schema, places = super().get_input_schema(tool_name, parameters)
            for place in places:
                schema["properties"][place[-1]].pop("format", None)  # "a http or https url to a file"
            return schema, places

        def convert_strings_to_filedata(self, value: Any, filedata_positions: list[list[str | int]]) -> object:
            for (name,) in filedata_positions:
                if value.get(name):
                    value[name] = upload_value(value[name])
            return super().convert_strings_to_filedata(value, filedata_positions)

    gradio.mcp.GradioMCPServer = Server  # type: ignore[misc]
    for name in ("", "mcp.server.streamable_http", "mcp.server.lowlevel.server", "mcp.server.sse"):
        logging.getLogger(name).addFilter(keep_first_line)  # the first for `mcp.shared.session`


def keep_first_line(record: logging.LogRecord) -> bool:
    """Cuts a log record of the library `mcp` to one line: a refused request would leave a hundred. Returns True."""
    if "mcp" in Path(record.pathname).parts:
        record.msg, record.args, record.exc_info = record.getMessage().partition("\n")[0], (), None
    return True


def upload_value(value: str) -> object:
    """Returns what gradio needs for `value`, a tool's argument for a picture.

    A data URL is returned unchanged. For the path or http address of an uploaded file, gradio's description of the file
    is returned. Raises ValueError for anything else, and for a data URL whose base64 cannot be read.
    """
    if value.startswith("data:"):
        try:
            base64.b64decode(value.partition(",")[2])
        except (binascii.Error, ValueError):
            raise ValueError(f"The data URL holds no base64 that can be read. {WANTED}.") from None
        return value
    _, marked, below = value.partition(f"{API}/file=")
    path = Path(unquote(below) if marked else value)
    if "\0" not in str(path) and path.is_absolute() and is_in_or_equal(path, get_upload_folder()) and path.is_file():
        return {"path": str(path), "orig_name": path.name, "meta": {"_type": "gradio.FileData"}}
    raise ValueError(f"{WANTED}. Given: {value[:80]!r}.")
