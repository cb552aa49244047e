"""The checkpoints to choose from: the guide's, and four small ones that ship with the project.

Says what a checkpoint is, where its config lies, and which drawn scenes come with it. `demo.backend` loads it: neither
torch nor transformers is imported here. `make_spec` makes a `RunSpec` of what somebody typed, however it was asked for.
"""

import csv
import hashlib
import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from demo.core import limits
from demo.core.codec import shown
from demo.core.spec import OPTIONS, OWN_MODEL, TASKS, TEXT_GENERATION, BadInput, RunSpec


@dataclass(frozen=True)
class Checkpoint:
    """One entry of the catalogue, or a checkpoint that somebody named by a hub id or a folder."""

    id: str
    task: str
    family: str
    """The guide's name for the model: 'ViT', 'Mask2former', ..."""
    title: str
    revision: str | None
    input_size: tuple[int, int]
    """Height and width that the processor feeds the model for a 4:3 photograph; `NO_PICTURE` for a text model."""
    parameters: int
    """The count of `model.parameters()`; 0 where they were not counted."""
    licence: str
    auto_class: str
    """The transformers class that loads it, such as 'AutoModelForObjectDetection'."""
    segmentation: str | None = None
    """'semantic', 'instance' or 'panoptic': how a segmentation model's output is decoded."""
    takes_text: bool = False
    bundled: bool = False
    drawn_only: bool = False
    """It was trained on this project's drawn shapes and on nothing else."""
    convolutional: bool = False
    """Most of its work is in convolutions, so that the memory format matters."""


def _read_table(file: Path) -> tuple[Checkpoint, ...]:
    """The checkpoints of a table whose columns are the fields of `Checkpoint`; an empty cell is None, or False."""

    def entry(row: dict[str, str]) -> Checkpoint:
        size = int(row.pop("height")), int(row.pop("width"))
        fields: dict[str, Any] = {name: cell or None for name, cell in row.items()}
        fields |= {name: row[name] == "yes" for name in ("takes_text", "bundled", "drawn_only", "convolutional")}
        return Checkpoint(**fields | {"parameters": int(row["parameters"])}, input_size=size)

    with file.open(encoding="utf-8", newline="") as table:
        return tuple(map(entry, csv.DictReader(table)))


ASSETS = Path(__file__).resolve().parents[2] / "assets"

QUERIES = ("a lion", "a tree")
"""The queries for a zero-shot detector where the page, a link or a preset names none: both are on the first photograph
among the page's examples. The command line and the API refuse a run without queries instead."""
TEXT_MISSING = (
    "{checkpoint} finds what it is told to look for. "
    f"Give it one or more text queries, such as: {', '.join(QUERIES)}."
)

NO_PICTURE = (0, 0)
PROMPT = "The picture shows"
"""Where the page, a link, a preset or the command `run` names none. The API refuses a run without a prompt."""
DEFAULT = "shapes-vit"
"""The checkpoint of a run for which nobody chose one."""
OWN_MODEL_ELSEWHERE = (
    "{given} runs on the command line only, and by itself: python -m demo run --model FILE.py:FUNCTION."
)

# `input_size` is what the processor makes of a landscape photograph of 640 x 480 pixels. Three checkpoints keep the
# aspect ratio, so other photographs give other sizes: the DETRs (shortest edge 800, longest at most 1333) and
# MaskFormer (shortest edge 640, then both sides up to the next multiple of 32).
CHECKPOINTS: tuple[Checkpoint, ...] = _read_table(ASSETS / "checkpoints.csv")
PUBLISHED = tuple(one for one in CHECKPOINTS if not one.bundled and one.task != TEXT_GENERATION)
"""The twelve of the guide's tables."""
BUNDLED_VISION = tuple(one for one in CHECKPOINTS if one.bundled and one.task != TEXT_GENERATION)


def _timm_resnet_to_transformers(backbone: str) -> dict[str, str]:
    """Renamings from timm's ResNet keys below `backbone` to those of transformers' ResNet.

    Made for `from_pretrained(key_mapping=...)`, which applies every rule that matches, one after the other, and knows
    only one back-reference. So a key goes there in two steps: layer1.0.conv2 -> encoder.stages.0.layers.0.conv2 ->
    encoder.stages.0.layers.0.layer.1.convolution. For bottleneck blocks (ResNet-50 and deeper), without a classifier.
    """
    escaped = re.escape(backbone)
    rules = {
        rf"{escaped}\.conv1": f"{backbone}.embedder.embedder.convolution",
        rf"{escaped}\.bn1": f"{backbone}.embedder.embedder.normalization",
    }
    rules |= {rf"{escaped}\.layer{n}": f"{backbone}.encoder.stages.{n - 1}.layers" for n in (1, 2, 3, 4)}
    block = rf"({escaped}\.encoder\.stages\.\d+\.layers\.\d+)"
    for n in (1, 2, 3):
        rules[rf"{block}\.conv{n}"] = rf"\1.layer.{n - 1}.convolution"
        rules[rf"{block}\.bn{n}"] = rf"\1.layer.{n - 1}.normalization"
    rules[rf"{block}\.downsample\.0"] = r"\1.shortcut.convolution"
    rules[rf"{block}\.downsample\.1"] = r"\1.shortcut.normalization"
    return rules


KEY_MAPPINGS: dict[str, dict[str, str]] = {
    # Published with a timm backbone only. Loaded with the shipped config, which builds the same ResNet-50 from
    # transformers, and with these renamings. The DETRs need none: their `no_timm` revision already has such keys.
    "microsoft/conditional-detr-resnet-50": _timm_resnet_to_transformers("backbone.conv_encoder.model"),
}
"""Renamings of weights that are published under the names of another library."""


def find(id: str) -> Checkpoint | None:
    """The catalogue's entry, or None for anything else that may be named."""
    return next((checkpoint for checkpoint in CHECKPOINTS if checkpoint.id == id), None)


def for_task(task: str) -> tuple[Checkpoint, ...]:
    return tuple(checkpoint for checkpoint in CHECKPOINTS if checkpoint.task == task)


def config_folder(checkpoint: Checkpoint) -> Path:
    """Where a checkpoint of the catalogue has config.json, preprocessor_config.json and, where bundled, its weights."""
    if checkpoint.bundled:
        return ASSETS / "checkpoints" / checkpoint.id
    return ASSETS / "configs" / checkpoint.id.replace("/", "--")


@cache
def scenes() -> tuple[Path, ...]:
    """The drawn scenes that come with the project, in the order of their names."""
    return tuple(sorted((ASSETS / "examples").glob("*.png")))


def find_scene(sha256: str) -> Path | None:
    """The drawn scene whose file has this checksum; None for any other picture."""
    return next((file for file in scenes() if hashlib.sha256(file.read_bytes()).hexdigest() == sha256), None)


@cache
def drawn_shapes(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The labels of a model of drawn shapes, from its config, but for the background."""
    config = json.loads((config_folder(checkpoint) / "config.json").read_bytes())
    return tuple(label for label in config["id2label"].values() if label != "background")


def is_beyond(checkpoint: str, sha256: str | None) -> bool:
    """Whether a model of drawn shapes only was run on another picture, of this checksum: it may see nonsense there."""
    entry = find(checkpoint)
    return entry is not None and entry.drawn_only and sha256 is not None and find_scene(sha256) is None


def arguments(spec: RunSpec) -> dict[str, Any]:
    """The arguments of `make_spec`, or of `/benchmark`, that give this spec; defaults are left out."""
    asked: dict[str, Any] = {"checkpoint": spec.checkpoint}
    if find(spec.checkpoint) is None:
        asked["task"] = spec.task
    asked |= spec.departures()
    return asked | ({"text": ", ".join(spec.text)} if spec.text else {})


def is_folder(given: str) -> bool:
    """Whether this names a folder on this machine, which need not exist, rather than a model on the Hub."""
    return given.startswith((".", "~", "/", "\\")) or os.path.isabs(given) or os.path.isdir(given)


def make_spec(checkpoint: str, task: str | None = None, *, folders: bool = False, **asked: Any) -> RunSpec:
    """A checked spec of what somebody typed. Raises BadInput.

    `asked` holds options by name; numbers may be text, queries one text with commas. The task is needed only for a
    checkpoint that is not in the catalogue. `folders` allows a local folder and any model of the Hub: for the command
    line, never for a visitor of the page.
    """
    if task == OWN_MODEL:
        raise BadInput(OWN_MODEL_ELSEWHERE.format(given="A model of your own"))
    entry, named = _checkpoint(checkpoint, folders)
    if entry is None and not task:
        raise BadInput(f"{named} is not in the list, so its task must be given too. Allowed: {', '.join(TASKS)}.")
    spec = RunSpec(checkpoint=named, task=task or (entry.task if entry else ""), **_read(asked))
    if spec.batch_size > (most := limits.current().batch):
        raise BadInput(f"Batch size may be at most {most} here. Given: {spec.batch_size}.")
    if entry is not None:
        _fits(spec, entry)
    return spec


def own_model_spec(model: str, **asked: Any) -> RunSpec:
    """A checked spec for `FILE.py:FUNCTION`. Raises BadInput where there is no such file."""
    file, function = own_model_parts(model)
    if not function.isidentifier() or file.suffix != ".py":
        raise BadInput(f"A model of your own is given as FILE.py:FUNCTION. Given: {shown(model)}.")
    file = Path(os.path.abspath(os.path.expanduser(file)))
    if not os.path.isfile(file):
        raise BadInput(f"There is no file {shown(str(file))}. Check the path before the colon.")
    return RunSpec(checkpoint=f"{file}:{function}", task=OWN_MODEL, **_read(asked))


def _read(asked: dict[str, Any]) -> dict[str, Any]:
    return {name: OPTIONS[name].parsed(value) if name in OPTIONS else value for name, value in asked.items()}


def refusal(given: str) -> str:
    """Why the page cannot run a checkpoint of this name, as a sentence; '' where it can."""
    try:
        _checkpoint(given, folders=False)
    except BadInput as refused:
        return str(refused)
    return ""


def _checkpoint(given: str, folders: bool) -> tuple[Checkpoint | None, str]:
    """The catalogue's entry, if any, and the name for the spec. Raises BadInput for a name that cannot be run."""
    named = str(given).strip() if isinstance(given, str | int | float) else ""  # YAML reads a bare 3 as a number
    if not named:
        raise BadInput("No checkpoint was given. Pick one from the list, or type a Hugging Face model id.")
    entry = find(named)
    if entry is not None:
        return entry, named
    if ".py:" in named:
        raise BadInput(OWN_MODEL_ELSEWHERE.format(given=shown(named)))
    if is_folder(named):
        if not folders:
            raise BadInput(f"{shown(named)} is a path. Only the command line runs a checkpoint from a folder.")
        folder = os.path.expanduser(named)
        if not os.path.isdir(folder):
            what = "is a file: name the folder that holds it" if os.path.isfile(folder) else "does not exist"
            raise BadInput(f"The folder {shown(named)} {what}.")
        return None, os.path.abspath(folder)  # a link keeps its own name, which may tell the task
    if not is_hub_id(named):
        raise BadInput(f"Unknown checkpoint {shown(named)}. Pick one from the list, or type a Hub id: owner/name.")
    if not folders and not limits.current().hub_ids:
        raise BadInput(f"{named} is not in the list, and this page runs no other checkpoints. Pick one from the list.")
    return None, named


def own_model_parts(checkpoint: str) -> tuple[Path, str]:
    """The file and the function of `FILE.py:FUNCTION`."""
    file, _, function = checkpoint.rpartition(":")
    return Path(file), function


def is_hub_id(named: str) -> bool:
    """Whether this is owner/name as the Hub allows it. A single word is an id too, but nearly always a typing error."""
    part = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
    allowed = re.fullmatch(f"{part}/{part}", named) and len(named) <= 96
    return bool(allowed) and "--" not in named and ".." not in named and not named.endswith(".git")


def _fits(spec: RunSpec, entry: Checkpoint) -> None:
    if spec.task != entry.task:
        others = ", ".join(checkpoint.id for checkpoint in for_task(spec.task)) or "none"
        raise BadInput(f"{entry.id} does {entry.task}, not {spec.task}. For {spec.task} there are: {others}.")
    if entry.takes_text and not spec.text:
        raise BadInput(TEXT_MISSING.format(checkpoint=entry.id))
    if spec.text and not entry.takes_text:
        raise BadInput(f"{entry.id} takes no text queries. Leave them out.")
