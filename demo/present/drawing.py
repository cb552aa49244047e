"""What a model saw, drawn: labels, boxes and segments on the picture, and where eager and compiled differ.

Every function returns a new RGB image and leaves the preview alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from PIL import Image

from demo.core import agreement
from demo.core.format import percent
from demo.core.outputs import Box, ImageInfo, Predictions
from demo.present.canvas import Canvas, around_box, around_point, thickest_point
from demo.present.palette import CHANGED, INK, VARIANTS, Variant, label_colours

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
    canvas = Canvas.of(preview)
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
    canvas = Canvas.of(preview)
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
        canvas.caption(chip, around_box(rect, chip), colours[box.label])
    return canvas.image


def draw_segments(preview: Image.Image, predictions: Mapping[str, Predictions], variant: Variant) -> Image.Image:
    """Each segment tinted and outlined in its label's colour, its caption well inside it; large ones come first.

    Segments named in `UNTINTED` stay as they are.
    """
    canvas = Canvas.of(preview)
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
        middle = canvas.frame[0] + x, canvas.frame[1] + y
        canvas.caption(chip, around_point(middle, chip), colours[segment.label])
    return canvas.image


def difference(preview: Image.Image, info: ImageInfo, eager: Predictions, compiled: Predictions) -> Image.Image | None:
    """Where two sets of boxes or segments differ, on a faded picture; None where they do not, or hold only labels.

    Boxes: those without a partner of the same label at an IoU of `agreement.SAME_BOX_IOU`, each in its variant's
    colour. Segments: every pixel whose label changed, widened so that a single one can be seen. Not compared: scores,
    and which objects of one label a pixel belongs to.
    """
    canvas = Canvas.of(preview, faded=True)
    if eager.segments is not None and compiled.segments is not None:
        changed = agreement.changed_pixels(eager.segments, compiled.segments)
        if not changed.any():
            return None
        share = float(changed.mean())
        canvas.highlight(changed)
        shown = "under 0.1 %" if share < 0.0005 else percent(share)
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
        canvas.caption(chip, around_box(rect, chip), VARIANTS[name])
    return canvas.image


def _unmatched(eager: Iterable[Box], compiled: Iterable[Box]) -> list[tuple[str, Box]]:
    """The boxes that only one variant has, with the variant's name."""
    ours, theirs = ([box for box in side if all(map(math.isfinite, box.box))] for side in (eager, compiled))
    pairs = agreement.match_boxes(ours, theirs, agreement.SAME_BOX_IOU)
    only_ours = [box for place, box in enumerate(ours) if place not in {i for i, _ in pairs}]
    only_theirs = [box for place, box in enumerate(theirs) if place not in {j for _, j in pairs}]
    return [("eager", box) for box in only_ours] + [("compiled", box) for box in only_theirs]


def _sort_key(score: float) -> float:
    """A score that is not a number comes last."""
    return score if math.isfinite(score) else -1.0


def _first_name(label: str) -> str:
    """'lion' of ImageNet's 'lion, king of beasts, Panthera leo'. Not for boxes: a query may hold a comma."""
    return label.split(",")[0].strip() or label
