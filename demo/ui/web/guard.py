"""Checks every request before gradio reads it.

Refused are routes of gradio that this page does not use; DNS rebinding, by the `Host` header; requests of another
site's page, by `Origin` and `Sec-Fetch-Site`, which all current browsers send; its frames; JSON that is too large, too
deep or not strict; addresses in place of uploaded files; events that have no function. An error of gradio's routes
becomes a sentence.

Not covered: who sends a request, as there is no log-in; programs that are no browser, which can send any header; the
rate of requests; the size of each upload, which gradio limits, and their number.
"""

import asyncio
import errno
import ipaddress
import json
import logging
import re
from collections.abc import Collection
from typing import Any

from fastapi import HTTPException as Refused
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from gradio import Blocks
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.routing import compile_path  # gradio's own router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demo.core import format as fmt, limits
from demo.core.codec import shown
from demo.core.files import NO_ROOM

_log = logging.getLogger(__name__)

MAX_BYTES = 2_000_000
"""The JSON of one request. Pictures are uploaded, and gradio limits their size."""
MAX_DEPTH = 64
MAX_PARTS = 50_000
"""Commas and brackets of that JSON. 600 000 take 0.3 s to read; a prompt may have 20 000."""
UPLOAD, JOIN = "/gradio_api/upload", "/gradio_api/queue/join"
PREDICT = "/gradio_api/run/predict"
"""For events that do not queue, such as Cancel."""
NO_FILES = {errno.EMFILE, errno.ENFILE}

MCP = ("/gradio_api/mcp", "/gradio_api/mcp/", "/gradio_api/mcp/http", "/gradio_api/mcp/http/")
"""These, `schema`, `sse` and `messages` exist with --mcp only."""
ROUTES = {
    "GET": (
        "/",
        "/config",
        "/theme.css",
        "/favicon.ico",
        "/manifest.json",
        "/robots.txt",
        "/static/{path:path}",
        "/assets/{path:path}",
        "/gradio_api/info",
        "/gradio_api/app_id",  # a page whose connection was lost asks whether it is still the same server
        "/gradio_api/startup-events",  # gradio asks it of itself when it starts
        "/gradio_api/heartbeat/{session_hash}",
        "/gradio_api/queue/data",
        "/gradio_api/upload_progress",
        "/gradio_api/file={path_or_url:path}",
        "/gradio_api/call/{api_name}/{event_id}",
        "/gradio_api/call/v2/{api_name}/{event_id}",
        *(*MCP, "/gradio_api/mcp/schema", "/gradio_api/mcp/sse"),
    ),
    "HEAD": ("/", "/gradio_api/file={path_or_url:path}"),
    "POST": (
        *(UPLOAD, JOIN, PREDICT),
        "/gradio_api/cancel",
        "/gradio_api/reset",
        "/gradio_api/call/{api_name}",
        "/gradio_api/call/{api_name}/",
        "/gradio_api/call/v2/{api_name}",
        "/gradio_api/call/v2/{api_name}/",
        *(*MCP, "/gradio_api/mcp/messages/"),
    ),
    "DELETE": MCP,
}
"""By method, in gradio's notation."""
_OPEN = [(method, compile_path(route)[0]) for method, routes in ROUTES.items() for route in routes]
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/@\s]+?)\.?)(?::\d*)?", re.IGNORECASE)
HUGGING_FACE = (".hf.space", ".huggingface.tech")
"""Ends of the names by which browsers and the proxy ask a Space. Only Hugging Face gives out such names."""


class Guard:
    """ASGI middleware. A refused request is answered with a status and a sentence as JSON: {"detail": "..."}."""

    def __init__(self, app: ASGIApp, page: Blocks, names: tuple[str, ...] = ()) -> None:
        """`names` are the server's besides `localhost` and its addresses."""
        self._app = app
        self._page = page
        self._names = names
        self._space = limits.on_space()
        hugging_face = " https://huggingface.co https://*.hf.space" if self._space else ""
        self._frames = f"frame-ancestors 'self'{hugging_face}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # gradio has no websocket
            await send({"type": "websocket.close"})
            return
        begun = False

        async def answering(message: Message) -> None:
            nonlocal begun
            begun = True
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"content-security-policy", self._frames)]
                if path == PREDICT and message["status"] == 500:  # gradio's for values that do not fit
                    message["status"] = 400
            await send(message)

        path = path_of(scope)
        try:
            self._let_in(scope, path)
            if path == "/gradio_api/mcp":  # gradio would redirect to its own address, not to that of a proxy
                scope = {**scope, "path": f"{scope['path']}/"}
            if scope["method"] == "POST" and path != UPLOAD:  # which gradio reads in pieces
                receive = await _checked(scope, receive, self._page)
            await self._app(scope, receive, answering)
        except Exception as error:
            if not begun:
                refused = error if isinstance(error, Refused) else _refused(error, scope)
                await JSONResponse({"detail": refused.detail}, refused.status_code)(scope, receive, answering)
            else:  # gradio has sent it in its stream of events, or a second stream has ended this one
                _log.warning("an answer broke off: %s: %s", path[:80], type(error).__name__)
                await send({"type": "http.response.body", "body": b""})

    def _let_in(self, scope: Scope, path: str) -> None:
        """Raises Refused for a wrong name of the server, a request of another site, and an unused route."""
        headers = Headers(scope=scope)
        # gradio builds the addresses in its answers from X-Forwarded-Host
        forwarded = ",".join(headers.getlist("x-forwarded-host")).split(",")
        hosts = [*headers.getlist("host"), *(part.strip() for part in forwarded if part.strip())]
        for host in hosts:
            if not is_ours(host, self._names, self._space):
                raise Refused(
                    403,
                    f"This server does not go by the name {host[:80]!r}. Open it as localhost or by its address, "
                    f"or have its owner add the name to {limits.HOSTS_VARIABLE}.",
                )
        if "://" in scope["path"]:  # decoded by the server; gradio would fetch /gradio_api/file=https://... itself
            raise Refused(403, "This server fetches nothing from an address.")
        if scope["method"] not in ("GET", "HEAD"):
            origins = headers.getlist("origin")
            foreign = [one for one in origins if is_foreign(one, hosts, limits.current().hosts)]
            if foreign or (not origins and headers.get("sec-fetch-site", "none") not in ("same-origin", "none")):
                raise Refused(
                    403,
                    f"A page of another site ({(foreign or ['unnamed'])[0][:80]}) may not send requests to this one, "
                    f"unless its name is in {limits.HOSTS_VARIABLE}.",
                )
        if not any(scope["method"] == method and route.match(path) for method, route in _OPEN):
            raise Refused(404, f"There is nothing at {path[:80]!r} for {scope['method'][:10]}.")
        if called := re.match(r"/gradio_api/call/(?:v2/)?([^/]+)", path):
            endpoints = [str(fn.api_name) for fn in self._page.fns.values() if fn.api_visibility == "public"]
            if called[1] not in endpoints:
                known = ", ".join(f"/{name}" for name in endpoints)
                raise Refused(404, f"There is no endpoint {called[1][:80]!r}. There are {known}.")


def is_ours(host: str, names: Collection[str], space: bool = False) -> bool:
    """Whether a `Host` header names this server: localhost, one of `names`, or any literal address, which DNS rebinding
    never sends."""
    name = _name(host)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name in names or (space and name.endswith(HUGGING_FACE))
    return True


def is_foreign(origin: str, hosts: Collection[str], names: Collection[str]) -> bool:
    """Whether an `Origin` header names a site other than the server asked (`hosts`) and `names` at the usual ports."""
    place = origin.partition("://")[2].lower()
    if place and place in (host.lower() for host in hosts):
        return False
    name = re.sub(":(80|443)$", "", place)
    revision = re.fullmatch(r"(.+?)--.+(\.hf\.space)", name)  # another revision of the same Space
    return name not in names and (revision is None or "".join(revision.groups()) not in names)


def _name(host: str) -> str:
    """Without port, brackets and final dot; '' if it is not a host."""
    parts = _HOST.fullmatch(host)
    return (parts[1] or parts[2]).lower() if parts else ""


async def _checked(scope: Scope, receive: Receive, page: Blocks) -> Receive:
    """Returns what gradio reads the request's body from. Raises Refused for a body that it may not read."""
    body = bytearray()
    async for piece in Request(scope, receive).stream():
        body += piece
        if len(body) > MAX_BYTES:
            raise Refused(413, f"The request is longer than {MAX_BYTES // 1_000_000} MB.")
    asked = await asyncio.to_thread(check, bytes(body))  # the page goes on answering others meanwhile
    if (path := path_of(scope)) in (JOIN, PREDICT) and isinstance(asked, dict):
        number = asked.get("fn_index")
        event = page.fns.get(number) if type(number) is int else None
        if event is None or event.fn is None or event.queue is not (path == JOIN):
            raise Refused(404, f"There is no event {shown(number)} at {path}. Most events join the queue.")
    waiting: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def check(body: bytes) -> Any:
    """Returns a body's JSON. Raises Refused if it is not strict, too large or too deep, or has an address as a path."""
    if not body:
        return None
    if sum(body.count(sign) for sign in (b",", b"[", b"{")) > MAX_PARTS:
        raise Refused(413, f"The request's JSON has more than {MAX_PARTS} commas and brackets.")
    try:
        asked = json.loads(body)
        json.dumps(asked, allow_nan=False, ensure_ascii=False).encode()  # refuses NaN, infinity and half characters
    except (ValueError, RecursionError):
        raise Refused(400, "The request is no JSON that can be read: NaN and infinity are none, either.") from None
    level, depth = [asked], 0
    while level:
        if (depth := depth + 1) > MAX_DEPTH + 1:
            raise Refused(400, f"The request's JSON is nested more than {MAX_DEPTH} deep.")
        dicts = [part for part in level if isinstance(part, dict)]
        if any("://" in str(part.get("path")) for part in dicts):
            raise Refused(400, "A picture is uploaded, not fetched from an address.")
        lists = [part for part in level if isinstance(part, list)]
        level = [value for part in (*(one.values() for one in dicts), *lists) for value in part]
    return asked


async def unreadable(_: Any, error: RequestValidationError) -> JSONResponse:
    """The answer to a body or query with fields that a route does not have, instead of pydantic's list."""
    reasons = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return JSONResponse({"detail": f"The request does not fit: {'; '.join(reasons)[:400]}."}, 422)


def _refused(error: Exception, scope: Scope) -> Refused:
    """The answer to an error of a route. After a POST the call did not fit: what a handler raises, gradio answers."""
    if isinstance(error, ClientDisconnect):
        return Refused(400, "The request ended early.")
    if sentence := no_room(error):
        _log.warning("%s: %s", scope["path"][:80], sentence)
        return Refused(507, sentence)
    if scope["method"] == "POST":
        _log.warning("a request was refused: %s: %s", scope["path"][:80], type(error).__name__)
        return Refused(400, f"The request does not fit: {fmt.redact(str(error))[:300]}")
    _log.error("a request failed: %s", scope["path"][:80], exc_info=error)
    return Refused(500, "The server met an error that it did not expect; it is in its log.")


def no_room(error: BaseException) -> str | None:
    """A sentence for an error of a full disk or of too many open files; None for any other error."""
    if not isinstance(error, OSError):
        return None
    if error.errno in NO_ROOM:
        return "The server's disk for temporary files is full, so it cannot take a picture. Try again later."
    if error.errno in NO_FILES:
        return "The server has as many files and connections open as it may. Try again in a minute."
    return None


def path_of(scope: Scope) -> str:
    """The path as the router sees it, without the root under which the app is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return (path[len(root) :] or "/") if root and f"{path}/".startswith(f"{root}/") else path
