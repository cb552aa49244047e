"""Renders HTML from the Jinja templates of this folder.

A template escapes plain text, but not `Markup`. In templates `fmt`, `naming` and `verdict` are the Python modules.
"""

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from demo.core import format as fmt
from demo.present import naming, verdict


class _NoBreaks(Extension):
    """Removes line breaks between tags and expressions, which a browser would show as spaces."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        return re.sub(r"(?<=[>}])\s*\n\s*(?=[<{])", "", source)


def percentage(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0) * 100:.2f}%"


_environment = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    extensions=[_NoBreaks],
)
_environment.filters["percentage"] = percentage
_environment.globals |= {"fmt": fmt, "naming": naming, "verdict": verdict}


def render(macro: str, /, *values: object, **named: object) -> Markup:
    """Returns the HTML of a macro called with these values. The macro "results.card" is `card` of results.html."""
    file, _, name = macro.partition(".")
    html: Markup = getattr(_environment.get_template(f"{file}.html").module, name)(*values, **named)
    return html.replace(" %", "\N{NO-BREAK SPACE}%")
