"""The colours of charts, pictures, PNGs and the race; the theme and the style sheets take the page's from here."""

from PIL import ImageColor

EAGER, COMPILED = "#E69F00", "#0072B2"
"""The colours of the two variants, the same everywhere."""
LABELS = ("#CC3311", "#F0E442", "#332288", "#009E73", "#FFAABB", "#8B5CF6", "#663333", "#DDCC77")
"""Chosen by search: any two of them, and of the variants' colours, stay apart in normal vision and with protanopia and
deuteranopia. More than eight labels share colours, and their captions tell them apart."""
CHANGED = "#FF2E93"
"""Where two segmentations differ."""
GPUS = ("#009E73", "#AA4499", "#6B7280", "#C0392B", "#8C6D1F")
"""Neither eager's nor compiled's. Contrast at least 3:1 on a light and a dark background."""
TEXT, LINE, GRID = "#1F2937", "#6B7280", "#D1D5DB"
"""Of the charts."""
PAGE_INK, PAGE_PAPER, PAGE_SOFT, PAGE_LINE, PAGE_MUTED = "#15181d", "#f4f3ee", "#ebe9e1", "#d5d2c8", "#565b64"
"""Of the page in its light theme."""

rgb = ImageColor.getrgb
