"""Tests of the app under ZeroGPU's environment variables, with the real package `spaces` and no GPU.

A stub stands for the Hub's service. A Space is stopped that does not report a decorated function when gradio launches:
`spaces/zero/__init__.py`.
"""

import os
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.page_start import free_port

ROOT = Path(__file__).resolve().parents[2]

APP = """
import runpy, torch
if torch.version.cuda is None:  # which `spaces` takes for granted
    torch.version.cuda, torch._C._cuda_init, torch.cuda._is_in_bad_fork = "13.0", None, bool
runpy.run_path("app.py", run_name="__main__")
"""


def test_the_app_reports_its_function_and_serves_the_page(tmp_path) -> None:
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            paths.append(self.path.partition("?")[0])
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b"{}")

    groups = tmp_path / "cgroup"  # a Space's kernel has the control group of devices, this one may not
    groups.write_text("1:devices:/a/space\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as hub:
        threading.Thread(target=hub.serve_forever, daemon=True).start()
        environment = os.environ | {
            "HOME": str(tmp_path),
            "WORTH_COMPILING_DATA": str(tmp_path / "data"),
            "GRADIO_SERVER_PORT": str(free_port()),
            "SPACES_ZERO_GPU": "true",
            "SPACES_ZERO_DEVICE_API_URL": f"http://127.0.0.1:{hub.server_port}",
            "ZEROGPU_PROC_SELF_CGROUP_PATH": str(groups),
        }
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with subprocess.Popen([sys.executable, "-c", APP], cwd=ROOT, env=environment, **pipes) as app:
            printed = [""]
            while "Find out at" not in printed[-1] and (line := app.stdout.readline()):
                printed.append(line)
            try:
                assert paths == ["/startup-report"], printed
                with urllib.request.urlopen(printed[-1].split()[-1], timeout=30) as answer:
                    assert "Worth compiling?" in answer.read().decode()
            finally:
                app.terminate()
                hub.shutdown()
