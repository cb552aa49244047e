"""What eager and compiled saw or wrote, side by side, as HTML: texts, or labels, boxes and segments on the picture."""

import base64
import io
from collections.abc import Mapping

from markupsafe import Markup
from PIL import Image

from demo.core import catalog, format as fmt, outputs
from demo.core.images import decode_preview
from demo.core.languages import Language
from demo.core.outputs import Box, ImageInfo, Predictions
from demo.core.result import RunResult
from demo.present import sentences, why_parts
from demo.present.canvas import Canvas, thickest_point
from demo.present.palette import CHANGED, COMPILED, EAGER, VARIANTS, Variant, label_colours
from demo.ui.html.elements import drawn
from demo.ui.look import source

SCRIPT = source("outputs.js")


def shown(result: RunResult, lang: Language) -> Markup:
    """The predictions of eager and compiled, or their texts, with a sentence on whether they agree."""
    seen, info = result.predictions, result.image
    heading = "what_the_model_writes" if result.spec.unit == "token" else "what_the_model_sees"
    if seen is None or not all(variant in seen for variant in VARIANTS):
        if result.status != "ok" or result.spec.weights != "random":
            return Markup()
        return drawn("outputs.section", lang, heading, drawn("outputs.aside", lang, "random_weights"))
    if seen["eager"].text is not None:
        body = _texts(result, seen, lang)
    elif seen["eager"].labels is not None:
        body = _labels(info, seen, lang)
    else:
        body = _pictures(result, info, seen, lang) if info is not None else Markup()
    beyond = catalog.is_beyond(result.spec.checkpoint, info.sha256 if info else None)
    notes = drawn("outputs.notes", lang, why_parts.agreement(result, lang), beyond)
    return drawn("outputs.section", lang, heading, notes + body)


def _preview(info: ImageInfo | None) -> Image.Image | None:
    """The stored copy of the picture; None where there is none, or none that can be read."""
    try:
        return decode_preview(info.preview_jpeg) if info is not None else None
    except ValueError:
        return None


def _labels(info: ImageInfo | None, seen: dict[str, Predictions], lang: Language) -> Markup:
    """For each variant: the picture with the most likely label on it, and the five most likely labels below."""
    preview, columns = _preview(info), {}
    for variant in VARIANTS:
        picture = None
        if info is not None and preview is not None:
            names = {"picture": lang.plain_value(info.name), "variant": sentences.variant(variant, lang)}
            picture = _webp_uri(draw_label(preview, seen, variant)), lang.composed("seen_by", **names)
        columns[variant] = picture, (seen[variant].labels or ())[:5]
    return drawn("outputs.labels", lang, columns)


def _pictures(result: RunResult, info: ImageInfo, seen: dict[str, Predictions], lang: Language) -> Markup:
    """Three views, of which the style sheet shows one: side by side, one over the other, the difference."""
    if (preview := _preview(info)) is None:
        return drawn("outputs.aside", lang, "seen_gone")
    boxes = seen["eager"].boxes is not None
    images, counts = {}, {}
    for variant in VARIANTS:
        picture = draw_boxes(preview, info, seen, variant) if boxes else draw_segments(preview, seen, variant)
        things = seen[variant].boxes or seen[variant].segments or ()
        names = [lang.plain_value(thing.label) for thing in things] or [lang.plain("seen_nothing")]
        told = {"picture": lang.plain_value(info.name), "variant": sentences.variant(variant, lang)}
        images[variant] = _webp_uri(picture), lang.composed("seen_things", **told, things=lang.listed(names))
        number = sum(boxes or thing.label not in UNTINTED for thing in things)
        counts[variant] = sentences.count(number, "object" if boxes else "segment", lang)
    differing = difference(preview, info, seen["eager"], seen["compiled"])
    return drawn(
        "outputs.pictures",
        lang,
        result.id,
        images,
        counts,
        differing=differing and (_webp_uri(differing), lang.plain("seen_differ", picture=info.name)),
        same="seen_same_boxes" if boxes else "seen_same_pixels",
    )


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
    columns = {
        variant: (start * slowed, result.latencies.get(variant, 0.0) * slowed, seen[variant].pieces or ())
        for variant, start in zip(VARIANTS, starts, strict=True)
    }
    parted, at = why_parts.parted(result, lang), why_parts.parted_at(result)
    return drawn("outputs.texts", lang, result.spec.prompt, parted, at, slowed, columns)


def _slowed(result: RunResult) -> int:
    """How many times slower than measured the answers are played."""
    answer = result.answer_seconds
    if answer is None or not answer[0]:
        return 1
    return next((times for times in SLOWED if times * answer[0] >= SECONDS), SLOWED[-1])


# Drawn on the picture: every function returns a new RGB image and leaves the preview alone

UNTINTED = ("background",)
"""The label that segmentation models give to pixels of no known class."""


def draw_label(preview: Image.Image, predictions: Mapping[str, Predictions], variant: Variant) -> Image.Image:
    """The likeliest label in the lower left corner."""
    canvas = Canvas(preview)
    for label in (predictions[variant].labels or ())[:1]:
        chip = canvas.chip(_first_name(label.label), label.score, round(canvas.font_size * 1.3))
        canvas.paste(chip, (canvas.line, canvas.image.height - canvas.line - chip.height), VARIANTS[variant])
    return canvas.image


def draw_boxes(
    preview: Image.Image, info: ImageInfo, predictions: Mapping[str, Predictions], variant: Variant
) -> Image.Image:
    """Each box with its label and score; the most certain ones lie on top and have first choice of a caption's place.

    A box that is not finite, or lies outside the picture, is left out.
    """
    canvas = Canvas(preview)
    colours = label_colours(box.label for side in predictions.values() for box in side.boxes or ())
    boxes = sorted(predictions[variant].boxes or (), key=lambda box: -box.score)
    if not _outlined(canvas, info, [(box, box.label, colours[box.label]) for box in boxes]):
        canvas.note("nothing found")
    return canvas.image


def _outlined(canvas: Canvas, info: ImageInfo, boxes: list[tuple[Box, str, str]]) -> bool:
    """Draws boxes with their captions and colours, the first one on top; False where none is in the picture."""
    placed = [(*one, rect) for one in boxes if (rect := canvas.rect(one[0], info)) is not None]
    for _, _, colour, rect in reversed(placed):
        canvas.outline(rect, colour)
    size = canvas.caption_size(len(placed))
    for box, caption, colour, rect in placed:
        chip = canvas.chip(caption, box.score, size)
        canvas.caption(chip, (rect[0], rect[1] - chip.height), colour)
    return bool(placed)


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

    Boxes: those without a partner of the same label at an IoU of `outputs.SAME_BOX_IOU`, each in its variant's
    colour. Segments: every pixel whose label changed, widened so that a single one can be seen. Not compared: scores,
    and which objects of one label a pixel belongs to.
    """
    canvas = Canvas(preview, faded=True)
    if eager.segments is not None and compiled.segments is not None:
        changed = outputs.changed_pixels(eager.segments, compiled.segments)
        if not changed.any():
            return None
        share = float(changed.mean())
        canvas.highlight(changed)
        shown = "under 0.1 %" if share < 0.0005 else fmt.percent(share)
        canvas.note(f"{shown} of the pixels differ", CHANGED)
        return canvas.image
    ours, theirs = eager.boxes or (), compiled.boxes or ()
    pairs = outputs.match_boxes(ours, theirs, outputs.SAME_BOX_IOU)
    matched = [{pair[side] for pair in pairs} for side in (0, 1)]
    only = [(box, f"only eager: {box.label}", EAGER) for i, box in enumerate(ours) if i not in matched[0]]
    only += [(box, f"only compiled: {box.label}", COMPILED) for j, box in enumerate(theirs) if j not in matched[1]]
    return canvas.image if _outlined(canvas, info, only) else None


def _first_name(label: str) -> str:
    """'lion' of ImageNet's 'lion, king of beasts, Panthera leo'. Not for boxes: a query may hold a comma."""
    return label.split(",")[0].strip() or label
