"""Tests of the catalogue and its configs, against transformers and the published numbers of weights.

Models are built on the `meta` device: shapes without weights. `tests/backend/test_models.py` loads weights as
published.
"""

import csv
import re
from typing import Any

import pytest
import torch
import transformers
from PIL import Image

from demo.core import catalog
from demo.core.catalog import Checkpoint
from demo.core.options import TASKS, BadInput

GUIDE = list(catalog.PUBLISHED)


def by_id(checkpoints: list[Checkpoint]) -> Any:
    return pytest.mark.parametrize("checkpoint", checkpoints, ids=[checkpoint.id for checkpoint in checkpoints])


def test_the_guides_checkpoints_are_those_of_the_published_table() -> None:
    with open(catalog.ASSETS / "published" / "published.csv", encoding="utf-8", newline="") as file:
        published = {(row["checkpoint"], row["task"], row["model"]) for row in csv.DictReader(file)}
    assert {(checkpoint.id, checkpoint.task, checkpoint.family) for checkpoint in GUIDE} == published
    assert len(published) == len(GUIDE) == 12


def test_every_task_has_a_bundled_checkpoint() -> None:
    assert {checkpoint.task for checkpoint in catalog.CHECKPOINTS if checkpoint.bundled} == set(TASKS)


@by_id([*GUIDE, *catalog.BUNDLED_VISION])
def test_a_photograph_has_the_input_size_of_the_catalogue(checkpoint: Checkpoint) -> None:
    folder = str(catalog.config_folder(checkpoint))
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil", local_files_only=True)
    inputs = processor(images=Image.new("RGB", (640, 480), "teal"), return_tensors="pt")
    assert tuple(inputs["pixel_values"].shape) == (1, 3, *checkpoint.input_size)


@pytest.mark.skipif(transformers.__version__ != "5.23.0", reason="another transformers may write other defaults")
def test_the_shipped_files_are_what_the_tool_writes() -> None:
    from tools import build_configs

    for path, text in build_configs.files().items():
        assert path.read_text("utf-8") == text, f"{path} differs: run python -m tools.build_configs"


@by_id(list(catalog.CHECKPOINTS))
def test_a_model_has_the_parameters_of_the_catalogue(checkpoint: Checkpoint) -> None:
    folder = str(catalog.config_folder(checkpoint))
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    with torch.device("meta"):
        model = getattr(transformers, checkpoint.auto_class).from_config(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == checkpoint.parameters


def test_only_a_checkpoint_of_the_hub_needs_its_task() -> None:
    other = "facebook/deit-tiny-patch16-224"
    assert catalog.make_spec(f" {other} ", "image-classification").checkpoint == other
    with pytest.raises(BadInput, match="its task must be given"):
        catalog.make_spec(other)
    spec = catalog.make_spec("facebook/detr-resnet-50", batch_size="4")
    assert (spec.task, spec.batch_size) == ("object-detection", 4)


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "~/models", "./no"])
def test_a_refused_path_does_not_say_what_is_there(path: str) -> None:
    words = f"^'{re.escape(path)}' is a path. Only the command line runs a checkpoint from a folder.$"
    with pytest.raises(BadInput, match=words):
        catalog.make_spec(path, "image-classification")


def test_the_command_line_names_folders(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert catalog.make_spec("./", "image-classification", folders=True).checkpoint == str(tmp_path)
    (link := tmp_path / "mine-panoptic").symlink_to(tmp_path)
    assert catalog.make_spec(str(link), "image-segmentation", folders=True).checkpoint == str(link)
    with pytest.raises(BadInput, match="does not exist"):
        catalog.make_spec(str(tmp_path / "no"), "image-classification", folders=True)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"checkpoint": ""}, "No checkpoint was given"),
        ({"checkpoint": "owner/name/more", "task": "object-detection"}, "Unknown checkpoint"),
        ({"checkpoint": "shapes-vit", "task": "object-detection"}, "shapes-vit does image-classification"),
        ({"checkpoint": "shapes-vit", "task": "painting"}, "Unknown task 'painting'"),
        ({"checkpoint": "google/owlvit-base-patch32"}, "one or more text queries"),
        ({"checkpoint": "shapes-vit", "text": "a cat"}, "takes no text"),
        ({"checkpoint": "shapes-vit", "batch_size": "1.5"}, "Batch size must be a whole number"),
    ],
    ids=str,
)
def test_bad_input_is_answered_with_a_sentence(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        catalog.make_spec(**fields)


def test_arguments_make_an_equal_spec_of_a_query_with_a_comma() -> None:
    spec = catalog.make_spec("google/owlvit-base-patch32", text=("a red, round ball", "a cat"), batch_size=4)
    assert catalog.make_spec(**catalog.arguments(spec)) == spec


def test_a_file_whose_name_is_too_long_is_not_there() -> None:
    with pytest.raises(BadInput, match="There is no file"):
        catalog.own_model_spec(f"{'a' * 300}.py:build")


def test_a_module_that_is_nowhere_is_refused_with_where_it_was_looked_for():
    with pytest.raises(BadInput, match=r"no module 'nowhere\.at_all'\. It is looked for from the current folder"):
        catalog.own_model_spec("nowhere.at_all:build")
