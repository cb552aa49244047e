"""Under an answer: when and where it was measured, its link, card and badge, and the title for the browser's window."""

from __future__ import annotations

import os
from urllib.parse import quote

from demo.core import limits
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import link_preview, markdown
from demo.ui.html.elements import esc
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


def copy_address(lang: Language) -> str:
    """The button that copies the link to what the page shows: the open tab and the stored run."""
    return (
        f'<button type="button" data-address="{esc(space())}" data-done="{esc(lang.plain("take_copied"))}" '
        f'data-failed="{esc(lang.plain("share_not_copied"))}">{lang.html("share_copy")}</button>'
    )


def section(result: RunResult, stored: bool, lang: Language) -> str:
    """The line under the answer. Only a stored run has a link."""
    when = f"{result.started_at[:16].replace('T', ' ')} UTC"
    machine = result.environment
    measured = (
        lang.html("share_measured", time=when, device=machine.device_name, torch=f"torch {machine.torch}")
        if machine is not None
        else lang.html("share_asked", time=when)
    )
    ways = ""
    if stored:
        card = f"{ADDRESS}/card/{quote(result.id, safe='')}.png"
        ways = (
            f'<button type="button" data-copies="share-link" data-done="{esc(lang.plain("take_copied"))}" '
            f'data-failed="{esc(lang.plain("take_not_copied"))}">{lang.html("share_copy")}</button>'
            f'<code id="share-link" dir="ltr">{esc(link(result))}</code>'
            f'<a href="{esc(card)}" target="_blank" rel="noopener">{lang.html("share_card")}</a>'
        )
    title = esc(link_preview.title(result, lang))
    return f'<section class="share" data-title="{title}"><p>{measured}</p>{ways}</section>'
