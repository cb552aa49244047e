from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from demo.core.images import encode_mask
from demo.core.outputs import Box, ImageInfo, Label, Predictions, Segment
from demo.present import canvas, fonts, palette
from demo.present.canvas import MAX_ASPECT, MIN_SIDE
from demo.present.drawing import difference, draw, draw_boxes, draw_labels, draw_segments
from demo.present.palette import CHANGED, COMPILED, COMPILED_ON_DARK, EAGER, PALETTE, contrast, label_colours, text_on

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


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def has(image: Image.Image, colour: str) -> bool:
    return bool((np.asarray(image) == rgb(colour)).all(axis=2).any())


class Written(NamedTuple):
    text: str
    rect: tuple[int, int, int, int]
    colour: str


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Written]]:
    """Every caption written, with the rectangle that it covers."""
    seen: list[Written] = []
    paste = canvas.Canvas.paste

    def record(canvas, chip, at, colour) -> None:
        paste(canvas, chip, at, colour)
        seen.append(Written(chip.text, (at[0], at[1], at[0] + chip.width, at[1] + chip.height), colour))

    monkeypatch.setattr(canvas.Canvas, "paste", record)
    yield seen


def overlapping(captions: list[Written]) -> list[tuple[str, str]]:
    return [
        (one.text, other.text)
        for one, other in itertools.combinations(captions, 2)
        if canvas.overlap(one.rect, other.rect)
    ]


# Colours


def test_a_label_has_one_colour_whatever_the_order_of_the_labels() -> None:
    labels = ["cat", "dog", "remote control", "sofa", "lamp"]
    assert label_colours(labels) == label_colours(reversed(labels))


def test_labels_have_different_colours_while_there_are_enough() -> None:
    wanted = [label_colours([name])[name] for name in NAMES]
    assert len(set(wanted)) < len(PALETTE) == len(NAMES), "names that do not compete prove nothing"
    assert len(set(label_colours(NAMES).values())) == len(PALETTE)


def test_a_hundred_labels_all_have_a_colour() -> None:
    assert set(label_colours(str(n) for n in range(100)).values()) <= set(PALETTE)


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


def cielab(colour: str, seen_as: np.ndarray) -> np.ndarray:
    value = np.array(rgb(colour)) / 255
    linear = np.clip(seen_as @ np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4), 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ linear / [0.9505, 1, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


# Machado, Oliveira and Fernandes 2009, severity 1.
SEEN_AS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}


def test_colours_of_objects_stay_apart_from_each_other_and_from_the_variants() -> None:
    for vision in SEEN_AS:
        objects = [cielab(colour, SEEN_AS[vision]) for colour in PALETTE]
        variants = [cielab(colour, SEEN_AS[vision]) for colour in (EAGER, COMPILED, COMPILED_ON_DARK)]
        assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(objects, 2)) > 24
        assert min(np.linalg.norm(a - b) for a in objects for b in variants) > 16


def test_text_is_readable_on_every_chip() -> None:
    for colour in [*PALETTE, EAGER, COMPILED, CHANGED, palette.INK]:
        assert contrast(text_on(colour), colour) >= 4.5


# The canvas


def test_every_shape_of_picture_can_be_drawn_on() -> None:
    for shape in SHAPES:
        width, height = shape
        whole = np.ones((height, width), bool)
        for seen in (
            Predictions(labels=(Label("a thing with quite a long name", 0.5),)),
            boxes(box("a thing with quite a long name", 0, 0, width, height), box("b", 0, 0, 1, 1)),
            Predictions(segments=(segment("wall", whole), segment("door", whole, 0.5))),
        ):
            image = draw(preview(*shape), info(*shape), {"eager": seen}, "eager")
            assert image.mode == "RGB" and max(image.size) >= MIN_SIDE
            assert max(image.size) <= MAX_ASPECT * min(image.size)


def test_a_small_picture_is_enlarged_pixel_by_pixel() -> None:
    small = Image.new("RGB", (96, 96), GREY)
    small.putpixel((10, 50), (255, 0, 0))
    image = np.asarray(draw_boxes(small, info(96, 96), {"eager": boxes()}, "eager"))
    reds = np.argwhere((image == (255, 0, 0)).all(axis=2))
    assert image.shape[0] == 96 * 7
    assert (reds.min(axis=0).tolist(), reds.max(axis=0).tolist()) == ([350, 70], [356, 76])


def test_the_preview_given_is_left_alone() -> None:
    given = preview()
    draw_boxes(given, info(), {"eager": boxes(box("cat", 0, 0, 600, 400))}, "eager")
    assert given.getcolors() == [(640 * 480, GREY)]


def test_nothing_found_is_said(written: list[Written]) -> None:
    draw_boxes(preview(), info(), {"eager": boxes()}, "eager")
    draw_segments(preview(), {"eager": Predictions(segments=())}, "eager")
    assert [mark.text for mark in written].count("nothing found") == 2


# Labels


def test_labels_are_written_likeliest_first_and_largest(written: list[Written]) -> None:
    labels = (Label("hyena", 0.1), Label("lion, king of beasts, Panthera leo", 0.8), Label("cat", 0.05))
    draw_labels(preview(), {"eager": Predictions(labels=labels)}, "eager")
    marks = sorted((mark for mark in written if mark.text != "eager"), key=lambda mark: mark.rect[1])
    assert [mark.text for mark in marks] == ["lion 80 %", "hyena 10 %", "cat 5.0 %"]
    assert marks[0].colour == EAGER
    heights = [mark.rect[3] - mark.rect[1] for mark in marks]
    assert heights[0] > heights[1] == heights[2] and not overlapping(written)


# Boxes


def test_a_box_is_drawn_where_it_lies_in_the_full_size_picture() -> None:
    image = draw_boxes(preview(), info(6400, 4800), {"eager": boxes(box("cat", 1000, 2000, 3000, 4000))}, "eager")
    colour = rgb(label_colours(["cat"])["cat"])
    edge = np.argwhere((np.asarray(image)[300] == colour).all(axis=1)).ravel()
    assert edge.min() == 100 and edge.max() == 299
    assert image.getpixel((200, 300)) == GREY and image.getpixel((320, 300)) == GREY


def test_a_box_beyond_the_picture_is_clamped_to_it() -> None:
    image = draw_boxes(preview(), info(), {"eager": boxes(box("cat", -50, -50, 900, 900))}, "eager")
    colour = rgb(label_colours(["cat"])["cat"])
    assert image.getpixel((0, 240)) == image.getpixel((639, 240)) == image.getpixel((320, 479)) == colour


@pytest.mark.parametrize("corners", [(np.nan, 0, 9, 9), (0, 0, np.inf, 9), (-90, -90, -10, -10), (700, 9, 800, 90)])
def test_a_box_that_is_nowhere_is_left_out(corners: tuple, written: list[Written]) -> None:
    draw_boxes(preview(), info(), {"eager": boxes(box("cat", *corners))}, "eager")
    assert {mark.text for mark in written} == {"nothing found"}


def test_corners_in_the_wrong_order_make_the_same_box() -> None:
    right = draw_boxes(preview(), info(), {"eager": boxes(box("cat", 100, 100, 300, 200))}, "eager")
    wrong = draw_boxes(preview(), info(), {"eager": boxes(box("cat", 300, 200, 100, 100))}, "eager")
    assert right.tobytes() == wrong.tobytes()


def test_a_box_without_area_can_still_be_seen() -> None:
    image = draw_boxes(preview(), info(), {"eager": boxes(box("cat", 300, 240, 300, 240))}, "eager")
    assert has(image.crop((296, 236, 312, 252)), label_colours(["cat"])["cat"])


def test_a_caption_holds_label_and_score_in_the_colour_of_its_box(written: list[Written]) -> None:
    draw_boxes(preview(), info(), {"eager": boxes(box("cat", 100, 100, 300, 200, score=0.876))}, "eager")
    assert ("cat 88 %", label_colours(["cat"])["cat"]) in [(mark.text, mark.colour) for mark in written]


@pytest.mark.parametrize("corner", [(0, 0), (600, 0), (0, 440), (600, 440), (300, 0), (300, 470)])
def test_captions_stay_inside_the_picture(corner: tuple[int, int], written: list[Written]) -> None:
    x, y = corner
    draw_boxes(preview(), info(), {"eager": boxes(box("a long name of a thing", x, y, x + 40, y + 40))}, "eager")
    for mark in written:
        assert mark.rect[0] >= 0 and mark.rect[1] >= 0 and mark.rect[2] <= 640 and mark.rect[3] <= 480


def test_captions_of_boxes_on_one_spot_do_not_cover_each_other(written: list[Written]) -> None:
    found = boxes(*(box(f"thing {n}", 200 + n, 150 + n, 400, 350) for n in range(8)))
    draw_boxes(preview(), info(), {"eager": found}, "eager")
    assert len(written) == 8 and not overlapping(written)


def test_the_most_certain_box_has_the_first_choice_of_place(written: list[Written]) -> None:
    rivals = (box("unsure", 100, 100, 300, 300, score=0.3), box("certain", 100, 100, 300, 300, score=0.9))
    draw_boxes(preview(), info(), {"eager": boxes(*rivals)}, "eager")
    certain = next(mark for mark in written if mark.text.startswith("certain"))
    assert certain.rect[0] == 100 and certain.rect[3] == 100


def test_a_crowd_of_boxes_does_not_bury_the_picture_under_captions(written: list[Written]) -> None:
    found = boxes(*(box("person", 300, 200, 310 + n, 220, score=0.9) for n in range(100)))
    draw_boxes(preview(), info(), {"eager": found}, "eager")
    free = written[: canvas.CAPTIONS]
    assert len(written) < 60 and not overlapping(free)


def test_a_label_of_300_characters_is_shortened_and_keeps_its_score(written: list[Written]) -> None:
    draw_boxes(preview(), info(), {"eager": boxes(box("x" * 300, 9, 90, 300, 300))}, "eager")
    text, rect, _ = next(mark for mark in written if mark.text.startswith("x"))
    assert text.endswith("… 90 %") and rect[2] - rect[0] <= 640 * 0.71


def test_control_characters_of_a_label_are_not_drawn(written: list[Written]) -> None:
    draw_boxes(preview(), info(), {"eager": boxes(box("a\x00b\n\u202ec\ud800\td", 9, 90, 300, 300))}, "eager")
    assert any(mark.text == "a b c d 90 %" for mark in written)


def test_a_score_that_is_no_number_is_not_written(written: list[Written]) -> None:
    draw_boxes(preview(), info(), {"eager": boxes(box("cat", 9, 90, 300, 300, score=float("nan")))}, "eager")
    assert any(mark.text == "cat" for mark in written)


def test_plain_labels_use_the_page_s_typeface() -> None:
    assert fonts.font_for("fenêtre (à Genève), 5-button", 24).getname() == ("IBM Plex Sans", "Regular")


def test_a_label_in_another_script_is_not_drawn_as_empty_boxes() -> None:
    for label in ["кошка", "猫"]:
        if not any(Path("/usr/share/fonts").rglob("NotoSansCJK-Regular.ttc")):
            pytest.skip("this machine has no font for it")
        font = fonts.font_for(label, 24)
        assert all(fonts._has_letter(font, letter) for letter in label)


# Segments


def test_a_segment_is_tinted_where_it_is_and_nowhere_else() -> None:
    image = draw_segments(preview(), {"eager": Predictions(segments=(segment("sky", half()),))}, "eager")
    colour = np.array(rgb(label_colours(["sky"])["sky"]))
    tinted = np.asarray(image)[450, 20]
    assert np.abs(tinted - (np.array(GREY) * (1 - canvas.TINT) + colour * canvas.TINT)).max() <= 1
    assert image.getpixel((500, 450)) == GREY


def test_a_mask_smaller_than_the_picture_covers_the_same_part_of_it() -> None:
    small = segment("sky", half(64, 48))
    image = draw_segments(preview(), {"eager": Predictions(segments=(small,))}, "eager")
    assert image.getpixel((20, 450)) != GREY and image.getpixel((330, 450)) == GREY


def test_two_objects_of_one_label_are_told_apart_by_their_edges() -> None:
    whole = Predictions(segments=(segment("cat", half() | half(right=True)),))
    parts = Predictions(segments=(segment("cat", half()), segment("cat", half(right=True))))
    colour = label_colours(["cat"])["cat"]
    images = [draw_segments(preview(), {"eager": seen}, "eager") for seen in (whole, parts)]
    assert [has(image.crop((318, 440, 322, 470)), colour) for image in images] == [False, True]


def test_the_background_is_left_as_it_is() -> None:
    image = draw_segments(preview(), {"eager": Predictions(segments=(segment("Background", half()),))}, "eager")
    assert image.getpixel((20, 240)) == GREY


def test_the_caption_of_a_segment_lies_inside_it_though_its_middle_is_empty(written: list[Written]) -> None:
    ring = np.ones((480, 640), bool)
    ring[100:470, 10:560] = False
    draw_segments(preview(), {"eager": Predictions(segments=(segment("frame", ring),))}, "eager")
    left, top, right, bottom = next(mark.rect for mark in written if mark.text == "frame")
    assert ring[top:bottom, left:right].mean() > 0.9


def test_a_segment_without_a_score_shows_none(written: list[Written]) -> None:
    seen = Predictions(segments=(segment("sky", half()), segment("cat", half(right=True), 0.75)))
    draw_segments(preview(), {"eager": seen}, "eager")
    assert {mark.text for mark in written} == {"sky", "cat 75 %"}


def test_the_thickest_part_is_not_simply_where_most_of_it_lies() -> None:
    mask = np.zeros((480, 640), bool)
    mask[:30] = True
    mask[340:440, 500:600] = True
    x, y = canvas.thickest_point(mask)
    assert 530 <= x <= 570 and 370 <= y <= 410


def test_a_single_pixel_has_a_thickest_part() -> None:
    mask = np.zeros((480, 640), bool)
    mask[123, 457] = True
    assert canvas.thickest_point(mask) == (457, 123)


# Differences


def test_equal_boxes_have_no_difference() -> None:
    seen = boxes(box("cat", 10, 10, 90, 90), box("cat", 10, 10, 90, 90), box("point", 5, 5, 5, 5))
    assert difference(preview(), info(), seen, seen) is None


def test_boxes_that_moved_by_a_hair_and_scores_have_no_difference() -> None:
    seen, again = boxes(box("cat", 10, 10, 90, 90)), boxes(box("cat", 10.2, 10, 90, 90.3, score=0.5))
    assert difference(preview(), info(), seen, again) is None


def test_a_box_that_only_one_variant_saw_is_drawn_in_that_variant_s_colour(written: list[Written]) -> None:
    shared = box("dog", 10, 10, 90, 90)
    image = difference(preview(), info(), boxes(shared, box("cat", 300, 200, 500, 400)), boxes(shared))
    assert image is not None and image.getpixel((300, 300)) == rgb(EAGER) and not has(image, COMPILED)
    assert [mark.text for mark in written] == ["only eager: cat 90 %"]


def test_a_box_that_changed_its_label_is_drawn_for_both(written: list[Written]) -> None:
    image = difference(preview(), info(), boxes(box("cat", 9, 9, 200, 200)), boxes(box("dog", 9, 9, 200, 200)))
    assert image is not None
    assert {mark.text for mark in written} == {"only eager: cat 90 %", "only compiled: dog 90 %"}
    assert not overlapping(written)


def test_one_box_more_of_the_same_is_a_difference(written: list[Written]) -> None:
    one = box("cat", 10, 10, 90, 90)
    difference(preview(), info(), boxes(one), boxes(one, one))
    assert [mark.text for mark in written] == ["only compiled: cat 90 %"]


def test_equal_segments_have_no_difference() -> None:
    seen = Predictions(segments=(segment("sky", half(), 0.5),))
    again = Predictions(segments=(segment("sky", half(), 0.6),))
    assert difference(preview(), info(), seen, again) is None


def test_changed_pixels_are_highlighted_and_counted(written: list[Written]) -> None:
    moved = half()
    moved[:, 320:384] = True
    sides = [Predictions(segments=(segment("sky", sky), segment("sea", ~sky))) for sky in (half(), moved)]
    image = difference(preview(), info(), *sides)
    assert image is not None and image.getpixel((350, 100)) == rgb(CHANGED)
    assert image.getpixel((200, 100)) != rgb(CHANGED) != image.getpixel((500, 100))
    assert [mark.text for mark in written] == ["10 % of the pixels differ"]


def test_a_single_changed_pixel_can_be_seen(written: list[Written]) -> None:
    speck = half()
    speck[100, 600] = True
    sides = [Predictions(segments=(segment("sky", sky), segment("sea", ~sky))) for sky in (half(), speck)]
    image = difference(preview(), info(), *sides)
    assert image is not None
    assert (np.asarray(image)[90:110, 590:610] == rgb(CHANGED)).all(axis=2).sum() >= 9
    assert [mark.text for mark in written] == ["under 0.1 % of the pixels differ"]


def test_a_segment_that_only_one_variant_saw_is_a_difference() -> None:
    for seen_by in [0, 1]:
        sides = [Predictions(segments=()), Predictions(segments=())]
        sides[seen_by] = Predictions(segments=(segment("cat", half()),))
        image = difference(preview(), info(), *sides)
        assert image is not None and image.getpixel((100, 100)) == rgb(CHANGED) != image.getpixel((500, 100))


def test_an_object_that_split_in_two_is_a_difference_though_no_label_changed() -> None:
    whole = Predictions(segments=(segment("cat", half() | half(right=True)),))
    parts = Predictions(segments=(segment("cat", half()), segment("cat", half(right=True))))
    assert difference(preview(), info(), whole, parts) is not None


def test_the_order_of_segments_is_no_difference() -> None:
    one, other = segment("cat", half()), segment("cat", half(right=True))
    assert difference(preview(), info(), Predictions(segments=(one, other)), Predictions(segments=(other, one))) is None


def test_labels_alone_have_no_picture_of_their_difference() -> None:
    sides = [Predictions(labels=(Label(name, 0.9),)) for name in ("cat", "dog")]
    assert difference(preview(), info(), *sides) is None
