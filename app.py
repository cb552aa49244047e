"""Worth compiling? `python app.py` serves the page on http://127.0.0.1:7860.

GRADIO_SERVER_NAME and GRADIO_SERVER_PORT choose another address. On a Hugging Face Space it listens to everybody.
"""

import contextlib
import os
import signal
import sys

from demo.history import History
from demo.runner import Runner


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that a stopped container ends its worker too
    everybody = "0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1"
    name = os.environ.get("GRADIO_SERVER_NAME", everybody)
    port = int(os.environ.get("GRADIO_SERVER_PORT", "7860"))
    with contextlib.closing(Runner(History(), spare=True)) as runner:
        from demo.ui.page import build, launch  # gradio: it loads while the worker loads torch

        page = build(runner)
        _, address, _ = launch(page, server_name=name, server_port=port, prevent_thread_lock=True)
        print(f"Worth compiling? Find out at {address}", flush=True)
        page.block_thread()


if __name__ == "__main__":
    main()
