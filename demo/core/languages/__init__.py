"""The program's texts in four languages: one JSON file each, with the same keys and placeholders.

`demo.present` and the page get a text from a `Language` by its key. The terminal, exports and scripts are in English.
Text without a key, such as an error of torch, stays English and is marked as English (`plain_quoted`, `quoted`).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

_KNOWN = (("en", "English", False), ("ar", "العربية", True), ("ja", "日本語", False), ("zh-CN", "简体中文", False))
_VALUE, _QUOTE, _END = "\N{LEFT-TO-RIGHT ISOLATE}", "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"
_ISOLATE = re.compile(f"([{_VALUE}{_QUOTE}])([^{_VALUE}{_QUOTE}{_END}]*){_END}")
_ELEMENTS = {_VALUE: r'<bdi dir="ltr">\2</bdi>', _QUOTE: r'<span lang="en" dir="ltr">\2</span>'}


@dataclass(frozen=True)
class Language:
    code: str
    """The code that gradio's front end and the `lang` attribute want."""
    name: str
    """In the language itself."""
    rtl: bool
    """Written from right to left. Figures with units, ids and code stand in isolates, from left to right."""
    texts: Mapping[str, str]

    # Text without tags: for a terminal, a label, an attribute. `marked` makes HTML of it.

    def plain(self, key: str, **values: object) -> str:
        """The text with figures, ids or names in it."""
        return self.texts[key].format_map({name: self.plain_value(value) for name, value in values.items()})

    def composed(self, key: str, **phrases: str) -> str:
        """The text with parts that are in this language already, from `plain`, `plain_value` or `plain_quoted`."""
        return self.texts[key].format_map(phrases)

    def listed(self, phrases: list[str]) -> str:
        return self.texts["comma"].join(phrases)

    def sentence(self, phrase: str) -> str:
        """The phrase with a full stop, and in English with a capital letter."""
        return self.composed("sentence", text=self.capital(phrase))

    def capital(self, phrase: str) -> str:
        return phrase[:1].upper() + phrase[1:] if self.code == "en" else phrase

    def plain_value(self, value: object) -> str:
        """A figure, an id or a name."""
        return f"{_VALUE}{value}{_END}" if self.rtl and str(value) else str(value)

    def plain_quoted(self, english: str) -> str:
        """English text: a reason that torch gives, a name of one of its parts."""
        return english if self.code == "en" or not english else f"{_QUOTE}{english}{_END}"

    def retold(self, english: str) -> str:
        """A sentence that a result keeps in English, in this language where it was made of a text; else quoted."""
        key, values = origin(english)
        return self.plain(key, **values) if key else self.plain_quoted(english)

    def marked(self, plain: str) -> str:
        """HTML of such text: escaped, values in elements that keep their direction, English marked as English."""
        return _ISOLATE.sub(lambda found: found.expand(_ELEMENTS[found[1]]), escape(plain))

    # HTML.

    def html(self, key: str, **values: object) -> str:
        """The text as HTML. Values may hold anything: they are escaped, and keep their direction."""
        return self.texts[key].format_map({name: self.value(value) for name, value in values.items()})

    def value(self, value: object) -> str:
        """A figure, an id or a name as HTML."""
        return f'<bdi dir="ltr">{escape(str(value))}</bdi>' if self.rtl and str(value) else escape(str(value))

    def quoted(self, english: str) -> str:
        """English text inside a sentence or a card, as HTML."""
        return escape(english) if self.code == "en" else f'<span lang="en" dir="ltr">{escape(english)}</span>'

    def passage(self, english: str) -> str:
        """HTML in English; '' stays ''."""
        return english if self.code == "en" or not english else f'<div lang="en" dir="ltr">{english}</div>'

    @property
    def ltr(self) -> str:
        """The attribute of an element that holds figures or an axis."""
        return ' dir="ltr"' if self.rtl else ""


def _read(code: str) -> dict[str, str]:
    return json.loads(Path(__file__).with_name(f"{code}.json").read_text(encoding="utf-8"))


LANGUAGES = {code: Language(code, name, rtl, _read(code)) for code, name, rtl in _KNOWN}
ENGLISH = LANGUAGES["en"]


def origin(english: str) -> tuple[str, dict[str, str]]:
    """The key of the text that a sentence was made of, and its values; '' and {} for one that was made of none.
    Of several texts that fit, the longest: a value may hold words that another text has."""
    found = {key: match for key, pattern in _kept().items() if (match := pattern.fullmatch(english))}
    key = max(found, key=lambda key: len(ENGLISH.texts[key]), default="")
    return key, found[key].groupdict() if key else {}


@cache
def _kept() -> dict[str, re.Pattern[str]]:
    """The texts of which a result keeps the English: by key a pattern, with a group for each placeholder."""
    keys = [key for key in ENGLISH.texts if key.startswith(("remedy_", "caveat_")) or key == "run_again"]
    patterns = {key: re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+?)", re.escape(ENGLISH.texts[key])) for key in keys}
    return {key: re.compile(pattern, re.DOTALL) for key, pattern in patterns.items()}


def choose(query: str | None, cookie: str | None, accepted: str | None) -> Language:
    """The address decides, then the visitor's choice (a cookie), then the browser; English where none is known."""
    if asked := query or cookie:
        return _find(asked) or ENGLISH
    tags = [part.partition(";")[0] for part in (accepted or "").split(",")]  # browsers send the most preferred first
    return next((found for tag in tags if (found := _find(tag))), ENGLISH)


def _find(tag: str) -> Language | None:
    """'ja', 'ar-EG', 'zh-Hans-CN': the first part decides, as there is one of each."""
    first = tag.strip().lower().split("-")[0]
    return next((language for code, language in LANGUAGES.items() if code.lower().split("-")[0] == first), None)
