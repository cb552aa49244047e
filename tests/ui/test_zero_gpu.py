"""The app under ZeroGPU's environment variables, with the real package `spaces` and no GPU.

A stub stands for the Hub's service. A Space is stopped that does not report a decorated function when gradio launches:
`spaces/zero/__init__.py`.
"""

import os
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

APP = """
import runpy, torch
if torch.version.cuda is None:  # which `spaces` takes for granted
    torch.version.cuda, torch._C._cuda_init, torch.cuda._is_in_bad_fork = "13.0", None, bool
runpy.run_path("app.py", run_name="__main__")
"""


def test_the_app_reports_its_function_and_serves_the_page(tmp_path) -> None:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path.partition("?")[0])
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b"{}")

    groups = tmp_path / "cgroup"  # a Space's kernel has the control group of devices, this one may not
    groups.write_text("1:devices:/a/space\n")
    port = int(os.environ["GRADIO_SERVER_PORT"]) + 71
    printed = tmp_path / "printed"
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as hub, printed.open("wb") as file:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        environment = os.environ | {
            "HOME": str(tmp_path),
            "WORTH_COMPILING_DATA": str(tmp_path / "data"),
            "GRADIO_SERVER_PORT": str(port),
            "SPACES_ZERO_GPU": "true",
            "SPACES_ZERO_DEVICE_API_URL": f"http://127.0.0.1:{hub.server_port}",
            "ZEROGPU_PROC_SELF_CGROUP_PATH": str(groups),
        }
        app = subprocess.Popen([sys.executable, "-c", APP], cwd=ROOT, env=environment, stdout=file, stderr=file)
        try:
            deadline = time.monotonic() + 120
            while "Worth compiling?" not in printed.read_text() and app.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            assert asked == ["/startup-report"], printed.read_text()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as answer:
                assert "Worth compiling?" in answer.read().decode()
        finally:
            app.terminate()
            app.wait(30)
            hub.shutdown()
