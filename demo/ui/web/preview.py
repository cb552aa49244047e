"""The preview of a shared link to the page: title, one sentence, picture and address."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from gradio import route_utils

from demo.core.languages import Language

PICTURE = Path(__file__).resolve().parents[3] / "assets" / "screenshots" / "preview.png"
ADDRESS = "/preview.png"

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Previewed:
    """ASGI middleware: serves the preview's picture at `ADDRESS`."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        asked = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if not asked or scope["path"].removeprefix(scope.get("root_path", "")) != ADDRESS:
            await self._app(scope, receive, send)
            return
        picture = await asyncio.to_thread(PICTURE.read_bytes)
        headers = [
            (b"content-type", b"image/png"),
            (b"content-length", b"%d" % len(picture)),
            (b"cache-control", b"public, max-age=86400"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": picture if scope["method"] == "GET" else b""})


def tags(scope: Message, language: Language) -> str:
    """HTML for the head of the page that answers this request. Its addresses are absolute, also behind a proxy."""
    root = route_utils.get_root_url(route_utils.fastapi.Request(scope), scope["path"], scope.get("root_path"))
    # on a Space, parameters that begin with two underscores are the frame's own
    query = [pair for pair in parse_qsl(scope["query_string"].decode("latin-1")) if not pair[0].startswith("__")]
    title = escape(language.texts["title"])
    promise = escape(re.sub(r"<[^>]+>", "", language.texts["promise"]))
    properties = {
        "og:type": "website",
        "og:title": title,
        "og:description": promise,
        "og:url": escape(f"{root}/{'?' + urlencode(query) if query else ''}"),
        "og:image": escape(root + ADDRESS),
    }
    lines = "".join(f'<meta property="{name}" content="{content}">' for name, content in properties.items())
    return (
        f'<title>{title}</title><meta name="description" content="{promise}">{lines}'
        '<meta name="twitter:card" content="summary_large_image">'
    )
