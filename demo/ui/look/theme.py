"""The values of gradio's theme variables, and the content of the page's HTML head.

The typeface comes with gradio's package, so the browser fetches nothing from another server.
"""

import gradio as gr
from gradio.themes.utils import fonts, sizes

from ...present import colours, whole_work
from . import source

CSS = "".join(map(source, ("page.css", "sections.css", "stage.css", "tabs.css", "figures.css")))

ICON = (
    "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E"
    "%3Crect width='32' height='32' rx='6' fill='%2315181d'/%3E"
    "%3Crect x='6' y='8' width='20' height='6' fill='%23e69f00'/%3E"
    "%3Crect x='6' y='18' width='11' height='6' fill='%2356b4e9'/%3E%3C/svg%3E"
)
SCRIPTS = ("stage.js", "address.js", "events.js", "copy.js", "form.js", "figure_names.js")
HEAD = f'<link rel="icon" type="image/svg+xml" href="data:image/svg+xml,{ICON}">'
HEAD += "".join(f"<script>{source(name)}</script>" for name in SCRIPTS)
HEAD += f"<script>{whole_work.file_text('whole_work.js')}</script>"

TEXT_SIZES = sizes.Size("0.6875rem", "0.75rem", "0.8125rem", "0.9375rem", "1.0625rem", "1.375rem", "1.75rem", "page")

# each is a pair: the colour on the light page, the colour on the dark page
INK, PAPER, PANEL = (colours.PAGE_INK, "#f2f0ea"), (colours.PAGE_PAPER, "#0e1013"), ("#fffefb", "#16191e")
SOFT, RULE, MUTED = (colours.PAGE_SOFT, "#1f232a"), (colours.PAGE_LINE, "#323842"), (colours.PAGE_MUTED, "#a6acb6")
FIELD, EDGE = ("#fffefb", "#0e1013"), ("#83868a", "#69707b")
NOTHING = ("transparent", "transparent")
COLOURS = {
    INK: (
        "body_text_color border_color_accent link_text_color link_text_color_hover link_text_color_active "
        "link_text_color_visited block_label_text_color block_title_text_color input_border_color_focus "
        "checkbox_background_color_selected checkbox_border_color_selected checkbox_label_background_fill_selected "
        "checkbox_label_border_color_selected button_primary_background_fill button_primary_border_color "
        "button_primary_border_color_hover button_secondary_border_color_hover button_secondary_text_color "
        "slider_color loader_color error_text_color error_icon_color error_border_color"
    ),
    PAPER: "body_background_fill",
    PANEL: "background_fill_primary error_background_fill",
    SOFT: "background_fill_secondary color_accent_soft button_secondary_background_fill_hover",
    RULE: "border_color_primary",
    MUTED: "body_text_color_subdued",
    FIELD: (
        "input_background_fill checkbox_label_background_fill checkbox_label_text_color_selected "
        "button_primary_text_color"
    ),
    EDGE: "input_border_color checkbox_border_color checkbox_label_border_color button_secondary_border_color",
    NOTHING: "block_background_fill block_label_background_fill button_secondary_background_fill",
    ("#6b6f76", "#8f96a1"): "input_placeholder_color",
    ("#000000", "#ffffff"): "button_primary_background_fill_hover",
}
"""Maps (colour on the light page, colour on the dark page) to names of gradio's variables, separated by spaces."""

LENGTHS = {
    "block_border_width": "0px",
    "block_label_border_width": "0px",
    "input_border_width": "1px",
    "block_title_text_size": "*text_sm",
    "block_title_text_weight": "700",
    "block_label_text_weight": "700",
    "block_padding": "0",
    "block_radius": "0",
    "input_radius": "3px",
    "input_padding": "0.5rem 0.625rem",
    "layout_gap": "1rem",
    "checkbox_label_padding": "0.4rem 0.6rem",
    "checkbox_label_text_size": "*text_sm",
    "button_large_padding": "0.75rem 1.25rem",
    "button_large_radius": "3px",
    "button_large_text_weight": "700",
}


def theme() -> gr.themes.Base:
    # no semi-bold: gradio 6.31 ships these fonts with a handful of letters only; regular and bold are complete
    plex = fonts.LocalFont("IBM Plex Sans", weights=(400, 700))
    mono = fonts.LocalFont("IBM Plex Mono", weights=(400, 700))
    base = gr.themes.Base(
        text_size=TEXT_SIZES,
        radius_size=sizes.radius_sm,
        font=[plex, "ui-sans-serif", "system-ui", "Noto Sans", "sans-serif"],
        font_mono=[mono, "ui-monospace", "monospace"],
    )
    light = {name: colours[0] for colours, names in COLOURS.items() for name in names.split()}
    dark = {f"{name}_dark": colours[1] for colours, names in COLOURS.items() for name in names.split()}
    return base.set(**light, **dark, **LENGTHS)
