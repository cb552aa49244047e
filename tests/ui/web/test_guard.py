"""Tests of the guard, which decides what anybody may ask of the server."""

import asyncio
import errno
import json
from collections.abc import Iterator
from typing import Any

import gradio as gr
import pytest
from gradio.routes import App
from starlette.responses import JSONResponse
from starlette.testclient import TestClient

from demo.core import limits
from demo.ui.page import launch
from demo.ui.web import guard
from demo.ui.web.guard import CLIENT_ROUTES, MAX_BYTES, MAX_MCP_BYTES, MAX_PARTS, MCP_ROUTES, PAGE_ROUTES, Guard

NAMES = ("demo.example.org",)
LOCAL = "127.0.0.1:7860"
TABLES = (PAGE_ROUTES, CLIENT_ROUTES, MCP_ROUTES)
INFO, JOIN, CANCEL, UPLOAD = guard.INFO, guard.JOIN, f"{guard.API}/cancel", guard.UPLOAD


def make_page() -> gr.Blocks:
    """Returns a page whose event 0 queues, event 1 has no function, and event 2 does not queue."""
    with gr.Blocks(analytics_enabled=False) as page:
        gr.api(lambda: 0, api_name="joins")
        gr.Button().click(None, js="() => 0", api_visibility="private")
        gr.Button().click(lambda: 0, queue=False, api_visibility="private")
    return page


PAGE = make_page()


def answer(
    path: str = "/", method: str = "GET", body: Any = b"", error: Any = None, status: int = 200, **more: str
) -> Any:
    """Returns the guard's answer; `more` are headers. The app behind it reads the body and answers what it got."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if error is not None:
            raise error
        message = await receive()
        echo = {
            "detail": "",
            "path": scope["path"],
            "query": scope["query_string"].decode(),
            "headers": [name.decode() for name, _ in scope["headers"]],
            "body": message.get("body", b"").decode(errors="replace")[:1000],
        }
        await JSONResponse(echo, status)(scope, receive, send)

    client = TestClient(Guard(app, PAGE, NAMES), root_path=more.pop("root", ""))
    headers = {"host": LOCAL} | {name.replace("_", "-"): value for name, value in more.items()}
    return client.request(method, path, content=body, headers=headers)


def refusal(*arguments: Any, **named: Any) -> tuple[int, str]:
    """Returns the status and the sentence of the guard's answer."""
    response = answer(*arguments, **named)
    return response.status_code, response.json()["detail"]


# ---- routes

REFUSED = set(
    """
    /config/ /gradio_api/api/{api_name} /gradio_api/api/{api_name}/ /gradio_api/app_id/ /gradio_api/component_server
    /gradio_api/component_server/ /gradio_api/custom_component/{id}/{environment}/{type}/{file_name}
    /gradio_api/deep_link /gradio_api/dev/reload /gradio_api/file/{path:path} /gradio_api/heartbeat/{session_hash}
    /gradio_api/info/ /gradio_api/login_check /gradio_api/login_check/ /gradio_api/openapi.json
    /gradio_api/process_recording /gradio_api/proxy={url_path:path} /gradio_api/queue/status /gradio_api/reset/
    /gradio_api/run-history/buckets /gradio_api/run-history/connect /gradio_api/run-history/records
    /gradio_api/run-history/records/{endpoint}/{record_id}/assets/{asset_id} /gradio_api/run/{api_name}
    /gradio_api/run/{api_name}/ /gradio_api/runs /gradio_api/runs/ /gradio_api/stream/{event_id}
    /gradio_api/stream/{event_id}/close /gradio_api/stream/{session_hash}/{run}/{component_id}/playlist-file
    /gradio_api/stream/{session_hash}/{run}/{component_id}/playlist.m3u8
    /gradio_api/stream/{session_hash}/{run}/{component_id}/{segment_id}.{ext} /gradio_api/theme.css
    /gradio_api/token /gradio_api/token/ /gradio_api/undo-vibe-edit /gradio_api/undo-vibe-edit/ /gradio_api/user
    /gradio_api/user/ /gradio_api/vibe-code /gradio_api/vibe-code/ /gradio_api/vibe-edit /gradio_api/vibe-edit/
    /gradio_api/vibe-starter-queries /gradio_api/vibe-starter-queries/ /login /login/ /logout /monitoring
    /monitoring/summary /monitoring/{key} /openapi.json /pwa_icon /pwa_icon/{size} /svelte/{path:path}
    """.split()
)
"""gradio's routes that nobody needs. A new route belongs here or into one of the guard's tables."""


def routes_of(app: Any, above: str = "") -> Iterator[str]:
    """Yields the path of each route, with those of inner routers and mounts."""
    for route in app.routes:
        if inner := getattr(route, "original_router", None):
            yield from routes_of(inner, above)
        elif getattr(route, "methods", None):
            yield above + route.path
        elif hasattr(route, "app") and getattr(route, "routes", None):
            yield from routes_of(route, above + route.path)
        else:
            yield f"{above}{route.path}/"


def test_every_route_of_gradio_is_allowed_or_refused_by_name() -> None:
    pytest.importorskip("mcp", reason="gradio[mcp] is not installed")
    existing = set(routes_of(App.create_app(make_page(), mcp_server=True)))
    allowed = {
        path for routes in (PAGE_ROUTES, CLIENT_ROUTES, MCP_ROUTES) for paths in routes.values() for path in paths
    }
    inside_mcp = {"/gradio_api/mcp", "/gradio_api/mcp/http", "/gradio_api/mcp/http/"}  # gradio reads these itself
    assert len(existing) > 60
    assert existing - allowed - REFUSED == set()
    assert allowed - existing == inside_mcp | {guard.PREDICT}  # one case of /run/{api_name}
    assert allowed & REFUSED == set()


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT", "OPTIONS"])
def test_a_refused_route_is_not_there_however_it_is_written(method: str) -> None:
    name = "process_recording"
    for path in [
        *(f"/gradio_api/{name}", f"/gradio_api/{name}/", f"//gradio_api/{name}", f"/gradio_api//{name}", f"/{name}"),
        *(f"/gradio_api/./{name}", f"/gradio_api/upload/../{name}", f"/GRADIO_API/{name}", f"/gradio_api/{name}%0A"),
        *("/gradio_api/mcp/x/gradio_api/mcp", "/monitoring", "/monitoring/summary", "/gradio_api/run/benchmark"),
        *("/gradio_api/call/v3/benchmark/one", "/gradio_api/heartbeat/a", "/gradio_api/queue/status"),
    ]:
        assert answer(path, method).status_code == 404, path


@pytest.mark.parametrize("path", ["/", "/sub", "/sub/", "/config", "/sub/config", "/sub/gradio_api/info"])
def test_the_root_path_of_a_proxy_stands_before_every_route(path: str) -> None:
    assert answer(path, root="/sub").status_code == 200


@pytest.mark.parametrize("path", ["/gradio_api/mcp", "/sub/gradio_api/mcp", "/gradio_api/mcp/http"])
def test_mcp_without_its_last_slash_is_not_redirected(path: str) -> None:
    assert answer(path, "POST", b"{}", root="/sub").json()["path"] == f"{path}/"


def test_a_websocket_is_closed() -> None:
    client = TestClient(Guard(None, PAGE))  # type: ignore[arg-type]
    with pytest.raises(Exception) as closed, client.websocket_connect("/"):
        pass
    assert type(closed.value).__name__ == "WebSocketDisconnect"


# ---- names and sites

OURS = "localhost LOCALHOST:80 Demo.Example.org:443 127.0.0.1 127.0.0.1:9000 [::1]:7860 192.168.1.20:7860 [fe80::1]"


@pytest.mark.parametrize("host", OURS.split())
def test_the_server_answers_to_its_names(host: str) -> None:
    assert answer(host=host, x_forwarded_host=host).status_code == 200


THEIRS = "evil.example localhost.evil.example 127.0.0.1.evil.example sub.demo.example.org evil.example@localhost :7860"
ODD = "[evil.example] [::1]evil [127.0.0.1 localhost:80@evil.example"


@pytest.mark.parametrize("header", ["host", "x_forwarded_host"])
@pytest.mark.parametrize("host", f"{THEIRS} {ODD}".split())
def test_a_rebound_name_is_refused(header: str, host: str) -> None:
    status, sentence = refusal(**{header: host})
    assert status == 403 and repr(host) in sentence and "WORTH_COMPILING_HOSTS" in sentence


def test_each_forwarded_name_is_checked() -> None:
    assert answer(x_forwarded_host="demo.example.org, evil.example").status_code == 403


ORIGINS = [
    (f"http://{LOCAL}", 200),
    ("https://demo.example.org", 200),
    ("https://Demo.example.org:8443", 200),
    ("https://evil.example", 403),
    ("http://127.0.0.1:3000", 403),
    ("http://127.0.0.1:7860.evil.example", 403),
    ("null", 403),
    ("", 403),
]


@pytest.mark.parametrize(("origin", "status"), ORIGINS)
@pytest.mark.parametrize(("method", "path"), [("POST", UPLOAD), ("GET", INFO), ("GET", "/gradio_api/queue/data")])
def test_a_page_of_another_site_is_refused(origin: str, status: int, method: str, path: str, monkeypatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(hosts=NAMES))
    answered, sentence = refusal(path, method, origin=origin)
    assert answered == status and (status == 200 or "another site" in sentence)


def test_a_link_leads_here_from_anywhere() -> None:
    assert answer(origin="https://evil.example").status_code == 200


def test_a_space_answers_to_any_name(monkeypatch) -> None:
    monkeypatch.setenv("SPACE_ID", "someone/space")
    theirs = {"host": "someone-space.hf.space", "origin": "https://huggingface.co", "x_forwarded_host": "a.example"}
    assert answer(UPLOAD, "POST", **theirs).status_code == 200


@pytest.mark.parametrize("path", ["/", "/nothing"], ids=["an answer", "a refusal"])
@pytest.mark.parametrize(("space", "pages"), [("", "'self'"), ("someone/space", "'self' https://huggingface.co")])
def test_no_other_site_may_show_the_page_in_a_frame(space: str, pages: str, path: str, monkeypatch) -> None:
    monkeypatch.setenv("SPACE_ID", space)
    assert answer(path).headers["content-security-policy"] == f"frame-ancestors {pages}"


def test_a_browser_trusts_the_type_of_every_answer() -> None:
    """HTML that was uploaded as a picture would otherwise run as a page of this address."""
    assert answer().headers["x-content-type-options"] == "nosniff"


def test_gradio_gets_no_range() -> None:
    """Several ranges of a file are an error in gradio."""
    assert "range" not in answer(range="bytes=0-1,2-3").json()["headers"]


def test_gradio_keeps_nobodys_host_in_the_description_of_the_api() -> None:
    echo = answer(f"{INFO}?all_endpoints=False", x_gradio_server="http://evil.example").json()
    assert echo["query"] == "all_endpoints=False&page=" and "x-gradio-server" not in echo["headers"]


# ---- bodies


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [
        (CANCEL, MAX_BYTES, 200),
        (CANCEL, MAX_BYTES + 1, 413),
        ("/gradio_api/call/joins", MAX_BYTES + 1, 413),
        ("/gradio_api/mcp/", MAX_BYTES + 1, 200),
        ("/gradio_api/mcp/", MAX_MCP_BYTES + 1, 413),
        (UPLOAD, MAX_MCP_BYTES + 1, 200),
    ],
)
def test_a_body_is_limited_by_its_route(path: str, size: int, status: int) -> None:
    assert answer(path, "POST", b"1".ljust(size)).status_code == status


def test_an_upload_that_says_that_it_is_too_long_is_not_read() -> None:
    response = answer(UPLOAD, "POST", b"", content_length="500000000")
    assert response.status_code == 413 and response.headers["connection"] == "close"


@pytest.mark.parametrize("part", ["[]", "{}", "0", '","'], ids=["lists", "objects", "numbers", "commas in texts"])
@pytest.mark.parametrize("path", [JOIN, "/gradio_api/mcp/"])
def test_json_of_very_many_parts_is_not_read(path: str, part: str) -> None:
    body = f"[{','.join([part] * (MAX_PARTS + 1))}]".encode()
    assert refusal(path, "POST", body) == (413, "The request has more than 20,000 commas and brackets.")


@pytest.mark.parametrize(
    "body", [b"[" * 10_000, b"9" * 5000, b"\xff", b""], ids=["deep", "long number", "bytes", "none"]
)
def test_a_call_of_a_tool_that_is_no_json_is_refused(body: bytes) -> None:
    assert refusal("/gradio_api/mcp/", "POST", body) == (400, "The request is no JSON that can be read.")


@pytest.mark.parametrize("path", [CANCEL, "/gradio_api/mcp/"])
def test_a_body_that_does_not_arrive_is_refused(path: str, monkeypatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.01)
    sent: list[Any] = []

    async def never() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", LOCAL.encode())],
    }
    asyncio.run(asyncio.wait_for(Guard(answer, PAGE)(scope, never, send), 10))  # type: ignore[arg-type]
    assert sent[0]["status"] == 408 and (b"connection", b"close") in sent[0]["headers"]


@pytest.mark.parametrize("started", [False, True])
def test_a_server_that_ends_answers_every_request(started: bool) -> None:
    """uvicorn cancels the requests that go on, and would log a traceback for each."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if started:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    async def end() -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b""}
        call = Guard(app, PAGE)(scope | {"headers": [(b"host", LOCAL.encode())]}, None, send)  # type: ignore[arg-type]
        request = asyncio.create_task(call)
        await asyncio.sleep(0.01)
        request.cancel()
        await request

    asyncio.run(end())
    assert sent[0]["status"] == (200 if started else 503) and not sent[-1].get("more_body", False)


NUMBERS = [1, 2, 3, "0", True, 0.0, [0], None, -1, 2**70]


@pytest.mark.parametrize("number", [0, *NUMBERS], ids=repr)
@pytest.mark.parametrize("path", [JOIN, guard.PREDICT])
def test_an_event_without_a_function_or_of_another_route_is_refused(path: str, number: Any) -> None:
    body = json.dumps({"fn_index": number, "data": [], "session_hash": "a"}).encode()
    there = type(number) is int and number == (0 if path == JOIN else 2)
    assert refusal(path, "POST", body)[0] == (200 if there else 404)


@pytest.mark.parametrize("session", [None, "", 7, ["a"], "x" * 65, "a b", "\ud800"], ids=repr)
def test_an_event_of_no_session_is_refused(session: Any) -> None:
    body = json.dumps({"fn_index": 0, "data": [], "session_hash": session}).encode()
    assert refusal(JOIN, "POST", body)[0] == 422


def test_fields_that_no_page_sends_are_dropped() -> None:
    event = {"fn_index": 0, "data": [1], "session_hash": "a", "event_data": None, "trigger_id": 1}
    body = json.dumps(event | {"batched": True, "event_id": "x", "oauth_token": "y", "simple_format": True}).encode()
    assert json.loads(answer(JOIN, "POST", body).json()["body"]) == event


@pytest.mark.parametrize("body", [b"not json", b"[" * 10_000, b"\xff"], ids=["words", "deep", "bytes"])
def test_an_event_that_is_no_json_is_refused(body: bytes) -> None:
    assert refusal(JOIN, "POST", body)[0] == 400


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_error_of_a_route_is_a_sentence(method: str) -> None:
    error = OSError(28, "No space left on device", "/tmp/secret/a.png")
    path = CANCEL if method == "POST" else INFO
    status, sentence = refusal(path, method, error=error)
    assert status == (400 if method == "POST" else 500)
    assert sentence.endswith(".") or "No space left" in sentence
    assert "secret" not in sentence


def test_a_name_that_no_file_can_have_is_not_found(caplog) -> None:
    error = OSError(errno.ENAMETOOLONG, "File name too long", "/secret/a")
    assert refusal("/static/a", error=error)[0] == 404
    assert caplog.text == ""


def test_no_path_sends_control_characters_to_the_log(caplog) -> None:
    refusal("/static/%1b[2J", error=ValueError("x"))
    assert "[2J" in caplog.text and "\x1b" not in caplog.text


def test_a_refused_event_that_does_not_queue_is_the_callers_fault() -> None:
    body = json.dumps({"fn_index": 2, "data": [], "session_hash": "a"}).encode()
    assert answer(guard.PREDICT, "POST", body, status=500).status_code == 400  # gradio's status of every refusal


def test_the_address_to_listen_to_is_a_name_of_the_server(monkeypatch) -> None:
    settings: dict[str, Any] = {}
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(hosts=("a.example",)))
    monkeypatch.setattr(gr.Blocks, "launch", lambda self, **options: settings.update(options))
    page = gr.Blocks(analytics_enabled=False)
    launch(page, server_name="Box.local")
    assert settings["app_kwargs"]["middleware"] == [(Guard, (page, ("a.example", "box.local")), {})]
    assert (settings["enable_monitoring"], settings["app_kwargs"]["openapi_url"]) == (False, None)
