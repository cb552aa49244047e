"""What others show of a link to this page: tags for previews, the card of a stored run and its badge.

A stored run's card and badge tell what the page at `?run=ID` tells anybody. A run that was deleted has neither, but for
`MINUTES` seconds a copy elsewhere may still be shown.

Covered: cards are drawn one at a time, outside the event loop, for at most a tenth of a core, so that crawlers do not
take the processor from what is being timed; as many wait as `MAX_WAITING`.

Not covered: the rate of requests for badges and for cards that are drawn already, of which `KEPT` are kept.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from html import escape
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode

from gradio import route_utils
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import card, link_preview
from demo.store.history import History, HistoryError

PICTURE = Path(__file__).resolve().parents[3] / "assets" / "screenshots" / "preview.png"
ADDRESS, CARD, BADGE = "/preview.png", "/card/{run}.png", "/badge/{run}.svg"
_RUN = re.compile(r"/(card|badge)/([^/]{1,100})\.(png|svg)")
TABS = ("history", "shared", "published", "sweep")
"""Those whose name stands in the title; the first tab has the title of its run."""
KEPT = 64
"""Cards, of some forty kilobytes each."""
MAX_WAITING = 32
REST = 9
"""After a card was drawn, the next one waits so many times as long as that took."""
DAY, MINUTES = 86_400, 300
"""Seconds for which the page's own picture, and what shows a run, may be kept elsewhere."""

_log = logging.getLogger(__name__)


def _response(body: bytes | str, kind: str, seconds: int = 0, status: int = 200) -> Response:
    """An answer that may be kept elsewhere for so many seconds."""
    kept = f"public, max-age={seconds}" if seconds else "no-store"
    return Response(body, status, {"cache-control": kept, "x-content-type-options": "nosniff"}, kind)


class Previews:
    """Tags, cards and badges of the stored runs."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._cards: dict[str, bytes] = {}
        self._drawing = asyncio.Lock()
        self._waiting = 0
        self._rested = 0.0
        """When the next card may be drawn."""

    async def answer(self, path: str) -> Response | None:
        """What stands at this path; None where that is not for this class to say."""
        if path == ADDRESS:
            return _response(await asyncio.to_thread(PICTURE.read_bytes), "image/png", DAY)
        asked = _RUN.fullmatch(path)
        if asked is None or (asked[1], asked[3]) not in (("card", "png"), ("badge", "svg")):
            return None
        result = await asyncio.to_thread(self._stored, asked[2])
        if result is None:
            return _response("No stored run has this id.", "text/plain", status=404)
        if asked[1] == "badge":
            badge = await asyncio.to_thread(link_preview.badge, result)
            # opened by itself an SVG is a document: nothing in it runs or loads
            answer = _response(badge, "image/svg+xml", MINUTES)
            answer.headers["content-security-policy"] = "default-src 'none'; sandbox"
            return answer
        if result.id not in self._cards and self._waiting >= MAX_WAITING:
            return _response("Many cards are being asked for. Try again in a minute.", "text/plain", status=503)
        self._waiting += 1
        try:
            return _response(self._cards.get(result.id) or await self._drawn(result), "image/png", MINUTES)
        finally:
            self._waiting -= 1

    async def _drawn(self, result: RunResult) -> bytes:
        async with self._drawing:
            if result.id not in self._cards:
                await asyncio.sleep(max(0.0, self._rested - time.monotonic()))
                begun = time.monotonic()
                self._cards[result.id] = await asyncio.to_thread(card.draw, result)
                self._rested = time.monotonic() + REST * (time.monotonic() - begun)
                while len(self._cards) > KEPT:
                    del self._cards[next(iter(self._cards))]
            return self._cards[result.id]

    def _stored(self, id: str) -> RunResult | None:
        try:
            return self._history.get(id)
        except HistoryError as error:
            _log.warning("a preview could not be made: %s", error)
            return None

    def _told(self, id: str, language: Language) -> tuple[str, str] | None:
        """Title and sentence of a stored run."""
        if (result := self._stored(id)) is None:
            return None
        return link_preview.title(result, language), link_preview.description(result, language)

    async def tags(self, scope: Scope, language: Language) -> str:
        """HTML for the head of the page that answers this request. Its addresses are absolute, also behind a proxy.

        An address that names a stored run is told by that run's title, answer and card.
        """
        root = route_utils.get_root_url(route_utils.fastapi.Request(scope), scope["path"], scope.get("root_path"))
        # on a Space, parameters that begin with two underscores are the frame's own
        query = [pair for pair in parse_qsl(scope["query_string"].decode("latin-1")) if not pair[0].startswith("__")]
        asked = dict(query)
        of_run = await asyncio.to_thread(self._told, asked["run"], language) if asked.get("run") else None
        name = language.plain("title")
        if of_run is None:
            title, told = name, re.sub(r"<[^>]+>", "", language.texts["promise"])
            picture = {"og:image": root + ADDRESS}
        else:
            title, told = of_run
            picture = {
                "og:image": root + CARD.format(run=quote(asked["run"], safe="")),
                "og:image:width": str(card.WIDTH),
                "og:image:height": str(card.HEIGHT),
                "og:image:alt": title,
            }
        tab = language.plain(f"tab_{asked['tab']}") if asked.get("tab") in TABS else ""
        # as address.js writes it
        window = " · ".join(dict.fromkeys(filter(None, (tab or title, name))))
        properties = {
            "og:type": "website",
            "og:title": title,
            "og:description": told,
            "og:url": f"{root}/{'?' + urlencode(query) if query else ''}",
            **picture,
        }
        lines = "".join(f'<meta property="{key}" content="{escape(value)}">' for key, value in properties.items())
        return (
            f'<title>{escape(window)}</title><meta name="description" content="{escape(told)}">{lines}'
            '<meta name="twitter:card" content="summary_large_image">'
        )


class Previewed:
    """ASGI middleware: answers at the addresses of pictures and badges."""

    def __init__(self, app: ASGIApp, previews: Previews) -> None:
        self._app = app
        self._previews = previews

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        path = scope["path"].removeprefix(scope.get("root_path", "")) if asked else ""
        answer = await self._previews.answer(path) if asked else None
        if answer is None:
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            answer.body = b""
        await answer(scope, receive, send)
