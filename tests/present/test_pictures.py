import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from demo.core.base64_images import encode_mask
from demo.core.outputs import Box, ImageInfo, Label, Predictions, Segment
from demo.present import pictures
from demo.present.pictures import (
    CHANGED,
    COMPILED,
    EAGER,
    MIN_SIDE,
    PALETTE,
    contrast,
    difference,
    draw_boxes,
    draw_label,
    draw_segments,
    label_colours,
    rgb,
    text_on,
)

GREY = (120, 120, 120)
SHAPES = [(1, 1), (20, 1), (1, 20), (96, 96), (640, 32), (32, 640), (640, 480), (480, 640)]


NAMES = ["zebra", "cat", "dog", "remote control", "sofa", "lamp", "bus", "tree"]


def preview(width: int = 640, height: int = 480) -> Image.Image:
    return Image.new("RGB", (width, height), GREY)


def info(width: int = 640, height: int = 480) -> ImageInfo:
    return ImageInfo("a.png", width, height, "", "")


def box(label: str, *corners: float, score: float = 0.9) -> Box:
    return Box(label, score, (corners[0], corners[1], corners[2], corners[3]))


def boxes(*found: Box) -> Predictions:
    return Predictions(boxes=found)


def segment(label: str, mask: np.ndarray, score: float | None = None) -> Segment:
    return Segment(label, score, float(mask.mean()), encode_mask(mask))


def half(width: int = 640, height: int = 480, right: bool = False) -> np.ndarray:
    mask = np.zeros((height, width), bool)
    mask[:, width // 2 :] = right
    mask[:, : width // 2] = not right
    return mask


def has(image: Image.Image, colour: str) -> bool:
    return bool((np.asarray(image) == rgb(colour)).all(axis=2).any())


class Written(NamedTuple):
    text: str
    rect: tuple[int, int, int, int]
    colour: str


@pytest.fixture
def written(monkeypatch) -> Iterator[list[Written]]:
    """Every caption written, with the rectangle that it covers."""
    seen: list[Written] = []
    paste = pictures.Canvas.paste

    def record(canvas, chip, at, colour) -> None:
        paste(canvas, chip, at, colour)
        seen.append(Written(chip.text, (at[0], at[1], at[0] + chip.width, at[1] + chip.height), colour))

    monkeypatch.setattr(pictures.Canvas, "paste", record)
    yield seen


def overlapping(captions: list[Written]) -> list[tuple[str, str]]:
    return [
        (one.text, other.text)
        for one, other in itertools.combinations(captions, 2)
        if pictures.overlap(one.rect, other.rect)
    ]


def test_labels_have_different_colours_while_there_are_enough() -> None:
    wanted = [label_colours([name])[name] for name in NAMES]
    assert len(set(wanted)) < len(PALETTE) == len(NAMES), "names that do not compete prove nothing"
    assert len(set(label_colours(NAMES).values())) == len(PALETTE)
    assert label_colours(NAMES) == label_colours(reversed(NAMES))


def test_a_label_keeps_its_colour_in_both_variants_though_one_saw_more() -> None:
    others = (box(name, 400, 9, 500, 90) for name in NAMES[1:])
    predictions = {
        "eager": boxes(box("zebra", 100, 200, 300, 400)),
        "compiled": boxes(box("zebra", 100, 200, 300, 400), *others),
    }
    assert label_colours(NAMES)["zebra"] != label_colours(["zebra"])["zebra"], "the others take nothing from it"
    one = draw_boxes(preview(), info(), predictions, "eager")
    other = draw_boxes(preview(), info(), predictions, "compiled")
    assert one.getpixel((100, 300)) == other.getpixel((100, 300)) != GREY


def test_text_is_readable_on_every_chip() -> None:
    for colour in [*PALETTE, EAGER, COMPILED, CHANGED, pictures.INK]:
        assert contrast(text_on(colour), colour) >= 4.5


def test_every_shape_of_picture_can_be_drawn_on() -> None:
    for shape in SHAPES:
        width, height = shape
        whole = np.ones((height, width), bool)
        label = Predictions(labels=(Label("a thing with quite a long name", 0.5),))
        found = boxes(box("a thing with quite a long name", 0, 0, width, height), box("b", 0, 0, 1, 1))
        segments = Predictions(segments=(segment("wall", whole), segment("door", whole, 0.5)))
        for image in (
            draw_label(preview(*shape), {"eager": label}, "eager"),
            draw_boxes(preview(*shape), info(*shape), {"eager": found}, "eager"),
            draw_segments(preview(*shape), {"eager": segments}, "eager"),
        ):
            assert image.mode == "RGB" and max(image.size) >= MIN_SIDE


def test_the_likeliest_label_is_written_by_its_first_name(written: list[Written]) -> None:
    labels = (Label("lion, king of beasts, Panthera leo", 0.8), Label("hyena", 0.1))
    draw_label(preview(), {"eager": Predictions(labels=labels)}, "eager")
    assert [(mark.text, mark.colour) for mark in written] == [("lion 80 %", EAGER)]


def test_a_box_is_drawn_where_it_lies_in_the_full_size_picture_and_not_beyond_it() -> None:
    image = draw_boxes(preview(), info(6400, 4800), {"eager": boxes(box("cat", 1000, 2000, 3000, 4000))}, "eager")
    colour = rgb(label_colours(["cat"])["cat"])
    edge = np.argwhere((np.asarray(image)[300] == colour).all(axis=1)).ravel()
    assert edge.min() == 100 and edge.max() == 299
    assert image.getpixel((200, 300)) == GREY and image.getpixel((320, 300)) == GREY
    image = draw_boxes(preview(), info(), {"eager": boxes(box("cat", -50, -50, 900, 900))}, "eager")  # clamped
    assert image.getpixel((0, 240)) == image.getpixel((639, 240)) == image.getpixel((320, 479)) == colour


def test_captions_stay_inside_the_picture(written: list[Written]) -> None:
    for x, y in [(0, 0), (600, 0), (0, 440), (600, 440), (300, 0), (300, 470)]:
        draw_boxes(preview(), info(), {"eager": boxes(box("a long name of a thing", x, y, x + 40, y + 40))}, "eager")
    assert len(written) == 6
    for mark in written:
        assert mark.rect[0] >= 0 and mark.rect[1] >= 0 and mark.rect[2] <= 640 and mark.rect[3] <= 480


def test_control_characters_of_a_label_are_not_drawn(written: list[Written]) -> None:
    draw_boxes(preview(), info(), {"eager": boxes(box("a\x00b\n\u202ec\ud800\td", 9, 90, 300, 300))}, "eager")
    assert any(mark.text == "a b c d 90 %" for mark in written)


def test_a_segment_is_tinted_where_it_is_and_nowhere_else() -> None:
    image = draw_segments(preview(), {"eager": Predictions(segments=(segment("sky", half()),))}, "eager")
    colour = np.array(rgb(label_colours(["sky"])["sky"]))
    tinted = np.asarray(image)[450, 20]
    assert np.abs(tinted - (np.array(GREY) * (1 - pictures.TINT) + colour * pictures.TINT)).max() <= 1
    assert image.getpixel((500, 450)) == GREY


def test_the_caption_of_a_segment_lies_inside_it_though_its_middle_is_empty(written: list[Written]) -> None:
    ring = np.ones((480, 640), bool)
    ring[100:470, 10:560] = False
    draw_segments(preview(), {"eager": Predictions(segments=(segment("frame", ring),))}, "eager")
    left, top, right, bottom = next(mark.rect for mark in written if mark.text == "frame")
    assert ring[top:bottom, left:right].mean() > 0.9


def test_equal_boxes_and_segments_have_no_difference() -> None:
    seen = boxes(box("cat", 10, 10, 90, 90), box("cat", 10, 10, 90, 90), box("point", 5, 5, 5, 5))
    assert difference(preview(), info(), seen, seen) is None
    sky, again = (Predictions(segments=(segment("sky", half(), score),)) for score in (0.5, 0.6))
    assert difference(preview(), info(), sky, again) is None


def test_a_box_that_only_one_variant_saw_is_drawn_in_that_variant_s_colour(written: list[Written]) -> None:
    shared = box("dog", 10, 10, 90, 90)
    image = difference(preview(), info(), boxes(shared, box("cat", 300, 200, 500, 400)), boxes(shared))
    assert image is not None and image.getpixel((300, 300)) == rgb(EAGER) and not has(image, COMPILED)
    assert [mark.text for mark in written] == ["only eager: cat 90 %"]


def test_a_box_that_changed_its_label_is_drawn_for_both(written: list[Written]) -> None:
    difference(preview(), info(), boxes(box("cat", 9, 9, 200, 200)), boxes(box("dog", 9, 9, 200, 200)))
    assert {mark.text for mark in written} == {"only eager: cat 90 %", "only compiled: dog 90 %"}
    assert not overlapping(written)


def test_changed_pixels_are_highlighted_and_counted_and_a_single_one_can_be_seen(written: list[Written]) -> None:
    moved = half()
    moved[:, 320:384] = True
    sides = [Predictions(segments=(segment("sky", sky), segment("sea", ~sky))) for sky in (half(), moved)]
    image = difference(preview(), info(), *sides)
    assert image is not None and image.getpixel((350, 100)) == rgb(CHANGED)
    assert image.getpixel((200, 100)) != rgb(CHANGED) != image.getpixel((500, 100))
    speck = half()
    speck[100, 600] = True
    sides[1] = Predictions(segments=(segment("sky", speck), segment("sea", ~speck)))
    image = difference(preview(), info(), *sides)
    assert image is not None and (np.asarray(image)[90:110, 590:610] == rgb(CHANGED)).all(axis=2).sum() >= 9
    assert [mark.text for mark in written] == ["10 % of the pixels differ", "under 0.1 % of the pixels differ"]
