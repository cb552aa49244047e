import numpy as np
import pytest
from PIL import Image

from demo.core.base64_images import encode_mask
from demo.core.outputs import Box, ImageInfo, Predictions, Segment
from demo.present import pictures
from demo.present.colours import CHANGED, COMPILED, EAGER, LABELS, rgb
from demo.present.pictures import MIN_SIDE, Annotation, annotate, annotate_difference, draw, label_colours, text_on

GREY = (120, 120, 120)
NAMES = ["zebra", "cat", "dog", "remote control", "sofa", "lamp", "bus", "tree"]
NAN, INFINITE = float("nan"), float("inf")


def preview(width: int = 640, height: int = 480) -> Image.Image:
    return Image.new("RGB", (width, height), GREY)


def info(width: int = 640, height: int = 480) -> ImageInfo:
    return ImageInfo("a.png", width, height, "", "")


def box(label: str, *corners: float, score: float = 0.9) -> Box:
    return Box(label, score, (corners[0], corners[1], corners[2], corners[3]))


def boxes(*detections: Box) -> Predictions:
    return Predictions(boxes=detections)


def segment(label: str, mask: np.ndarray, score: float | None = None) -> Segment:
    return Segment(label, score, float(mask.mean()), encode_mask(mask))


def area(left: int = 0, right: int = 640, bottom: int = 480) -> np.ndarray:
    mask = np.zeros((480, 640), bool)
    mask[:bottom, left:right] = True
    return mask


def eager_annotation(predictions: Predictions) -> Annotation:
    return annotate(preview(), info(), {"eager": predictions}, "eager")


def captions(annotation: Annotation) -> list[str]:
    return [caption for _, caption in annotation.marks]


# ---- colours


def test_labels_have_different_colours_while_there_are_enough() -> None:
    assert set(label_colours(NAMES).values()) == set(LABELS)
    assert label_colours(NAMES) == label_colours(reversed(NAMES))


def test_a_label_has_one_colour_in_both_variants() -> None:
    zebra = box("zebra", 100, 200, 300, 400)
    predictions = {"eager": boxes(zebra), "compiled": boxes(zebra, *(box(name, 400, 9, 500, 90) for name in NAMES[1:]))}
    eager, compiled = (annotate(preview(), info(), predictions, variant) for variant in pictures.VARIANTS)
    assert eager.colours["zebra 90 %"] == compiled.colours["zebra 90 %"]


def luminance(colour: str) -> float:
    channels = np.array(rgb(colour)) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


@pytest.mark.parametrize("colour", [*LABELS, EAGER, COMPILED, CHANGED])
def test_text_is_readable_on_every_colour(colour: str) -> None:
    low, high = sorted(map(luminance, (colour, text_on(colour))))
    assert (high + 0.05) / (low + 0.05) >= 4.5


# ---- what one variant sees


@pytest.mark.parametrize("shape", [(1, 1), (20, 1), (1, 20), (640, 1), (96, 96), (32, 640), (480, 640)], ids=str)
def test_every_shape_of_picture_can_be_drawn_on(shape: tuple[int, int]) -> None:
    width, height = shape
    whole = np.ones((height, width), bool)
    detections = boxes(box("a thing with quite a long name", 0, 0, width, height), box("b", 0, 0, 1, 1))
    segments = Predictions(segments=(segment("wall", whole), segment("door", whole, 0.5)))
    for predictions in (detections, segments):
        image = draw(annotate(preview(*shape), info(*shape), {"eager": predictions}, "eager"))
        assert image.mode == "RGB" and max(image.size) >= MIN_SIDE


@pytest.mark.parametrize(
    ("corners", "rect"),
    [
        ((1000, 2000, 3000, 4000), (100, 200, 300, 400)),
        ((3000, 4000, 1000, 2000), (100, 200, 300, 400)),
        ((-50, -50, 90_000, 90_000), (0, 0, 640, 480)),
        ((1000, 2000, 1001, 2001), (100, 200, 108, 208)),
        ((NAN, 0, 1, 1), None),
        ((0, 0, INFINITE, 1), None),
        ((9000, 0, 9500, 9), None),
    ],
    ids=["inside", "turned round", "clamped", "tiny", "NaN", "infinite", "outside"],
)
def test_a_box_lies_where_it_is_in_the_full_size_picture(corners: tuple, rect: tuple | None) -> None:
    annotation = annotate(preview(), info(6400, 4800), {"eager": boxes(box("cat", *corners))}, "eager")
    assert annotation.marks == ([(rect, "cat 90 %")] if rect else [])


def test_the_most_certain_comes_first_or_the_largest() -> None:
    detections = boxes(box("dog", 0, 0, 9, 9, score=0.6), box("cat", 0, 0, 9, 9))
    assert captions(eager_annotation(detections)) == ["cat 90 %", "dog 60 %"]
    segments = segment("bed, bunk", area(right=9, bottom=9)), segment("sky", area(320)), segment("background", area())
    assert captions(eager_annotation(Predictions(segments=segments))) == ["sky", "bed"]


def test_a_segment_is_tinted_where_it_is() -> None:
    annotation = eager_annotation(Predictions(segments=(segment("sky", area(right=320)),)))
    ((mask, _),) = annotation.marks
    assert set(np.unique(mask)) == {0.0, pictures.ALPHA} and mask.shape == (480, 640)
    image, colour = draw(annotation), np.array(rgb(label_colours(["sky"])["sky"]))
    assert np.abs(np.asarray(image)[450, 20] - (np.array(GREY) + colour) / 2).max() <= 2
    assert image.getpixel((500, 450)) == GREY


# ---- where two differ


def test_equal_predictions_have_no_difference() -> None:
    detections = boxes(box("cat", 10, 10, 90, 90), box("cat", 10, 10, 90, 90), box("point", 5, 5, 5, 5))
    assert annotate_difference(preview(), info(), detections, detections) is None
    sky, again = (Predictions(segments=(segment("sky", area(320), score),)) for score in (0.5, 0.6))
    assert annotate_difference(preview(), info(), sky, again) is None


def test_a_box_of_one_variant_has_its_colour() -> None:
    cat, dog = (boxes(box(label, 9, 9, 200, 200)) for label in ("cat", "dog"))
    assert annotate_difference(preview(), info(), cat, boxes()).colours == {"only eager: cat 90 %": EAGER}
    both = annotate_difference(preview(), info(), cat, dog).colours
    assert both == {"only eager: cat 90 %": EAGER, "only compiled: dog 90 %": COMPILED}


@pytest.mark.parametrize(
    ("changed", "share"), [(area(320, 384), "10 %"), (area(600, 601, 1), "under 0.1 %")], ids=["a strip", "one pixel"]
)
def test_changed_pixels_are_counted(changed: np.ndarray, share: str) -> None:
    caption = f"{share} of the pixels differ"
    eager, compiled = (
        Predictions(segments=(segment("sky", sky), segment("sea", ~sky)))
        for sky in (area(right=320), area(right=320) ^ changed)
    )
    annotation = annotate_difference(preview(), info(), eager, compiled)
    ((mask, _),) = annotation.marks
    assert captions(annotation) == [caption] and annotation.colours == {caption: CHANGED}
    assert mask[changed].all() and mask.sum() > changed.sum(), "widened to be seen"
    assert mask[:, :300].sum() == 0
