"""Starts the server of the page."""

import contextlib
import importlib.util
import os
import signal
import sys
from importlib.metadata import version
from pathlib import Path

from ..core import format as fmt, limits
from ..core.files import LenientStream, open_closed_streams, temporary_folder
from ..core.options import BadInput
from ..runs.environment import block_proc_access
from ..runs.runner import Runner
from ..store import hub_dataset


def serve(mcp: bool) -> None:
    """Serves the page until the process is told to end. With `mcp`, also serves the API as MCP tools.

    The variables GRADIO_SERVER_NAME and GRADIO_SERVER_PORT set the address. The default is 127.0.0.1, port 7860; on a
    Hugging Face Space it is all interfaces. Raises BadInput for invalid settings, a port in use, or a missing package
    `mcp`.
    """
    if mcp and importlib.util.find_spec("mcp") is None:
        raise BadInput(f'MCP tools need gradio\'s own extra: pip install "gradio[mcp]=={version("gradio")}".')
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # a stopped container ends its worker too
    hold_standard_streams()
    name = name_to_listen_to()
    setting = os.environ.get("GRADIO_SERVER_PORT", "7860")
    port = fmt.parse_whole(setting)
    if not isinstance(port, int) or not 1 <= port <= 65_535:
        raise BadInput(f"GRADIO_SERVER_PORT must be a whole number from 1 to 65535. Given: {setting[:80]!r}.")
    limits.current()
    if limits.on_space():
        block_proc_access()
    with temporary_folder(Path(os.environ["GRADIO_TEMP_DIR"])) as uploads:  # removed with the pictures of visitors
        os.environ["GRADIO_TEMP_DIR"] = str(uploads)  # before any import of gradio
        if limits.on_zero_gpu():
            import spaces  # before gradio. Hugging Face stops a ZeroGPU Space that decorates no function

            spaces.GPU(lambda: None)
        _serve_at(name, port, mcp)


def _serve_at(name: str, port: int, mcp: bool) -> None:
    with hub_dataset.open_history() as history, contextlib.closing(Runner(history, spare=True)) as runner:
        from .page import Page, launch  # imports gradio while the worker loads torch

        page = Page(runner, history)
        try:
            _, address, _ = launch(page, server_name=name, server_port=port, mcp_server=mcp, prevent_thread_lock=True)
        except OSError as error:
            where = f"{name}, port {port}"
            raise BadInput(
                f"The page cannot listen on {where}. Choose others with GRADIO_SERVER_NAME and GRADIO_SERVER_PORT."
            ) from error
        address = address.replace("[::]", "[::1]")  # of all interfaces, one that can be opened
        print(f"Worth compiling? Find out at {address}", flush=True)
        if mcp:
            print(f"MCP tools at {address}gradio_api/mcp/", flush=True)
        try:
            page.block_thread()
        finally:  # else an upload that goes on would come after the removal of all others
            page.server.config.timeout_graceful_shutdown = 1  # for the streams of open pages
            page.server.should_exit = True
            page.server.thread.join(timeout=3)


def name_to_listen_to() -> str:
    """Returns the address in GRADIO_SERVER_NAME, or the default. An IPv6 address gets brackets, as gradio needs it.

    An IPv6 address is removed from the environment, because gradio would try the port with it as if it were an IPv4
    address.
    """
    default = "0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1"
    name = os.environ.get("GRADIO_SERVER_NAME", "") or default
    if ":" not in name:
        return name
    del os.environ["GRADIO_SERVER_NAME"]
    return f"[{name.strip('[]')}]"


def hold_standard_streams() -> None:
    """Keeps the server running even if its standard streams are closed, or their file is on a full disk."""
    open_closed_streams()
    sys.stdout, sys.stderr = LenientStream(sys.stdout), LenientStream(sys.stderr)
