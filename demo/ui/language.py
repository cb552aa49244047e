"""What the page says, in four languages, and which of them a visitor hears.

Each language is one file of `languages/`: the same keys, the same placeholders. Labels, tabs and buttons are translated
by gradio in the browser (`label`); what the server writes is written in the language of the request (`of`). Whatever
has no key, such as a backend's error, stays English and is marked as English (`Language.quoted`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from html import escape
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import gradio as gr

NAME = "lang"
"""Of the parameter in an address, and of the cookie in which the browser keeps what was chosen in the switch."""
_KNOWN = (("en", "English", False), ("ar", "العربية", True), ("ja", "日本語", False), ("zh-CN", "简体中文", False))
_ISOLATE, _END = "\N{LEFT-TO-RIGHT ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"


@dataclass(frozen=True)
class Language:
    code: str
    """As gradio's front end and the `lang` attribute want it."""
    name: str
    """In the language itself."""
    rtl: bool
    """Written from right to left. Figures with their units, ids and code are not: they stand in isolates."""
    texts: Mapping[str, str]

    def html(self, key: str, **values: object) -> str:
        """The text as HTML. Values may hold anything: they are escaped, and keep their direction."""
        return self.texts[key].format_map({name: self.value(value) for name, value in values.items()})

    def plain(self, key: str, **values: object) -> str:
        """The text where no tag can stand: an attribute, a label. Not escaped."""
        return self.texts[key].format_map({name: self._isolated(value) for name, value in values.items()})

    def value(self, value: object) -> str:
        """A figure, an id or a name as HTML."""
        return f'<bdi dir="ltr">{escape(str(value))}</bdi>' if self.rtl and str(value) else escape(str(value))

    def _isolated(self, value: object) -> str:
        return f"{_ISOLATE}{value}{_END}" if self.rtl else str(value)

    def quoted(self, english: str) -> str:
        """English text inside a sentence or a card, as HTML."""
        return escape(english) if self is ENGLISH else f'<span lang="en" dir="ltr">{escape(english)}</span>'

    def passage(self, english: str) -> str:
        """HTML in English; '' stays ''."""
        return english if self is ENGLISH or not english else f'<div lang="en" dir="ltr">{english}</div>'

    @property
    def ltr(self) -> str:
        """The attribute of an element that holds figures or an axis."""
        return ' dir="ltr"' if self.rtl else ""


IN_ENGLISH = '<div lang="en" dir="ltr">${value}</div>'
"""The template of an HTML component whose text has not been translated: marked as English on every page."""


def _read(code: str) -> dict[str, str]:
    texts: dict[str, str] = json.loads(
        Path(__file__).with_name("languages").joinpath(f"{code}.json").read_text(encoding="utf-8")
    )
    return texts


LANGUAGES = {code: Language(code, name, rtl, _read(code)) for code, name, rtl in _KNOWN}
ENGLISH = LANGUAGES["en"]
_WRITTEN: dict[str, dict[str, str]] = {code: {} for code in LANGUAGES}
"""What `written` has handed to the browser, beside the files' texts."""


def label(key: str) -> str:
    """Stands for a text of the files until gradio's front end has put in the visitor's language."""
    if key not in ENGLISH.texts:
        raise KeyError(key)
    return str(gr.I18n()(key))


def written(write: Callable[[Language], str]) -> str:
    """Stands for HTML that a component holds when the page opens, the same for every visitor but for the language."""
    texts = {code: write(language) for code, language in LANGUAGES.items()}
    key = "html_" + hashlib.sha256(texts["en"].encode()).hexdigest()[:16]
    for code, text in texts.items():
        _WRITTEN[code][key] = text
    return str(gr.I18n()(key))


def translations() -> gr.I18n:
    """For `launch`, once the page is built."""
    return gr.I18n(**{code: {**language.texts, **_WRITTEN[code]} for code, language in LANGUAGES.items()})


def choose(query: str | None, cookie: str | None, accepted: str | None) -> Language:
    """The address decides, else the switch, else what the browser prefers; a language that is not here is English."""
    asked = query or cookie
    if asked:
        return _find(asked) or ENGLISH
    return next((found for tag in _preferred(accepted or "") if (found := _find(tag))), ENGLISH)


def _find(tag: str) -> Language | None:
    """'ja', 'ar-EG', 'zh-Hans-CN': the first part decides, as there is one of each."""
    first = tag.strip().lower().split("-")[0]
    return next((language for code, language in LANGUAGES.items() if code.lower().split("-")[0] == first), None)


def _preferred(header: str) -> list[str]:
    """The tags of an Accept-Language header, most wanted first; what cannot be read is not wanted."""
    wanted = []
    for part in header.split(","):
        tag, _, weight = part.partition(";")
        try:
            quality = float(weight.strip().removeprefix("q=")) if weight else 1.0
        except ValueError:
            continue
        if tag.strip() and quality > 0:
            wanted.append((-quality, tag))
    return [tag for _, tag in sorted(wanted, key=lambda pair: pair[0])]


def of(request: Any) -> Language:
    """The language of a request of gradio's or starlette's; English where there is no request."""
    query, cookies, headers = (getattr(request, part, None) or {} for part in ("query_params", "cookies", "headers"))
    return choose(query.get(NAME), cookies.get(NAME), headers.get("accept-language"))


def switch(language: Language) -> str:
    """The list of languages in the masthead. See language.js for what a choice does."""
    options = "".join(
        f'<option value="{one.code}" lang="{one.code}"{" selected" if one is language else ""}>{one.name}</option>'
        for one in LANGUAGES.values()
    )
    return (
        f'<p class="language"><label for="language" class="unseen">{escape(language.plain("language"))}</label>'
        f'<select id="language">{options}</select></p>'
    )


HEAD = "<script>{}</script>".format(Path(__file__).with_name("language.js").read_text(encoding="utf-8"))

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Spoken:
    """ASGI middleware: writes the visitor's language and direction into the page before it reaches the browser.

    gradio's front end asks the browser for its language as its first act, long before any script of the page runs: so
    the page answers that question itself. `first` is HTML for the beginning of its head, for the same reason.
    """

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]], first: str = "") -> None:
        self._app = app
        self._first = first

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        held: Message | None = None
        body = bytearray()

        async def speaking(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_html(message):
                held = message
            elif held is None or message["type"] != "http.response.body":
                await send(message)
            else:
                body.extend(message.get("body", b""))
                if not message.get("more_body"):
                    page = _in_language(bytes(body), _of_page(scope), self._first)
                    others = [pair for pair in held["headers"] if pair[0] != b"content-length"]
                    await send({**held, "headers": [*others, (b"content-length", b"%d" % len(page))]})
                    await send({"type": "http.response.body", "body": page})

        await self._app(scope, receive, speaking)


def _of_page(scope: Message) -> Language:
    """`of`, from what ASGI tells."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    (query,) = parse_qs(scope["query_string"].decode("latin-1")).get(NAME, [""])[-1:]
    try:
        cookie = SimpleCookie(headers.get(b"cookie", "")).get(NAME)
    except CookieError:
        cookie = None
    return choose(query, cookie.value if cookie else None, headers.get(b"accept-language"))


def _is_html(start: Message) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/html") for name, value in start["headers"])


def _in_language(page: bytes, language: Language, first: str) -> bytes:
    """gradio's page with its language; any other HTML as it is."""
    if b"gradio_config" not in page:
        return page
    direction = "rtl" if language.rtl else "ltr"
    answer = f"Object.defineProperty(navigator,'language',{{get:()=>'{language.code}',configurable:true}})"
    page = page.replace(b'lang="en"', f'lang="{language.code}" dir="{direction}"'.encode(), 1)
    return page.replace(b"<head>", f"<head><script>{answer}</script>{first}".encode(), 1)
