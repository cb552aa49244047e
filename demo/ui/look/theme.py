"""The theme: gradio's variables. Everything else is in the style sheets beside this file.

Black on white: eager's orange and compiled's blue are the only colours, so that they are noticed. The typeface is in
gradio's package: nothing is fetched from outside.
"""

import gradio as gr
from gradio.themes.utils import fonts, sizes

from demo.present import pictures
from demo.ui.look import script, source

STYLES = (
    "page.css",
    "sections.css",
    "stage.css",
    "tabs.css",
    "figures.css",
)
CSS = "".join(source(name) for name in STYLES)

INK, PAPER, PANEL = pictures.PAGE_INK, pictures.PAGE_PAPER, "#fffefb"
SOFT, LINE, MUTED = pictures.PAGE_SOFT, pictures.PAGE_LINE, pictures.PAGE_MUTED
NIGHT_INK, NIGHT_PAPER, NIGHT_PANEL = "#f2f0ea", "#0e1013", "#16191e"
NIGHT_SOFT, NIGHT_LINE, NIGHT_MUTED = "#1f232a", "#323842", "#a6acb6"

ICON = (
    "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E"
    "%3Crect width='32' height='32' rx='6' fill='%2315181d'/%3E"
    "%3Crect x='6' y='8' width='20' height='6' fill='%23e69f00'/%3E"
    "%3Crect x='6' y='18' width='11' height='6' fill='%2356b4e9'/%3E%3C/svg%3E"
)
SCRIPTS = "".join(map(script, ("stage.js", "address.js", "events.js", "copy.js", "form.js", "aloud.js")))
HEAD = f'<link rel="icon" type="image/svg+xml" href="data:image/svg+xml,{ICON}">{SCRIPTS}'

_TEXT = sizes.Size(
    name="page",
    xxs="0.6875rem",
    xs="0.75rem",
    sm="0.8125rem",
    md="0.9375rem",
    lg="1.0625rem",
    xl="1.375rem",
    xxl="1.75rem",
)


_DAY_AND_NIGHT = {
    "body_background_fill": (PAPER, NIGHT_PAPER),
    "body_text_color": (INK, NIGHT_INK),
    "body_text_color_subdued": (MUTED, NIGHT_MUTED),
    "background_fill_primary": (PANEL, NIGHT_PANEL),
    "background_fill_secondary": (SOFT, NIGHT_SOFT),
    "border_color_primary": (LINE, NIGHT_LINE),
    "border_color_accent": (INK, NIGHT_INK),
    "color_accent_soft": (SOFT, NIGHT_SOFT),
    "link_text_color": (INK, NIGHT_INK),
    "link_text_color_hover": (INK, NIGHT_INK),
    "link_text_color_active": (INK, NIGHT_INK),
    "link_text_color_visited": (INK, NIGHT_INK),
    "block_background_fill": ("transparent", "transparent"),
    "block_border_width": ("0px", "0px"),
    "block_label_background_fill": ("transparent", "transparent"),
    "block_label_border_width": ("0px", "0px"),
    "block_label_text_color": (INK, NIGHT_INK),
    "block_title_text_color": (INK, NIGHT_INK),
    "input_background_fill": (PANEL, NIGHT_PAPER),
    "input_border_color": ("#83868a", "#69707b"),
    "input_border_color_focus": (INK, NIGHT_INK),
    "input_border_width": ("1px", "1px"),
    "input_placeholder_color": ("#6b6f76", "#8f96a1"),
    "checkbox_background_color_selected": (INK, NIGHT_INK),
    "checkbox_border_color": ("#83868a", "#69707b"),
    "checkbox_border_color_selected": (INK, NIGHT_INK),
    "checkbox_label_background_fill": (PANEL, NIGHT_PAPER),
    "checkbox_label_background_fill_selected": (INK, NIGHT_INK),
    "checkbox_label_border_color": ("#83868a", "#69707b"),
    "checkbox_label_border_color_selected": (INK, NIGHT_INK),
    "checkbox_label_text_color_selected": (PANEL, NIGHT_PAPER),
    "button_primary_background_fill": (INK, NIGHT_INK),
    "button_primary_background_fill_hover": ("#000000", "#ffffff"),
    "button_primary_border_color": (INK, NIGHT_INK),
    "button_primary_border_color_hover": (INK, NIGHT_INK),
    "button_primary_text_color": (PANEL, NIGHT_PAPER),
    "button_secondary_background_fill": ("transparent", "transparent"),
    "button_secondary_background_fill_hover": (SOFT, NIGHT_SOFT),
    "button_secondary_border_color": ("#83868a", "#69707b"),
    "button_secondary_border_color_hover": (INK, NIGHT_INK),
    "button_secondary_text_color": (INK, NIGHT_INK),
    "slider_color": (INK, NIGHT_INK),
    "loader_color": (INK, NIGHT_INK),
    "error_text_color": (INK, NIGHT_INK),
    "error_icon_color": (INK, NIGHT_INK),
    "error_background_fill": (PANEL, NIGHT_PANEL),
    "error_border_color": (INK, NIGHT_INK),
}
"""Values for the light and for the dark theme."""

_ALWAYS = {
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
    """Light and dark colours, square corners, thin lines instead of shadows."""
    # gradio 6.31 ships the semi-bold cuts with a handful of letters only: regular and bold are whole
    plex = fonts.LocalFont("IBM Plex Sans", weights=(400, 700))
    mono = fonts.LocalFont("IBM Plex Mono", weights=(400, 700))
    base = gr.themes.Base(
        text_size=_TEXT,
        radius_size=sizes.radius_sm,
        font=[plex, "ui-sans-serif", "system-ui", "Noto Sans", "sans-serif"],
        font_mono=[mono, "ui-monospace", "monospace"],
    )
    pairs = {f"{name}_dark": night for name, (_, night) in _DAY_AND_NIGHT.items()}
    return base.set(**{name: day for name, (day, _) in _DAY_AND_NIGHT.items()}, **pairs, **_ALWAYS)
