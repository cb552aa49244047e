"""Links to this page that fill the form, and press Run if they say so.

Each is an ordinary link: opened in another tab it fills the form there. `address.js` handles a plain click.
"""

import dataclasses
from typing import Any, Literal
from urllib.parse import urlencode

from markupsafe import Markup

from demo.core import catalog
from demo.core.machine import HostInfo
from demo.core.spec import OPTIONS, BadInput, RunSpec
from demo.present import naming


def query(spec: RunSpec) -> str:
    """What follows the question mark of a link that makes the form ask for `spec`."""
    asked = catalog.arguments(spec)
    return urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in asked.items()})


def link(spec: RunSpec, words: str, way: Literal["fill", "run", "quiet"]) -> Markup:
    """A link that makes the form ask for `spec`, and with 'run' or 'quiet' presses that button."""
    return Markup('<a class="action" href="?{}" data-follow="{}">{}</a>').format(query(spec), way, words)


def when_quiet(spec: RunSpec) -> Markup:
    """A button that runs `spec` once more, as soon as other programs leave the machine alone."""
    return Markup() if catalog.is_folder(spec.checkpoint) else link(spec, "Run when it is quiet", "quiet")


def other_device(spec: RunSpec, machine: HostInfo | None) -> Markup:
    """For a run refused for lack of a GPU: a button that runs it with device 'auto'; else ''."""
    lacking = machine is not None and machine.gpu is None and spec.device == "cuda"
    return again(spec, {"device": "auto"}) if lacking else Markup()


def again(spec: RunSpec, changes: dict[str, Any]) -> Markup:
    """For each change of a setting a button that runs `spec` with it; '' if the page cannot run that."""
    buttons = Markup()
    if catalog.is_folder(spec.checkpoint):
        return buttons
    for name, value in changes.items():
        try:
            changed = dataclasses.replace(spec, **{name: value})
        except (BadInput, TypeError):  # a stored result may hold anything
            continue
        buttons += link(changed, f"Run again with {OPTIONS[name].label}: {naming.shown_value(value)}", "run")
    return buttons
