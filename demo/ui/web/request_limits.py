"""Checks every request before gradio reads it.

Covered: the server's name, the site that a request comes from, the routes (all three by `allowed_routes`);
the size, depth and strictness of its JSON; addresses in place of uploaded files; calls of events and arguments that do
not exist, and values that the page's fields do not send; the total size of an upload. An unexpected error of a route
becomes a sentence, and a traceback in the log.

Not covered: who sends a request, as there is no log-in; the rate of requests; the size of each uploaded file, which
gradio limits; what a picture holds, which the worker reads; a visitor's share of the queue, which `jobs.queue` limits.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import HTTPException as Refused
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from gradio import Blocks
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from demo.core import limits
from demo.ui.web import allowed_routes
from demo.ui.web.calls import arguments, misfit, no_room
from demo.ui.web.gradio_workarounds import drop_page_parameter, has_answer

_log = logging.getLogger(__name__)

MAX_BYTES = 2_000_000
"""The JSON of one request. Pictures are uploaded, and gradio limits their size."""
MAX_DEPTH = 64
UPLOAD = "/gradio_api/upload"
MAX_FILES = 4
"""Files of the largest allowed size in one upload."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Guard:
    """ASGI middleware. A refused request is answered with a status and a sentence as JSON: {"detail": "..."}.

    `page` is what is served; `names` are the server's names besides `localhost` and its addresses.
    """

    def __init__(
        self, app: Callable[[Message, Receive, Send], Awaitable[None]], page: Blocks, names: tuple[str, ...] = ()
    ) -> None:
        self._app = app
        self._page = page
        self._names = names
        self._space = limits.on_space()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
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
            path = _path(scope)
            self._let_in(scope, path)
            await self._app(scope, await self._checked(scope, path, receive), answering)
        except Exception as error:
            if not begun:
                refused = error if isinstance(error, Refused) else _refused(error, scope)
                await JSONResponse({"detail": refused.detail}, refused.status_code)(scope, receive, send)
            elif isinstance(error.__cause__, Refused):  # gradio has sent it in its stream of events
                await send({"type": "http.response.body", "body": b""})
            else:
                raise

    def _let_in(self, scope: Message, path: str) -> None:
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
        if called := re.fullmatch(r"/gradio_api/call/(?:v2/)?([^/]+)(?:/([^/]+))?/?", path):
            endpoints = [f"/{name}" for name in arguments(self._page)]
            if f"/{called[1]}" not in endpoints:
                raise Refused(404, f"There is no endpoint {called[1][:80]!r}. There are {', '.join(endpoints)}.")
            if called[2] and not has_answer(self._page, called[2]):
                raise Refused(
                    404, f"No result waits under {called[2][:80]!r}: each is given once, for the id of a call."
                )

    async def _checked(self, scope: Message, path: str, receive: Receive) -> Receive:
        """What gradio is to read the request's body from. Raises Refused where it may not read it."""
        if path == "/":
            drop_page_parameter(scope)
        if scope["method"] != "POST":
            return receive
        if path == UPLOAD:  # gradio reads it in pieces and limits each file of it
            return _at_most(limits.current().file_bytes * MAX_FILES + MAX_BYTES, receive)
        body = bytearray()
        async for piece in Request(scope, receive).stream():
            body += piece
            if len(body) > MAX_BYTES:
                raise Refused(413, f"The request is longer than {MAX_BYTES // 1_000_000} MB.")
        asked = await asyncio.to_thread(check, bytes(body))  # the page goes on answering others meanwhile
        self._fits(path, asked)
        waiting: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        return again

    def _fits(self, path: str, asked: Any) -> None:
        """Raises Refused for a call of an event or argument that does not exist: gradio's routes fail on it."""
        if not isinstance(asked, dict):
            return  # gradio refuses it: see `unreadable`
        if named := re.fullmatch(r"/gradio_api/call/v2/([^/]+)/?", path):
            takes = arguments(self._page)[named[1]]
            unknown = [name for name in asked if name not in (*takes, "oauth_token")]  # which gradio would ignore
            if unknown:
                raise Refused(400, f"/{named[1]} takes no argument {unknown[0][:80]!r}. It takes {', '.join(takes)}.")
        if path in ("/gradio_api/queue/join", "/gradio_api/run/predict"):
            try:
                event = self._page.fns.get(int(asked["fn_index"]))
            except (KeyError, TypeError, ValueError, OverflowError):
                if path == "/gradio_api/queue/join":
                    return  # it has a sentence for that
                event = None
            if event is None or event.fn is None:  # some events are the browser's alone
                given = str(asked.get("fn_index"))[:80]
                raise Refused(
                    404, f"The page has no event {given}. Reload it: it may have changed since it was opened."
                )
            if reason := misfit(event, asked):
                _log.warning("a call of %s was refused: its values do not fit", event.name)
                raise Refused(400, reason)


async def unreadable(_: Any, error: Exception) -> JSONResponse:
    """The answer to a body or query with fields that a route does not have, instead of pydantic's list."""
    problems = error.errors() if isinstance(error, RequestValidationError) else []
    reasons = [f"{'.'.join(str(part) for part in each['loc'])}: {each['msg']}" for each in problems]
    sentence = f"The request does not fit: {'; '.join(reasons)[:400]}."
    if any(each["loc"][:2] == ("body", "data") or each["loc"] == ("body",) for each in problems):
        sentence += (
            ' A call holds its values in order, {"data": [...]}; /gradio_api/call/v2/NAME takes them by name, '
            '{"batch_size": 4}.'
        )
    return JSONResponse({"detail": sentence}, 422)


def check(body: bytes) -> Any:
    """The JSON of a body; None if empty. Raises Refused if it is not strict or too deep, has an address as a path, or
    holds half a character."""
    if not body:
        return None
    try:
        asked = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise Refused(400, "The request is no JSON that can be read: NaN and infinity are none, either.") from None
    waiting = [(asked, 1)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise Refused(400, f"The request's JSON is nested more than {MAX_DEPTH} deep.")
        if isinstance(part, dict):
            path = part.get("path")
            if isinstance(path, str) and "://" in path:
                raise Refused(400, "A picture is uploaded, not fetched from an address.")
            waiting += ((value, depth + 1) for value in part.values())
            waiting += ((name, depth) for name in part)
        elif isinstance(part, list):
            waiting += ((value, depth + 1) for value in part)
        elif isinstance(part, str):
            try:
                part.encode()
            except UnicodeEncodeError:
                raise Refused(400, "A text of the request holds half a character (a lone surrogate).") from None
    return asked


def _refused(error: Exception, scope: Message) -> Refused:
    """The answer to an error that a route of gradio raised."""
    if isinstance(error, ClientDisconnect):  # also after `_at_most`
        return Refused(413, f"The upload ended early, or is longer than {MAX_FILES} files of the largest size.")
    if sentence := no_room(error):
        _log.warning("%s: %s", scope["path"][:80], error.strerror if isinstance(error, OSError) else error)
        return Refused(507, sentence)
    if _path(scope) == UPLOAD:
        return Refused(400, 'The upload could not be read. Send each picture as a file, in a part named "files".')
    _log.error("a request failed: %s", scope["path"][:80], exc_info=error)
    return Refused(500, "The server met an error that it did not expect; it is in its log.")


def _path(scope: Message) -> str:
    """The path as the router sees it, without the root under which the app is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return (path[len(root) :] or "/") if root and f"{path}/".startswith(f"{root}/") else path


def _no_number(name: str) -> Any:
    raise ValueError(name)


def _at_most(most: int, receive: Receive) -> Receive:
    """A `receive` to which the client seems to have left after `most` bytes."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        return message if received <= most else {"type": "http.disconnect"}

    return counted
