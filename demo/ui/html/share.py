"""Under an answer: when and where it was measured, the link to it, and the title for the browser's window."""

from __future__ import annotations

import os
from urllib.parse import quote

from demo.core import format as fmt
from demo.core import limits
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.present import sentences
from demo.ui.html.elements import esc
from demo.ui.html.results import short
from demo.ui.html.takeaway import ADDRESS
from demo.ui.tabs.links import RUN

SPACES = "https://huggingface.co/spaces"


def space() -> str:
    """The address of the Space that serves this page; '' if none does."""
    return f"{SPACES}/{os.environ['SPACE_ID']}" if limits.on_space() else ""


def copy_address(lang: Language) -> str:
    """The button that copies the link to what the page shows: the open tab and the stored run."""
    return (
        f'<button type="button" data-address="{esc(space())}" data-done="{esc(lang.plain("take_copied"))}" '
        f'data-failed="{esc(lang.plain("share_not_copied"))}">{lang.html("share_copy")}</button>'
    )


def title(result: RunResult, lang: Language) -> str:
    """'shapes-vit 1.14× faster', 'shapes-vit: Too noisy to tell', 'shapes-vit: Out of memory'; without tags."""
    model, speedup = lang.plain_value(short(result.spec.checkpoint)), result.speedup
    match sentences.outcome(result):
        case "faster" if speedup is not None:
            return f"{model} {lang.plain('answer_faster', ratio=fmt.ratio(speedup.ratio))}"
        case "slower" if speedup is not None:
            return f"{model} {lang.plain('answer_slower', ratio=fmt.ratio(1 / speedup.ratio))}"
        case "same":
            return f"{model}: {lang.plain('answer_same')}"
        case None:
            return f"{model}: {sentences.status(result, lang)}"
        case noisy:
            return f"{model}: {lang.plain(f'{noisy}_figure')} {lang.plain(f'{noisy}_after')}"


def section(result: RunResult, stored: bool, lang: Language) -> str:
    """The line under the answer. Only a stored run has a link."""
    when = f"{result.started_at[:16].replace('T', ' ')} UTC"
    machine = result.environment
    measured = (
        lang.html("share_measured", time=when, device=machine.device_name, torch=f"torch {machine.torch}")
        if machine is not None
        else lang.html("share_asked", time=when)
    )
    link = ""
    if stored:
        address = f"{space() or f'{ADDRESS}/'}?{RUN}={quote(result.id, safe='')}"
        link = (
            f'<button type="button" data-copies="share-link" data-done="{esc(lang.plain("take_copied"))}" '
            f'data-failed="{esc(lang.plain("take_not_copied"))}">{lang.html("share_copy")}</button>'
            f'<code id="share-link" dir="ltr">{esc(address)}</code>'
        )
    basis = f" {lang.marked(lang.sentence(told))}" if (told := sentences.basis(result, lang)) else ""
    return f'<section class="share" data-title="{esc(title(result, lang))}"><p>{measured}{basis}</p>{link}</section>'
