"""Writes config.json and preprocessor_config.json of the catalogue's checkpoints: `python -m tools.build_configs`.

The checkpoints are the twelve of the Transformers guide on torch.compile, and Gemma 2B. Gemma is a text model, so it
has no preprocessor_config.json.

With these files a model can be built with random weights where the Hub cannot be reached. The config and
image-processor classes of transformers write them from the values of the published checkpoints. Every value that
differs from a class's default, or matters to the shape of the model, is given, so that a later default cannot change
what is timed.

Sources of the values: transformers' own conversion scripts (BeiT, ConvNeXT, DETR, Conditional DETR, SegFormer,
MobileNetV2, MaskFormer, Mask2Former), its integration tests, and the published JSON files as quoted in public
repositories (whole files for ConvNeXT, DeepLab, MaskFormer's model and Gemma; only the important values for the
others). Gemma's file is quoted in `library/lumina_util.py` of kohya-ss/sd-scripts. It says `gelu`, which transformers
replaces by `gelu_pytorch_tanh`, with which the model was trained. The model built from it has 2,506,172,416 parameters,
as many as the published weights. Label names are those of `huggingface/label-files`, without trailing blanks;
MaskFormer was published with detectron2's names for ADE20K.

Not covered:

- `label2id`: two classes of ImageNet have the name 'crane', and inference does not need it.
- Tokenizers: for random weights the backend makes token ids itself.
- BeiT's 21 841 label names: its JSON has `num_labels`, from which transformers makes LABEL_0, LABEL_1, ...

Repeatable: the same transformers writes the same bytes. `tests/core/test_catalog.py` compares them.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demo.core import catalog, program

LABELS = Path(__file__).resolve().parent / "labels"
CONFIG, PROCESSOR = "config.json", "preprocessor_config.json"

IMAGENET_MEAN, IMAGENET_STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CLIP_MEAN, CLIP_STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
HALF = [0.5, 0.5, 0.5]
BILINEAR, BICUBIC = 2, 3

DERIVED = ("stage_names", "out_indices", "num_layers", "label2id", "transformers_version", "_name_or_path")
"""Entries that are not written: a config class works them out by itself, or they change with transformers' version."""


def main() -> None:
    for path, text in files().items():
        if not path.is_file() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            print(f"written: {path.relative_to(program.ASSETS.parent)}")


def files() -> dict[Path, str]:
    """Returns the text of every file to write, by its path."""
    contents: dict[Path, str] = {}
    configs = {**_classifiers(), **_segmenters(), **_detectors(), **_writers()}
    for checkpoint in catalog.CHECKPOINTS:
        if checkpoint.bundled:
            continue
        config, processor = configs[checkpoint.id]
        folder = catalog.config_folder(checkpoint)
        contents[folder / CONFIG] = _text(config)
        if processor is not None:
            contents[folder / PROCESSOR] = _text(processor.to_dict())
    return contents


def _classifiers() -> dict[str, tuple[dict[str, Any], Any]]:
    import transformers as t

    imagenet = _labels("imagenet-1k")
    vit = t.ViTConfig(
        image_size=224,
        patch_size=16,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        id2label=imagenet,
    )
    beit = t.BeitConfig(
        image_size=224,
        patch_size=16,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        use_mask_token=False,
        use_absolute_position_embeddings=False,
        use_relative_position_bias=True,
        use_shared_relative_position_bias=False,
        use_mean_pooling=True,
        layer_scale_init_value=0.1,
        drop_path_rate=0.1,
    )
    convnext = t.ConvNextConfig(
        image_size=224, depths=[3, 3, 27, 3], hidden_sizes=[192, 384, 768, 1536], id2label=imagenet
    )
    resnet = t.ResNetConfig(**_RESNET_50, id2label=imagenet)
    square = {"height": 224, "width": 224}
    # Both crop as ImageNet is evaluated: shortest edge to 224 / 0.875 = 256, then the centre.
    imagenet_crop = t.ConvNextImageProcessorPil(
        size={"shortest_edge": 224},
        crop_pct=0.875,
        resample=BICUBIC,
        image_mean=IMAGENET_MEAN,
        image_std=IMAGENET_STD,
    )
    return {
        "google/vit-base-patch16-224": (
            _config_values(vit, "ViTForImageClassification"),
            t.ViTImageProcessorPil(size=square, resample=BILINEAR, image_mean=HALF, image_std=HALF),
        ),
        "microsoft/beit-base-patch16-224-pt22k-ft22k": (
            {**_config_values(beit, "BeitForImageClassification"), "num_labels": 21_841},
            t.BeitImageProcessorPil(
                size=square,
                crop_size=square,
                do_center_crop=False,
                do_reduce_labels=False,
                resample=BILINEAR,
                image_mean=HALF,
                image_std=HALF,
            ),
        ),
        "facebook/convnext-large-224": (_config_values(convnext, "ConvNextForImageClassification"), imagenet_crop),
        "microsoft/resnet-50": (_config_values(resnet, "ResNetForImageClassification"), imagenet_crop),
    }


def _segmenters() -> dict[str, tuple[dict[str, Any], Any]]:
    import transformers as t

    segformer = t.SegformerConfig(
        depths=[2, 2, 2, 2],
        hidden_sizes=[32, 64, 160, 256],
        num_attention_heads=[1, 2, 5, 8],
        sr_ratios=[8, 4, 2, 1],
        patch_sizes=[7, 3, 3, 3],
        strides=[4, 2, 2, 2],
        mlp_ratios=[4, 4, 4, 4],
        decoder_hidden_size=256,
        id2label=_labels("ade20k"),
    )
    deeplab = t.MobileNetV2Config(
        image_size=513, depth_multiplier=1.0, output_stride=8, layer_norm_eps=0.001, id2label=_labels("pascal-voc")
    )
    mask2former = t.Mask2FormerConfig(
        backbone_config=t.SwinConfig(
            image_size=224,
            embed_dim=96,
            depths=[2, 2, 6, 2],
            num_heads=[3, 6, 12, 24],
            window_size=7,
            drop_path_rate=0.3,
            **_EVERY_STAGE,
        ),
        num_queries=100,
        encoder_layers=6,
        decoder_layers=10,
        use_auxiliary_loss=True,
        id2label=_labels("coco-panoptic"),
    )
    maskformer = t.MaskFormerConfig(
        backbone_config=t.SwinConfig(
            image_size=384,
            embed_dim=128,
            depths=[2, 2, 18, 2],
            num_heads=[4, 8, 16, 32],
            window_size=12,
            drop_path_rate=0.3,
            **_EVERY_STAGE,
        ),
        # Only the decoder of this DETR is built. Its backbone is named all the same, since none means timm's.
        decoder_config=t.DetrConfig(num_queries=100, decoder_layers=6, backbone_config=_resnet(_RESNET_50)),
        id2label=_labels("ade20k-detectron2"),
    )
    return {
        "nvidia/segformer-b0-finetuned-ade-512-512": (
            _config_values(segformer, "SegformerForSemanticSegmentation"),
            t.SegformerImageProcessorPil(
                size={"height": 512, "width": 512},
                resample=BILINEAR,
                do_reduce_labels=True,
                image_mean=IMAGENET_MEAN,
                image_std=IMAGENET_STD,
            ),
        ),
        "google/deeplabv3_mobilenet_v2_1.0_513": (
            _config_values(deeplab, "MobileNetV2ForSemanticSegmentation"),
            t.MobileNetV2ImageProcessorPil(
                size={"shortest_edge": 545},
                crop_size={"height": 513, "width": 513},
                do_center_crop=True,
                resample=BILINEAR,
                image_mean=HALF,
                image_std=HALF,
            ),
        ),
        "facebook/mask2former-swin-tiny-coco-panoptic": (
            _config_values(mask2former, "Mask2FormerForUniversalSegmentation"),
            t.Mask2FormerImageProcessorPil(
                size={"height": 384, "width": 384},
                size_divisor=32,
                resample=BILINEAR,
                ignore_index=255,
                do_reduce_labels=False,
                num_labels=133,
                image_mean=IMAGENET_MEAN,
                image_std=IMAGENET_STD,
            ),
        ),
        "facebook/maskformer-swin-base-ade": (
            _config_values(maskformer, "MaskFormerForInstanceSegmentation"),
            t.MaskFormerImageProcessorPil(
                size={"shortest_edge": 640, "longest_edge": 2560},
                size_divisor=32,
                resample=BILINEAR,
                ignore_index=255,
                do_reduce_labels=True,
                num_labels=150,
                image_mean=IMAGENET_MEAN,
                image_std=IMAGENET_STD,
            ),
        ),
    }


def _detectors() -> dict[str, tuple[dict[str, Any], Any]]:
    import transformers as t

    coco = _labels("coco-detection")
    detr_50 = t.DetrConfig(num_queries=100, backbone_config=_resnet(_RESNET_50), id2label=coco)
    detr_101 = t.DetrConfig(num_queries=100, backbone_config=_resnet(_RESNET_101), id2label=coco)
    conditional = t.ConditionalDetrConfig(num_queries=300, backbone_config=_resnet(_RESNET_50), id2label=coco)
    owlvit = t.OwlViTConfig(
        text_config={
            "vocab_size": 49408,
            "hidden_size": 512,
            "intermediate_size": 2048,
            "num_hidden_layers": 12,
            "num_attention_heads": 8,
            "max_position_embeddings": 16,
        },
        vision_config={
            "image_size": 768,
            "patch_size": 32,
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
        },
        projection_dim=512,
    )

    def coco_processor(kind: Any) -> Any:
        return kind(
            format="coco_detection",
            size={"shortest_edge": 800, "longest_edge": 1333},
            resample=BILINEAR,
            image_mean=IMAGENET_MEAN,
            image_std=IMAGENET_STD,
        )

    square = {"height": 768, "width": 768}
    return {
        "google/owlvit-base-patch32": (
            _config_values(owlvit, "OwlViTForObjectDetection"),
            t.OwlViTImageProcessorPil(
                size=square,
                crop_size=square,
                do_center_crop=False,
                resample=BICUBIC,
                image_mean=CLIP_MEAN,
                image_std=CLIP_STD,
            ),
        ),
        "facebook/detr-resnet-50": (
            _config_values(detr_50, "DetrForObjectDetection"),
            coco_processor(t.DetrImageProcessorPil),
        ),
        "facebook/detr-resnet-101": (
            _config_values(detr_101, "DetrForObjectDetection"),
            coco_processor(t.DetrImageProcessorPil),
        ),
        "microsoft/conditional-detr-resnet-50": (
            _config_values(conditional, "ConditionalDetrForObjectDetection"),
            coco_processor(t.ConditionalDetrImageProcessorPil),
        ),
    }


def _writers() -> dict[str, tuple[dict[str, Any], Any]]:
    import transformers as t

    gemma = t.GemmaConfig(
        vocab_size=256_000,
        hidden_size=2048,
        intermediate_size=16_384,
        num_hidden_layers=18,
        num_attention_heads=8,
        num_key_value_heads=1,
        head_dim=256,
        hidden_act="gelu_pytorch_tanh",
        max_position_embeddings=8192,
        rms_norm_eps=1e-06,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        attention_bias=False,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
        tie_word_embeddings=True,
        dtype="bfloat16",
    )
    return {"google/gemma-2b": (_config_values(gemma, "GemmaForCausalLM"), None)}


_EVERY_STAGE: dict[str, Any] = {"out_features": ["stage1", "stage2", "stage3", "stage4"]}
_LAST_STAGE: dict[str, Any] = {"out_features": ["stage4"]}
_RESNET_50: dict[str, Any] = {
    "embedding_size": 64,
    "hidden_sizes": [256, 512, 1024, 2048],
    "depths": [3, 4, 6, 3],
    "layer_type": "bottleneck",
    "hidden_act": "relu",
    "downsample_in_first_stage": False,
    "downsample_in_bottleneck": False,
}
_RESNET_101 = {**_RESNET_50, "depths": [3, 4, 23, 3]}


def _resnet(values: Mapping[str, Any]) -> Any:
    """Returns the config of a backbone that outputs only its last feature map, because the DETRs use no other."""
    import transformers

    return transformers.ResNetConfig(**values, **_LAST_STAGE)


def _labels(name: str) -> dict[int, str]:
    return dict(enumerate((LABELS / f"{name}.txt").read_text("utf-8").splitlines()))


def _config_values(config: Any, architecture: str) -> dict[str, Any]:
    import transformers

    general = transformers.PreTrainedConfig().to_dict()
    return {"architectures": [architecture], **_own(config.to_dict(), general)}


def _own(values: Mapping[str, Any], general: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the entries of a config, without those in `DERIVED` and those with the same value in `general`.

    `general`: the entries of a plain PreTrainedConfig.
    """
    own: dict[str, Any] = {}
    for key, value in values.items():
        if key in DERIVED or (key in general and general[key] == value):
            continue
        own[key] = _own(value, general) if isinstance(value, dict) and "model_type" in value else value
    return own


def _text(values: Mapping[str, Any]) -> str:
    """Returns the values as JSON. Keys are sorted, and the keys of `id2label` as numbers. Enums become their values."""
    return json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    logging.getLogger("transformers").setLevel(logging.ERROR)
    main()
