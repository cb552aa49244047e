"""The catalogue, and the configs that ship with it, against transformers and the published figures.

No network: weights are made here. Models run on the `meta` device (shapes without arithmetic) where that works, else
on the CPU with a small input.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import save_file

from demo.core import catalog
from demo.core.catalog import Checkpoint
from demo.core.errors import BadInput
from demo.core.key_mappings import KEY_MAPPINGS
from demo.core.spec import TASKS

ROOT = Path(catalog.__file__).resolve().parents[2]
GUIDE = list(catalog.PUBLISHED)
BUNDLED = [checkpoint for checkpoint in catalog.CHECKPOINTS if checkpoint.bundled]


def config_of(checkpoint: Checkpoint) -> Any:
    return transformers.AutoConfig.from_pretrained(str(catalog.config_folder(checkpoint)), local_files_only=True)


def built(checkpoint: Checkpoint, device: str = "meta") -> Any:
    with torch.device(device):
        return getattr(transformers, checkpoint.auto_class).from_config(config_of(checkpoint)).eval()


def by_id(checkpoints: list[Checkpoint]) -> Any:
    return pytest.mark.parametrize("checkpoint", checkpoints, ids=[checkpoint.id for checkpoint in checkpoints])


# --- the list itself


def test_the_guides_checkpoints_are_those_of_the_published_table() -> None:
    with open(catalog.ASSETS / "published" / "published.csv", encoding="utf-8", newline="") as file:
        published = {(row["checkpoint"], row["task"], row["model"]) for row in csv.DictReader(file)}
    assert {(checkpoint.id, checkpoint.task, checkpoint.family) for checkpoint in GUIDE} == published


def test_ids_are_unique_and_every_task_has_a_bundled_checkpoint() -> None:
    assert len({checkpoint.id for checkpoint in catalog.CHECKPOINTS}) == len(catalog.CHECKPOINTS) == 17
    assert {checkpoint.task for checkpoint in BUNDLED} == set(TASKS)


def test_importing_the_catalogue_is_cheap_and_works_from_any_folder(tmp_path: Path) -> None:
    heavy = ("torch", "transformers", "gradio", "pandas", "plotly", "PIL")
    script = (
        "import sys; from demo.core import catalog\n"
        "assert all(catalog.config_folder(c).is_dir() for c in catalog.CHECKPOINTS if not c.bundled)\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# --- the configs


@by_id([*GUIDE, *catalog.BUNDLED_VISION])
def test_the_processor_makes_the_input_of_a_photograph_that_the_catalogue_says(checkpoint: Checkpoint) -> None:
    folder = str(catalog.config_folder(checkpoint))
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil", local_files_only=True)
    inputs = processor(images=Image.new("RGB", (640, 480), "teal"), return_tensors="pt")
    assert tuple(inputs["pixel_values"].shape) == (1, 3, *checkpoint.input_size)


def test_the_labels_are_the_published_ones() -> None:
    for id, count, some in [
        ("google/vit-base-patch16-224", 1000, {281: "tabby, tabby cat"}),
        ("microsoft/beit-base-patch16-224-pt22k-ft22k", 21_841, {21_840: "LABEL_21840"}),
        ("nvidia/segformer-b0-finetuned-ade-512-512", 150, {0: "wall", 149: "flag"}),
        ("facebook/mask2former-swin-tiny-coco-panoptic", 133, {15: "cat", 132: "rug-merged"}),
        ("google/deeplabv3_mobilenet_v2_1.0_513", 21, {0: "background", 15: "person"}),
        ("facebook/detr-resnet-50", 91, {0: "N/A", 90: "toothbrush"}),
    ]:
        checkpoint = catalog.find(id)
        assert checkpoint is not None
        labels = config_of(checkpoint).id2label
        assert list(labels) == list(range(count))
        assert {number: labels[number] for number in some} == some


@pytest.mark.skipif(transformers.__version__ != "5.23.0", reason="another transformers may write other defaults")
def test_the_shipped_files_are_what_the_tool_writes() -> None:
    from tools import build_configs

    for path, text in build_configs.files().items():
        assert path.read_text("utf-8") == text, f"{path} differs: run python -m tools.build_configs"


@by_id(list(catalog.CHECKPOINTS))
def test_a_checkpoint_has_as_many_parameters_as_the_catalogue_says(checkpoint: Checkpoint) -> None:
    assert sum(parameter.numel() for parameter in built(checkpoint).parameters()) == checkpoint.parameters


# --- loading the published DETRs, whose keys have other names than the models built here


def small_detr(id: str) -> Any:
    """The shipped architecture with every module, hence every key, but narrow and with two layers instead of six."""
    checkpoint = catalog.find(id)
    assert checkpoint is not None
    config = config_of(checkpoint)
    config.d_model, config.encoder_ffn_dim, config.decoder_ffn_dim = 32, 48, 48
    config.encoder_layers = config.decoder_layers = 2
    config.backbone_config.embedding_size = 8
    config.backbone_config.hidden_sizes = [16, 24, 32, 40]
    torch.manual_seed(0)
    model = getattr(transformers, checkpoint.auto_class).from_config(config).eval()
    with torch.no_grad():  # no two tensors alike, frozen batch norms included
        for tensor in model.state_dict().values():
            tensor.copy_(torch.rand_like(tensor) + 0.5)
    return model


def published_key(key: str) -> str:
    """A key of a DETR or Conditional DETR of transformers 5 as the Hub's files, written by transformers 4, have it."""
    key = key.replace("model.backbone.model.", "model.backbone.conv_encoder.model.")
    key = re.sub(r"\.mlp\.(fc[12])\.", r".\1.", key).replace(".o_proj.", ".out_proj.")
    if ".decoder." in key:
        key = re.sub(r"\.self_attn\.([qk])_(content|pos)_proj\.", r".sa_\1\2_proj.", key)
        key = re.sub(r"\.encoder_attn\.([qk])_(content|pos)_proj\.", r".ca_\1\2_proj.", key)
        key = key.replace(".encoder_attn.q_pos_sine_proj.", ".ca_qpos_sine_proj.")
    return key


def conditional_key(key: str) -> str:
    """As `published_key`; in Conditional DETR the decoder's value projections moved too."""
    if ".decoder." in key:
        key = key.replace(".self_attn.v_proj.", ".sa_v_proj.").replace(".encoder_attn.v_proj.", ".ca_v_proj.")
    return published_key(key)


def timm_key(key: str) -> str:
    """A key of transformers' ResNet, below `conv_encoder.model`, as timm names it; any other key as it is."""
    stem = "model.backbone.conv_encoder.model."
    if not key.startswith(stem):
        return key
    name = key.removeprefix(stem)
    name = name.replace("embedder.embedder.convolution.", "conv1.").replace("embedder.embedder.normalization.", "bn1.")
    name = re.sub(
        r"encoder\.stages\.(\d)\.layers\.(\d+)\.", lambda at: f"layer{int(at.group(1)) + 1}.{at.group(2)}.", name
    )
    name = name.replace("shortcut.convolution.", "downsample.0.").replace("shortcut.normalization.", "downsample.1.")
    name = re.sub(r"layer\.(\d)\.convolution\.", lambda at: f"conv{int(at.group(1)) + 1}.", name)
    name = re.sub(r"layer\.(\d)\.normalization\.", lambda at: f"bn{int(at.group(1)) + 1}.", name)
    return stem + name


def loaded_back(model: Any, state: dict[str, torch.Tensor], folder: Path, key_mapping: dict[str, str] | None) -> Any:
    model.config.save_pretrained(folder)
    save_file(
        {key: tensor.contiguous() for key, tensor in state.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    options: dict[str, Any] = {"key_mapping": key_mapping} if key_mapping else {}
    again, report = type(model).from_pretrained(
        str(folder), config=model.config, use_safetensors=True, output_loading_info=True, **options
    )
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    return again


def assert_same_weights(one: Any, other: Any) -> None:
    ours, theirs = one.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_conditional_detrs_published_timm_keys_load_into_the_shipped_architecture(tmp_path: Path) -> None:
    id = "microsoft/conditional-detr-resnet-50"
    model = small_detr(id)
    state = {timm_key(conditional_key(key)): tensor for key, tensor in model.state_dict().items()}
    # A few keys as transformers 4 wrote them, so that the mapping is not only tested against its own inverse.
    assert state.keys() >= {
        "model.backbone.conv_encoder.model.conv1.weight",
        "model.backbone.conv_encoder.model.bn1.running_var",
        "model.backbone.conv_encoder.model.layer1.0.downsample.0.weight",
        "model.backbone.conv_encoder.model.layer3.5.bn3.running_mean",
        "model.backbone.conv_encoder.model.layer4.2.conv3.weight",
        "model.encoder.layers.1.self_attn.out_proj.bias",
        "model.decoder.layers.0.ca_qpos_proj.weight",
        "model.decoder.layers.1.sa_v_proj.weight",
        "model.decoder.layers.1.fc2.bias",
        "class_labels_classifier.weight",
    }
    assert not any(name in key for key in state for name in ("convolution", "normalization", "stages", "shortcut"))
    assert len(state) == len(model.state_dict())
    assert_same_weights(model, loaded_back(model, state, tmp_path, KEY_MAPPINGS[id]))


@pytest.mark.parametrize("id", ["facebook/detr-resnet-50", "facebook/detr-resnet-101"])
def test_the_detrs_no_timm_keys_load_without_any_mapping(id: str, tmp_path: Path) -> None:
    model = small_detr(id)
    state = {published_key(key): tensor for key, tensor in model.state_dict().items()}
    assert state.keys() >= {
        "model.backbone.conv_encoder.model.embedder.embedder.convolution.weight",
        "model.backbone.conv_encoder.model.encoder.stages.3.layers.2.layer.2.normalization.running_var",
        "model.decoder.layers.1.encoder_attn.out_proj.weight",
        "model.decoder.layers.1.fc1.weight",
    }
    assert id not in KEY_MAPPINGS
    assert_same_weights(model, loaded_back(model, state, tmp_path, None))


# --- from what somebody typed to a spec


def test_the_task_of_a_known_checkpoint_need_not_be_given() -> None:
    spec = catalog.make_spec("facebook/detr-resnet-50", batch_size="4")
    assert (spec.task, spec.batch_size) == ("object-detection", 4)


def test_another_model_of_the_hub_needs_its_task() -> None:
    assert catalog.make_spec(" facebook/deit-tiny-patch16-224 ", "image-classification").checkpoint.startswith(
        "facebook/"
    )
    with pytest.raises(BadInput, match="its task must be given"):
        catalog.make_spec("facebook/deit-tiny-patch16-224")


def test_a_folder_may_be_named_on_the_command_line_only(tmp_path: Path) -> None:
    spec = catalog.make_spec(str(tmp_path), "image-classification", folders=True)
    assert spec.checkpoint == str(tmp_path)
    (link := tmp_path / "mine-panoptic").symlink_to(tmp_path)
    assert catalog.make_spec(str(link), "image-segmentation", folders=True).checkpoint == str(link)
    with pytest.raises(BadInput, match="Only the command line"):
        catalog.make_spec(str(tmp_path), "image-classification")
    with pytest.raises(BadInput, match="does not exist"):
        catalog.make_spec(str(tmp_path / "no"), "image-classification", folders=True)


def test_bad_input_is_answered_with_a_sentence() -> None:
    for asked, said in [
        ({"checkpoint": ""}, "No checkpoint was given"),
        ({"checkpoint": "vit-base-patch16-224"}, "Did you mean google/vit-base-patch16-224"),
        ({"checkpoint": "owner/name/more", "task": "object-detection"}, "Unknown checkpoint"),
        ({"checkpoint": "google/../secret", "task": "object-detection"}, "Unknown checkpoint"),
        ({"checkpoint": "shapes-vit", "task": "object-detection"}, "shapes-vit does image-classification"),
        ({"checkpoint": "shapes-vit", "task": "painting"}, "Unknown task 'painting'"),
        ({"checkpoint": "google/owlvit-base-patch32"}, "one or more text queries"),
        ({"checkpoint": "shapes-vit", "text": "a cat"}, "takes no text"),
        ({"checkpoint": "shapes-vit", "batch_size": "1.5"}, "Batch size must be a whole number"),
        ({"checkpoint": "shapes-vit", "batch_size": 1.5}, "Batch size must be a whole number"),
        ({"checkpoint": "shapes-vit", "batch_size": -1}, "Batch size must be a whole number"),
        ({"checkpoint": "shapes-vit", "iterations": "many"}, "timed calls must be a whole number"),
    ]:
        with pytest.raises(BadInput, match=re.escape(said)):
            catalog.make_spec(**asked)
