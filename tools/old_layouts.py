"""Writes the twelve checkpoints, shrunken, as transformers 4 published them: one JSON file each, for the tests.

To be run in an environment of its own, which holds the old release:

    pip install torch==2.13.0 transformers==4.57.3 pillow scipy
    PYTHONPATH=. python tools/old_layouts.py tests/backend/old_layouts

Each file holds the config and the preprocessor's config, the name and shape of every weight, the kind of weights
file, and the outputs of the old release for a picture of noise. No weight is kept: `weights` makes them by name.

The configs and the names of the weights are what 4.57.3 writes. From memory of the published repositories are: the
preprocessors' configs with their old keys, which repositories hold a pickle only, the entries that later releases no
longer write (`torch_dtype`, the buffers of positions), and that Conditional DETR is published with a timm backbone.
That the DETRs' revision without timm holds `"dilation": null` is told in public issues, and is what 4.57.3 writes.
"""

import importlib
import json
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

LABELS = 5
OUTPUTS = ("logits", "pred_boxes", "class_queries_logits", "masks_queries_logits")
KEPT = 24
"""Numbers kept of each output: the first ones."""
VOCABULARY = {"<|startoftext|>": 0, "a</w>": 1, "cat</w>": 2, "<|endoftext|>": 3}
QUERY = "a a"

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
HALF = [0.5, 0.5, 0.5]


def picture() -> Image.Image:
    return Image.fromarray(np.random.RandomState(0).randint(0, 256, (48, 64, 3)).astype("uint8"))


def weights(shapes: dict[str, list[int]]) -> dict[str, torch.Tensor]:
    """A tensor for each name, which depends on the name and the shape only. Variances are positive."""
    made = {}
    for name, shape in shapes.items():
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        if name.endswith(("position_ids", "relative_position_index", "num_batches_tracked")):
            made[name] = torch.zeros(shape, dtype=torch.int64)
        elif name.endswith("running_var"):
            made[name] = torch.rand(shape, generator=generator) + 0.5
        else:
            made[name] = torch.randn(shape, generator=generator) * 0.1
    return made


def published() -> dict[str, dict[str, Any]]:
    """Model, processor, and what differs from what 4.57.3 would write, by the checkpoint's id."""
    old: Any = importlib.import_module("transformers")  # another release than that of the project

    names = {n: f"thing {n}" for n in range(LABELS)}
    labels = {"id2label": names, "label2id": {name: n for n, name in names.items()}}
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    stages = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 16, 32, 32]}
    resnet = old.ResNetConfig(**stages, embedding_size=16, out_features=["stage4"])
    swin = {"image_size": 64, "patch_size": 4, "embed_dim": 16, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 2, 4]}
    swin |= {"window_size": 4}
    every_stage = {"out_features": ["stage1", "stage2", "stage3", "stage4"]}
    detr = {"d_model": 32, "num_queries": LABELS, "encoder_layers": 1, "decoder_layers": 1}
    detr |= {f"{side}_attention_heads": 2 for side in ("encoder", "decoder")}
    detr |= {f"{side}_ffn_dim": 32 for side in ("encoder", "decoder")}
    no_timm = {"use_timm_backbone": False, "backbone": None, "use_pretrained_backbone": False}
    detr_pictures = {"do_normalize": True, "do_resize": True, "format": "coco_detection", "image_mean": MEAN}
    detr_pictures |= {"image_std": STD, "max_size": 96, "size": 64}
    convnet_pictures = {"crop_pct": 0.875, "do_normalize": True, "do_resize": True, "image_mean": MEAN}
    convnet_pictures |= {"feature_extractor_type": "ConvNextFeatureExtractor", "image_std": STD, "resample": 3}
    owlvit = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}

    return {
        "google/vit-base-patch16-224": {
            "model": old.ViTForImageClassification(old.ViTConfig(**small, **labels, image_size=32, patch_size=8)),
            "preprocessor": {
                "do_normalize": True, "do_resize": True, "feature_extractor_type": "ViTFeatureExtractor",
                "image_mean": HALF, "image_std": HALF, "resample": 2, "size": 32,
            },
        },
        "microsoft/beit-base-patch16-224-pt22k-ft22k": {
            "model": old.BeitForImageClassification(
                old.BeitConfig(**small, **labels, image_size=32, patch_size=8, use_relative_position_bias=True)
            ),
            "preprocessor": {
                "crop_size": 32, "do_center_crop": False, "do_normalize": True, "do_resize": True,
                "feature_extractor_type": "BeitFeatureExtractor", "image_mean": HALF, "image_std": HALF,
                "reduce_labels": False, "resample": 2, "size": 32,
            },
            "file": "pytorch_model.bin",
        },
        "facebook/convnext-large-224": {
            "model": old.ConvNextForImageClassification(old.ConvNextConfig(**stages, **labels, image_size=32)),
            "preprocessor": convnet_pictures | {"size": 32},
            "file": "pytorch_model.bin",
        },
        "microsoft/resnet-50": {
            "model": old.ResNetForImageClassification(old.ResNetConfig(**stages, **labels, embedding_size=16)),
            "preprocessor": convnet_pictures | {"size": 64},
        },
        "nvidia/segformer-b0-finetuned-ade-512-512": {
            "model": old.SegformerForSemanticSegmentation(
                old.SegformerConfig(**stages, **labels, num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=16)
            ),
            "preprocessor": {
                "do_normalize": True, "do_resize": True, "feature_extractor_type": "SegformerFeatureExtractor",
                "image_mean": MEAN, "image_std": STD, "reduce_labels": True, "resample": 2, "size": 64,
            },
            "config": {"reshape_last_stage": True, "downsampling_rates": [1, 4, 8, 16], "image_size": 224},
            "file": "pytorch_model.bin",
        },
        "facebook/mask2former-swin-tiny-coco-panoptic": {
            "model": old.Mask2FormerForUniversalSegmentation(
                old.Mask2FormerConfig(
                    backbone_config=old.SwinConfig(**swin, **every_stage), **labels, feature_size=32, hidden_dim=32,
                    mask_feature_size=32, encoder_feedforward_dim=32, dim_feedforward=32, encoder_layers=1,
                    decoder_layers=2, num_attention_heads=2, num_queries=LABELS,
                )
            ),
            "preprocessor": {
                "do_normalize": True, "do_rescale": True, "do_resize": True, "ignore_index": 255, "image_mean": MEAN,
                "feature_extractor_type": "MaskFormerFeatureExtractor", "image_std": STD, "num_labels": LABELS,
                "image_processor_type": "Mask2FormerImageProcessor", "reduce_labels": False, "resample": 2,
                "rescale_factor": 1 / 255, "size": {"height": 64, "width": 64}, "size_divisibility": 32,
            },
        },
        "facebook/maskformer-swin-base-ade": {
            "model": old.MaskFormerForInstanceSegmentation(
                old.MaskFormerConfig(
                    backbone_config=old.SwinConfig(**swin), **labels, fpn_feature_size=32, mask_feature_size=32,
                    decoder_config=old.DetrConfig(**detr | {"decoder_layers": 2}),
                )
            ),
            "preprocessor": {
                "do_normalize": True, "do_resize": True, "feature_extractor_type": "MaskFormerFeatureExtractor",
                "ignore_index": 255, "image_mean": MEAN, "image_std": STD, "max_size": 96, "reduce_labels": True,
                "resample": 2, "size": 64, "size_divisibility": 32,
            },
            "file": "pytorch_model.bin",
        },
        "google/deeplabv3_mobilenet_v2_1.0_513": {
            "model": old.MobileNetV2ForSemanticSegmentation(
                old.MobileNetV2Config(**labels, image_size=65, depth_multiplier=0.25)
            ),
            "preprocessor": {
                "crop_size": {"height": 65, "width": 65}, "do_center_crop": True, "do_normalize": True,
                "do_rescale": True, "do_resize": True, "feature_extractor_type": "MobileNetV2FeatureExtractor",
                "image_mean": HALF, "image_std": HALF, "resample": 2, "rescale_factor": 1 / 255,
                "size": {"shortest_edge": 65},
            },
            "file": "pytorch_model.bin",
        },
        "google/owlvit-base-patch32": {
            "model": old.OwlViTForObjectDetection(
                old.OwlViTConfig(
                    text_config={**owlvit, "vocab_size": len(VOCABULARY)}, projection_dim=16,
                    vision_config=owlvit | {"image_size": 32, "patch_size": 8},
                )
            ),
            "preprocessor": {
                "crop_size": 32, "do_center_crop": False, "do_convert_rgb": True, "do_normalize": True,
                "do_resize": True, "feature_extractor_type": "OwlViTFeatureExtractor", "resample": 3,
                "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
                "size": 32,
            },
            "config": {"text_config_dict": None, "vision_config_dict": None},
            "buffers": {
                "owlvit.text_model.embeddings.position_ids": [1, 16],
                "owlvit.vision_model.embeddings.position_ids": [1, 17],
            },
            "file": "pytorch_model.bin",
        },
        "facebook/detr-resnet-50": {
            "model": old.DetrForObjectDetection(old.DetrConfig(**detr, **labels, **no_timm, backbone_config=resnet)),
            "preprocessor": detr_pictures | {"feature_extractor_type": "DetrFeatureExtractor"},
        },
        "facebook/detr-resnet-101": {
            "model": old.DetrForObjectDetection(
                old.DetrConfig(
                    **detr, **labels, **no_timm,
                    backbone_config=old.ResNetConfig(
                        **stages | {"depths": [1, 1, 2, 1]}, embedding_size=16, out_features=["stage4"]
                    ),
                )
            ),
            "preprocessor": detr_pictures | {"feature_extractor_type": "DetrFeatureExtractor"},
            "file": "pytorch_model.bin",
        },
        "microsoft/conditional-detr-resnet-50": {
            "model": old.ConditionalDetrForObjectDetection(
                old.ConditionalDetrConfig(**detr, **labels, **no_timm, backbone_config=resnet)
            ),
            "preprocessor": detr_pictures | {"feature_extractor_type": "ConditionalDetrFeatureExtractor"},
            "config": {"backbone": "resnet50", "use_timm_backbone": True, "dilation": False, "backbone_config": None},
            "timm": True,
        },
    }  # fmt: skip


def timm_name(name: str) -> str:
    """The name of a weight of a ResNet backbone as timm has it; any other as it is."""
    within = "backbone.conv_encoder.model."
    before, found, rest = name.partition(within)
    if not found:
        return name
    rest = rest.replace("embedder.embedder.convolution", "conv1").replace("embedder.embedder.normalization", "bn1")
    rest = re.sub(r"encoder\.stages\.(\d+)\.layers", lambda stage: f"layer{int(stage[1]) + 1}", rest)
    rest = re.sub(r"\.layer\.(\d+)\.convolution", lambda part: f".conv{int(part[1]) + 1}", rest)
    rest = re.sub(r"\.layer\.(\d+)\.normalization", lambda part: f".bn{int(part[1]) + 1}", rest)
    rest = rest.replace("shortcut.convolution", "downsample.0").replace("shortcut.normalization", "downsample.1")
    return before + within + rest


def as_published(model: Any, changes: dict[str, Any], full: bool) -> dict[str, Any]:
    """The config that 4.57.3 would write beside the model; `full` with every default, as early releases did."""
    model.config.architectures = [type(model).__name__]
    entries = json.loads(model.config.to_json_string(use_diff=not full))
    entries["torch_dtype"] = entries.pop("dtype", None) or "float32"
    return entries | changes


def outputs(model: Any, preprocessor: dict[str, Any]) -> dict[str, list[float]]:
    """The first numbers of each output for the picture, by the old release."""
    old: Any = importlib.import_module("transformers")  # another release than that of the project

    kind = preprocessor.get("image_processor_type") or preprocessor["feature_extractor_type"]
    processor = getattr(old, kind.replace("FeatureExtractor", "ImageProcessor")).from_dict(preprocessor)
    made = processor(images=[picture()], return_tensors="pt")
    inputs = {name: made[name] for name in ("pixel_values", "pixel_mask") if name in made}
    if "owlvit" in model.config.model_type:
        ids = [VOCABULARY["<|startoftext|>"], 1, 1, *[VOCABULARY["<|endoftext|>"]] * 13]
        inputs |= {"input_ids": torch.tensor([ids]), "attention_mask": torch.tensor([[1] * 4 + [0] * 12])}
    with torch.no_grad():
        found = model(**inputs)
    return {name: found[name].flatten()[:KEPT].tolist() for name in OUTPUTS if name in found}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for id, layout in published().items():
        model = layout["model"].eval()
        rename = timm_name if layout.get("timm") else str
        state = {rename(name): list(tensor.shape) for name, tensor in model.state_dict().items()}
        made = weights(state)
        model.load_state_dict({name: made[rename(name)] for name in model.state_dict()})
        file = {
            "file": layout.get("file", "model.safetensors"),
            "config": as_published(model, layout.get("config", {}), full="owlvit" in id or "maskformer" in id),
            "preprocessor_config": layout["preprocessor"],
            "weights": state | layout.get("buffers", {}),
            "outputs": outputs(model, layout["preprocessor"]),
        }
        (folder / f"{id.replace('/', '--')}.json").write_text(json.dumps(file) + "\n")


if __name__ == "__main__":
    main()
