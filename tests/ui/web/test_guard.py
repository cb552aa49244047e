"""What pages of other sites may ask of this server, met at the guard itself."""

from typing import Any

import gradio as gr
import pytest
from starlette.responses import JSONResponse
from starlette.testclient import TestClient

from demo.core import limits
from demo.ui.page import launch
from demo.ui.web.guard import MAX_BYTES, Guard

NAMES = ("demo.example.org",)
LOCAL = "127.0.0.1:7860"


def request(path: str = "/", method: str = "GET", body: bytes = b"", error: Any = None, **headers: str) -> Any:
    """Status and sentence of the answer; behind the guard stands an app that reads the body and answers 200."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if error is not None:
            raise error
        await receive()
        await JSONResponse({"detail": ""})(scope, receive, send)

    answer = TestClient(Guard(app, NAMES)).request(method, path, content=body, headers={"host": LOCAL} | headers)
    return answer.status_code, answer.json()["detail"]


OURS = "localhost LOCALHOST:80 Demo.Example.org:443 127.0.0.1 127.0.0.1:9000 [::1]:7860 192.168.1.20:7860 [fe80::1]"


@pytest.mark.parametrize("host", OURS.split())
def test_the_server_answers_to_its_names(host: str) -> None:
    assert request(host=host)[0] == 200


THEIRS = "evil.example localhost.evil.example 127.0.0.1.evil.example sub.demo.example.org evil.example@localhost :7860"


@pytest.mark.parametrize("host", ["", *THEIRS.split()])
def test_a_rebound_name_is_refused(host: str) -> None:
    status, sentence = request(host=host)
    assert status == 403 and repr(host) in sentence and "WORTH_COMPILING_HOSTS" in sentence


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (f"http://{LOCAL}", 200),
        ("https://demo.example.org", 200),
        ("https://evil.example", 403),
        ("http://127.0.0.1:3000", 403),
        ("http://127.0.0.1:7860.evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_a_page_of_another_site_is_refused(origin: str, status: int, monkeypatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(hosts=NAMES))
    answered, sentence = request("/gradio_api/upload", "POST", origin=origin)
    assert answered == status and (status == 200 or "another site" in sentence)
    assert request(origin=origin)[0] == 200  # a link leads here from anywhere


def test_a_space_answers_to_any_name(monkeypatch) -> None:
    monkeypatch.setenv("SPACE_ID", "someone/space")
    assert request(method="POST", host="someone-space.hf.space", origin="https://huggingface.co")[0] == 200


@pytest.mark.parametrize(("path", "status"), [("/gradio_api/queue/join", 413), ("/gradio_api/upload", 200)])
def test_only_an_upload_may_be_long(path: str, status: int) -> None:
    assert request(path, "POST", b"x" * (MAX_BYTES + 1))[0] == status


def test_an_error_of_a_route_is_a_sentence() -> None:
    status, sentence = request(method="POST", error=OSError(28, "No space left on device", "/tmp/secret/a.png"))
    assert status == 400 and "No space left on device" in sentence and "secret" not in sentence


def test_the_address_to_listen_to_is_a_name_of_the_server(monkeypatch) -> None:
    settings: dict[str, Any] = {}
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(hosts=("a.example",)))
    monkeypatch.setattr(gr.Blocks, "launch", lambda self, **given: settings.update(given))
    launch(gr.Blocks(analytics_enabled=False), server_name="Box.local")
    assert settings["app_kwargs"]["middleware"] == [(Guard, (("a.example", "box.local"),), {})]
