"""Refuses requests that another site's page sends through a visitor's browser, and requests over 2 MB.

The header `Host` reveals DNS rebinding: another site's name that points to this server. The header `Origin` reveals
requests of another site's page. Not covered: a Hugging Face Space, which anybody may use; programs other than
browsers; a site that shows this page in a frame; too many requests. Against these, put a reverse proxy in front.
"""

import contextlib
import ipaddress
import logging
import re

from fastapi import HTTPException as Refusal
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...core import format as fmt, limits

_log = logging.getLogger(__name__)

MAX_BYTES = 2_000_000
"""The longest body of a request. gradio limits the size of uploaded pictures itself."""


class Guard:
    """ASGI middleware that answers a refused or failed request with JSON: {"detail": "A sentence."}."""

    def __init__(self, app: ASGIApp, names: tuple[str, ...] = ()) -> None:
        """`names` are this server's host names, besides `localhost` and its IP addresses."""
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
        """Raises Refusal if a request names another host, or if another site's page sends it."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        # an IP address as the host is safe: DNS rebinding needs a name
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
    """Returns a host in lower case without its port."""
    return re.sub(r":\d*$", "", host).lower()


def _is_address(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return bool(ipaddress.ip_address(_name(host).strip("[]")))
    return False
