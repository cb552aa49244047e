"""Checks every request before gradio reads it.

Covered: the server's name, the site that a request comes from, the routes (all three by `allowed_routes`); the size,
depth and strictness of its JSON; addresses in place of uploaded files. An error of gradio's routes becomes a sentence.

Not covered: who sends a request, as there is no log-in; the rate of requests; the size of each uploaded file, which
gradio limits, and their number; what a picture holds, which the worker reads; a visitor's share of the queue, which
`ui/jobs.py` limits.
"""

import asyncio
import errno
import json
import logging
import re
from typing import Any

from fastapi import HTTPException as Refused
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from gradio import Blocks
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demo.core import format as fmt
from demo.core import limits
from demo.core.errors import NO_ROOM
from demo.ui.web import allowed_routes

_log = logging.getLogger(__name__)

MAX_BYTES = 2_000_000
"""The JSON of one request. Pictures are uploaded, and gradio limits their size."""
MAX_DEPTH = 64
UPLOAD = "/gradio_api/upload"
NO_FILES = {errno.EMFILE, errno.ENFILE}


class Guard:
    """ASGI middleware. A refused request is answered with a status and a sentence as JSON: {"detail": "..."}.

    `page` is what is served; `names` are the server's names besides `localhost` and its addresses.
    """

    def __init__(self, app: ASGIApp, page: Blocks, names: tuple[str, ...] = ()) -> None:
        self._app = app
        self._page = page
        self._names = names
        self._space = limits.on_space()

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
            await send(message)

        try:
            path = path_of(scope)
            self._let_in(scope, path)
            if scope["method"] == "POST" and path != UPLOAD:  # which gradio reads in pieces
                receive = await _checked(scope, receive)
            await self._app(scope, receive, answering)
        except Exception as error:
            if not begun:
                refused = error if isinstance(error, Refused) else _refused(error, scope)
                await JSONResponse({"detail": refused.detail}, refused.status_code)(scope, receive, send)
            elif isinstance(error.__cause__, Refused):  # gradio has sent it in its stream of events
                await send({"type": "http.response.body", "body": b""})
            else:
                raise

    def _let_in(self, scope: Scope, path: str) -> None:
        """Raises Refused for a wrong name of the server, a request of another site, and an unused route."""
        headers = Headers(scope=scope)
        # gradio builds the addresses in its answers from X-Forwarded-Host
        forwarded = ",".join(headers.getlist("x-forwarded-host")).split(",")
        for host in (*headers.getlist("host"), *(part.strip() for part in forwarded if part.strip())):
            if not allowed_routes.is_ours(host, self._names, self._space):
                raise Refused(
                    403,
                    f"This server does not go by the name {host[:80]!r}. Open it as localhost or by its address, "
                    f"or have its owner add the name to {limits.HOSTS_VARIABLE}.",
                )
        if "://" in scope["path"]:  # decoded by the server; gradio would fetch /gradio_api/file=https://... itself
            raise Refused(403, "This server fetches nothing from an address.")
        if scope["method"] not in ("GET", "HEAD"):
            origins = headers.getlist("origin")
            foreign = [one for one in origins if allowed_routes.is_foreign(one, headers.get("host", ""), self._names)]
            if foreign or (not origins and headers.get("sec-fetch-site", "none") not in ("same-origin", "none")):
                raise Refused(
                    403,
                    f"A page of another site ({(foreign or ['unnamed'])[0][:80]}) may not send requests to this one, "
                    f"unless its name is in {limits.HOSTS_VARIABLE}.",
                )
        if not allowed_routes.is_open(scope["method"], path):
            raise Refused(404, f"There is nothing at {path[:80]!r} for {scope['method'][:10]}.")
        if called := re.match(r"/gradio_api/call/(?:v2/)?([^/]+)", path):
            endpoints = [str(fn.api_name) for fn in self._page.fns.values() if fn.api_visibility == "public"]
            if called[1] not in endpoints:
                known = ", ".join(f"/{name}" for name in endpoints)
                raise Refused(404, f"There is no endpoint {called[1][:80]!r}. There are {known}.")


async def _checked(scope: Scope, receive: Receive) -> Receive:
    """What gradio is to read the request's body from. Raises Refused where it may not read it."""
    body = bytearray()
    async for piece in Request(scope, receive).stream():
        body += piece
        if len(body) > MAX_BYTES:
            raise Refused(413, f"The request is longer than {MAX_BYTES // 1_000_000} MB.")
    await asyncio.to_thread(check, bytes(body))  # the page goes on answering others meanwhile
    waiting: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def check(body: bytes) -> None:
    """Raises Refused where a body is not strict JSON, is too deep, or has an address as a path."""
    if not body:
        return
    try:
        asked = json.loads(body)
        json.dumps(asked, allow_nan=False, ensure_ascii=False).encode()  # refuses NaN, infinity and half characters
    except (ValueError, RecursionError):
        raise Refused(400, "The request is no JSON that can be read: NaN and infinity are none, either.") from None
    waiting = [(asked, 1)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise Refused(400, f"The request's JSON is nested more than {MAX_DEPTH} deep.")
        if isinstance(part, dict):
            if "://" in str(part.get("path")):
                raise Refused(400, "A picture is uploaded, not fetched from an address.")
            waiting += ((value, depth + 1) for value in part.values())
        elif isinstance(part, list):
            waiting += ((value, depth + 1) for value in part)


async def unreadable(_: Any, error: RequestValidationError) -> JSONResponse:
    """The answer to a body or query with fields that a route does not have, instead of pydantic's list."""
    reasons = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    return JSONResponse({"detail": f"The request does not fit: {'; '.join(reasons)[:400]}."}, 422)


def _refused(error: Exception, scope: Scope) -> Refused:
    """The answer to an error that a route of gradio raised. After a POST it says that a call does not fit: what a
    handler raises, gradio answers itself."""
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
