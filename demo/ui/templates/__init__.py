"""Renders HTML from the Jinja templates in this folder.

Plain text is escaped in a template, `Markup` is not. In templates, `fmt` and `naming` are the Python modules.
"""

import re
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from ...core import format as fmt
from ...present import naming


def percentage(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0) * 100:.2f}%"


def _source(name: str) -> str:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    # a browser would show line breaks between tags and expressions as spaces
    return re.sub(r"(?<=[>}])\s*\n\s*(?=[<{])", "", text)


_environment = Environment(
    loader=FunctionLoader(_source),
    autoescape=True,
    undefined=StrictUndefined,
)
_environment.filters["percentage"] = percentage
_environment.globals |= {"fmt": fmt, "naming": naming}


def render(macro: str, /, *values: object, **named: object) -> Markup:
    """Returns the HTML of a macro called with these values. "results.card" is the macro `card` in results.html."""
    file, _, name = macro.partition(".")
    html: Markup = getattr(_environment.get_template(f"{file}.html").module, name)(*values, **named)
    return html.replace(" %", "\N{NO-BREAK SPACE}%")
