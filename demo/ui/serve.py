"""Worth compiling? `python app.py` serves the page on http://127.0.0.1:7860.

GRADIO_SERVER_NAME and GRADIO_SERVER_PORT choose another address. On a Hugging Face Space it listens to everybody.
With --mcp the API is offered as MCP tools, too.
"""

import contextlib
import importlib.util
import os
import signal
import sys
from importlib.metadata import version

from demo.core import limits
from demo.core.result import BadInput
from demo.runs.runner import Runner, hide_environment
from demo.store import hub_dataset as dataset


def main(mcp: bool = False) -> None:
    """Serves the page until the process is told to end. Raises BadInput for settings that cannot be followed."""
    if mcp and importlib.util.find_spec("mcp") is None:
        raise BadInput(f'MCP tools need gradio\'s own extra: pip install "gradio[mcp]=={version("gradio")}".')
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that a stopped container ends its worker too
    everybody = "0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1"
    name = os.environ.get("GRADIO_SERVER_NAME", everybody)
    port = _port()
    limits.current()
    if limits.on_space():
        hide_environment()
    with dataset.opened() as history, contextlib.closing(Runner(history, spare=True)) as runner:
        from demo.ui.page import build, launch  # gradio: it loads while the worker loads torch

        page = build(runner, history=history)
        _, address, _ = launch(page, server_name=name, server_port=port, mcp_server=mcp, prevent_thread_lock=True)
        print(f"Worth compiling? Find out at {address}", flush=True)
        if mcp:
            print(f"MCP tools at {address}gradio_api/mcp/", flush=True)
        page.block_thread()


def _port() -> int:
    given = os.environ.get("GRADIO_SERVER_PORT", "7860")
    if not given.isascii() or not given.isdigit() or not 1 <= int(given) <= 65_535:
        raise BadInput(f"GRADIO_SERVER_PORT must be a whole number from 1 to 65535. Given: {given[:80]!r}.")
    return int(given)
