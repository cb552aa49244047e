"""Keeps pages of other sites from using a visitor's browser to start runs here, and absurd requests from being read.

Refused are DNS rebinding, by the `Host` header; requests of another site's page, by `Origin`, which every browser sends
with them; requests longer than MAX_BYTES. An error of gradio's routes becomes a sentence.

Not covered: a Space, which anybody may use; programs that are no browser, as there is no log-in; a page that shows this
one in a frame; the rate of requests and the number of uploads. Put a reverse proxy in front where that matters.
"""

import ipaddress
import logging
import re
from collections.abc import Collection

from fastapi import HTTPException as Refused
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demo.core import format as fmt, limits

_log = logging.getLogger(__name__)

MAX_BYTES = 2_000_000
"""The body of a request. Pictures are uploaded, and gradio limits the size of each."""
UPLOAD = "/gradio_api/upload"


class Guard:
    """ASGI middleware. A refused request is answered with a status and a sentence as JSON: {"detail": "..."}."""

    def __init__(self, app: ASGIApp, names: tuple[str, ...] = ()) -> None:
        """`names` are the server's besides `localhost` and its addresses."""
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        size = 0

        async def receiving() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MAX_BYTES and not scope["path"].endswith(UPLOAD):
                raise Refused(413, f"The request is longer than {MAX_BYTES // 1_000_000} MB.")
            return message

        try:
            if not limits.on_space():
                _refuse_other_sites(scope, self._names)
            await self._app(scope, receiving, send)
        except Refused as refused:
            await JSONResponse({"detail": refused.detail}, refused.status_code)(scope, receive, send)
        except Exception as error:
            if scope["method"] != "POST":
                raise
            _log.warning("a request was refused: %s: %s", scope["path"][:80], type(error).__name__)
            words = f"{type(error).__name__}: {fmt.redact(str(error))[:300]}"
            await JSONResponse({"detail": f"The server cannot take this request. {words}"}, 400)(scope, receive, send)


def _refuse_other_sites(scope: Scope, names: Collection[str]) -> None:
    """Raises Refused for a wrong name of the server, and for what a page of another site sends."""
    headers = Headers(scope=scope)
    host = headers.get("host", "")
    if not is_ours(host, names):
        raise Refused(
            403,
            f"This server does not go by the name {host[:80]!r}. Open it as localhost or by its address, "
            f"or have its owner add the name to {limits.HOSTS_VARIABLE}.",
        )
    if scope["method"] in ("GET", "HEAD") or "origin" not in headers:
        return
    place = headers["origin"].partition("://")[2]
    if place != host and _name(place) not in limits.current().hosts:
        raise Refused(
            403,
            f"A page of another site ({headers['origin'][:80]}) may not send requests to this one, "
            f"unless its name is in {limits.HOSTS_VARIABLE}.",
        )


def is_ours(host: str, names: Collection[str]) -> bool:
    """Whether a `Host` header names this server: localhost, one of `names`, or any literal address, which DNS rebinding
    never sends."""
    name = _name(host)
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return name == "localhost" or name in names
    return True


def _name(host: str) -> str:
    """A host without its port."""
    return re.sub(r":\d*$", "", host).lower()
