"""Tests of what an upload may contain, and what stays of it."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import httpx
import pytest
from gradio.utils import get_upload_folder
from support.page_support import serving
from support.worker_processes import wait_until

from demo.core import limits
from demo.ui.web import gradio_workarounds, uploads


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with gradio_workarounds.Blocks(analytics_enabled=False) as page:
        gr.Markdown("here")
    with serving(page) as address:
        yield f"{address}gradio_api/upload"


@pytest.fixture(autouse=True)
def nothing_unfinished() -> Iterator[None]:
    yield
    wait_until(lambda: not list(Path(get_upload_folder()).glob("tmp*")), 10)


def test_a_picture_is_kept(address: str) -> None:
    (path,) = httpx.post(address, files={"files": ("a.png", b"x" * 1000)}).json()
    assert Path(path).read_bytes() == b"x" * 1000


@pytest.mark.parametrize(
    ("files", "data", "status"),
    [
        ({"files": ("a.png", b"x" * (limits.Limits.file_bytes + 1))}, {}, 413),
        ({"other": ("a.png", b"x")}, {}, 400),
        ({"files": ("a.png", b"x")}, {"note": "a field without a file"}, 400),
        ([("files", ("a.png", b"x"))] * (uploads.MOST_FILES + 1), {}, 400),
    ],
    ids=["a long file", "another field", "no file", "many files"],
)
def test_any_other_upload_is_refused(files: dict, data: dict, status: int, address: str) -> None:
    assert httpx.post(address, files=files, data=data, timeout=60).status_code == status


def test_an_upload_that_breaks_off_leaves_nothing(address: str) -> None:
    host, _, port = address.removeprefix("http://").partition("/")[0].partition(":")
    kind = "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000"
    part = 'Content-Disposition: form-data; name="files"; filename="a.png"'
    sent = (
        f"POST /gradio_api/upload HTTP/1.1\r\nHost: {host}:{port}\r\n{kind}\r\n\r\n--b\r\n{part}\r\n\r\n{'x' * 10_000}"
    )

    def unfinished() -> set[Path]:
        return set(Path(get_upload_folder()).glob("tmp*"))

    before = unfinished()
    with socket.create_connection((host, int(port))) as client:
        client.sendall(sent.encode())
        wait_until(lambda: unfinished() > before, 10)
    wait_until(lambda: unfinished() == before, 10)
    assert unfinished() == before


def test_old_files_go(tmp_path) -> None:
    young, shown = tmp_path / "a" / "young.png", tmp_path / "a" / "shown.png"
    unfinished = tmp_path / "tmpabc"
    for path in (young, shown, unfinished):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    now = os.stat(young).st_ctime
    for hours, left in [(0.9, {young, shown, unfinished}), (1.1, {young, shown}), (24.1, {shown})]:
        uploads.remove_old(tmp_path, {str(shown)}, now + hours * uploads.HOUR)
        assert {path for path in tmp_path.rglob("*") if path.is_file()} == left


def test_old_files_go_while_the_server_runs(monkeypatch) -> None:
    swept = threading.Event()
    monkeypatch.setattr(uploads, "remove_old", lambda *_: swept.set())
    with gradio_workarounds.Blocks(analytics_enabled=False) as page:
        gr.Markdown("here")
    with serving(page):
        assert swept.wait(10)
