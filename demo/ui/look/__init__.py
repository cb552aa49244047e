"""How the page looks: theme, style sheets, and the scripts that run in the browser."""

from pathlib import Path

from markupsafe import Markup


def source(name: str) -> str:
    """The text of a style sheet or script of this folder."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def script(name: str) -> Markup:
    """A script of this folder as an element of the page's head."""
    return Markup(f"<script>{source(name)}</script>")
