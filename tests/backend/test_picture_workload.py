"""Tests of decoding made-up outputs to labels, boxes and segments, and of the inputs made from a picture."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support.own_workload import SCENE
from transformers.modeling_outputs import ImageClassifierOutput, SemanticSegmenterOutput
from transformers.models.auto.image_processing_auto import AutoImageProcessor
from transformers.models.detr.modeling_detr import DetrObjectDetectionOutput
from transformers.models.maskformer.modeling_maskformer import MaskFormerForInstanceSegmentationOutput

from demo.backend import models
from demo.backend.picture_workload import PictureWorkload
from demo.backend.tasks.image_classification import ImageClassification
from demo.backend.tasks.image_segmentation import ImageSegmentation, crop_of
from demo.backend.tasks.object_detection import ObjectDetection
from demo.core import base64_images, catalog
from demo.core.options import RunSpec

SMALL = Image.new("RGB", (8, 8))
CLASSES: dict[str, type[PictureWorkload]] = {
    "image-classification": ImageClassification,
    "object-detection": ObjectDetection,
    "image-segmentation": ImageSegmentation,
}
PIXELS = torch.zeros(1, 3, 8, 8)


def workload_of(
    checkpoint: str,
    picture: Image.Image = SMALL,
    labels: dict[int, str] | None = None,
    processor: Any = None,
    inputs: dict[str, torch.Tensor] | None = None,
    **options: Any,
) -> PictureWorkload:
    """Returns a picture workload without a real model. `inputs`: what its processor returns for any picture."""
    entry = catalog.find(checkpoint)
    model = SimpleNamespace(config=SimpleNamespace(id2label=labels))
    loaded = models.LoadedModel(model, processor or (lambda images, return_tensors: inputs), None, entry, [])
    spec = RunSpec(checkpoint, entry.task, **options)
    workload = CLASSES[entry.task](spec, torch.device("cpu"), model, loaded, picture, SCENE)
    if inputs is not None and processor is not None:
        workload.__dict__["inputs"] = inputs
    return workload


def processor_of(name: str) -> Any:
    return AutoImageProcessor.from_pretrained(catalog.config_folder(catalog.find(name)), backend="pil")


def test_a_batch_is_the_picture_repeated_in_the_runs_dtype() -> None:
    inputs = {"pixel_values": torch.rand(1, 3, 4, 5), "pixel_mask": torch.ones(1, 4, 5, dtype=torch.long)}
    batch = workload_of("shapes-vit", inputs=inputs, batch_size=3, dtype="bfloat16").batch
    assert batch["pixel_values"].shape == (3, 3, 4, 5)
    assert (batch["pixel_values"].dtype, batch["pixel_mask"].dtype) == (torch.bfloat16, torch.long)
    assert torch.equal(batch["pixel_values"][0], batch["pixel_values"][2])


def test_inputs_that_the_model_does_not_take_are_left_out() -> None:
    more: dict[str, Any] = {"pixel_values": PIXELS, "spatial_shapes": [], "unheard_of": torch.zeros(1)}
    assert set(workload_of("shapes-vit", inputs=more).preprocess()) == {"pixel_values"}


def test_without_a_tokenizer_each_query_is_a_row_of_clip_ids() -> None:
    inputs = workload_of("google/owlvit-base-patch32", inputs={"pixel_values": PIXELS}, text=("a cat", "a dog")).inputs
    assert inputs["input_ids"].shape == inputs["attention_mask"].shape == (2, 16)
    assert inputs["input_ids"][:, :2].tolist() == [[49406, 49407]] * 2


@pytest.mark.parametrize(("names", "label"), [(None, "LABEL_1"), ({0: "a", 2: "c"}, "LABEL_1"), ({1: "b"}, "b")])
def test_labels_that_a_config_does_not_name_are_numbered(names: dict[int, str] | None, label: str) -> None:
    outputs = ImageClassifierOutput(logits=torch.tensor([[0.0, 9.0, 5.0]]))
    assert workload_of("shapes-vit", labels=names).predictions(outputs).labels[0].label == label


CROPPING = "google/deeplabv3_mobilenet_v2_1.0_513"


@pytest.mark.parametrize(("width", "height"), [(640, 480), (480, 640), (64, 64), (1200, 300)])
def test_a_centre_crop_is_where_the_processor_really_looks(width: int, height: int) -> None:
    processor = processor_of(CROPPING)
    left, top, right, bottom = crop_of(processor, width, height)
    # White inside the part that should be seen, black outside: the processor's output must then be all white.
    picture = np.zeros((height, width, 3), dtype=np.uint8)
    picture[round(top * height) : round(bottom * height), round(left * width) : round(right * width)] = 255
    values = processor(images=[Image.fromarray(picture)], return_tensors="pt")["pixel_values"]
    assert float((values > 0.5).float().mean()) > 0.97
    # and a little less of it would show black
    assert (right - left) * width / ((bottom - top) * height) == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize(("size", "axis"), [((640, 320), 0), ((320, 640), 1)], ids=["wide", "tall"])
def test_segments_of_a_cropped_picture_land_in_its_middle(size: tuple[int, int], axis: int) -> None:
    labels = {0: "background", 1: "thing"}
    logits = torch.zeros(1, 2, 65, 65)
    logits[:, 1] = 1.0
    cropped = workload_of(CROPPING, Image.new("RGB", size), labels, processor_of(CROPPING))
    (segment,) = cropped.predictions(SemanticSegmenterOutput(logits=logits)).segments
    covered = base64_images.decode_mask(segment.mask_png).any(axis=axis)
    assert segment.label == "thing"
    assert covered[320] and not covered[:150].any() and not covered[-150:].any()


def test_the_padding_of_a_processor_does_not_shift_segments() -> None:
    name, (height, width, used_width) = "facebook/maskformer-swin-base-ade", (640, 1024, 800)
    mask = torch.zeros(1, height, width, dtype=torch.long)
    mask[:, :, :used_width] = 1
    inputs = {"pixel_values": torch.zeros(1, 3, height, width), "pixel_mask": mask}
    # One query claims the upper left quarter of the unpadded picture, the other one the rest.
    masks = torch.full((1, 2, height, width), 10.0)
    masks[0, 0, height // 2 :] = masks[0, 0, :, used_width // 2 :] = -10.0
    masks[0, 1, : height // 2, : used_width // 2] = -10.0
    classes = torch.full((1, 2, 151), -10.0)
    classes[0, 0, 3] = classes[0, 1, 7] = 10.0
    outputs = MaskFormerForInstanceSegmentationOutput(class_queries_logits=classes, masks_queries_logits=masks)
    picture, labels = Image.new("RGB", (used_width, height)), {3: "quarter", 7: "rest"}
    predictions = workload_of(name, picture, labels, processor_of(name), inputs).predictions(outputs)
    areas = {segment.label: segment.area for segment in predictions.segments}
    assert areas == pytest.approx({"quarter": 0.25, "rest": 0.75}, abs=0.01)


def test_boxes_are_in_pixels_of_the_picture_and_inside_it() -> None:
    name, picture = "facebook/detr-resnet-50", Image.new("RGB", (200, 100))
    logits = torch.full((1, 2, 92), -10.0)
    logits[0, 0, 17] = 10.0
    logits[0, 1, 91] = 10.0  # 'no object'
    boxes = torch.tensor([[[0.9, 0.5, 0.4, 0.5], [0.5, 0.5, 1, 1]]])
    outputs = DetrObjectDetectionOutput(logits=logits, pred_boxes=boxes)
    (box,) = workload_of(name, picture, {17: "cat"}, processor_of(name)).predictions(outputs).boxes
    assert box.label == "cat" and box.score > 0.99
    assert box.box == pytest.approx((140, 25, 200, 75))
