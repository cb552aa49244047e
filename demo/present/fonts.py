"""Fonts for the labels drawn on a picture: Pillow's own, or one of this machine's that has the label's letters."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from PIL import ImageFont

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
MAX_LABEL_LENGTH = 60
FALLBACK_FONTS = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "NotoSansCJK-Regular.ttc",
    "NotoSansArabic-Regular.ttf",
    "NotoSansDevanagari-Regular.ttf",
    "NotoSansBengali-Regular.ttf",
    "NotoSansThai-Regular.ttf",
    "Arial Unicode.ttf",
    "arial.ttf",
    "msyh.ttc",
    "Nirmala.ttf",
)
"""Looked for among the machine's fonts where a label needs more than the ASCII letters of Pillow's own font."""
_NO_LETTER = "\U0010fffe"
"""A code point that no font has: it is drawn as the font draws every letter that it lacks."""


def printable_label(label: str) -> str:
    """One line of at most `MAX_LABEL_LENGTH` letters without control characters.

    Joiners (U+200C, U+200D) stay: Persian and Hindi need them.
    """
    joiners = "\u200c\u200d"
    kept = (c if unicodedata.category(c)[0] != "C" or c in joiners else " " for c in label[: 4 * MAX_LABEL_LENGTH])
    text = " ".join("".join(kept).split())
    return text if len(text) <= MAX_LABEL_LENGTH else text[: MAX_LABEL_LENGTH - 1].rstrip() + "…"


def font_for(text: str, size: int) -> Font:
    """The first font that has all letters of `text`, else the one that lacks fewest."""
    return _font(_face_for(text, FALLBACK_FONTS), size)


def has_letter(font: Font, letter: str) -> bool:
    return _glyph(font, letter) != _glyph(font, _NO_LETTER)


def without_missing_accents(text: str, font: Font) -> str:
    """`text` with the accents taken off letters that `font` lacks; other letters that it lacks stay empty boxes."""
    base = {c: unicodedata.normalize("NFKD", c)[0] for c in set(text) if not c.isascii()}
    plain = {c: letter for c, letter in base.items() if letter.isascii() and not has_letter(font, c)}
    return "".join(plain.get(c, c) for c in text)


@lru_cache(maxsize=256)
def _face_for(text: str, fallbacks: tuple[str, ...]) -> str:
    """A file name for `ImageFont.truetype`; '' is Pillow's own font."""
    letters = {c for c in text if not c.isascii() and unicodedata.category(c)[0] in "LNSP"}
    lacking: dict[str, int] = {}
    for face in ("", *fallbacks):
        try:
            font = _font(face, 16)
        except OSError:
            continue
        lacking[face] = sum(not has_letter(font, letter) for letter in letters)
        if lacking[face] == 0:
            return face
    return min(lacking, key=lambda face: lacking[face])


@lru_cache(maxsize=64)
def _font(face: str, size: int) -> Font:
    return ImageFont.truetype(face, size) if face else ImageFont.load_default(size)


def _glyph(font: Font, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)
