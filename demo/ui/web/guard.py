"""Keeps pages of other sites from using a visitor's browser to start runs here, and absurd requests from being read.

Refused are DNS rebinding, by the `Host` header; requests of another site's page, by `Origin`, which every browser sends
with them; requests longer than MAX_BYTES. An error of gradio's routes becomes a sentence.

Not covered: a Space, which anybody may use; programs that are no browser, as there is no log-in; a page that shows this
one in a frame; the rate of requests and the number of uploads. Put a reverse proxy in front where that matters.
"""

import ipaddress
import logging
import re

from fastapi import HTTPException as Refusal
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demo.core import format as fmt, limits

_log = logging.getLogger(__name__)

MAX_BYTES = 2_000_000
"""The body of a request. Pictures are uploaded, and gradio limits the size of each."""


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

        async def limited_receive() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MAX_BYTES and not scope["path"].endswith("/gradio_api/upload"):
                raise Refusal(413, f"The request is longer than {MAX_BYTES // 1_000_000} MB.")
            return message

        try:
            if not limits.on_space():
                self._refuse_other_sites(scope)
            await self._app(scope, limited_receive, send)
        except Refusal as refusal:
            await JSONResponse({"detail": refusal.detail}, refusal.status_code)(scope, receive, send)
        except Exception as error:
            if scope["method"] != "POST":
                raise
            _log.warning("a request was refused: %s: %s", scope["path"][:80], type(error).__name__)
            words = f"{type(error).__name__}: {fmt.redact(str(error))[:300]}"
            await JSONResponse({"detail": f"The server cannot take this request. {words}"}, 400)(scope, receive, send)

    def _refuse_other_sites(self, scope: Scope) -> None:
        """Raises Refusal for a wrong name of the server, and for what a page of another site sends."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        # DNS rebinding never sends a literal address
        if _name(host) not in ("localhost", *self._names) and not _is_address(host):
            raise Refusal(
                403,
                f"This server does not go by the name {host[:80]!r}. Open it as localhost or by its address, "
                f"or have its owner add the name to {limits.HOSTS_VARIABLE}.",
            )
        origin = headers.get("origin", "")
        site = origin.partition("://")[2]
        is_read = scope["method"] in ("GET", "HEAD") or "origin" not in headers
        if not is_read and site != host and _name(site) not in limits.current().hosts:
            raise Refusal(
                403,
                f"A page of another site ({origin[:80]}) may not send requests to this one, "
                f"unless its name is in {limits.HOSTS_VARIABLE}.",
            )


def _name(host: str) -> str:
    """A host without its port."""
    return re.sub(r":\d*$", "", host).lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(_name(host).strip("[]"))
    except ValueError:
        return False
    return True
