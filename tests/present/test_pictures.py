import numpy as np
import pytest
from PIL import Image

from demo.core.base64_images import encode_mask
from demo.core.outputs import Box, ImageInfo, Predictions, Segment
from demo.present import pictures
from demo.present.pictures import (
    CHANGED,
    COMPILED,
    DRAWN_SIDE,
    EAGER,
    PALETTE,
    annotated,
    difference,
    draw,
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


def captions(shown: pictures.Annotated | None) -> list[str]:
    assert shown is not None
    return [caption for _, caption in shown.marks]


def test_labels_have_different_colours_while_there_are_enough() -> None:
    wanted = [label_colours([name])[name] for name in NAMES]
    assert len(set(wanted)) < len(PALETTE) == len(NAMES), "names that do not compete prove nothing"
    assert len(set(label_colours(NAMES).values())) == len(PALETTE)
    assert label_colours(NAMES) == label_colours(reversed(NAMES))


def test_a_label_keeps_its_colour_in_both_variants_though_one_saw_more() -> None:
    others = (box(name, 400, 9, 500, 90) for name in NAMES[1:])
    zebra = box("zebra", 100, 200, 300, 400)
    predictions = {"eager": boxes(zebra), "compiled": boxes(zebra, *others)}
    assert label_colours(NAMES)["zebra"] != label_colours(["zebra"])["zebra"], "the others take nothing from it"
    one, other = (annotated(preview(), info(), predictions, variant) for variant in pictures.VARIANTS)
    assert one.colours["zebra 90 %"] == other.colours["zebra 90 %"]


def luminance(colour: str) -> float:
    channels = np.array(rgb(colour)) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


@pytest.mark.parametrize("colour", [*PALETTE, EAGER, COMPILED, CHANGED])
def test_text_is_readable_on_every_colour(colour: str) -> None:
    low, high = sorted(map(luminance, (colour, text_on(colour))))
    assert (high + 0.05) / (low + 0.05) >= 4.5


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_of_picture_can_be_drawn_on(shape: tuple[int, int]) -> None:
    width, height = shape
    whole = np.ones((height, width), bool)
    found = boxes(box("a thing with quite a long name", 0, 0, width, height), box("b", 0, 0, 1, 1))
    segments = Predictions(segments=(segment("wall", whole), segment("door", whole, 0.5)))
    for seen in (found, segments):
        image = draw(annotated(preview(*shape), info(*shape), {"eager": seen}, "eager"))
        assert image.mode == "RGB" and max(image.size) >= DRAWN_SIDE


@pytest.mark.parametrize(
    ("corners", "rect"),
    [
        ((1000, 2000, 3000, 4000), (100, 200, 300, 400)),
        ((3000, 4000, 1000, 2000), (100, 200, 300, 400)),
        ((-50, -50, 90_000, 90_000), (0, 0, 640, 480)),
    ],
    ids=["inside", "turned round", "clamped"],
)
def test_a_box_lies_where_it_is_in_the_full_size_picture(corners: tuple, rect: tuple) -> None:
    shown = annotated(preview(), info(6400, 4800), {"eager": boxes(box("cat", *corners))}, "eager")
    assert shown.marks == [(rect, "cat 90 %")]


@pytest.mark.parametrize("corners", [(float("nan"), 0, 1, 1), (0, 0, float("inf"), 1), (900, 0, 950, 9)], ids=str)
def test_a_box_without_a_place_in_the_picture_is_left_out(corners: tuple) -> None:
    assert annotated(preview(), info(), {"eager": boxes(box("cat", *corners))}, "eager").marks == []


def test_the_most_certain_box_and_the_largest_segment_come_first() -> None:
    found = boxes(box("dog", 0, 0, 9, 9, score=0.6), box("cat", 0, 0, 9, 9))
    assert captions(annotated(preview(), info(), {"eager": found}, "eager")) == ["cat 90 %", "dog 60 %"]
    corner = np.zeros((480, 640), bool)
    corner[:9, :9] = True
    seen = Predictions(segments=(segment("bed, bunk", corner), segment("sky", half()), segment("background", half())))
    assert captions(annotated(preview(), info(), {"eager": seen}, "eager")) == ["sky", "bed"]


def test_a_segment_is_tinted_where_it_is_and_nowhere_else() -> None:
    shown = annotated(preview(), info(), {"eager": Predictions(segments=(segment("sky", half()),))}, "eager")
    ((mask, _),) = shown.marks
    assert set(np.unique(mask)) == {0.0, pictures.ALPHA} and mask.shape == (480, 640)
    image, colour = draw(shown), np.array(rgb(label_colours(["sky"])["sky"]))
    assert np.abs(np.asarray(image)[450, 20] - (np.array(GREY) + colour) / 2).max() <= 2
    assert image.getpixel((500, 450)) == GREY


def test_equal_boxes_and_segments_have_no_difference() -> None:
    seen = boxes(box("cat", 10, 10, 90, 90), box("cat", 10, 10, 90, 90), box("point", 5, 5, 5, 5))
    assert difference(preview(), info(), seen, seen) is None
    sky, again = (Predictions(segments=(segment("sky", half(), score),)) for score in (0.5, 0.6))
    assert difference(preview(), info(), sky, again) is None


def test_a_box_that_only_one_variant_saw_has_that_variant_s_colour() -> None:
    shared = box("dog", 10, 10, 90, 90)
    shown = difference(preview(), info(), boxes(shared, box("cat", 300, 200, 500, 400)), boxes(shared))
    assert shown is not None and shown.colours == {"only eager: cat 90 %": EAGER}


def test_a_box_that_changed_its_label_is_marked_for_both() -> None:
    shown = difference(preview(), info(), boxes(box("cat", 9, 9, 200, 200)), boxes(box("dog", 9, 9, 200, 200)))
    assert shown is not None
    assert shown.colours == {"only eager: cat 90 %": EAGER, "only compiled: dog 90 %": COMPILED}


def test_changed_pixels_are_counted_and_a_single_one_can_be_seen() -> None:
    moved = half()
    moved[:, 320:384] = True
    sides = [Predictions(segments=(segment("sky", sky), segment("sea", ~sky))) for sky in (half(), moved)]
    shown = difference(preview(), info(), *sides)
    assert captions(shown) == ["10 % of the pixels differ"] and list(shown.colours.values()) == [CHANGED]
    assert shown.marks[0][0][100, 350] == 1 and shown.marks[0][0][100, 200] == 0
    speck = half()
    speck[100, 600] = True
    sides[1] = Predictions(segments=(segment("sky", speck), segment("sea", ~speck)))
    shown = difference(preview(), info(), *sides)
    assert captions(shown) == ["under 0.1 % of the pixels differ"] and shown.marks[0][0].sum() >= 9
