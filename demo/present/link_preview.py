"""What is told of a run where its link is shared: a title, a sentence, and a badge for a README."""

from __future__ import annotations

from html import escape

from demo.core import catalog
from demo.core.languages import ENGLISH, Language
from demo.core.result import RunResult
from demo.present import palette, sentences
from demo.present.fonts import font_for, printable_label

MAX_SENTENCE = 300
"""Characters. Programs that show previews cut longer descriptions."""
_ABOUT = "torch.compile"
_HEIGHT, _LETTERS, _PADDING = 20, 11, 6
"""Of a badge, in pixels: as high as the others that stand in a README."""


def title(result: RunResult, lang: Language) -> str:
    """'shapes-vit 1.14× faster', 'shapes-vit: Too noisy to tell', 'shapes-vit: Out of memory'; without tags."""
    model, answer = lang.plain_value(_clean(sentences.short(result.spec.checkpoint))), _answer(result, lang)
    return f"{model} {answer}" if sentences.outcome(result) in ("faster", "slower") else f"{model}: {answer}"


def _answer(result: RunResult, lang: Language) -> str:
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
    """Its checkpoint, without the folders of one that is on this machine."""
    named = result.spec.checkpoint
    return sentences.short(named) if catalog.is_folder(named) else named


def device(result: RunResult) -> str:
    """The device that was timed, or the one that was asked for; '' for any."""
    if result.environment is not None:
        return result.environment.device_name
    return "" if result.spec.device == "auto" else result.spec.device


def badge_text(result: RunResult) -> str:
    """'1.45× faster on Tesla T4', in English."""
    answer, where = _answer(result, ENGLISH), device(result)
    return printable_label(f"{answer[:1].lower()}{answer[1:]}{f' on {where}' if where else ''}")


def badge(result: RunResult) -> str:
    """The same as an SVG of two fields, in the colour of the faster variant; grey where neither is."""
    answer = badge_text(result)
    colour = {"faster": palette.COMPILED, "slower": palette.EAGER}.get(sentences.outcome(result) or "", palette.PAD)
    widths = [font_for(text, _LETTERS).getlength(text) for text in (_ABOUT, answer)]
    left, right = (round(width) + 2 * _PADDING for width in widths)
    name = escape(f"{printable_label(model(result))}: {_ABOUT} {answer}")
    # `textLength` keeps the text within its field in whatever typeface the reader has.
    texts = "".join(
        f'<text x="{x}" y="14" fill="{palette.text_on(field)}" textLength="{width:.1f}" '
        f'lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
        for x, field, width, text in (
            (_PADDING, palette.PAGE_INK, widths[0], _ABOUT),
            (left + _PADDING, colour, widths[1], answer),
        )
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" role="img" '
        f'aria-label="{name}"><title>{name}</title><g shape-rendering="crispEdges">'
        f'<rect width="{left}" height="{_HEIGHT}" fill="{palette.PAGE_INK}"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{colour}"/></g>'
        f'<g font-family="IBM Plex Sans,Helvetica,Arial,sans-serif" font-size="{_LETTERS}">{texts}</g></svg>\n'
    )
