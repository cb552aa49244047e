"""What others show of a link to this page: tags for previews, the card of a stored run and its badge, which tell what
the page at `?run=ID` tells anybody. After a deletion a copy elsewhere may still be shown for `MINUTES` seconds.

Covered: cards are drawn one at a time, outside the event loop, for at most a tenth of a core, so that crawlers do not
take the processor from what is being timed; as many wait as `MAX_WAITING`.

Not covered: the rate of requests for badges and for cards that are drawn already, of which `KEPT` are kept.
"""

import asyncio
import logging
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from gradio import route_utils
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import link_preview
from demo.store.history import History, HistoryError
from demo.ui.html.elements import drawn

PICTURE = Path(__file__).resolve().parents[3] / "assets" / "screenshots" / "preview.png"
ADDRESS, CARD, BADGE = "/preview.png", "/card/{run}.png", "/badge/{run}.svg"
KEPT = 64
"""Cards, of some forty kilobytes each."""
MAX_WAITING = 32
REST = 9
"""After a card was drawn, the next one waits so many times as long as that took."""
DAY, MINUTES = 86_400, 300
"""Seconds for which the page's own picture, and what shows a run, may be kept elsewhere."""

_log = logging.getLogger(__name__)


def _answer(content: str | bytes, kind: str, seconds: int = MINUTES, status: int = 200) -> Response:
    """An answer that may be kept elsewhere for so many seconds; 0 forbids it."""
    kept = f"public, max-age={seconds}" if seconds else "no-store"
    # opened by itself an SVG is a document: nothing in it runs or loads
    safe = {"x-content-type-options": "nosniff", "content-security-policy": "default-src 'none'; sandbox"}
    return Response(content, status, {"cache-control": kept, **safe}, kind)


NOT_STORED = _answer("No stored run has this id.", "text/plain", 0, 404)
MANY = _answer("Many cards are being asked for. Try again in a minute.", "text/plain", 0, 503)


class Previews:
    """Tags, cards and badges of the stored runs."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._cards: dict[str, bytes] = {}
        self._drawing = asyncio.Lock()
        self._waiting = 0
        self._rested = 0.0
        """When the next card may be drawn."""

    @property
    def routes(self) -> list[Route]:
        return [Route(ADDRESS, self.picture), Route(CARD, self.card), Route(BADGE, self.badge)]

    async def picture(self, _: Any) -> Response:
        return _answer(PICTURE.read_bytes(), "image/png", DAY)

    async def badge(self, request: Any) -> Response:
        if (result := await self._stored(request.path_params["run"])) is None:
            return NOT_STORED
        return _answer(await asyncio.to_thread(link_preview.badge, result), "image/svg+xml")

    async def card(self, request: Any) -> Response:
        """The card of a stored run; 503 where too many others wait for one."""
        if (result := await self._stored(request.path_params["run"])) is None:
            return NOT_STORED
        if result.id not in self._cards:
            if self._waiting >= MAX_WAITING:
                return MANY
            self._waiting += 1
            try:
                async with self._drawing:
                    await self._draw(result)
            finally:
                self._waiting -= 1
        return _answer(self._cards[result.id], "image/png")

    async def _draw(self, result: RunResult) -> None:
        if result.id in self._cards:
            return
        await asyncio.sleep(max(0.0, self._rested - time.monotonic()))
        begun = time.monotonic()
        self._cards[result.id] = await asyncio.to_thread(link_preview.card, result)
        self._rested = time.monotonic() + REST * (time.monotonic() - begun)
        if len(self._cards) > KEPT:
            del self._cards[next(iter(self._cards))]

    async def _stored(self, id: str) -> RunResult | None:
        try:
            return await asyncio.to_thread(self._history.get, id)
        except HistoryError as error:
            _log.warning("a preview could not be made: %s", error)
            return None

    async def tags(self, scope: Scope, language: Language) -> str:
        """HTML for the head, of the stored run that the address names, else the page's own; with absolute addresses."""
        root = route_utils.get_root_url(route_utils.fastapi.Request(scope), scope["path"], scope.get("root_path"))
        # on a Space, parameters that begin with two underscores are the frame's own
        query = [pair for pair in parse_qsl(scope["query_string"].decode("latin-1")) if not pair[0].startswith("__")]
        run = dict(query).get("run")
        result = await self._stored(run) if run else None
        name = language.plain("title")
        title, told = name, re.sub(r"<[^>]+>", "", language.texts["promise"])
        picture = {"og:image": root + ADDRESS}
        if result is not None:
            title, told = link_preview.title(result, language), link_preview.description(result, language)
            picture = {
                "og:image": root + CARD.format(run=quote(result.id, safe="")),
                "og:image:width": str(link_preview.WIDTH),
                "og:image:height": str(link_preview.HEIGHT),
                "og:image:alt": title,
            }
        properties = {
            "og:type": "website",
            "og:title": title,
            "og:description": told,
            "og:url": f"{root}/{'?' + urlencode(query) if query else ''}",
            **picture,
        }
        window = name if result is None else f"{title} · {name}"  # as address.js writes it
        return drawn("masthead.tags", language, window, told, properties)
