"""The drawn scenes that come with the project, and the checkpoints that know nothing but drawn shapes."""

import hashlib
import json
from functools import cache
from pathlib import Path

from demo.core.catalog import ASSETS, Checkpoint, config_folder, find
from demo.core.result import RunResult


@cache
def scenes() -> tuple[Path, ...]:
    """The drawn scenes that come with the project, in the order of their names."""
    return tuple(sorted((ASSETS / "examples").glob("*.png")))


def find_scene(sha256: str) -> Path | None:
    """The drawn scene whose file has this checksum; None for any other picture."""
    return next((file for file in scenes() if hashlib.sha256(file.read_bytes()).hexdigest() == sha256), None)


@cache
def shapes(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The labels of a model of drawn shapes, from its config, but for the background."""
    config = json.loads((config_folder(checkpoint) / "config.json").read_bytes())
    return tuple(label for label in config["id2label"].values() if label != "background")


def is_beyond(result: RunResult) -> bool:
    """Whether a model of drawn shapes only was run on another picture: its predictions may mean nothing."""
    entry, picture = find(result.spec.checkpoint), result.image
    return entry is not None and entry.drawn_only and picture is not None and find_scene(picture.sha256) is None
