"""The catalogue of checkpoints: those in the Transformers guide on torch.compile, and four that ship with the project.

`make_spec` checks what a user typed and returns it as a `RunSpec`. `demo.backend` loads the checkpoints.
"""

import contextlib
import csv
import hashlib
import importlib.util
import json
import os
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter

from . import limits
from .format import did_you_mean, excerpt
from .options import OPTIONS, OWN_MODEL, TASKS, TEXT_GENERATION, BadInput, OptionValues, RunSpec
from .program import ASSETS, PROGRAM

NO_PICTURE = (0, 0)


@dataclass(frozen=True)
class Checkpoint:
    """The facts about a checkpoint that are known before it is loaded, such as its task and its number of weights.

    `CHECKPOINTS` has a `Checkpoint` for each model of the catalogue. For any other model a `Checkpoint` is made when a
    run needs it.
    """

    id: str
    task: str
    family: str
    """Kind of model, named as in the Transformers guide if the guide has this kind: 'ViT'.

    Outside the catalogue: the config's model_type."""
    title: str
    auto_class: str
    revision: str | None = None
    input_size: tuple[int, int] = NO_PICTURE
    """Height and width of the model's input, in pixels, for a photograph of 640 x 480 pixels. `NO_PICTURE` for a text
    model, or if not known.

    In the catalogue, the size depends on the photograph for DETR, Conditional DETR and MaskFormer only."""
    parameters: int = 0
    """Number of weights; 0 if not known."""
    licence: str = "unknown"
    segmentation: str | None = None
    """How outputs become segments: 'semantic', 'instance' or 'panoptic'; None for a model without segments."""
    takes_text: bool = False
    """Whether the model needs text queries, as a zero-shot detector does."""
    bundled: bool = False
    """Whether the checkpoint ships with this project, which trained it on drawn shapes, or on texts about them."""
    convolutional: bool = False
    """Whether convolutions are most of the model's work. The memory format channels last may make them faster."""


def _read_table(file: Path) -> tuple[Checkpoint, ...]:
    with file.open(encoding="utf-8", newline="") as table:
        rows = [{name: cell for name, cell in row.items() if cell} for row in csv.DictReader(table)]
    fields = [row | {"input_size": (row["height"], row["width"])} for row in rows]
    return TypeAdapter(tuple[Checkpoint, ...]).validate_python(fields)


QUERIES = ("a lion", "a tree")
"""Text queries that the page, its links and sweep presets use by default. Command line and APIs have no default."""
TEXT_MISSING = (
    "{checkpoint} finds what it is told to look for. "
    f"Give it one or more text queries, such as: {', '.join(QUERIES)}."
)
PROMPT = "The picture shows"
"""Default prompt of the page, its links, sweep presets, Python API, and commands that run one model.

The HTTP API has no default."""
DEFAULT = "shapes-vit"
OWN_MODEL_ELSEWHERE = f"{{given}} runs on the command line only, and by itself: {PROGRAM} run --model FILE.py:FUNCTION."

CHECKPOINTS = _read_table(ASSETS / "checkpoints.csv")
PUBLISHED = tuple(entry for entry in CHECKPOINTS if not entry.bundled and entry.task != TEXT_GENERATION)
"""The twelve checkpoints in the Transformers guide's tables."""
_NAMES = tuple(entry.id for entry in CHECKPOINTS)
BUNDLED_VISION = tuple(entry for entry in CHECKPOINTS if entry.bundled and entry.task != TEXT_GENERATION)

_TIMM = r"backbone\.conv_encoder\.model"
_RESNET = "backbone.conv_encoder.model"
_BLOCK = rf"({_TIMM}\.encoder\.stages\.\d+\.layers\.\d+)"
KEY_MAPPINGS: dict[str, dict[str, str]] = {
    # Published with a timm backbone only; the config in assets/ builds the same ResNet-50 from transformers. A rule may
    # have one back-reference, so two rules rename a ResNet layer's key. Other DETRs have a `no_timm` revision instead.
    "microsoft/conditional-detr-resnet-50": {
        rf"{_TIMM}\.conv1": f"{_RESNET}.embedder.embedder.convolution",
        rf"{_TIMM}\.bn1": f"{_RESNET}.embedder.embedder.normalization",
        **{rf"{_TIMM}\.layer{n}": f"{_RESNET}.encoder.stages.{n - 1}.layers" for n in (1, 2, 3, 4)},
        **{rf"{_BLOCK}\.conv{n}": rf"\1.layer.{n - 1}.convolution" for n in (1, 2, 3)},
        **{rf"{_BLOCK}\.bn{n}": rf"\1.layer.{n - 1}.normalization" for n in (1, 2, 3)},
        rf"{_BLOCK}\.downsample\.0": r"\1.shortcut.convolution",
        rf"{_BLOCK}\.downsample\.1": r"\1.shortcut.normalization",
    },
}
"""{Hub id: the argument `key_mapping` of `from_pretrained`}: patterns that rename weights, applied in order."""


def find(id: str) -> Checkpoint | None:
    return next((checkpoint for checkpoint in CHECKPOINTS if checkpoint.id == id), None)


def for_task(task: str) -> tuple[Checkpoint, ...]:
    return tuple(checkpoint for checkpoint in CHECKPOINTS if checkpoint.task == task)


def config_folder(checkpoint: Checkpoint) -> Path:
    if checkpoint.bundled:
        return ASSETS / "checkpoints" / checkpoint.id
    return ASSETS / "configs" / checkpoint.id.replace("/", "--")


@cache
def scenes() -> tuple[Path, ...]:
    """Returns the pictures of drawn shapes that ship with the project, sorted by name."""
    return tuple(sorted((ASSETS / "examples").glob("*.png")))


def find_scene(sha256: str) -> Path | None:
    return next((file for file in scenes() if hashlib.sha256(file.read_bytes()).hexdigest() == sha256), None)


@cache
def drawn_shapes(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Returns the labels of a bundled model for pictures, such as 'circle', without 'background'."""
    config = json.loads((config_folder(checkpoint) / "config.json").read_bytes())
    return tuple(label for label in config["id2label"].values() if label != "background")


def is_beyond(checkpoint: str, sha256: str | None) -> bool:
    """Returns whether a bundled model is given a picture that is not one of `scenes`: its predictions may mean nothing.

    Returns False for a checkpoint that is not bundled, and for a run without a picture.

    `sha256`: the hash of the picture's file; None without a picture.
    """
    entry = find(checkpoint)
    return entry is not None and entry.bundled and sha256 is not None and find_scene(sha256) is None


def arguments(spec: RunSpec) -> OptionValues:
    """Returns keyword arguments from which `make_spec` makes a spec equal to `spec`. Default values are left out."""
    task = {"task": spec.task} if find(spec.checkpoint) is None else {}
    return {"checkpoint": spec.checkpoint} | task | spec.departures()


def is_folder(name: str) -> bool:
    return name.startswith((".", "~", "/", "\\")) or os.path.isdir(name)


def is_hub_id(name: str) -> bool:
    """Returns whether `name` is a valid Hub id, owner/name.

    A name without an owner gives False, because it is mostly a typo.
    """
    part = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
    allowed = re.fullmatch(f"{part}/{part}", name) and len(name) <= 96
    return bool(allowed) and "--" not in name and ".." not in name and not name.endswith(".git")


def make_spec(checkpoint: str, task: str | None = None, *, folders: bool = False, **options: object) -> RunSpec:
    """Returns the settings that a user typed as a `RunSpec`. Raises BadInput if they cannot be run.

    - `task`: needed for a checkpoint that is not in the catalogue. None: the checkpoint's task in the catalogue.
    - `folders`: whether `checkpoint` may be a local folder. If True, each Hub id is allowed too, even if
      `demo.core.limits` allows only the catalogue.
    - `options`: fields of `RunSpec`. A value may be text: '4' for 4, 'a lion, a tree' for two queries.
    """
    if task == OWN_MODEL:
        raise BadInput(OWN_MODEL_ELSEWHERE.format(given="A model of your own"))
    name = _checkpoint_name(checkpoint, folders)
    entry = find(name)
    if entry is None and not task:
        meant = did_you_mean(name, _NAMES, likeness=0.9)  # it may well be another model of the Hub
        raise BadInput(f"{name} is not in the list, so its task must be given too. Allowed: {', '.join(TASKS)}.{meant}")
    if entry is not None and task in TASKS and task != entry.task:
        others = ", ".join(checkpoint.id for checkpoint in for_task(task)) or "none"
        raise BadInput(f"{entry.id} does {entry.task}, not {task}. For {task} there are: {others}.")
    spec = RunSpec(checkpoint=name, task=task or (entry.task if entry else ""), **_parse(options))
    if spec.batch_size > (most := limits.current().batch):
        raise BadInput(f"Batch size may be at most {most} here. Given: {spec.batch_size}.")
    if entry is not None:
        _check_fit(spec, entry)
    return spec


def own_model_spec(model: str, **options: object) -> RunSpec:
    """Returns the `RunSpec` of a user's own model. Raises BadInput for a wrong value, or if there is no such file.

    `model`: 'FILE.py:FUNCTION', or 'package.module:FUNCTION' for a module in the current folder or on Python's path.
    """
    text, _, function = model.rpartition(":")
    place = Path(text)
    dotted = all(part.isidentifier() for part in str(place).split("."))
    if not function.isidentifier() or not (dotted or place.suffix == ".py"):
        raise BadInput(
            f"A model of your own is given as FILE.py:FUNCTION or package.module:FUNCTION. Given: {excerpt(model)}."
        )
    if place.suffix == ".py":
        place = Path(os.path.abspath(os.path.expanduser(place)))
        if not os.path.isfile(place):  # False for a name that is too long
            raise BadInput(f"There is no file {excerpt(str(place))}. Check the path before the colon.")
    else:
        place = _module_folder(str(place)) / place
    return RunSpec(checkpoint=f"{place}:{function}", task=OWN_MODEL, **_parse(options))


def _module_folder(module: str) -> Path:
    """Returns the folder from which Python imports `module`, such as 'package.module'. Raises BadInput if none has it.

    The current folder is searched first. Only .py files are found. Nothing is imported, because a package may import
    torch or start work.
    """
    parts = module.split(".")
    for folder in [Path.cwd(), *map(Path, sys.path)]:
        file = folder.joinpath(*parts)
        if file.with_suffix(".py").is_file() or (file / "__init__.py").is_file():
            return folder.absolute()
    with contextlib.suppress(ImportError, ValueError):  # an editable install may be found by a hook only
        known = importlib.util.find_spec(parts[0])
        for folder in map(Path, (known and known.submodule_search_locations) or ()):
            if folder.joinpath(*parts[1:]).with_suffix(".py").is_file():
                return folder.parent.absolute()
    raise BadInput(
        f"There is no module {excerpt(module)}. It is looked for from the current folder and in the environment of "
        f"{sys.executable}. Give a file: FILE.py:FUNCTION."
    )


IN_MEMORY = "in_memory"
"""If a script passes its model as a Python object, a temporary Python file is written for the run. The function with
this name in that file returns the model."""


def own_model_parts(checkpoint: str) -> tuple[Path, str]:
    """Returns the file of a user's model, and the name of the function in it that makes the model.

    `checkpoint`: as in `own_model_module`.
    """
    folder, module = own_model_module(checkpoint)
    file = folder.joinpath(*module.split(".")).with_suffix(".py")
    return file if file.is_file() else file.with_suffix("") / "__init__.py", checkpoint.rpartition(":")[2]


def own_model_module(checkpoint: str) -> tuple[Path, str]:
    """Returns the folder from which a user's module is imported, and the module's name, such as 'my_model'.

    - `checkpoint`: FOLDER/my_model.py:FUNCTION or FOLDER/package.module:FUNCTION, as `own_model_spec` writes it.
    - For a file in a package the name has dots: 'package.module'. The file's relative imports need the package.
    """
    place = Path(checkpoint.rpartition(":")[0])
    folder, module = place.parent, place.name
    if place.suffix == ".py":
        module = place.stem
        while (folder / "__init__.py").is_file() and folder.name.isidentifier():
            folder, module = folder.parent, f"{folder.name}.{module}"
    return folder, module


def _parse(options: OptionValues) -> OptionValues:
    return {name: OPTIONS[name].parse(value) if name in OPTIONS else value for name, value in options.items()}


def id_refusal(checkpoint: str) -> str:
    """Returns why the page cannot run a checkpoint with this name, as a sentence; '' if it can."""
    try:
        _checkpoint_name(checkpoint, folders=False)
    except BadInput as error:
        return str(error)
    return ""


def _checkpoint_name(typed: object, folders: bool) -> str:
    is_name = isinstance(typed, str | int | float)  # YAML reads a bare 3 as a number
    name = str(typed).replace("\ufeff", "").strip() if is_name else ""
    if not name:
        raise BadInput("No checkpoint was given. Pick one from the list, or type a Hugging Face model id.")
    if find(name) is not None:
        return name
    if ".py:" in name:
        raise BadInput(OWN_MODEL_ELSEWHERE.format(given=excerpt(name)))
    if is_folder(name):
        if not folders:
            raise BadInput(f"{excerpt(name)} is a path. Only the command line runs a checkpoint from a folder.")
        folder = os.path.expanduser(name)
        if not os.path.isdir(folder):
            what = "is a file: name the folder that holds it" if os.path.isfile(folder) else "does not exist"
            raise BadInput(f"The folder {excerpt(name)} {what}.")
        return os.path.abspath(folder)  # not resolved: the name of a link may tell the task
    if not is_hub_id(name):
        what = f"Unknown checkpoint {excerpt(name)}. Pick one from the list, or type a Hub id: owner/name."
        raise BadInput(f"{what}{did_you_mean(name, _NAMES)}")
    if not folders and not limits.current().hub_ids:
        raise BadInput(f"{name} is not in the list, and this page runs no other checkpoints. Pick one from the list.")
    return name


def _check_fit(spec: RunSpec, entry: Checkpoint) -> None:
    if entry.takes_text and not spec.text:
        raise BadInput(TEXT_MISSING.format(checkpoint=entry.id))
    if spec.text and not entry.takes_text:
        raise BadInput(f"{entry.id} takes no text queries. Leave them out.")
