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
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from gradio import route_utils
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import link_preview
from demo.store.history import History, HistoryError
from demo.ui.html.elements import drawn

PICTURE = Path(__file__).resolve().parents[3] / "assets" / "screenshots" / "preview.png"
ADDRESS, CARD, BADGE = "/preview.png", "/card/{run}.png", "/badge/{run}.svg"
TABS = ("history", "shared", "published", "sweep")
"""The tabs whose name stands in the title; the first tab has the title of its run."""
KEPT = 64
"""Cards, of some forty kilobytes each."""
MAX_WAITING = 32
REST = 9
"""After a card was drawn, the next one waits so many times as long as that took."""
DAY, MINUTES = 86_400, 300
"""Seconds for which the page's own picture, and what shows a run, may be kept elsewhere."""

_log = logging.getLogger(__name__)


def _headers(seconds: int = 0) -> dict[str, str]:
    """Headers of an answer that may be kept elsewhere for so many seconds; 0 forbids it."""
    kept = f"public, max-age={seconds}" if seconds else "no-store"
    return {"cache-control": kept, "x-content-type-options": "nosniff"}


def _told_only(sentence: str, status: int) -> Response:
    return Response(sentence, status, _headers(), "text/plain")


NOT_STORED = _told_only("No stored run has this id.", 404)


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
        """The page's own picture."""
        return FileResponse(PICTURE, headers=_headers(DAY))

    async def badge(self, request: Any) -> Response:
        """The badge of a stored run."""
        if (result := await asyncio.to_thread(self._stored, request.path_params["run"])) is None:
            return NOT_STORED
        # opened by itself an SVG is a document: nothing in it runs or loads
        headers = {**_headers(MINUTES), "content-security-policy": "default-src 'none'; sandbox"}
        return Response(await asyncio.to_thread(link_preview.badge, result), 200, headers, "image/svg+xml")

    async def card(self, request: Any) -> Response:
        """The card of a stored run; 503 where too many others wait for one."""
        if (result := await asyncio.to_thread(self._stored, request.path_params["run"])) is None:
            return NOT_STORED
        if result.id not in self._cards and self._waiting >= MAX_WAITING:
            return _told_only("Many cards are being asked for. Try again in a minute.", 503)
        self._waiting += 1
        try:
            drawn_card = self._cards.get(result.id) or await self._drawn(result)
        finally:
            self._waiting -= 1
        return Response(drawn_card, 200, _headers(MINUTES), "image/png")

    async def _drawn(self, result: RunResult) -> bytes:
        async with self._drawing:
            if result.id not in self._cards:
                await asyncio.sleep(max(0.0, self._rested - time.monotonic()))
                begun = time.monotonic()
                self._cards[result.id] = await asyncio.to_thread(link_preview.card, result)
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
                "og:image:width": str(link_preview.WIDTH),
                "og:image:height": str(link_preview.HEIGHT),
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
        return drawn("masthead.tags", language, window, told, properties)
