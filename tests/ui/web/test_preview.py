"""Cards, badges and tags of stored runs, asked for as a crawler does: at the routes, and at a served page."""

import asyncio
import dataclasses
import itertools
import re
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from html import unescape
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from fake_runner import FakeRunner
from page_support import HOSTILE, serving
from samples import failed_result, ok_result
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.testclient import TestClient

from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.spec import RunSpec
from demo.present import link_preview
from demo.store.history import History
from demo.ui.page import Page
from demo.ui.web import preview
from demo.ui.web.preview import Previews

RUN = ok_result()
OTHER = dataclasses.replace(RUN, id="20261121T090200-fedcba")
NAME = '"><img src=x onerror=alert(1)><script>alert(2)'
CRAWLER = "facebookexternalhit/1.1"


@pytest.fixture
def history(history: History) -> History:
    for result in (RUN, OTHER, failed_result()):
        history.append(result)
    return history


def asked(previews: Previews, path: str, method: str = "GET") -> Response:
    return TestClient(Starlette(routes=previews.routes), root_path="/sub").request(method, f"/sub{path}")


def request_for(id: str) -> Any:
    """A request for the card or the badge of this run."""
    return SimpleNamespace(path_params={"run": id})


def test_a_card_and_a_badge_are_given_with_what_lets_them_be_kept(history: History) -> None:
    previews = Previews(history)
    card = asked(previews, f"/card/{RUN.id}.png")
    assert (card.status_code, card.headers["content-type"]) == (200, "image/png")
    assert card.content == link_preview.card(RUN) and "max-age" in card.headers["cache-control"]
    head = asked(previews, f"/card/{RUN.id}.png", "HEAD")
    assert (head.status_code, head.headers, head.content) == (200, card.headers, b"")
    badge = asked(previews, f"/badge/{RUN.id}.svg")
    assert (badge.status_code, badge.headers["content-type"]) == (200, "image/svg+xml")
    assert badge.text == link_preview.badge(RUN)
    assert badge.headers["content-security-policy"] == "default-src 'none'; sandbox"


def test_a_run_that_is_not_there_or_deleted_or_cannot_be_read_is_404(history: History, tmp_path) -> None:
    previews = Previews(history)
    assert asked(previews, f"/card/{RUN.id}.png").status_code == 200
    history.delete([RUN.id])
    broken = tmp_path / "broken.sqlite3"
    broken.write_bytes(b"no database" * 999)
    gone = [(previews, RUN.id), (Previews(History(broken)), RUN.id)]
    gone += [(previews, quote(id)) for id in ("nothing", "%", "a'b--", "\x00", "x" * 100, HOSTILE.replace("/", ""))]
    for of, id in gone:
        for path in (f"/card/{id}.png", f"/badge/{id}.svg"):
            answer = asked(of, path)
            assert (answer.status_code, answer.content) == (404, b"No stored run has this id.")
            assert answer.headers["cache-control"] == "no-store"


def test_a_crowd_has_one_card_drawn_at_a_time_with_rests_and_the_rest_is_sent_away(
    history: History, monkeypatch
) -> None:
    drawing: list[tuple[float, float]] = []
    threads = set()

    def draw(*_: Any) -> bytes:
        begun = time.monotonic()
        time.sleep(0.04)
        threads.add(threading.current_thread())
        drawing.append((begun, time.monotonic()))
        return b"drawn"

    monkeypatch.setattr(link_preview, "card", draw)
    monkeypatch.setattr(preview, "MAX_WAITING", 6)
    monkeypatch.setattr(preview, "KEPT", 1)
    previews = Previews(history)

    async def crowd() -> list[Any]:
        return await asyncio.gather(*(previews.card(request_for(id)) for id in [RUN.id, failed_result().id] * 5))

    answers = asyncio.run(crowd())
    assert Counter(answer.status_code for answer in answers) == {200: 6, 503: 4}
    assert threading.main_thread() not in threads and 2 <= len(drawing) <= 6  # as only one is kept
    for (begun, ended), (after, _) in itertools.pairwise(drawing):
        assert after - ended >= 0.9 * preview.REST * (ended - begun)
    assert len(previews._cards) == 1


def test_what_needs_no_drawing_waits_for_no_card(history: History, monkeypatch) -> None:
    previews = Previews(history)
    known = asked(previews, f"/card/{RUN.id}.png").content
    monkeypatch.setattr(preview, "MAX_WAITING", 1)
    begun, go_on = threading.Event(), threading.Event()

    def draw(*_: Any) -> bytes:
        begun.set()
        go_on.wait(30)
        return b"drawn"

    monkeypatch.setattr(link_preview, "card", draw)
    previews._rested = 0.0

    async def meanwhile() -> list[Any]:
        drawn = asyncio.create_task(previews.card(request_for(failed_result().id)))
        await asyncio.to_thread(begun.wait, 30)
        cards = [await previews.card(request_for(id)) for id in (RUN.id, "nothing", OTHER.id)]
        at_once = [*cards, await previews.badge(request_for(RUN.id))]
        go_on.set()
        return [*at_once, await drawn]

    at_once = asyncio.run(meanwhile())
    assert [answer.status_code for answer in at_once] == [200, 404, 503, 200, 200] and at_once[0].body == known


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[str]:
    history = History(tmp_path_factory.mktemp("data") / "history.sqlite3")
    history.append(RUN)
    history.append(ok_result(id="hostile", spec=RunSpec(NAME, "image-classification")))
    with serving(Page(FakeRunner(lambda spec, image: RUN), history=history)) as address:
        yield address.rstrip("/")


def fetched(address: str, method: str = "GET", **headers: str) -> Any:
    asked = urllib.request.Request(address, method=method, headers=headers)
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return answer.status, answer.headers, answer.read()


def told(page: bytes) -> tuple[str, dict[str, str]]:
    """The title of a page, and its tags for previews."""
    html = page.decode()
    tags = re.findall(r'<meta\s+(?:property|name)="(og:[\w:]+)"\s+content="([^"]*)"', html)
    title = re.search("<title>([^<]*)</title>", html)
    return unescape(title[1]), {name: unescape(text) for name, text in tags}


def test_a_crawler_is_shown_the_run_of_a_link_and_its_card(served: str) -> None:
    behind = {"User-Agent": CRAWLER, "X-Forwarded-Host": "203.0.113.7", "X-Forwarded-Proto": "https"}
    title, tags = told(fetched(f"{served}/?run={RUN.id}", **behind)[2])
    assert title == "shapes-vit 2.00× faster · Worth compiling?"
    assert tags["og:title"] == tags["og:image:alt"] == "shapes-vit 2.00× faster"
    assert tags["og:description"] == link_preview.description(RUN, ENGLISH)
    assert tags["og:image"] == f"https://203.0.113.7/card/{RUN.id}.png"
    assert (tags["og:image:width"], tags["og:image:height"]) == ("1200", "630")
    assert fetched(f"{served}/?run={RUN.id}", "HEAD", **{"User-Agent": CRAWLER})[0] == 200


def test_a_link_to_no_run_has_the_page_s_own_title_and_picture_in_the_visitor_s_language(served: str) -> None:
    behind = {"X-Forwarded-Host": "203.0.113.7", "X-Forwarded-Proto": "https"}
    page = fetched(f"{served}/?run=0123&lang=ja&__theme=%22dark", **behind)[2]
    japanese = LANGUAGES["ja"].texts
    assert told(page) == (
        japanese["title"],
        {
            "og:type": "website",
            "og:title": japanese["title"],
            "og:description": re.sub("<[^>]*>", "", japanese["promise"]),
            "og:url": "https://203.0.113.7/?run=0123&lang=ja",
            "og:image": "https://203.0.113.7/preview.png",
        },
    )
    assert fetched(f"{served}/?page=other&deep_link=other&lang=ja", **behind)[2].count(b'lang="ja"') == 1
    assert b'lang="ja"' in page and page.count(b"twitter:") == 1
    assert page.index(b"<head>") + len("<head>") == page.index(b"<script>Object.defineProperty(navigator,'language'")
    assert fetched(f"{served}/preview.png")[2].startswith(b"\x89PNG")


def test_a_hostile_name_stays_text_in_the_tags_and_the_page_s_own_scripts_stay_scripts(served: str) -> None:
    page = fetched(f"{served}/?run=hostile")[2]
    assert page.index(b"<script>// Slows down") < page.index(b"window.gradio_config")
    assert b"<script>alert(2)" not in page[: page.index(b"window.gradio_config")]
    assert "<script>alert(2)" in told(page)[1]["og:title"]
