"""What eager and compiled saw or wrote, side by side, as HTML: texts, or labels, boxes and segments on the picture."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Mapping

from markupsafe import Markup
from PIL import Image

from demo.core import agreement, scenes
from demo.core import format as fmt
from demo.core.images import decode_preview
from demo.core.languages import Language
from demo.core.outputs import Box, ImageInfo, Predictions
from demo.core.result import RunResult
from demo.present import sentences, why_parts
from demo.present.canvas import Canvas, thickest_point
from demo.present.palette import CHANGED, INK, VARIANTS, Variant, label_colours
from demo.ui.html.elements import drawn
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
    info: ImageInfo | None, seen: dict[str, Predictions], variant: Variant, lang: Language
) -> tuple[str, str] | None:
    """The picture's address, and the picture in words; None without a readable one."""
    if info is None:
        return None
    try:
        picture = draw_labels(decode_preview(info.preview_jpeg), seen, variant, count=1)
    except ValueError:
        return None
    named = {"picture": lang.plain_value(info.name), "variant": sentences.variant(variant, lang)}
    return _webp_uri(picture), lang.composed("seen_by", **named)


def _pictures(result: RunResult, info: ImageInfo, seen: dict[str, Predictions], lang: Language) -> Markup:
    """Three views, of which the style sheet shows one: side by side, one over the other, the difference."""
    try:
        preview = decode_preview(info.preview_jpeg)
        uris = {variant: _webp_uri(draw(preview, info, seen, variant)) for variant in VARIANTS}
        differing = difference(preview, info, seen["eager"], seen["compiled"])
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
    segments = sum(segment.label not in UNTINTED for segment in seen.segments or ())
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


# Drawn on the picture: every function returns a new RGB image and leaves the preview alone

UNTINTED = ("background",)
"""The label that segmentation models give to pixels of no known class."""


def draw(
    preview: Image.Image, info: ImageInfo, predictions: Mapping[str, Predictions], variant: Variant
) -> Image.Image:
    """The predictions of `variant`: segments, boxes or labels, whichever it has."""
    if predictions[variant].segments is not None:
        return draw_segments(preview, predictions, variant)
    if predictions[variant].boxes is not None:
        return draw_boxes(preview, info, predictions, variant)
    return draw_labels(preview, predictions, variant)


def draw_labels(
    preview: Image.Image, predictions: Mapping[str, Predictions], variant: Variant, count: int = 3
) -> Image.Image:
    """The `count` likeliest labels in the lower left corner, the first one larger."""
    canvas = Canvas(preview)
    labels = sorted(predictions[variant].labels or (), key=lambda label: -_sort_key(label.score))[:count]
    if not labels:
        canvas.note("nothing recognised")
    bottom = canvas.image.height - canvas.line
    for place, label in reversed(list(enumerate(labels))):
        size = round(canvas.font_size * (1.3 if place == 0 else 0.9))
        chip = canvas.chip(_first_name(label.label), label.score, size)
        bottom -= chip.height
        canvas.paste(chip, (canvas.line, bottom), VARIANTS[variant] if place == 0 else INK)
        bottom -= max(1, canvas.line // 2)
    return canvas.image


def draw_boxes(
    preview: Image.Image, info: ImageInfo, predictions: Mapping[str, Predictions], variant: Variant
) -> Image.Image:
    """Each box with its label and score; the most certain ones lie on top and have first choice of a caption's place.

    A box that is not finite, or lies outside the picture, is left out.
    """
    canvas = Canvas(preview)
    colours = label_colours(box.label for side in predictions.values() for box in side.boxes or ())
    boxes = sorted(predictions[variant].boxes or (), key=lambda box: -_sort_key(box.score))
    placed = [(box, rect) for box in boxes if (rect := canvas.rect(box, info)) is not None]
    if not placed:
        canvas.note("nothing found")
    for box, rect in reversed(placed):
        canvas.outline(rect, colours[box.label])
    size = canvas.caption_size(len(placed))
    for box, rect in placed:
        chip = canvas.chip(box.label, box.score, size)
        canvas.caption(chip, (rect[0], rect[1] - chip.height), colours[box.label])
    return canvas.image


def draw_segments(preview: Image.Image, predictions: Mapping[str, Predictions], variant: Variant) -> Image.Image:
    """Each segment tinted and outlined in its label's colour, its caption well inside it; large ones come first.

    Segments named in `UNTINTED` stay as they are.
    """
    canvas = Canvas(preview)
    colours = label_colours(segment.label for side in predictions.values() for segment in side.segments or ())
    segments = sorted(predictions[variant].segments or (), key=lambda segment: -segment.area)
    masks = [(segment, canvas.mask(segment)) for segment in segments if segment.label.lower() not in UNTINTED]
    masks = [(segment, mask) for segment, mask in masks if mask.any()]
    if not masks:
        canvas.note("nothing found")
    canvas.tint([(mask, colours[segment.label]) for segment, mask in masks])
    size = canvas.caption_size(len(masks))
    for segment, mask in masks:
        chip = canvas.chip(_first_name(segment.label), segment.score, size)
        x, y = thickest_point(mask)
        canvas.caption(chip, (x - chip.width // 2, y - chip.height // 2), colours[segment.label])
    return canvas.image


def difference(preview: Image.Image, info: ImageInfo, eager: Predictions, compiled: Predictions) -> Image.Image | None:
    """Where two sets of boxes or segments differ, on a faded picture; None where they do not, or hold only labels.

    Boxes: those without a partner of the same label at an IoU of `agreement.SAME_BOX_IOU`, each in its variant's
    colour. Segments: every pixel whose label changed, widened so that a single one can be seen. Not compared: scores,
    and which objects of one label a pixel belongs to.
    """
    canvas = Canvas(preview, faded=True)
    if eager.segments is not None and compiled.segments is not None:
        changed = agreement.changed_pixels(eager.segments, compiled.segments)
        if not changed.any():
            return None
        share = float(changed.mean())
        canvas.highlight(changed)
        shown = "under 0.1 %" if share < 0.0005 else fmt.percent(share)
        canvas.note(f"{shown} of the pixels differ", CHANGED)
        return canvas.image
    unmatched = _unmatched(eager.boxes or (), compiled.boxes or ())
    placed = [(name, box, rect) for name, box in unmatched if (rect := canvas.rect(box, info)) is not None]
    if not placed:
        return None
    for name, _, rect in placed:
        canvas.outline(rect, VARIANTS[name])
    size = canvas.caption_size(len(placed))
    for name, box, rect in placed:
        chip = canvas.chip(f"only {name}: {box.label}", box.score, size)
        canvas.caption(chip, (rect[0], rect[1] - chip.height), VARIANTS[name])
    return canvas.image


def _unmatched(eager: Iterable[Box], compiled: Iterable[Box]) -> list[tuple[Variant, Box]]:
    """The boxes that only one variant has, with the variant's name."""
    ours, theirs = ([box for box in side if all(map(math.isfinite, box.box))] for side in (eager, compiled))
    pairs = agreement.match_boxes(ours, theirs, agreement.SAME_BOX_IOU)
    only_ours = [box for place, box in enumerate(ours) if place not in {i for i, _ in pairs}]
    only_theirs = [box for place, box in enumerate(theirs) if place not in {j for _, j in pairs}]
    found: list[tuple[Variant, Box]] = [("eager", box) for box in only_ours]
    return [*found, *(("compiled", box) for box in only_theirs)]


def _sort_key(score: float) -> float:
    """A score that is not a number comes last."""
    return score if math.isfinite(score) else -1.0


def _first_name(label: str) -> str:
    """'lion' of ImageNet's 'lion, king of beasts, Panthera leo'. Not for boxes: a query may hold a comma."""
    return label.split(",")[0].strip() or label
