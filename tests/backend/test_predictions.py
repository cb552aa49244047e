"""Pictures in, labels, boxes and segments out, with models whose right answer is known."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.modeling_outputs import ImageClassifierOutput, SemanticSegmenterOutput
from transformers.models.auto.image_processing_auto import AutoImageProcessor
from transformers.models.detr.modeling_detr import DetrObjectDetectionOutput, DetrSegmentationOutput
from transformers.models.maskformer.modeling_maskformer import MaskFormerForInstanceSegmentationOutput

from demo.backend import models, predictions
from demo.core import catalog, images
from demo.core.catalog import Checkpoint
from demo.core.outputs import Predictions
from demo.core.spec import BadInput, RunSpec


def loaded(processor, checkpoint: Checkpoint, labels: dict[int, str]) -> models.Loaded:
    return models.Loaded(Model(labels), processor, None, checkpoint, [])


def decoded(asked: models.Loaded, *given: Any) -> Predictions:
    return predictions.stored(asked.checkpoint, predictions.find(asked, *given))


class Model:
    def __init__(self, labels: dict[int, str] | None) -> None:
        self.config = SimpleNamespace(id2label=labels)


def processor_of(name: str):
    return AutoImageProcessor.from_pretrained(catalog.config_folder(catalog.find(name)), backend="pil")


def test_a_batch_is_the_picture_repeated_in_the_asked_dtype():
    inputs = {"pixel_values": torch.rand(1, 3, 4, 5), "pixel_mask": torch.ones(1, 4, 5, dtype=torch.long)}
    batch = predictions.to_batch(
        inputs, RunSpec("shapes-vit", "image-classification", batch_size=3, dtype="bfloat16"), torch.device("cpu")
    )
    assert batch["pixel_values"].shape == (3, 3, 4, 5)
    assert batch["pixel_values"].dtype == torch.bfloat16
    assert batch["pixel_mask"].dtype == torch.long
    assert torch.equal(batch["pixel_values"][0], batch["pixel_values"][2])


def test_what_a_processor_makes_larger_than_the_limit_is_refused():
    for shape in [(1, 3, 4097, 1), (1, 3, 1, 4097)]:
        made = {"pixel_values": torch.zeros(shape)}
        asked = loaded(lambda images, return_tensors, made=made: made, catalog.find("shapes-vit"), {})
        with pytest.raises(BadInput, match="the limit is 4096 a side"):
            predictions.prepare(asked, Image.new("RGB", (8, 8)), ())


PIXELS = {"pixel_values": torch.zeros(1, 3, 8, 8)}


def test_a_processor_that_makes_no_pixels_is_refused_and_what_else_it_makes_is_left_out():
    made = {"pixel_values": PIXELS["pixel_values"], "spatial_shapes": [], "unheard_of": torch.zeros(1)}
    asked = loaded(lambda images, return_tensors: made, catalog.find("shapes-vit"), {})
    assert set(predictions.prepare(asked, Image.new("RGB", (8, 8)), ())) == {"pixel_values"}
    del made["pixel_values"]
    with pytest.raises(BadInput, match="makes no pixels of a picture"):
        predictions.prepare(asked, Image.new("RGB", (8, 8)), ())


def test_labels_that_a_config_does_not_name_are_numbered():
    outputs = ImageClassifierOutput(logits=torch.tensor([[0.0, 9.0, 5.0]]))
    for names, shown in ((None, "LABEL_1"), ({0: "a", 2: "c"}, "LABEL_1"), ({1: "b"}, "b")):
        asked = loaded(None, catalog.find("shapes-vit"), names)
        found = decoded(asked, outputs, {}, Image.new("RGB", (8, 8)), ())
        assert found.labels[0].label == shown


def test_a_detr_s_masks_become_segments():
    checkpoint = replace(catalog.find("facebook/maskformer-swin-base-ade"), segmentation="panoptic")
    masks = torch.full((1, 2, 16, 16), -10.0)
    masks[0, 0, :, :8] = masks[0, 1, :, 8:] = 10.0
    logits = torch.full((1, 2, 4), -10.0)
    logits[0, 0, 1] = logits[0, 1, 2] = 10.0
    outputs = DetrSegmentationOutput(logits=logits, pred_boxes=torch.zeros(1, 2, 4), pred_masks=masks)
    asked = loaded(processor_of("facebook/detr-resnet-50"), checkpoint, {1: "left", 2: "right"})
    inputs = {"pixel_values": torch.zeros(1, 3, 64, 64)}
    found = decoded(asked, outputs, inputs, Image.new("RGB", (64, 64)), ())
    assert {segment.label: segment.area for segment in found.segments} == pytest.approx({"left": 0.5, "right": 0.5})


def test_without_a_tokenizer_each_query_is_a_row_of_clip_ids():
    checkpoint = next(one for one in catalog.CHECKPOINTS if one.takes_text)
    asked = models.Loaded(Model({}), lambda images, return_tensors: PIXELS, None, checkpoint, [])
    made = predictions.prepare(asked, Image.new("RGB", (8, 8)), ("a cat", "a dog"))
    assert made["input_ids"].shape == made["attention_mask"].shape == (2, 16)
    assert made["input_ids"][:, :2].tolist() == [[49406, 49407]] * 2


def test_a_centre_crop_is_where_the_processor_really_looks():
    processor = processor_of("google/deeplabv3_mobilenet_v2_1.0_513")
    for width, height in [(640, 480), (480, 640), (64, 64), (1200, 300)]:
        left, top, right, bottom = predictions.crop_of(processor, width, height)
        # White inside the part that should be seen, black outside: the processor's output must then be all white.
        picture = np.zeros((height, width, 3), dtype=np.uint8)
        picture[round(top * height) : round(bottom * height), round(left * width) : round(right * width)] = 255
        values = processor(images=[Image.fromarray(picture)], return_tensors="pt")["pixel_values"]
        assert float((values > 0.5).float().mean()) > 0.97
        # and a little less of it would show black
        assert (right - left) * width / ((bottom - top) * height) == pytest.approx(1.0, rel=0.02)


def test_segments_of_a_cropped_picture_land_in_its_middle():
    checkpoint = catalog.find("google/deeplabv3_mobilenet_v2_1.0_513")
    processor = processor_of(checkpoint.id)
    picture = Image.new("RGB", (640, 320))
    inputs = dict(processor(images=[picture], return_tensors="pt"))
    logits = torch.zeros(1, 2, 65, 65)
    logits[:, 1] = 1.0
    found = decoded(
        loaded(processor, checkpoint, {0: "background", 1: "thing"}),
        SemanticSegmenterOutput(logits=logits),
        inputs,
        picture,
        (),
    )
    (segment,) = found.segments
    columns = images.decode_mask(segment.mask_png).any(axis=0)
    assert segment.label == "thing"
    assert columns[320] and not columns[:150].any() and not columns[-150:].any()


def test_the_padding_of_a_processor_does_not_shift_segments():
    checkpoint = catalog.find("facebook/maskformer-swin-base-ade")
    processor = processor_of(checkpoint.id)
    picture = Image.new("RGB", (800, 640))
    inputs = {"pixel_values": torch.zeros(1, 3, 640, 1024), "pixel_mask": torch.zeros(1, 640, 1024, dtype=torch.long)}
    inputs["pixel_mask"][:, :, :800] = 1
    height, width, used_width = 640, 1024, 800
    # One query that claims exactly the right half of the unpadded picture, one that claims the left.
    masks = torch.full((1, 2, height, width), -10.0)
    masks[0, 0, :, : used_width // 2] = 10.0
    masks[0, 1, :, used_width // 2 :] = 10.0
    classes = torch.full((1, 2, 151), -10.0)
    classes[0, 0, 3] = classes[0, 1, 7] = 10.0
    outputs = MaskFormerForInstanceSegmentationOutput(class_queries_logits=classes, masks_queries_logits=masks)
    found = decoded(loaded(processor, checkpoint, {3: "left", 7: "right"}), outputs, inputs, picture, ())
    areas = {segment.label: segment.area for segment in found.segments}
    assert areas["left"] == pytest.approx(0.5, abs=0.01)
    assert areas["right"] == pytest.approx(0.5, abs=0.01)


def test_boxes_are_in_pixels_of_the_picture_and_inside_it():
    checkpoint = catalog.find("facebook/detr-resnet-50")
    picture = Image.new("RGB", (200, 100))
    logits = torch.full((1, 2, 92), -10.0)
    logits[0, 0, 17] = 10.0
    logits[0, 1, 91] = 10.0  # 'no object'
    boxes = torch.tensor([[[0.9, 0.5, 0.4, 0.5], [0.5, 0.5, 1, 1]]])
    found = decoded(
        loaded(processor_of(checkpoint.id), checkpoint, {17: "cat"}),
        DetrObjectDetectionOutput(logits=logits, pred_boxes=boxes),
        {},
        picture,
        (),
    )
    (box,) = found.boxes
    assert box.label == "cat" and box.score > 0.99
    assert box.box == pytest.approx((140, 25, 200, 75))
