"""Looks at every request before gradio does: that it names no address to fetch, and at the size and depth of JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from demo.core import limits

MOST_BYTES = 2_000_000
"""Of one request's JSON. Pictures come as uploads, which gradio limits by themselves."""
DEEPEST = 64
MOST_FILES = 4
"""In one upload, of the largest size allowed."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Refused(Exception):
    """The sentence for whoever sent it, and the HTTP status."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Guard:
    """ASGI middleware. What it refuses is answered with a status and one sentence as JSON: {"detail": "..."}."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if "://" in scope["path"]:  # decoded by the server; gradio would fetch /gradio_api/file=https://... itself
            await _answer(Refused(403, "This server fetches nothing from an address."), send)
            return
        if scope["method"] not in ("POST", "PUT", "PATCH"):
            await self._app(scope, receive, send)
            return
        if _is_upload(scope):
            await self._app(scope, _at_most(limits.current().file_bytes * MOST_FILES + MOST_BYTES, receive), send)
            return
        try:
            body = await _body(receive)
            if body is None:
                return
            await asyncio.to_thread(check, body)  # the page goes on answering others meanwhile
        except Refused as refused:
            await _answer(refused, send)
            return
        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)


def check(body: bytes) -> None:
    """Raises Refused for what is no strict JSON, is nested too deep, or lets a file's path be an address."""
    if not body:
        return
    try:
        waiting = [(json.loads(body, parse_constant=_no_number), 1)]
    except (ValueError, RecursionError):
        raise Refused(400, "The request is no JSON that can be read: NaN and infinity are none, either.") from None
    while waiting:
        part, depth = waiting.pop()
        if depth > DEEPEST:
            raise Refused(400, f"The request's JSON is nested more than {DEEPEST} deep.")
        if isinstance(part, dict):
            path = part.get("path")
            if isinstance(path, str) and "://" in path:
                raise Refused(400, "A picture is uploaded, not fetched from an address.")
            waiting += ((value, depth + 1) for value in part.values())
        elif isinstance(part, list):
            waiting += ((value, depth + 1) for value in part)


async def _answer(refused: Refused, send: Send) -> None:
    answer = json.dumps({"detail": str(refused)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def _no_number(name: str) -> Any:
    raise ValueError(name)


def _is_upload(scope: Message) -> bool:
    """A form of several parts: gradio reads it piece by piece, limits each file of it, and takes it for no JSON."""
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    return len(kinds) == 1 and kinds[0].startswith(b"multipart/form-data")


def _at_most(most: int, receive: Receive) -> Receive:
    """The same, but the client seems to have left once it has sent so many bytes."""
    heard = 0

    async def counted() -> Message:
        nonlocal heard
        message = await receive()
        heard += len(message.get("body", b""))
        return message if heard <= most else {"type": "http.disconnect"}

    return counted


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None where the client left. Raises Refused where it is too long."""
    pieces = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces += message.get("body", b"")
        if len(pieces) > MOST_BYTES:
            raise Refused(413, f"The request is longer than {MOST_BYTES // 1_000_000} MB.")
        if not message.get("more_body"):
            return bytes(pieces)
