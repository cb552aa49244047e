"""What is told of a run where its link is shared: a title, a sentence, and a badge for a README."""

from __future__ import annotations

from pathlib import Path

import jinja2

from demo.core import catalog
from demo.core.languages import ENGLISH, Language
from demo.core.result import RunResult
from demo.present import palette, sentences
from demo.present.canvas import font_for, printable_label

MAX_SENTENCE = 300
"""Characters. Programs that show previews cut longer descriptions."""
_ABOUT = "torch.compile"
_LETTERS = 11
"""Height of a badge's letters in pixels, as in `badge.svg`."""
_TEMPLATES = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True)
_TEMPLATES.filters["text_on"] = palette.text_on


def title(result: RunResult, lang: Language) -> str:
    """'shapes-vit 1.14× faster', 'shapes-vit: Too noisy to tell', 'shapes-vit: Out of memory'; without tags."""
    model, told = lang.plain_value(_clean(sentences.short(result.spec.checkpoint))), answer(result, lang)
    return f"{model} {told}" if sentences.outcome(result) in ("faster", "slower") else f"{model}: {told}"


def answer(result: RunResult, lang: Language) -> str:
    """'1.14× faster', '2.00× slower', 'no difference', 'too noisy to tell', 'Out of memory'."""
    return sentences.answer(result, lang) or sentences.status(result, lang)


def description(result: RunResult, lang: Language) -> str:
    """One sentence: the answer with its interval, or the failure; then device and versions."""
    parts, machine = sentences.headline_parts(result, lang), result.environment
    if parts is not None:
        told = [" ".join(filter(None, parts)), sentences.interval(result, lang)]
    else:
        told = [sentences.status(result, lang)]
        told += [lang.plain_quoted(_clean(result.failure.message).rstrip("."))] if result.failure is not None else []
    known = (machine.device_name, f"torch {machine.torch}", f"transformers {machine.transformers}") if machine else ()
    where = [lang.plain_value(_clean(value)) for value in known]
    text = lang.sentence(lang.texts["semicolon"].join([*told, *([lang.listed(where)] if where else [])]))
    return text if len(text) <= MAX_SENTENCE else f"{text[: MAX_SENTENCE - 1].rstrip()}…"


def _clean(text: str) -> str:
    """Without what no HTML can hold, such as half a surrogate pair."""
    return printable_label(text, MAX_SENTENCE)


def model(result: RunResult) -> str:
    """The checkpoint of the run, without the folders of one that is on this machine."""
    named = result.spec.checkpoint
    return sentences.short(named) if catalog.is_folder(named) else named


def device(result: RunResult) -> str:
    """The device that was timed, or the one that was asked for; '' for any."""
    if result.environment is not None:
        return result.environment.device_name
    return "" if result.spec.device == "auto" else result.spec.device


def badge_text(result: RunResult) -> str:
    """'1.45× faster on Tesla T4', in English."""
    told, where = answer(result, ENGLISH), device(result)
    return printable_label(f"{told[:1].lower()}{told[1:]}{f' on {where}' if where else ''}")


def badge(result: RunResult) -> str:
    """An SVG of two fields, `badge_text` in the colour of the faster variant; grey where neither is."""
    told = badge_text(result)
    left, right = (round(font_for(_LETTERS).getlength(text)) + 12 for text in (_ABOUT, told))
    return _TEMPLATES.get_template("badge.svg").render(
        name=f"{printable_label(model(result))}: {_ABOUT} {told}",
        about=_ABOUT,
        answer=told,
        left=left,
        right=right,
        ink=palette.PAGE_INK,
        colour={"faster": palette.COMPILED, "slower": palette.EAGER}.get(sentences.outcome(result) or "", palette.PAD),
    )
