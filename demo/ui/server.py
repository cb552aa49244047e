"""Starts the server of the page."""

import contextlib
import importlib.util
import os
import signal
import sys
from importlib.metadata import version

from ..core import format as fmt, limits
from ..core.options import BadInput
from ..runs.environment import block_proc_access
from ..runs.runner import Runner
from ..store import hub_dataset


def serve(mcp: bool) -> None:
    """Serves the page until the process is told to end. With `mcp`, also serves the API as MCP tools.

    The variables GRADIO_SERVER_NAME and GRADIO_SERVER_PORT set the address. The default is 127.0.0.1, port 7860; on a
    Hugging Face Space all interfaces. Raises BadInput for invalid settings, a taken port, or a missing package `mcp`.
    """
    if mcp and importlib.util.find_spec("mcp") is None:
        raise BadInput(f'MCP tools need gradio\'s own extra: pip install "gradio[mcp]=={version("gradio")}".')
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # a stopped container ends its worker too
    default_name = "0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1"
    name = os.environ.get("GRADIO_SERVER_NAME", default_name)
    given = os.environ.get("GRADIO_SERVER_PORT", "7860")
    port = fmt.parse_whole(given)
    if not isinstance(port, int) or not 1 <= port <= 65_535:
        raise BadInput(f"GRADIO_SERVER_PORT must be a whole number from 1 to 65535. Given: {given[:80]!r}.")
    limits.current()
    if limits.on_space():
        block_proc_access()
    if limits.on_zero_gpu():
        import spaces  # before gradio. Hugging Face stops a ZeroGPU Space that decorates no function

        spaces.GPU(lambda: None)
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
        print(f"Worth compiling? Find out at {address}", flush=True)
        if mcp:
            print(f"MCP tools at {address}gradio_api/mcp/", flush=True)
        page.block_thread()
