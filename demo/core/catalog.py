"""The checkpoints to choose from: the guide's twelve, and three small ones that ship with the project.

Knows what a checkpoint is and where its config lies, not how it is loaded: neither torch nor transformers is imported.
`make_spec` is the one door from what somebody typed to a `RunSpec`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from demo.core import limits
from demo.core.result import TASKS, BadInput, Checkpoint, RunSpec

ASSETS = Path(__file__).resolve().parents[2] / "assets"

TEXT_MISSING = (
    "{checkpoint} finds what it is told to look for. "
    "Give it one or more text queries, such as: a cat, a remote control."
)

_NOT_NAMED = "other (not named on its card)"

# `input_size` is what the processor makes of a landscape photograph of 640 x 480 pixels. Three checkpoints keep the
# aspect ratio, so other photographs give other sizes: the DETRs (shortest edge 800, longest at most 1333) and
# MaskFormer (shortest edge 640, then both sides up to the next multiple of 32).
#
# `parameters` are those that `model.parameters()` counts. The DETRs' frozen batch norms are buffers and not among
# them, which is why the Hub, counting every tensor, says 0.1 to 0.2 million more.
CHECKPOINTS: tuple[Checkpoint, ...] = (
    Checkpoint(
        id="google/vit-base-patch16-224",
        task="image-classification",
        family="ViT",
        title="ViT base, 224 px",
        revision=None,
        input_size=(224, 224),
        parameters=86_567_656,
        licence="apache-2.0",
        auto_class="AutoModelForImageClassification",
    ),
    Checkpoint(
        id="microsoft/beit-base-patch16-224-pt22k-ft22k",
        task="image-classification",
        family="BeiT",
        title="BEiT base, 21 841 classes, 224 px",
        revision=None,
        input_size=(224, 224),
        parameters=102_557_713,
        licence="apache-2.0",
        auto_class="AutoModelForImageClassification",
    ),
    Checkpoint(
        id="facebook/convnext-large-224",
        task="image-classification",
        family="ConvNeXT",
        title="ConvNeXT large, 224 px",
        revision=None,
        input_size=(224, 224),
        parameters=197_767_336,
        licence="apache-2.0",
        auto_class="AutoModelForImageClassification",
    ),
    Checkpoint(
        id="microsoft/resnet-50",
        task="image-classification",
        family="ResNet",
        title="ResNet-50, 224 px",
        revision=None,
        input_size=(224, 224),
        parameters=25_557_032,
        licence="apache-2.0",
        auto_class="AutoModelForImageClassification",
    ),
    Checkpoint(
        id="nvidia/segformer-b0-finetuned-ade-512-512",
        task="image-segmentation",
        family="Segformer",
        title="SegFormer B0, 512 px",
        revision=None,
        input_size=(512, 512),
        parameters=3_752_694,
        licence="other (NVIDIA source code licence for SegFormer, non-commercial)",
        auto_class="AutoModelForSemanticSegmentation",
        segmentation="semantic",
    ),
    Checkpoint(
        id="facebook/mask2former-swin-tiny-coco-panoptic",
        task="image-segmentation",
        family="Mask2former",
        title="Mask2Former, Swin tiny, panoptic, 384 px",
        revision=None,
        input_size=(384, 384),
        parameters=47_436_800,
        licence=_NOT_NAMED,
        auto_class="AutoModelForUniversalSegmentation",
        segmentation="panoptic",
    ),
    Checkpoint(
        id="facebook/maskformer-swin-base-ade",
        task="image-segmentation",
        family="Maskformer",
        title="MaskFormer, Swin base, 640 px",
        revision=None,
        input_size=(640, 864),
        parameters=101_831_439,
        licence=_NOT_NAMED,
        auto_class="AutoModelForUniversalSegmentation",
        segmentation="semantic",
    ),
    Checkpoint(
        id="google/deeplabv3_mobilenet_v2_1.0_513",
        task="image-segmentation",
        family="MobileNet",
        title="DeepLabV3 on MobileNetV2, 513 px",
        revision=None,
        input_size=(513, 513),
        parameters=2_525_717,
        licence=_NOT_NAMED,
        auto_class="AutoModelForSemanticSegmentation",
        segmentation="semantic",
    ),
    Checkpoint(
        id="google/owlvit-base-patch32",
        task="object-detection",
        family="OwlViT",
        title="OWL-ViT base, text queries, 768 px",
        revision=None,
        input_size=(768, 768),
        parameters=153_231_879,
        licence="apache-2.0",
        auto_class="AutoModelForZeroShotObjectDetection",
        takes_text=True,
    ),
    Checkpoint(
        id="facebook/detr-resnet-50",
        task="object-detection",
        family="DETR",
        title="DETR, ResNet-50, 800 px",
        revision="no_timm",
        input_size=(800, 1066),
        parameters=41_524_768,
        licence="apache-2.0",
        auto_class="AutoModelForObjectDetection",
    ),
    Checkpoint(
        id="facebook/detr-resnet-101",
        task="object-detection",
        family="Resnet-101",
        title="DETR, ResNet-101, 800 px",
        revision="no_timm",
        input_size=(800, 1066),
        parameters=60_464_672,
        licence="apache-2.0",
        auto_class="AutoModelForObjectDetection",
    ),
    Checkpoint(
        id="microsoft/conditional-detr-resnet-50",
        task="object-detection",
        family="Conditional-DETR",
        title="Conditional DETR, ResNet-50, 800 px",
        revision=None,
        input_size=(800, 1066),
        parameters=43_418_401,
        licence="apache-2.0",
        auto_class="AutoModelForObjectDetection",
    ),
    Checkpoint(
        id="shapes-vit",
        task="image-classification",
        family="ViT",
        title="Shapes ViT, bundled",
        revision=None,
        input_size=(64, 64),
        parameters=827_399,
        licence="apache-2.0",
        auto_class="AutoModelForImageClassification",
        bundled=True,
    ),
    Checkpoint(
        id="shapes-segformer",
        task="image-segmentation",
        family="Segformer",
        title="Shapes SegFormer, bundled",
        revision=None,
        input_size=(128, 128),
        parameters=418_152,
        licence="apache-2.0",
        auto_class="AutoModelForSemanticSegmentation",
        segmentation="semantic",
        bundled=True,
    ),
    Checkpoint(
        id="shapes-rtdetr",
        task="object-detection",
        family="RT-DETR",
        title="Shapes RT-DETR, bundled",
        revision=None,
        input_size=(128, 128),
        parameters=788_780,
        licence="apache-2.0",
        auto_class="AutoModelForObjectDetection",
        bundled=True,
    ),
)


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


def find(id: str) -> Checkpoint | None:
    """The catalogue's entry, or None for anything else that may be named."""
    return next((checkpoint for checkpoint in CHECKPOINTS if checkpoint.id == id), None)


def for_task(task: str) -> tuple[Checkpoint, ...]:
    return tuple(checkpoint for checkpoint in CHECKPOINTS if checkpoint.task == task)


def config_folder(checkpoint: Checkpoint) -> Path:
    """Where config.json and preprocessor_config.json lie, and for a bundled checkpoint the weights too.

    Only for entries of the catalogue: what somebody named by a hub id ships nothing here.
    """
    if checkpoint.bundled:
        return ASSETS / "checkpoints" / checkpoint.id
    return ASSETS / "configs" / checkpoint.id.replace("/", "--")


def is_folder(given: str) -> bool:
    """Whether this names a folder on this machine rather than a model on the Hub; such a folder need not exist."""
    return given.startswith((".", "~", "/", "\\")) or os.path.isabs(given) or os.path.isdir(given)


def make_spec(
    checkpoint: str,
    task: str | None = None,
    *,
    text: str | Iterable[str] = (),
    folders: bool = False,
    **asked: Any,
) -> RunSpec:
    """The one door from what somebody typed to a spec that checked itself. Raises BadInput.

    Numbers may come as text, queries as one text with commas. The task is needed only for a checkpoint that is not in
    the catalogue. `folders` lets a local folder be named, and any model of the Hub: for the command line, never for a
    visitor of the page.
    """
    known, named = _checkpoint(checkpoint, folders)
    if known is None and not task:
        raise BadInput(f"{named} is not in the list, so its task must be given too. Allowed: {', '.join(TASKS)}.")
    for name in ("batch_size", "iterations", "threads"):
        if name in asked:
            asked[name] = _whole_number(asked[name])
    for name in ("precision", "most_seconds"):
        if name in asked:
            asked[name] = _number(asked[name])
    spec = RunSpec(checkpoint=named, task=task or (known.task if known else ""), text=_queries(text), **asked)
    if spec.batch_size > (most := limits.current().batch):
        raise BadInput(f"Batch size may be at most {most} here. Given: {spec.batch_size}.")
    if known is not None:
        _fits(spec, known)
    return spec


def _checkpoint(given: str, folders: bool) -> tuple[Checkpoint | None, str]:
    """The entry, where there is one, and the name to put into the spec. Raises BadInput where it names nothing."""
    named = str(given).strip() if isinstance(given, str | int | float) else ""  # YAML reads a bare 3 as a number
    if not named:
        raise BadInput("No checkpoint was given. Pick one from the list, or type a Hugging Face model id.")
    known = find(named)
    if known is not None:
        return known, named
    if is_folder(named):
        if not folders:
            raise BadInput(f"{_shown(named)} is a folder. Only the command line runs a checkpoint from a folder.")
        folder = Path(named).expanduser()
        if not os.path.isdir(folder):
            what = "is a file: name the folder that holds it" if os.path.isfile(folder) else "does not exist"
            raise BadInput(f"The folder {_shown(named)} {what}.")
        return None, str(folder.resolve())
    if not _is_hub_id(named):
        alike = _alike(named)
        hint = f"Did you mean {alike}?" if alike else "Pick one from the list, or type a Hub id: owner/name."
        raise BadInput(f"Unknown checkpoint {_shown(named)}. {hint}")
    if not folders and not limits.current().hub_ids:
        raise BadInput(f"{named} is not in the list, and this page runs no other checkpoints. Pick one from the list.")
    return None, named


def _is_hub_id(named: str) -> bool:
    """owner/name as the Hub allows it. A single word would be an id too, but is nearly always a slip."""
    part = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"
    allowed = re.fullmatch(f"{part}/{part}", named) and len(named) <= 96
    return bool(allowed) and "--" not in named and ".." not in named and not named.endswith(".git")


def _alike(named: str) -> str | None:
    ids = {part: checkpoint.id for checkpoint in CHECKPOINTS for part in (checkpoint.id, checkpoint.id.split("/")[-1])}
    found = difflib.get_close_matches(named.lower(), ids, n=1)
    return ids[found[0]] if found else None


def _fits(spec: RunSpec, known: Checkpoint) -> None:
    if spec.task != known.task:
        others = ", ".join(checkpoint.id for checkpoint in for_task(spec.task))
        raise BadInput(f"{known.id} does {known.task}, not {spec.task}. For {spec.task} there are: {others}.")
    if known.takes_text and not spec.text:
        raise BadInput(TEXT_MISSING.format(checkpoint=known.id))
    if spec.text and not known.takes_text:
        takers = ", ".join(checkpoint.id for checkpoint in CHECKPOINTS if checkpoint.takes_text)
        raise BadInput(f"{known.id} takes no text queries. Leave them out, or choose {takers}.")


def _whole_number(given: Any) -> Any:
    """An int where that is what was typed; anything else as it came, for the spec to complain about."""
    if isinstance(given, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", given):
        return int(given)
    if isinstance(given, float) and given.is_integer():
        return int(given)
    return given


def _number(given: Any) -> Any:
    """As `_whole_number`, for a number with decimals."""
    if isinstance(given, str) and re.fullmatch(r"\s*[0-9]{0,9}\.?[0-9]{1,9}\s*", given):
        return float(given)
    return given


def _queries(given: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        return tuple(query for part in re.split(r"[,;\n]", given) if (query := part.strip()))
    if not isinstance(given, Iterable):
        return (given,)  # for the spec to complain about
    return tuple(query.strip() if isinstance(query, str) else query for query in given)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
