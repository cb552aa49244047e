"""What of the server is open: routes, names and origins, met at the guard itself."""

import asyncio
import itertools
import json
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from demo.core import limits
from demo.core.spec import BadInput
from demo.ui.page import launch
from demo.ui.web.guard import MAX_PARTS, Guard, Refused, check


@pytest.fixture(scope="module")
def page() -> gr.Blocks:
    def run(speed: int = 1) -> int:
        return speed

    with gr.Blocks(analytics_enabled=False) as page:
        gr.api(run, api_name="benchmark")
    return page


def asked(*given: Any, **more: Any) -> tuple[int, str]:
    """Status and sentence of the guard's answer; 200 where it let the request through."""
    start, answered = answer(*given, **more)
    return start["status"], answered["detail"]


def answer(
    page: gr.Blocks,
    path: str,
    method: str = "GET",
    names: tuple[str, ...] = (),
    body: bytes = b"",
    status: int = 200,
    **headers: str,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """How the guard's answer starts, and its JSON; behind it stands an app that answers with `status`."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": [(b"to", scope["path"].encode())]})
        await send({"type": "http.response.body", "body": b'{"detail": ""}'})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    given = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": given, "root_path": "/sub"}
    asyncio.run(Guard(app, page, names)(scope, receive, send))
    return sent[0], json.loads(sent[-1]["body"])


def test_a_route_that_is_not_listed_is_not_there(page: gr.Blocks) -> None:
    recording = "process_recording"
    for path in [
        *(f"/gradio_api/{recording}", f"/gradio_api/{recording}/", f"//gradio_api/{recording}", f"/{recording}"),
        *(f"/gradio_api//{recording}", f"/gradio_api/./{recording}", f"/gradio_api/upload/../{recording}"),
        *(f"/gradio_api/{recording}\n", f"/GRADIO_API/{recording}", f"/sub/gradio_api/{recording}"),
        *("/gradio_api/deep_link", "/deep_link", "/gradio_api/mcp/x/gradio_api/mcp", "/pwa_icon/99999", ""),
        *("/monitoring", "/monitoring/summary", "/gradio_api/vibe-edit", "/login", "/openapi.json"),
        *("/gradio_api/run/benchmark", "/gradio_api/call/benchmark/one/two"),
    ]:
        for method in ["GET", "POST", "HEAD"]:
            status, sentence = asked(page, path, method)
            assert status == 404 and sentence.startswith("There is n") and sentence.endswith(".")


def test_the_root_of_a_proxy_stands_before_every_route(page: gr.Blocks) -> None:
    for path in ("/", "/sub", "/sub/", "/config", "/sub/config", "/sub/gradio_api/info", "/gradio_api/mcp/"):
        assert asked(page, path)[0] == 200


def test_mcp_without_the_last_slash_is_served(page: gr.Blocks) -> None:
    for path in ("/gradio_api/mcp", "/sub/gradio_api/mcp"):
        start, _ = answer(page, path, "POST", body=b"{}")
        assert start["headers"][0] == (b"to", f"{path}/".encode())


@pytest.mark.parametrize(
    ("space", "pages"),
    [("", "'self'"), ("someone/space", "'self' https://huggingface.co https://*.hf.space")],
    ids=["here", "on a Space"],
)
@pytest.mark.parametrize("path", ["/", "/nothing"], ids=["an answer", "a refusal"])
def test_only_some_pages_may_show_this_one_in_a_frame(page, monkeypatch, space: str, pages: str, path: str) -> None:
    monkeypatch.setenv("SPACE_ID", space)
    start, _ = answer(page, path)
    assert (b"content-security-policy", f"frame-ancestors {pages}".encode()) in start["headers"]


@pytest.mark.parametrize("number", [1, 3, "0", True, [0], None, -1, 2**70], ids=repr)
@pytest.mark.parametrize(("route", "there"), [("run/predict", 2), ("queue/join", 0)])
def test_an_event_without_a_function_is_not_there(route: str, there: int, number: Any) -> None:
    with gr.Blocks(analytics_enabled=False) as page:
        gr.api(lambda: 0, api_name="joins")
        gr.Button().click(None, js="() => 0")
        gr.Button().click(lambda: 0, queue=False)
    for asked_for, status in ((number, 404), (2 - there, 404), (there, 200)):
        body = json.dumps({"fn_index": asked_for, "data": []}).encode()
        assert asked(page, f"/gradio_api/{route}", "POST", body=body)[0] == status


def test_gradios_own_error_is_one_of_the_caller(page: gr.Blocks) -> None:
    body = json.dumps({"fn_index": 0, "data": []}).encode()
    page.fns[0].queue = False
    assert answer(page, "/gradio_api/run/predict", "POST", body=body, status=500)[0]["status"] == 400
    page.fns[0].queue = True
    assert answer(page, "/gradio_api/queue/join", "POST", body=body, status=500)[0]["status"] == 500


def test_an_answer_that_breaks_off_is_one_line_in_the_log(page: gr.Blocks, caplog) -> None:
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise KeyError("a visitor's text")  # as of the second stream of a session

    async def send(message: Any) -> None:
        sent.append(message)

    path = "/gradio_api/queue/data"
    asyncio.run(Guard(app, page)({"type": "http", "method": "GET", "path": path, "headers": []}, send, send))  # type: ignore[arg-type]
    assert sent[-1] == {"type": "http.response.body", "body": b""}
    assert caplog.messages == [f"an answer broke off: {path}: KeyError"]


BAD_JSON = {"too deep to read": b"[" * 10_000 + b"]" * 10_000, "too deep": b"[" * 66 + b"]" * 66, "NaN": b"[NaN]"}
BAD_JSON |= {"infinity": b"[1e999]", "half a character": b'["\\ud800"]', "a text": b"not json", "bytes": b"\xff\xfe"}


@pytest.mark.parametrize("body", BAD_JSON.values(), ids=BAD_JSON)
def test_json_that_is_not_strict_or_too_deep_is_refused(body: bytes) -> None:
    with pytest.raises(Refused, match="JSON") as refused:
        check(body)
    assert refused.value.status_code == 400


@pytest.mark.parametrize("written", ["http://127.0.0.1/x.png", "HTTP://public.example/x", "https://a"])
@pytest.mark.parametrize("route", ["/gradio_api/file=", "/file=", "/gradio_api/proxy="])
def test_no_address_in_a_path_is_fetched(route: str, written: str, page: gr.Blocks) -> None:
    for method in ("GET", "HEAD"):
        assert asked(page, route + written, method)[0] == 403


@pytest.mark.parametrize("part", ["[]", "{}", "0", '","'], ids=["lists", "objects", "numbers", "commas in texts"])
def test_json_of_very_many_parts_is_not_read(part: str, monkeypatch) -> None:
    check(f"[{','.join([part] * 10_000)}]".encode())
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(Refused, match=f"more than {MAX_PARTS} commas"):
        check(f"[{','.join([part] * (MAX_PARTS + 1))}]".encode())


def test_a_websocket_is_closed(page: gr.Blocks) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(Guard(send, page)({"type": "websocket", "path": "/"}, send, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close"}]


NAMES = ("demo.example.org", "someone-space.hf.space")


def test_the_page_is_there_by_address_and_name_of_the_settings(page: gr.Blocks) -> None:
    named = "localhost localhost:7860 LOCALHOST:80 localhost.:7860 demo.example.org Demo.Example.org:443"
    for host in f"{named} 127.0.0.1 127.0.0.1:9000 [::1]:7860 192.168.1.20:7860 0.0.0.0:7860 [fe80::1]".split():
        assert asked(page, "/", names=NAMES, host=host)[0] == 200


def test_under_any_other_name_nothing_is_there_but_a_sentence(page: gr.Blocks) -> None:
    near = "localhost.evil.example 127.0.0.1.evil.example sub.demo.example.org demo.example.org.evil other.hf.space"
    odd = "evil.example@localhost localhost:80@evil.example localhost/evil.example [evil.example]:7860 [::1]evil"
    hosts = [*f"{near} {odd} evil.example evil.example:7860 :7860".split(), "127.0.0.1 evil", "l\xf6calhost"]
    for header, host in [("host", ""), *itertools.product(["host", "x_forwarded_host"], hosts)]:
        status, sentence = asked(page, "/", names=NAMES, **{header: host})
        assert status == 403 and repr(host) in sentence and "WORTH_COMPILING_HOSTS" in sentence


def test_on_a_space_its_own_names_and_those_of_its_proxy_do(page: gr.Blocks, monkeypatch) -> None:
    monkeypatch.setenv("SPACE_ID", "someone/space")
    read = limits.read({"SPACE_ID": "a/b", "SPACE_HOST": "Someone-space.hf.space,my.domain.example"})
    assert read.hosts == ("someone-space.hf.space", "my.domain.example")
    monkeypatch.setattr(limits, "current", lambda: read)
    for host in (*read.hosts, "10.0.3.7:7860", "proxy.spaces.internal.huggingface.tech"):
        assert asked(page, "/", names=read.hosts, host=host)[0] == 200
        for origin in (*read.hosts, "someone-space--1a2b3c.hf.space"):
            ours = {"host": host, "origin": f"https://{origin}", "sec_fetch_site": "same-origin"}
            assert asked(page, "/gradio_api/upload", "POST", read.hosts, **ours)[0] == 200
    for other in ("other", "someone-space-2", "other--someone-space"):
        theirs = {"host": "someone-space.hf.space", "origin": f"https://{other}.hf.space"}
        assert asked(page, "/gradio_api/upload", "POST", read.hosts, **theirs)[0] == 403
    assert asked(page, "/", names=read.hosts, host="evil.example")[0] == 403


LOCAL = "127.0.0.1:7860"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": f"http://{LOCAL}", "sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"origin": "https://demo.example.org"}, 200),
        ({"origin": "https://demo.example.org:8443", "x_forwarded_host": "demo.example.org:8443"}, 200),
        ({"origin": "https://demo.example.org:8443"}, 403),
        ({"origin": "http://box.local"}, 403),
        ({"origin": "http://localhost:7860"}, 403),
        ({"origin": "http://127.0.0.1:3000"}, 403),
        ({"origin": "http://127.0.0.1:7860.evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
    ],
    ids=repr,
)
def test_a_page_of_another_site_sends_nothing_here(headers: dict[str, str], status: int, page, monkeypatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(hosts=("demo.example.org",)))
    names = ("demo.example.org", "box.local", "127.0.0.1")  # and GRADIO_SERVER_NAME
    for path in ("/gradio_api/upload", "/gradio_api/mcp/", "/gradio_api/call/benchmark"):
        answered, sentence = asked(page, path, "POST", names, host=LOCAL, **headers)
        assert answered == status and (status == 200 or "another site" in sentence)
    assert asked(page, "/", "GET", names, host=LOCAL, **headers)[0] == 200  # a link leads here from anywhere


def test_a_named_address_to_listen_to_is_a_name_of_the_server(monkeypatch) -> None:
    settings: dict[str, Any] = {}
    page: Any = SimpleNamespace(_queue=gr.Blocks()._queue, stored=None, launch=lambda **given: settings.update(given))
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(hosts=("a.example",)))
    launch(page, server_name="Box.local")
    assert settings["app_kwargs"]["middleware"][0] == (Guard, (page, ("a.example", "box.local")), {})


def test_a_host_that_is_no_name_stops_the_start() -> None:
    read = limits.read({"WORTH_COMPILING_HOSTS": " Demo.example.org, box.local,"})
    assert (read.hosts, limits.read({}).hosts) == (("demo.example.org", "box.local"), ())
    for given in ["http://a.example", "a.example:7860", "a b", "*", "a.example;b", "-a", "é.example", "a."]:
        with pytest.raises(BadInput, match=r"^WORTH_COMPILING_HOSTS must be .* Given: "):
            limits.read({"WORTH_COMPILING_HOSTS": given})
