"""Under an answer: when and where it was measured, its link, card and badge, and the title for the browser's window."""

from __future__ import annotations

import os
from urllib.parse import quote

from markupsafe import Markup

from demo.core import limits
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import link_preview, markdown
from demo.ui.html.elements import drawn
from demo.ui.html.takeaway import ADDRESS
from demo.ui.tabs.links import RUN

SPACES = "https://huggingface.co/spaces"


def space() -> str:
    """The address of the Space that serves this page; '' if none does."""
    return f"{SPACES}/{os.environ['SPACE_ID']}" if limits.on_space() else ""


def host() -> str:
    """The address at which this server itself answers: huggingface.co serves no card and no badge of a Space."""
    own, *_ = [*os.environ.get("SPACE_HOST", "").replace(",", " ").split(), ""]
    return f"https://{own}" if limits.on_space() and own else ADDRESS


def link(result: RunResult) -> str:
    """The address of a stored run."""
    return f"{space() or f'{ADDRESS}/'}?{RUN}={quote(result.id, safe='')}"


def badge(result: RunResult) -> str:
    """A stored run's badge, a link to the run, as Markdown."""
    says = markdown.escaped(f"torch.compile: {link_preview.badge_text(result)}")
    return f"[![{says}]({host()}/badge/{quote(result.id, safe='')}.svg)]({link(result)})"


def copy_address(lang: Language) -> Markup:
    """The button that copies the link to what the page shows: the open tab and the stored run."""
    return drawn("share.copy_address", lang, space())


def section(result: RunResult, stored: bool, lang: Language) -> Markup:
    """The line under the answer. Only a stored run has a link."""
    when = f"{result.started_at[:16].replace('T', ' ')} UTC"
    machine = result.environment
    measured = (
        lang.plain("share_measured", time=when, device=machine.device_name, torch=f"torch {machine.torch}")
        if machine is not None
        else lang.plain("share_asked", time=when)
    )
    card = f"{ADDRESS}/card/{quote(result.id, safe='')}.png"
    title = link_preview.title(result, lang)
    return drawn("share.section", lang, title, measured, link(result) if stored else "", card)
