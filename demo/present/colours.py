"""The colours of the page, its charts and all pictures."""

from PIL import ImageColor

EAGER, COMPILED = "#E69F00", "#0072B2"
"""The colours of eager and compiled in every chart and picture."""
LABELS = ("#CC3311", "#F0E442", "#332288", "#009E73", "#FFAABB", "#8B5CF6", "#663333", "#DDCC77")
"""Colours of predicted labels. They differ from each other and from `EAGER` and `COMPILED`, also for readers with
protanopia or deuteranopia. With more than eight labels some share a colour; captions tell them apart."""
CHANGED = "#FF2E93"
"""Colour of pixels whose label differs between eager and compiled."""
GPUS = ("#009E73", "#AA4499", "#6B7280", "#C0392B", "#8C6D1F")
"""Colours of the GPUs in a chart. Their contrast is at least 3:1 on a light and on a dark background."""
TEXT, LINE, GRID = "#1F2937", "#6B7280", "#D1D5DB"
PAGE_INK, PAGE_PAPER, PAGE_SOFT, PAGE_LINE, PAGE_MUTED = "#15181d", "#f4f3ee", "#ebe9e1", "#d5d2c8", "#565b64"
"""Colours of the page's light theme."""

rgb = ImageColor.getrgb
