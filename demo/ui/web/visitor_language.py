"""The language of a visitor, and the texts of `demo.core.languages` for gradio.

gradio translates labels, tabs and buttons in the browser (`label`). What the server writes is in the language of the
request (`request_language`).
"""

import hashlib
import json
from collections.abc import Callable
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlencode

import gradio as gr
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demo.core.languages import ENGLISH, LANGUAGES, Language, choose
from demo.ui.web.gradio_workarounds import language_script
from demo.ui.web.guard import path_of

NAME = "lang"
"""The name of the parameter in an address, and of the cookie that keeps the choice made in the masthead."""
IN_ENGLISH = '<div lang="en" dir="ltr">${value}</div>'
"""The template of an HTML component whose text is English in every language."""
_WRITTEN: dict[str, dict[str, str]] = {code: {} for code in LANGUAGES}
"""The texts made by `written`, which the browser gets beside those of the files."""


def label(key: str) -> str:
    """A placeholder that gradio's front end replaces by the text of this key in the visitor's language."""
    if key not in ENGLISH.texts:
        raise KeyError(key)
    return str(gr.I18n()(key))


def written(write: Callable[[Language], str]) -> str:
    """A placeholder for HTML that a component holds when the page opens; `write` makes it for one language."""
    texts = {code: write(language) for code, language in LANGUAGES.items()}
    key = "html_" + hashlib.sha256(texts["en"].encode()).hexdigest()[:16]
    for code, text in texts.items():
        _WRITTEN[code][key] = text
    return str(gr.I18n()(key))


def translations() -> gr.I18n:
    """For `launch`, once the page is built."""
    return gr.I18n(**{code: {**language.texts, **_WRITTEN[code]} for code, language in LANGUAGES.items()})


def request_language(request: Any) -> Language:
    """The language of a request of gradio or starlette."""
    query, cookies, headers = (getattr(request, part, None) or {} for part in ("query_params", "cookies", "headers"))
    return choose(query.get(NAME), cookies.get(NAME), headers.get("accept-language"))


class Spoken:
    """ASGI middleware: writes the visitor's language and direction into the head of the page. gradio's front end reads
    `navigator.language` before any other script runs."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or path_of(scope) != "/":
            await self._app(scope, receive, send)
            return
        held: list[Message] = []

        async def hold(message: Message) -> None:
            held.append(message)

        # gradio would look for one of several pages, or for a stored state
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        query = urlencode([pair for pair in pairs if pair[0] not in ("page", "deep_link")]).encode()
        await self._app({**scope, "query_string": query}, receive, hold)
        start, *bodies = held
        language = request_language(Request(scope))
        page = _in_language(b"".join(body.get("body", b"") for body in bodies), language)
        others = [pair for pair in start["headers"] if pair[0] != b"content-length"]
        await send({**start, "headers": [*others, (b"content-length", b"%d" % len(page))]})
        await send({"type": "http.response.body", "body": page})


def _in_language(page: bytes, language: Language) -> bytes:
    direction = "rtl" if language.rtl else "ltr"
    bundled = escape(json.dumps(language.texts["note_bundled"].lower(), ensure_ascii=False))  # for page.css
    named = f'lang="{language.code}" dir="{direction}" style="--bundled: {bundled}"'
    page = page.replace(b'lang="en"', named.encode(), 1)
    return page.replace(b"<head>", f"<head>{language_script(language.code)}".encode(), 1)
