"""Fonts for what is drawn with Pillow: the page's typeface, or one of this machine's that has the text's letters."""

from __future__ import annotations

import importlib.util
import unicodedata
from functools import lru_cache
from pathlib import Path

from PIL import ImageFont

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
MAX_LABEL_LENGTH = 60
FALLBACK_FONTS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "NotoSansCJK-Regular.ttc",
    "NotoSansArabic-Regular.ttf",
    "NotoSansDevanagari-Regular.ttf",
    "Arial Unicode.ttf",
    "arial.ttf",
)
"""Looked for among the machine's fonts where a text needs letters that the page's typeface lacks."""
_NO_LETTER = "\U0010fffe"
"""A code point that no font has: it is drawn as the font draws every letter that it lacks."""


def printable_label(label: str, most: int = MAX_LABEL_LENGTH) -> str:
    """One line of at most `most` letters without control characters.

    Joiners (U+200C, U+200D) stay: Persian and Hindi need them.
    """
    joiners = "\u200c\u200d"
    kept = (c if unicodedata.category(c)[0] != "C" or c in joiners else " " for c in label[: 4 * most])
    text = " ".join("".join(kept).split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def font_for(text: str, size: int, bold: bool = False) -> Font:
    """The page's typeface where it has all letters of `text`, else the font that lacks fewest."""
    return _font(_face_for(text, (_plex(bold), *FALLBACK_FONTS, "")), size)


@lru_cache(maxsize=2)
def _plex(bold: bool) -> str:
    """The page's typeface is in gradio's package. `find_spec` looks for the package without importing it."""
    package = importlib.util.find_spec("gradio")
    folder = Path(package.origin).parent if package is not None and package.origin else Path()
    name = f"IBMPlexSans-{'Bold' if bold else 'Regular'}.woff2"
    return str(folder / "templates" / "frontend" / "static" / "fonts" / "IBMPlexSans" / name)


@lru_cache(maxsize=256)
def _face_for(text: str, faces: tuple[str, ...]) -> str:
    """A file name for `ImageFont.truetype`; '' is Pillow's own font, and one of `faces`."""
    lacking: dict[str, int] = {}
    for face in faces:
        try:
            font = _font(face, 16)
        except OSError:
            continue
        lacking[face] = sum(not _has_letter(font, c) for c in set(text) if unicodedata.category(c)[0] in "LNSP")
        if lacking[face] == 0:
            return face
    return min(lacking, key=lambda face: lacking[face])


@lru_cache(maxsize=4096)
def _has_letter(font: Font, letter: str) -> bool:
    return _glyph(font, letter) != _glyph(font, _NO_LETTER)


@lru_cache(maxsize=64)
def _font(face: str, size: int) -> Font:
    return ImageFont.truetype(face, size) if face else ImageFont.load_default(size)


def _glyph(font: Font, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)
