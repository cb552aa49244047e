"""What eager and compiled saw or wrote, side by side, as HTML."""

from __future__ import annotations

import base64
import io

from markupsafe import Markup
from PIL import Image

from demo.core import format as fmt
from demo.core import scenes
from demo.core.images import decode_preview
from demo.core.languages import Language
from demo.core.outputs import ImageInfo, Predictions
from demo.core.result import RunResult
from demo.present import drawing, palette, sentences, why_parts
from demo.ui.html.elements import VARIANTS, drawn
from demo.ui.look import source

SCRIPT = source("outputs.js")


def shown(result: RunResult, lang: Language) -> Markup:
    """The predictions of eager and compiled, or their texts, with a sentence on whether they agree."""
    seen = result.predictions
    heading = "what_the_model_writes" if result.spec.unit == "token" else "what_the_model_sees"
    body = Markup()
    if seen is None or not all(variant in seen for variant in VARIANTS):
        if result.status != "ok" or result.spec.weights != "random":
            return Markup()
        body = drawn("outputs.aside", lang, "random_weights")
    else:
        notes = drawn("outputs.notes", lang, why_parts.agreement(result, lang), scenes.is_beyond(result))
        if seen["eager"].text is not None:
            body, heading = notes + _texts(result, seen, lang), "what_the_model_writes"
        elif seen["eager"].labels is not None:
            body = notes + _labels(result.image, seen, lang)
        elif result.image is not None:
            body = notes + _pictures(result, result.image, seen, lang)
    return drawn("outputs.section", lang, heading, body)


def _labels(info: ImageInfo | None, seen: dict[str, Predictions], lang: Language) -> Markup:
    """For each variant: the picture with the most likely label on it, and the five most likely labels below."""
    columns = {}
    for variant in VARIANTS:
        labels = (seen[variant].labels or ())[:5]
        listed = [
            (one.label, "< 0.1 %" if 0 < one.score < 0.0005 else fmt.percent(one.score), one.score) for one in labels
        ]
        columns[variant] = (_labelled(info, seen, variant, lang), listed)
    return drawn("outputs.labels", lang, columns)


def _labelled(
    info: ImageInfo | None, seen: dict[str, Predictions], variant: palette.Variant, lang: Language
) -> tuple[str, str] | None:
    """The picture's address, and the picture in words; None without a readable one."""
    if info is None:
        return None
    try:
        picture = drawing.draw_labels(decode_preview(info.preview_jpeg), seen, variant, count=1)
    except ValueError:
        return None
    named = {"picture": lang.plain_value(info.name), "variant": sentences.variant(variant, lang)}
    return _webp_uri(picture), lang.composed("seen_by", **named)


def _pictures(result: RunResult, info: ImageInfo, seen: dict[str, Predictions], lang: Language) -> Markup:
    """Three views, of which the style sheet shows one: side by side, one over the other, the difference."""
    try:
        preview = decode_preview(info.preview_jpeg)
        uris = {variant: _webp_uri(drawing.draw(preview, info, seen, variant)) for variant in VARIANTS}
        differing = drawing.difference(preview, info, seen["eager"], seen["compiled"])
    except ValueError:
        return drawn("outputs.aside", lang, "seen_gone")
    return drawn(
        "outputs.pictures",
        lang,
        id=result.id,
        images={variant: (uri, _alt(info, seen, variant, lang)) for variant, uri in uris.items()},
        counts={variant: _count(seen[variant], lang) for variant in VARIANTS},
        differing=differing and (_webp_uri(differing), lang.plain("seen_differ", picture=info.name)),
        same="seen_same_boxes" if seen["eager"].boxes is not None else "seen_same_pixels",
    )


def _alt(info: ImageInfo, seen: dict[str, Predictions], variant: str, lang: Language) -> str:
    """The picture in words: the labels of its boxes or segments."""
    things = seen[variant].boxes or seen[variant].segments or ()
    names = [lang.plain_value(thing.label) for thing in things] or [lang.plain("seen_nothing")]
    return lang.composed(
        "seen_things",
        picture=lang.plain_value(info.name),
        variant=sentences.variant(variant, lang),
        things=lang.listed(names),
    )


def _count(seen: Predictions, lang: Language) -> str:
    if seen.boxes is not None:
        return sentences.count(len(seen.boxes), "object", lang)
    segments = sum(segment.label not in drawing.UNTINTED for segment in seen.segments or ())
    return sentences.count(segments, "segment", lang)


def _webp_uri(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=88)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


# Texts

SECONDS = 6.0
"""What eager's answer should take at least, played."""
SLOWED = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def _texts(result: RunResult, seen: dict[str, Predictions], lang: Language) -> Markup:
    """The prompt, and below it both answers, token by token, each with the second at which it is played."""
    starts, slowed = result.prefill_latencies or (0.0, 0.0), _slowed(result)
    columns = {}
    for variant, start in zip(VARIANTS, starts, strict=True):
        step, pieces = result.latencies.get(variant, 0.0), seen[variant].pieces or ()
        columns[variant] = [(f"{(start + index * step) * slowed:.3f}", piece) for index, piece in enumerate(pieces)]
    return drawn(
        "outputs.texts",
        lang,
        prompt=result.spec.prompt,
        parted=why_parts.parted(result, lang),
        parted_at=why_parts.parted_at(result),
        slowed=slowed,
        columns=columns,
    )


def _slowed(result: RunResult) -> int:
    """How many times slower than measured the answers are played."""
    answer = result.answer_seconds
    if answer is None or not answer[0]:
        return 1
    return next((times for times in SLOWED if times * answer[0] >= SECONDS), SLOWED[-1])
