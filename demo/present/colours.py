"""Colours of the charts, pictures, PNGs and the race.

The page's theme and style sheets read their colours here too.
"""

from PIL import ImageColor

EAGER, COMPILED = "#E69F00", "#0072B2"
"""Colours of the two variants, the same in every chart and picture."""
LABELS = ("#CC3311", "#F0E442", "#332288", "#009E73", "#FFAABB", "#8B5CF6", "#663333", "#DDCC77")
"""Colours of predicted labels. A search chose colours that differ from each other and from the variants', also for
readers with protanopia or deuteranopia. With more than eight labels some share a colour; captions tell them
apart."""
CHANGED = "#FF2E93"
"""Colour of the pixels at which two segmentations differ."""
GPUS = ("#009E73", "#AA4499", "#6B7280", "#C0392B", "#8C6D1F")
"""Colours of the GPUs' lines, none a variant's. Contrast is at least 3:1 on a light and a dark background."""
TEXT, LINE, GRID = "#1F2937", "#6B7280", "#D1D5DB"
"""Colours of text, lines and grid in the charts."""
PAGE_INK, PAGE_PAPER, PAGE_SOFT, PAGE_LINE, PAGE_MUTED = "#15181d", "#f4f3ee", "#ebe9e1", "#d5d2c8", "#565b64"
"""Colours of the page in its light theme."""

rgb = ImageColor.getrgb
