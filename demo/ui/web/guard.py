"""Checks each request before gradio reads it.

Refused are:

- gradio's routes that nobody needs, and events that the page does not have
- other host names (DNS rebinding)
- requests from pages of other sites, and frames of other sites that show this page
- bodies that are too long, arrive too slowly or have too many parts

Not covered: a Hugging Face Space answers under any name, and to the page of any site. Programs other than browsers can
send any header. Nothing limits the number of requests: put a proxy in front.
"""

import asyncio
import contextlib
import errno
import ipaddress
import json
import logging
import re

from fastapi import HTTPException as Refusal
from fastapi.responses import JSONResponse
from gradio import Blocks
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...core import format as fmt, limits

_log = logging.getLogger(__name__)

MAX_BYTES = 200_000
"""The longest body of a request. Most have some kilobytes. One with the longest prompt, all escaped, has 120 kB."""
MAX_MCP_BYTES = 2_000_000
"""The longest body of a request to an MCP tool, which may contain a picture."""
UPLOAD_EXTRA_BYTES = 2_000_000
"""How many bytes an upload may have in addition to one file of the largest size."""
BODY_SECONDS = 30.0
"""The longest time in which a body may arrive, except for an upload. Until then the app holds what has arrived."""
MAX_PARTS = 20_000
"""The most commas and brackets of a body: reading 600,000 empty lists stops the server for three seconds."""

API = "/gradio_api"
UPLOAD, JOIN, PREDICT, INFO = f"{API}/upload", f"{API}/queue/join", f"{API}/run/predict", f"{API}/info"
MCP = f"{API}/mcp"
PAGE_ROUTES = {
    "GET": (
        *("/", "/theme.css", "/static/{path:path}", "/assets/{path:path}"),
        *(f"{API}/queue/data", f"{API}/upload_progress", f"{API}/file={{path_or_url:path}}"),
    ),
    "POST": (UPLOAD, JOIN, PREDICT),
}
"""The routes that the page uses, in gradio's notation. PREDICT is for events that do not queue, such as Cancel."""
CLIENT_ROUTES = {
    "GET": (
        *("/config", "/favicon.ico", "/manifest.json", "/robots.txt", INFO),
        f"{API}/app_id",  # a page whose connection was lost asks whether this is still the same server
        f"{API}/startup-events",  # gradio asks itself at the start
        *(f"{API}/call/{{api_name}}/{{event_id}}", f"{API}/call/v2/{{api_name}}/{{event_id}}"),
    ),
    "HEAD": ("/", f"{API}/file={{path_or_url:path}}"),
    "POST": (
        *(f"{API}/call/{{api_name}}", f"{API}/call/{{api_name}}/"),
        *(f"{API}/call/v2/{{api_name}}", f"{API}/call/v2/{{api_name}}/"),
        *(f"{API}/cancel", f"{API}/reset"),
    ),
}
"""Further routes, which browsers, gradio's clients, programs and gradio itself use."""
MCP_ROUTES = {
    "GET": (MCP, f"{MCP}/", f"{MCP}/http", f"{MCP}/http/", f"{MCP}/schema", f"{MCP}/sse"),
    "POST": (MCP, f"{MCP}/", f"{MCP}/http", f"{MCP}/http/", f"{MCP}/messages/"),
    "DELETE": (MCP, f"{MCP}/", f"{MCP}/http", f"{MCP}/http/"),
}
"""The routes that exist only with --mcp."""
_ALLOWED = [
    (method, compile_path(route)[0])
    for routes in (PAGE_ROUTES, CLIENT_ROUTES, MCP_ROUTES)
    for method, paths in routes.items()
    for route in paths
]
IGNORED_HEADERS = (b"x-gradio-server", b"range")
"""Headers that gradio does not get. The first is of gradio's own second server, which is not used, and anybody may send
it. Several ranges in the second make gradio fail, and no picture needs a range."""
EVENT_FIELDS = ("data", "event_data", "fn_index", "session_hash", "trigger_id")
"""What a page sends of an event. gradio takes further fields, which no page needs."""


class Guard:
    """ASGI middleware that answers a refused or failed request with JSON: {"detail": "A sentence."}."""

    def __init__(self, app: ASGIApp, page: Blocks, names: tuple[str, ...] = ()) -> None:
        """`names`: host names of this server, in addition to `localhost` and its IP addresses."""
        self._app = app
        self._page = page
        self._names = names
        # on a Space the Hub's page shows this one in a frame
        frames = "'self' https://huggingface.co" if limits.on_space() else "'self'"
        self._headers = (
            (b"content-security-policy", f"frame-ancestors {frames}".encode()),
            (b"x-content-type-options", b"nosniff"),  # an upload named .png may be HTML
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # gradio has no websocket
            await send({"type": "websocket.close"})
            return
        path = path_below_root(scope)
        started, read = False, scope["method"] in ("GET", "HEAD")

        async def hear() -> Message:
            nonlocal read
            message = await receive()
            read = not message.get("more_body", False)
            return message

        async def answer(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":
                if path == PREDICT and message["status"] == 500:  # gradio's status of every refused event
                    message["status"] = 400
                close = () if read else ((b"connection", b"close"),)  # else the server reads the rest of a long body
                message["headers"] = [*message.get("headers", ()), *self._headers, *close]
            await send(message)

        try:
            self._refuse_other_sites(scope, path)
            if not any(method == scope["method"] and route.match(path) for method, route in _ALLOWED):
                raise Refusal(404, f"There is nothing at {path[:80]!r} for {scope['method'][:10]}.")
            self._refuse_private_endpoint(path)
            await self._app(self._as_gradio_needs_it(scope, path), await self._checked(scope, path, hear), answer)
        except (Exception, asyncio.CancelledError) as error:
            if started:  # the client reads a stream of events, which ends here
                _log.warning("an answer broke off: %s: %s", fmt.excerpt(path), type(error).__name__)
                with contextlib.suppress(Exception):
                    await send({"type": "http.response.body", "body": b""})
                return
            refusal = _refusal(error, scope)
            await JSONResponse({"detail": refusal.detail}, refusal.status_code)(scope, receive, answer)

    def _refuse_other_sites(self, scope: Scope, path: str) -> None:
        """Raises Refusal if the request names another host, or if the page of another site sent it."""
        if limits.on_space():
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        # gradio builds addresses of X-Forwarded-Host, which a proxy sets
        forwarded = [host.strip() for host in ",".join(headers.getlist("x-forwarded-host")).split(",") if host.strip()]
        for name in (host, *forwarded):
            # an IP address as the host is safe: DNS rebinding needs a name
            if _name(name) not in ("localhost", *self._names) and not _is_address(name):
                raise Refusal(
                    403,
                    f"This server does not go by the name {name[:80]!r}. Open it as localhost or by its address, "
                    f"or have its owner add the name to {limits.HOSTS_VARIABLE}.",
                )
        origin = headers.get("origin", "")
        site = origin.partition("://")[2].lower()
        # a link on another site may lead to the page, but its scripts may not read what is below /gradio_api
        is_link = scope["method"] in ("GET", "HEAD") and not path.startswith(API)
        if "origin" in headers and not is_link and site != host.lower() and _name(site) not in limits.current().hosts:
            raise Refusal(
                403,
                f"A page of another site ({origin[:80]}) may not send requests to this one, "
                f"unless its name is in {limits.HOSTS_VARIABLE}.",
            )

    def _refuse_private_endpoint(self, path: str) -> None:
        """Raises Refusal if the request calls an endpoint that is not public.

        Such a call would skip the checks that an event of the page gets.
        """
        if called := re.match(rf"{API}/call/(?:v2/)?([^/]+)", path):
            names = [str(event.api_name) for event in self._page.fns.values() if event.api_visibility == "public"]
            if called[1] not in names:
                known = ", ".join(f"/{name}" for name in names)
                raise Refusal(404, f"There is no endpoint {called[1][:80]!r}. There are {known}.")

    def _as_gradio_needs_it(self, scope: Scope, path: str) -> Scope:
        """Returns the request's scope, with changes to headers, path and query that gradio would misread."""
        headers = [pair for pair in scope["headers"] if pair[0] not in IGNORED_HEADERS]
        scope = {**scope, "headers": headers}
        if path in (MCP, f"{MCP}/http"):  # gradio redirects it to an address without a proxy's path
            scope["path"] += "/"
        if path == INFO and b"page=" not in scope["query_string"]:
            # without a page gradio keeps the answer, and with it the first caller's host, for all others
            scope["query_string"] = b"&".join(part for part in (scope["query_string"], b"page=") if part)
        return scope

    async def _checked(self, scope: Scope, path: str, receive: Receive) -> Receive:
        """Returns the function from which gradio reads the request's body, in place of `receive`.

        Raises Refusal if the body is too long, arrives too slowly, is invalid, or asks for no event of the page. The
        body of an upload is counted while gradio reads it: the returned function raises Refusal if it is too long.
        """
        if scope["method"] in ("GET", "HEAD"):
            return receive
        if path == UPLOAD:
            most = limits.current().file_bytes + UPLOAD_EXTRA_BYTES
            _refuse_long(int(Headers(scope=scope).get("content-length", 0)), most)
            size = 0

            async def counted() -> Message:
                nonlocal size
                message = await receive()
                size += len(message.get("body", b""))
                _refuse_long(size, most)
                return message

            return counted
        over_mcp = path.startswith(MCP)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read(receive, MAX_MCP_BYTES if over_mcp else MAX_BYTES)
        except TimeoutError:
            raise Refusal(408, f"The request did not arrive within {BODY_SECONDS:.0f} s.") from None
        if sum(map(body.count, (b",", b"[", b"{"))) > MAX_PARTS:
            raise Refusal(413, f"The request has more than {MAX_PARTS:,} commas and brackets.")
        if path in (JOIN, PREDICT):
            body = self._event(body, path)
        elif over_mcp and scope["method"] == "POST":  # its library answers 500, with a traceback in the log
            _parse(body)
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def read() -> Message:
            return messages.pop() if messages else await receive()

        return read

    def _event(self, body: bytes, path: str) -> bytes:
        """Returns the JSON `body` of an event with only the fields that pages send.

        Raises Refusal if the page has no such event at `path`, or if the name of the session is invalid.
        """
        fields = _parse(body)
        fields = fields if isinstance(fields, dict) else {}
        number, session = fields.get("fn_index"), fields.get("session_hash")
        event = self._page.fns.get(number) if type(number) is int else None
        if event is None or event.fn is None or event.queue is not (path == JOIN):
            raise Refusal(404, f"There is no event {fmt.excerpt(number)} at {path}.")
        if not isinstance(session, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", session):
            raise Refusal(422, "session_hash must be 1 to 64 letters, digits, _ or -.")
        return json.dumps({name: fields[name] for name in EVENT_FIELDS if name in fields}).encode()


async def _read(receive: Receive, most: int) -> bytes:
    """Returns the whole body of a request.

    Raises Refusal if it is longer than `most` bytes, ClientDisconnect if the client leaves.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        _refuse_long(len(body), most)
        if not message.get("more_body", False):
            return bytes(body)


def _parse(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, "The request is no JSON that can be read.") from None


def _refuse_long(size: int, most: int) -> None:
    if size > most:
        raise Refusal(413, f"The request is longer than {most / 1e6:g} MB.")


def _refusal(error: BaseException, scope: Scope) -> Refusal:
    """Returns the answer to an error. An unexpected error is logged: of a GET with its traceback, else in one line."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, asyncio.CancelledError):
        return Refusal(503, "The server ends. Try again when it runs again.")
    if isinstance(error, ClientDisconnect):
        return Refusal(400, "The request ended early.")
    if getattr(error, "errno", None) == errno.ENAMETOOLONG:
        return Refusal(404, "There is no file of this name: it is too long.")
    if scope["method"] == "GET":
        _log.error("a request failed: %s", fmt.excerpt(scope["path"]), exc_info=error)
        return Refusal(500, "The server met an error that it did not expect; it is in its log.")
    _log.warning("a request was refused: %s: %s", fmt.excerpt(scope["path"]), type(error).__name__)
    words = f"{type(error).__name__}: {fmt.redact(str(error))[:300]}"
    return Refusal(400, f"The server cannot take this request. {words}")


def path_below_root(scope: Scope) -> str:
    """Returns the path of the request without the root path of a proxy."""
    path, root = str(scope["path"]), str(scope.get("root_path", "")).rstrip("/")
    return (path[len(root) :] or "/") if root and f"{path}/".startswith(f"{root}/") else path


def _name(host: str) -> str:
    """Returns a host in lower case without its port."""
    return re.sub(r":\d*$", "", host).lower()


def _is_address(host: str) -> bool:
    name = _name(host)
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name))
    return False
