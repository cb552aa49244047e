"""Tests of why the Hub does not reply: each cause is named, with what helps."""

import ssl
import threading
import urllib.error
import urllib.request
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from unittest.mock import Mock

import pytest

from demo.core import hub

DEAD = "http://127.0.0.1:9"
VARIABLES = ("HF_ENDPOINT", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch) -> None:
    for variable in (*VARIABLES, *hub.OFFLINE_VARIABLES):
        monkeypatch.delenv(variable, raising=False)
    hub._trouble.cache_clear()


@pytest.mark.parametrize(
    ("variables", "reason", "remedy"),
    [
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set", "unset it"),
        ({"TRANSFORMERS_OFFLINE": "true"}, "TRANSFORMERS_OFFLINE is set", "unset it"),
        ({"HF_ENDPOINT": "huggingface.co"}, "HF_ENDPOINT is 'huggingface.co'", "begins with https://"),
        ({"HF_ENDPOINT": "me:secret@hub.example"}, "HF_ENDPOINT is 'hub.example'", "begins with https://"),
        ({"HF_ENDPOINT": "http://me:secret@hub:port"}, "HF_ENDPOINT is 'http://hub:port'", "begins with https://"),
        ({"HF_ENDPOINT": DEAD}, "it does not answer", "later"),
        ({"HF_ENDPOINT": "http://hub.invalid", "HTTP_PROXY": DEAD}, "the proxy that HTTP_PROXY names", "unset"),
        ({"HF_ENDPOINT": DEAD, "HTTP_PROXY": DEAD, "NO_PROXY": "127.0.0.1"}, "it does not answer", "later"),
    ],
)
def test_what_keeps_the_hub_from_answering_is_named(variables: dict, reason: str, remedy: str, monkeypatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    problem = hub.problem()
    assert problem is not None and problem.reason.startswith(reason) and remedy in problem.remedy


LOGIN = urllib.error.HTTPError("", 407, "", Message(), None)
CERTIFICATE = urllib.error.URLError(ssl.SSLCertVerificationError(1, "failed"))
CERTIFICATE.reason.verify_message = "self-signed certificate"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (LOGIN, "the proxy that HTTPS_PROXY names asks for a login; correct or unset that variable"),
        (CERTIFICATE, "its certificate is not trusted here (self-signed certificate); set SSL_CERT_FILE"),
        (urllib.error.HTTPError("", 503, "", Message(), None), None),
    ],
    ids=["login", "certificate", "an error page is a reply"],
)
def test_what_answers_in_place_of_the_hub_is_named(error: Any, says: str | None, monkeypatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setenv("HTTPS_PROXY", "http://somebody:secret@127.0.0.1:9")
    monkeypatch.setattr(urllib.request, "urlopen", fail)
    problem = hub.problem()
    assert problem is None if says is None else problem is not None and "; ".join(problem).startswith(says)


def test_a_login_in_the_hubs_address_is_used_and_not_shown(tmp_path, monkeypatch) -> None:
    asked: list[str | None] = []

    class Server(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        monkeypatch.setenv("HF_ENDPOINT", f"http://me:s%40cret@{address}")
        assert hub.problem() is None
    assert asked == ["Basic bWU6c0BjcmV0"]  # me:s@cret
    assert hub.shown_endpoint() == f"http://{address}"
    with pytest.raises(hub.NoAnswer, match=f"^no file at http://{address}/a$"):
        hub.ask(Mock(side_effect=OSError(f"no file at {hub.endpoint()}/a")), 5.0)


def test_a_question_without_an_answer_ends(monkeypatch) -> None:
    """The library asks most questions without a time limit."""
    monkeypatch.setattr(hub, "problem", lambda: None)
    answered = threading.Event()
    with pytest.raises(hub.NoAnswer, match="it did not answer within 0 s"):
        hub.ask(answered.wait, 0.05)
    answered.set()
    assert hub.ask(answered.wait, 5.0) is True
    assert hub.ask(lambda: threading.current_thread().daemon, 5.0)  # it keeps no program from ending


@pytest.mark.parametrize(
    ("error", "says"), [(TimeoutError("read timed out"), "read timed out"), (OSError(), "OSError")]
)
def test_an_error_of_the_library_is_no_answer(error: Exception, says: str, monkeypatch) -> None:
    def question() -> None:
        raise error

    monkeypatch.setattr(hub, "problem", lambda: None)
    with pytest.raises(hub.NoAnswer, match=says):
        hub.ask(question, 5.0)
