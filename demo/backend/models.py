"""From a spec to a model in eval mode with its processor: from the Hub, a bundled folder, or with random weights."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
import transformers
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError
from transformers.models.auto import modeling_auto

# By its module: in transformers 5.17 the name at the top level refuses to work without torchvision.
from transformers.models.auto.image_processing_auto import AutoImageProcessor

from demo import catalog, hub
from demo.backend import settings
from demo.schema import BadInput, Checkpoint, RunSpec

OTHER = "choose another checkpoint"
SEED = 0
"""Random weights are the same in every run."""

CANDIDATES: dict[str, tuple[tuple[str, Any], ...]] = {
    "image-classification": (
        ("AutoModelForImageClassification", modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES),
    ),
    "object-detection": (
        ("AutoModelForObjectDetection", modeling_auto.MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES),
        ("AutoModelForZeroShotObjectDetection", modeling_auto.MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES),
    ),
    "image-segmentation": (
        ("AutoModelForSemanticSegmentation", modeling_auto.MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES),
        ("AutoModelForUniversalSegmentation", modeling_auto.MODEL_FOR_UNIVERSAL_SEGMENTATION_MAPPING_NAMES),
    ),
}
TEXT_MODELS = ("owlvit", "owlv2")
"""Zero-shot detectors whose queries are a list of short texts; others join them in ways of their own."""


@dataclass
class Loaded:
    model: Any
    processor: Any
    tokenizer: Any | None
    """None for a model without text, and for random weights: see `predictions.prepare`."""
    checkpoint: Checkpoint
    warnings: list[str]


def load(spec: RunSpec, device: torch.device) -> Loaded:
    """The model on `device` in the asked dtype, in eval mode, its processor (`backend="pil"`) beside it.

    Raises BadInput where the checkpoint cannot be had as asked: unknown, gated, of another task, in pickle only,
    or the Hub out of reach; the message names the way out.
    """
    known = catalog.find(spec.checkpoint)
    with _in_sentences(spec.checkpoint):
        source = _source(spec, known)
        config = source.config()
        checkpoint = known or _describe(spec, config)
        kind = getattr(transformers, checkpoint.auto_class)
        dtype = settings.dtype_of(spec)
        attention = {} if spec.attention == "auto" else {"attn_implementation": spec.attention}
        warnings: list[str] = []
        if spec.weights == "random":
            torch.manual_seed(SEED)
            model = kind.from_config(config, **attention).to(dtype)
            tokenizer = None
        else:
            model, report = kind.from_pretrained(
                source.name,
                config=config,
                dtype=dtype,
                output_loading_info=True,
                trust_remote_code=False,
                **attention,
                **source.weights_options,
                **source.options,
            )
            warnings += _missing(report, config, model)
            tokenizer = (
                transformers.AutoTokenizer.from_pretrained(source.name, trust_remote_code=False, **source.options)
                if checkpoint.takes_text
                else None
            )
        processor = _processor(source, config.model_type)
    model = model.to(device, memory_format=settings.memory_format_of(spec)).eval()
    return Loaded(model, processor, tokenizer, checkpoint, warnings)


def _processor(source: _Source, model_type: str) -> Any:
    options: dict[str, Any] = {**source.options, "trust_remote_code": False}
    try:
        return AutoImageProcessor.from_pretrained(source.name, backend="pil", **options)
    except ValueError as hidden:
        # transformers 5.17 hides SegFormer's PIL processor where torchvision is missing, although it needs none.
        try:
            home = importlib.import_module(f"transformers.models.{model_type}.image_processing_pil_{model_type}")
        except ImportError:
            raise hidden from None
        (kind,) = (
            getattr(home, name)
            for name in dir(home)
            if name.lower() == f"{model_type.replace('_', '')}imageprocessorpil"
        )
        return kind.from_pretrained(source.name, **source.options)


@dataclass
class _Source:
    """Where config, processor and weights come from, as arguments of `from_pretrained`.

    `trust_remote_code=False` is always passed as well: left out, transformers would ask on standard input.
    """

    name: str
    config_name: str
    options: dict[str, Any]
    weights_options: dict[str, Any]

    def config(self) -> Any:
        config = transformers.AutoConfig.from_pretrained(self.config_name, trust_remote_code=False, **self.options)
        config.return_dict = True
        return config


def _source(spec: RunSpec, known: Checkpoint | None) -> _Source:
    if known is not None and (known.bundled or spec.weights == "random"):
        folder = str(catalog.config_folder(known))
        return _Source(folder, folder, {"local_files_only": True}, {"use_safetensors": True})
    folder_given = Path(spec.checkpoint)
    if catalog.is_folder(spec.checkpoint):
        if not (folder_given / "config.json").is_file():
            raise BadInput(
                f"The folder {folder_given.name!r} holds no config.json. Give one written by save_pretrained."
            )
        folder = str(folder_given.resolve())
        return _Source(folder, folder, {"local_files_only": True}, {"use_safetensors": True})
    revision = known.revision if known else None
    options: dict[str, Any] = {"revision": revision} if revision else {}
    if not _cached(spec.checkpoint, revision, spec.weights):
        if not hub.reachable():
            raise BadInput(_out_of_reach(spec, known))
    else:
        options["local_files_only"] = not hub.reachable()
    # The catalogue's twelve are known, so a .bin of theirs may be read (with weights_only=True, transformers' default);
    # for an id that somebody typed in only safetensors is.
    weights_options: dict[str, Any] = {} if known else {"use_safetensors": True}
    config_name = spec.checkpoint
    mapping = catalog.KEY_MAPPINGS.get(spec.checkpoint)
    if known is not None and mapping is not None:
        # The published config asks for timm; ours builds the same backbone from transformers and renames the keys.
        config_name = str(catalog.config_folder(known))
        weights_options["key_mapping"] = mapping
    return _Source(spec.checkpoint, config_name, options, weights_options)


def _cached(checkpoint: str, revision: str | None, weights: str) -> bool:
    """True where the local Hub cache holds the config and, for pretrained weights, a weights file."""

    def holds(name: str) -> bool:
        found = huggingface_hub.try_to_load_from_cache(checkpoint, name, revision=revision)
        return isinstance(found, str)

    weight_files = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
    return holds("config.json") and (weights == "random" or any(holds(name) for name in weight_files))


def _out_of_reach(spec: RunSpec, known: Checkpoint | None) -> str:
    cause = f"The Hugging Face Hub cannot be reached and {spec.checkpoint} is not in the local cache."
    if known is not None:
        return (
            f"{cause} Choose weights: random to time its architecture all the same (latency does not depend on the "
            "weights' values), or a bundled shapes checkpoint."
        )
    return f"{cause} Choose a checkpoint of the list with weights: random, or a bundled shapes checkpoint."


def _describe(spec: RunSpec, config: Any) -> Checkpoint:
    """A catalogue entry for a checkpoint that somebody named, from its config. Raises BadInput for another task."""
    architectures = config.architectures or []
    auto_class = next(
        (
            auto_class
            for auto_class, names in CANDIDATES[spec.task]
            if config.model_type in names and _trained_for(architectures, names[config.model_type])
            if "ZeroShot" not in auto_class or config.model_type in TEXT_MODELS
        ),
        None,
    )
    if auto_class is None:
        what = ", ".join(architectures) or config.model_type
        raise BadInput(
            f"{spec.checkpoint} is a {what}, which does not do {spec.task.replace('-', ' ')} here. "
            "Choose another task, or a checkpoint of this task."
        )
    segmentation = None
    if spec.task == "image-segmentation":
        # A universal model decodes either way; its id says what it was trained for.
        panoptic = "Universal" in auto_class and "panoptic" in spec.checkpoint.lower()
        segmentation = "panoptic" if panoptic else "semantic"
    takes_text = config.model_type in TEXT_MODELS
    if takes_text and not spec.text:
        raise BadInput(catalog.TEXT_MISSING.format(checkpoint=spec.checkpoint))
    return Checkpoint(
        id=spec.checkpoint,
        task=spec.task,
        family=config.model_type,
        title=spec.checkpoint,
        revision=None,
        input_size=(0, 0),
        parameters=0,
        licence="unknown",
        auto_class=auto_class,
        segmentation=segmentation,
        takes_text=takes_text,
    )


def _trained_for(architectures: list[str], class_names: str | tuple[str, ...]) -> bool:
    """False where the checkpoint was saved from another class: its head for this task would be random."""
    names = (class_names,) if isinstance(class_names, str) else class_names
    return not architectures or any(name in names for name in architectures)


def _missing(report: dict[str, Any], config: Any, model: Any) -> list[str]:
    """A warning where the checkpoint lacked weights, which are then random: predictions would be quietly wrong."""
    missing = sorted(report.get("missing_keys", ()))
    if not missing:
        return []
    return [
        f"{len(missing)} weights of the model are not in the checkpoint and were initialised at random "
        f"(first: {missing[0]}). Latency stands; predictions may mean nothing."
    ]


@contextlib.contextmanager
def _in_sentences(checkpoint: str) -> Iterator[None]:
    """Turns what loading raises, Hub errors above all, into BadInput with the way out."""
    try:
        yield
    except BadInput:
        raise
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        if "out of memory" in str(error).lower() or "can't allocate memory" in str(error).lower():
            raise
        raise BadInput(_sentence(checkpoint, error)) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _sentence(checkpoint: str, error: BaseException) -> str:
    causes = list(_causes(error))

    def any_of(*kinds: type[BaseException]) -> BaseException | None:
        return next((cause for cause in causes if isinstance(cause, kinds)), None)

    text = " ".join(str(cause) for cause in causes)
    name = Path(checkpoint).name if catalog.is_folder(checkpoint) else checkpoint
    if any_of(GatedRepoError):
        return f"{name} is gated on the Hub: accept its terms there and log in (hf auth login), or {OTHER}."
    if any_of(RepositoryNotFoundError):
        return (
            f"{name} was not found on the Hub, or is private. Check the spelling: owner/name, as microsoft/resnet-50."
        )
    if any_of(RevisionNotFoundError):
        return f"{name} has no such revision on the Hub; {OTHER}."
    http = any_of(HfHubHTTPError)
    if isinstance(http, HfHubHTTPError) and not isinstance(http, EntryNotFoundError):
        status = http.response.status_code if http.response is not None else "an error"
        if status == 429:
            return f"The Hub answered 429 (too many requests) for {name}. Wait a few minutes and run again."
        if status in (401, 403):
            return f"The Hub answered {status} for {name}: log in with access to it (hf auth login), or {OTHER}."
        return f"The Hub answered {status} for {name}. Try again later, or choose a bundled shapes checkpoint."
    if any_of(HFValidationError):
        return f"{checkpoint!r} is not a valid Hub id. It is owner/name, such as microsoft/resnet-50."
    if any_of(LocalEntryNotFoundError):
        return f"The Hub cannot be reached and {name} is not complete in the local cache; {OTHER}."
    if "attention implementation" in text:
        return f"{name} does not have the attention implementation that was asked for. Choose auto or eager."
    if "trust_remote_code" in text or "custom code" in text:
        return f"{name} brings Python code of its own, which is never run here; {OTHER}."
    if "no file named model.safetensors" in text or "a file named pytorch_model.bin" in text:
        return f"{name} has no safetensors weights, the only kind that is read; {OTHER}."
    if any_of(json.JSONDecodeError, UnicodeDecodeError, SafetensorError):
        return f"A file of {name} is damaged and cannot be read. Download or write the checkpoint again."
    if "preprocessor_config.json" in text or "image processor" in text.lower():
        return f"{name} has no image processor (preprocessor_config.json), so no picture can be prepared; {OTHER}."
    missing = any_of(ImportError)
    if missing is not None:
        return f"{name} needs a package that is not part of this project: {_first_line(missing)}"
    return f"{name} could not be loaded: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
