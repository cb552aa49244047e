"""Colours of variants, labels and captions.

The variants have colours of their own (`EAGER`, `COMPILED`); labels have colours of `PALETTE`, the same in both
variants.
"""

from collections.abc import Iterable
from typing import Literal

EAGER = "#E69F00"
COMPILED = "#0072B2"
Variant = Literal["eager", "compiled"]
VARIANTS: dict[Variant, str] = {"eager": EAGER, "compiled": COMPILED}

PALETTE = ("#CC3311", "#F0E442", "#332288", "#009E73", "#FFAABB", "#8B5CF6", "#663333", "#DDCC77")
"""Chosen by search so that any two, and any of them and the variants' colours, stay apart in normal vision and with
protanopia and deuteranopia. Eight is what can be told apart; more labels share, and their captions tell them apart."""
CHANGED = "#FF2E93"
PAPER = "#FFFFFF"
INK = "#000000"
PAGE_INK, PAGE_PAPER, PAGE_SOFT, PAGE_LINE, PAGE_MUTED = "#15181d", "#f4f3ee", "#ebe9e1", "#d5d2c8", "#565b64"
"""Colours of the page in its light theme."""
PAD = "#6B7280"
"""Grey of a badge whose answer is neither faster nor slower."""


def label_colours(labels: Iterable[str]) -> dict[str, str]:
    """A colour of `PALETTE` for each label: the same whatever their order, and different while there are enough."""
    return {label: PALETTE[place % len(PALETTE)] for place, label in enumerate(sorted(set(labels)))}


def text_on(colour: str) -> str:
    """`INK` or `PAPER`, whichever has the higher WCAG contrast on `colour`."""
    return max((INK, PAPER), key=lambda text: contrast(text, colour))


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio of two hex colours, 1 to 21."""

    def luminance(colour: str) -> float:
        channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
