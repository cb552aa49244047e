"""The app under ZeroGPU's environment variables, with the real package `spaces` and no GPU.

A stub stands for the service that lends GPUs. A Space is stopped that does not
report a decorated function when gradio launches: `spaces/zero/__init__.py`.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
UUID = "GPU-of-the-stub"

APP = """
import runpy, torch
if torch.version.cuda is None:  # which `spaces` takes for granted
    torch.version.cuda, torch._C._cuda_init, torch.cuda._is_in_bad_fork = "13.0", None, bool
runpy.run_path("app.py", run_name="__main__")
"""


class Lender:
    """The service: what it was asked, and the environment of an app that asks it."""

    def __init__(self, tmp_path: Path) -> None:
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                address = urlsplit(self.path)
                asked.append((address.path, parse_qs(address.query)))
                lent = {"idle": False, "nvidiaIndex": 0, "nvidiaUUID": UUID, "allowToken": "a token"}
                body = json.dumps(lent if address.path == "/schedule" else {}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        groups = tmp_path / "cgroup"  # a Space's kernel has the control group of devices, this one may not
        groups.write_text("1:devices:/a/space\n")
        self.environment = {
            **os.environ,
            "HOME": str(tmp_path),
            "WORTH_COMPILING_DATA": str(tmp_path / "data"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
            "SPACES_ZERO_GPU": "true",
            "SPACES_ZERO_DEVICE_API_URL": f"http://127.0.0.1:{self.server.server_port}",
            "ZEROGPU_PROC_SELF_CGROUP_PATH": str(groups),
        }

    def calls(self) -> list[str]:
        return [path for path, _ in self.asked]


@pytest.fixture
def lender(tmp_path) -> Iterator[Lender]:
    lender = Lender(tmp_path)
    yield lender
    lender.server.shutdown()
    lender.server.server_close()


def test_the_app_reports_its_function_and_serves_the_page(lender: Lender, tmp_path) -> None:
    port = int(os.environ["GRADIO_SERVER_PORT"]) + 71
    environment = lender.environment | {"GRADIO_SERVER_PORT": str(port)}
    printed = tmp_path / "printed"
    with printed.open("wb") as file:
        app = subprocess.Popen([sys.executable, "-c", APP], cwd=ROOT, env=environment, stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + 120
        while "Worth compiling?" not in printed.read_text() and app.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert lender.calls() == ["/startup-report"], printed.read_text()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
            assert "Worth compiling?" in answer.read().decode()
    finally:
        app.terminate()
        app.wait(30)
