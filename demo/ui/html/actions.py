"""Next steps for a run: links to this page that fill the form, and press Run if they say so.

Each is an ordinary link: opened in another tab it fills the form there. `address.js` handles a plain click.
"""

import dataclasses
from typing import Any, Literal
from urllib.parse import urlencode

from markupsafe import Markup

from demo.core import catalog
from demo.core.languages import Language
from demo.core.machine import HostInfo
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL, BadInput, RunSpec
from demo.present import sentences

LONGER_SECONDS = 30.0
"""The timing offered for a run that ended before its precision was reached."""


def query(spec: RunSpec) -> str:
    """What follows the question mark of a link that makes the form ask for `spec`."""
    asked = catalog.arguments(spec)
    return urlencode({name: str(value).lower() if isinstance(value, bool) else value for name, value in asked.items()})


def _link(spec: RunSpec, words: str, way: Literal["fill", "run", "best"]) -> Markup:
    """A link that makes the form ask for `spec`; `words` are HTML."""
    asked = query(spec) + ("&best" if way == "best" else "")
    return Markup('<a class="action" href="?{}" data-follow="{}">{}</a>').format(asked, way, Markup(words))


def find_best(spec: RunSpec, lang: Language) -> Markup:
    """A button that starts the search for the best way to run this model; '' if the page cannot run it."""
    if catalog.is_folder(spec.checkpoint) or spec.task == OWN_MODEL:
        return Markup()
    return _link(spec, lang.html("best"), "best")


def fill(words: str, **asked: Any) -> Markup:
    """A link that makes the form ask for this, given as to `catalog.make_spec`; '' if this page cannot run that."""
    try:
        return _link(catalog.make_spec(**asked), words, "fill")
    except BadInput:
        return Markup()


def longer(result: RunResult, lang: Language) -> Markup:
    """'Run again with 30 s', if time was up before the precision was reached or the calls of this process leave the
    verdict open; else ''. What lies between processes, more time does not narrow."""
    spec, speedup = result.spec, result.speedup
    if result.failure is not None or speedup is None or spec.iterations is not None or spec.protocol != "interleaved":
        return Markup()
    wide = speedup.within.half_width > spec.precision or sentences.unsure_within(result)
    if not wide or spec.most_seconds >= LONGER_SECONDS:
        return Markup()
    return again(spec, {"most_seconds": LONGER_SECONDS}, lang)


def other_device(spec: RunSpec, machine: HostInfo | None, lang: Language) -> Markup:
    """For a run refused for lack of a GPU: a button that runs it with device 'auto'; else ''."""
    lacking = machine is not None and machine.gpu is None and spec.device == "cuda"
    return again(spec, {"device": "auto"}, lang) if lacking else Markup()


def again(spec: RunSpec, changes: dict[str, Any], lang: Language) -> Markup:
    """For each change of a setting a button that runs `spec` with it; '' if the page cannot run that."""
    buttons = Markup()
    if catalog.is_folder(spec.checkpoint):
        return buttons
    for name, value in changes.items():
        try:
            changed = dataclasses.replace(spec, **{name: value})
        except (BadInput, TypeError):  # a stored result may hold anything
            continue
        if name == "most_seconds":
            words = lang.html("again_longer", seconds=f"{value:g}")
        else:
            words = lang.marked(lang.composed("again_with", setting=sentences.named_setting(name, value, lang)))
        buttons += _link(changed, words, "run")
    return buttons
