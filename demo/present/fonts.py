"""The typeface for what is drawn with Pillow, and texts that fit on one line."""

from __future__ import annotations

import importlib.util
import unicodedata
from functools import lru_cache
from pathlib import Path

from PIL import ImageFont

from demo.core.format import printable

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
MAX_LABEL_LENGTH = 60
FALLBACK_FONTS = ("NotoSansCJK-Regular.ttc", "DejaVuSans.ttf", "NotoSansDevanagari-Regular.ttf", "Arial Unicode.ttf")
"""Looked for among the machine's fonts where a text has letters that the page's typeface lacks."""
_NO_LETTER = "\U0010fffe"
"""A code point that no font has: it is drawn as the font draws every letter that it lacks."""


def printable_label(label: str, most: int = MAX_LABEL_LENGTH) -> str:
    """One line of at most `most` letters, without what `format.printable` replaces."""
    shown = printable(label[: 4 * most], kept="").replace("\N{REPLACEMENT CHARACTER}", " ")
    text = " ".join(shown.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def cut(text: str, font: Font, room: float, end: str = "") -> str:
    """`text` and `end` on one line of at most `room` pixels; only `text` loses letters."""
    if font.getlength(text + end) <= room:
        return text + end
    while text and font.getlength(f"{text}…{end}") > room:
        text = text[:-1]
    return f"{text.rstrip()}…{end}"


@lru_cache(maxsize=512)
def font_for(text: str, size: int, bold: bool = False) -> Font:
    """The page's typeface, or the first of `FALLBACK_FONTS` that has all letters of `text`, else Pillow's own font."""
    for face in (_page_font(bold), *FALLBACK_FONTS):
        try:
            font = ImageFont.truetype(face, size)
        except OSError:
            continue
        no_letter = bytes(font.getmask(_NO_LETTER))
        if all(bytes(font.getmask(c)) != no_letter for c in set(text) if unicodedata.category(c)[0] in "LNSP"):
            return font
    return ImageFont.load_default(size)


def _page_font(bold: bool) -> str:
    """The page's typeface is in gradio's package. `find_spec` looks for the package without importing it."""
    package = importlib.util.find_spec("gradio")
    folder = Path(package.origin).parent if package is not None and package.origin else Path()
    name = f"IBMPlexSans-{'Bold' if bold else 'Regular'}.woff2"
    return str(folder / "templates" / "frontend" / "static" / "fonts" / "IBMPlexSans" / name)
