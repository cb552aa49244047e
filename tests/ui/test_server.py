"""Tests of the server's process: its start, its streams, its memory and its end."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.worker_processes import wait_until

from benchmarks.page_start import free_port, resident_bytes
from demo.ui.server import LenientStream, name_to_listen_to

ROOT = Path(__file__).resolve().parents[2]
MAKE = """
import safehttpx
async def passes(host): return "127.0.0.1"
safehttpx.async_validate_url = passes  # gradio takes this machine for a public one
from demo.ui import server
from support.fake_runner import FakeRunner
from support.samples import ok_result
class Runner(FakeRunner):
    def __init__(self, history, spare=False):
        super().__init__(lambda spec, image: ok_result(spec=spec), history=history)
    def close(self): pass
server.Runner = Runner
server.serve(False)
"""
"""Code that starts the real server with a fake runner."""


@contextlib.contextmanager
def app(folder: Path, shell: str = "", name: str = "127.0.0.1") -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Yields a server that listens to `name`, and its address. `shell` starts the program that it gets as "$0"."""
    port, temporary = free_port(), folder / "tmp"
    temporary.mkdir(exist_ok=True)
    settings = {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
        "GRADIO_SERVER_NAME": name,
        "GRADIO_SERVER_PORT": str(port),
        "GRADIO_TEMP_DIR": str(temporary),
        "WORTH_COMPILING_DATA": str(folder / "data"),
    }
    command = ["sh", "-c", shell, MAKE] if shell else [sys.executable, "-c", MAKE]
    address = f"http://{f'[{name}]' if ':' in name else name}:{port}/"

    def answers() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{address}gradio_api/app_id").status_code == 200
        return False

    with subprocess.Popen(command, cwd=ROOT, env=os.environ | settings) as child:
        try:
            wait_until(answers, 300)
            yield child, address
        finally:
            child.kill()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str, Path]]:
    """Yields a server that was started without standard streams, its address and its folder."""
    folder = tmp_path_factory.mktemp("server")
    with app(folder, f'exec "{sys.executable}" -c "$0" 0<&- 1>&- 2>&-') as (child, address):
        yield child, address, folder


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def upload(address: str) -> Path:
    return Path(httpx.post(f"{address}gradio_api/upload", files={"files": ("a.png", b"a visitor's")}).json()[0])


def test_closed_standard_streams_are_replaced(started: Any) -> None:
    child, _, _ = started
    assert {os.readlink(f"/proc/{child.pid}/fd/{number}") for number in range(3)} == {"/dev/null"}


MEMORY = 50_000_000
"""The most by which a request may increase the app's memory."""


def test_no_archive_behind_an_address_is_unpacked(started: Any) -> None:
    """The archive holds zeros: 600 kB would become 600 MB."""
    child, address, _ = started
    with socket.create_server(("127.0.0.1", 0)) as bomb:
        image = {"path": f"http://127.0.0.1:{bomb.getsockname()[1]}/a.png", "meta": {"_type": "gradio.FileData"}}
        api, before = f"{address}gradio_api/", resident_bytes(child.pid)
        config = httpx.get(f"{address}config").json()
        for event in config["dependencies"][:40]:
            data = [image for _ in event["inputs"]]
            route = "queue/join" if event["queue"] else "run/predict"
            body = {"data": data, "fn_index": event["id"], "session_hash": "bomb"}
            httpx.post(f"{api}{route}", json=body)
        event = httpx.post(f"{api}call/v2/benchmark", json={"image": image}).json()["event_id"]
        assert "fetches nothing from an address" in httpx.get(f"{api}call/v2/benchmark/{event}").text
        assert httpx.get(f"{api}file={image['path']}").status_code == 403
        assert select.select([bomb], [], [], 0)[0] == []  # nobody has asked
    assert resident_bytes(child.pid) - before < MEMORY


FIELD = b'--b\r\nContent-Disposition: form-data; name="files"\r\n\r\n'
PIECE = b"x" * 1_000_000
SENT = 400


@pytest.mark.parametrize("length", [f"Content-Length: {SENT * len(PIECE)}", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("upload", FIELD),
        ("upload", FIELD.replace(b'"files"', b'"files"; filename="a.png"')),
        ("queue/join", b'{"data": ["'),
        ("mcp/", b'{"data": ["'),
    ],
    ids=["a form field", "a file", "an event", "a tool"],
)
def test_a_long_body_is_refused_before_it_ends(path: str, head: bytes, length: str, started: Any) -> None:
    child, address, _ = started
    host, before, sent = address.split("/")[2], resident_bytes(child.pid), 0
    kind = "multipart/form-data; boundary=b" if path == "upload" else "application/json"
    ask = f"POST /gradio_api/{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\n{length}\r\n\r\n"

    def piece(content: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(content), content) if "chunked" in length else content

    with socket.create_connection((host.split(":")[0], int(host.split(":")[1]))) as client:
        with contextlib.suppress(ConnectionError):  # as soon as the server has closed it
            client.sendall(ask.encode() + piece(head))
            while sent < SENT:
                client.sendall(piece(PIECE))
                sent += 1
                assert resident_bytes(child.pid) - before < MEMORY
    assert sent < 60


def test_sigterm_leaves_no_picture_of_a_visitor(started: Any) -> None:
    child, address, folder = started
    picture = upload(address)
    with httpx.stream("GET", f"{address}gradio_api/upload_progress", params={"upload_id": "none"}):
        assert picture.is_file()
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0
    assert files_in(folder / "tmp") == []


def test_the_next_start_removes_the_pictures_of_a_killed_app(tmp_path) -> None:
    with app(tmp_path) as (child, address):
        picture = upload(address)
        child.kill()
        child.wait(30)
    assert picture.is_file()
    full = f'exec "{sys.executable}" -c "$0" >/dev/full 2>&1'  # a disk without room for its output
    with app(tmp_path, full, "::1" if socket.has_ipv6 else "127.0.0.1") as (child, address):
        assert not picture.exists()
        upload(address)
        assert child.poll() is None


@pytest.mark.parametrize(
    ("setting", "space", "name", "left"),
    [
        (None, "", "127.0.0.1", None),
        (None, "a/b", "0.0.0.0", None),
        ("box.local", "", "box.local", "box.local"),
        ("::1", "", "[::1]", None),
        ("[::1]", "", "[::1]", None),
        ("::", "a/b", "[::]", None),
    ],
)
def test_an_ipv6_address_gets_brackets(setting: Any, space: str, name: str, left: Any, monkeypatch) -> None:
    monkeypatch.setenv("SPACE_ID", space)
    monkeypatch.delenv("GRADIO_SERVER_NAME", raising=False)
    if setting:
        monkeypatch.setenv("GRADIO_SERVER_NAME", setting)
    assert name_to_listen_to() == name
    assert os.environ.get("GRADIO_SERVER_NAME") == left


def test_what_cannot_be_written_is_lost() -> None:
    full = open("/dev/full", "w")
    stream = LenientStream(full)
    print("x" * 100_000, file=stream, flush=True)
    assert stream.fileno() == full.fileno()
    with contextlib.suppress(OSError):  # it still has what it could not write
        full.close()
