"""From a spec to a model in eval mode with its processor: from the Hub, a bundled folder, or with random weights."""

from __future__ import annotations

import contextlib
import copy
import errno
import importlib
import json
import os
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

from demo.backend import settings
from demo.core import catalog, hub, limits
from demo.core import format as fmt
from demo.core.result import BadInput, Checkpoint, RunSpec

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
MOST_TENSORS = 20_000
"""Of a model that somebody named. The largest vision models have some two thousand."""
MOST_IN_CONFIG = 10_000_000
"""All whole numbers of a config together. Some become lists and loops before the first parameter is made."""
MOST_CONFIG_BYTES = 10_000_000
WEIGHTS_INDEX = "model.safetensors.index.json"
SMALL_FILES = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    WEIGHTS_INDEX,
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)
"""What loading may read beside the weights: `MOST_CONFIG_BYTES` each."""
OTHER_NAMES = {"config.json": "configuration_files", "tokenizer_config.json": "fast_tokenizer_files"}
"""Files that may name others to be read in their place, which nobody has sized, and the entry that does so."""
MOST_SIDE = 4096
"""Pixels to which a processor may bring a picture's side. Those of the list ask for 1333 at most."""
MOST_LABEL = 200
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
BYTES_A_PARAMETER = 8
"""The widest number that a weights file holds."""
os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"
"""Else transformers sends the id and the user's token of a model in pickle to a service that converts it."""
NO_SAFETENSORS = ("no file named model.safetensors", "cannot be loaded with `safetensors`")
"""What transformers says of a folder, and of a repository of the Hub."""
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


class CannotLoad(BadInput):
    """The checkpoint could be asked for as it was, but the Hub, or a damaged file, stands in the way today."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} {remedy}")
        self.what = what
        self.remedy = remedy


def load(spec: RunSpec, device: torch.device) -> Loaded:
    """The model on `device` in the asked dtype, in eval mode, its processor (`backend="pil"`) beside it.

    Raises BadInput where the checkpoint cannot be run as asked: of another task, in pickle only, larger than the
    limits; and CannotLoad where it cannot be had now: unknown, gated, damaged, or the Hub out of reach. The message
    names the way out.
    """
    known = catalog.find(spec.checkpoint)
    with _in_sentences(spec.checkpoint):
        source = _source(spec, known)
        if known is None:
            _refuse_large_files(source)
            _refuse_other_parts(source)
        config = source.config()
        checkpoint = known or _describe(spec, config)
        kind = getattr(transformers, checkpoint.auto_class)
        if known is None:
            _refuse_large_model(kind, config, spec.checkpoint)
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
            warnings += _missing(report)
            tokenizer = (
                transformers.AutoTokenizer.from_pretrained(source.name, trust_remote_code=False, **source.options)
                if checkpoint.takes_text
                else None
            )
        if tokenizer is not None and len(tokenizer) <= len(tokenizer.all_special_ids):
            # transformers makes one that knows no word where the files lack: every query would be the same
            raise BadInput(f"{named(spec.checkpoint)} has no tokenizer (tokenizer.json) to read the queries; {OTHER}.")
        processor = _processor(source, config.model_type)
        _refuse_large_inputs(processor, spec.checkpoint)
    model = model.to(device, memory_format=settings.memory_format_of(spec)).eval()
    return Loaded(model, processor, tokenizer, checkpoint, warnings)


def _processor(source: _Source, model_type: str) -> Any:
    options: dict[str, Any] = {**source.options, "trust_remote_code": False}
    try:
        return AutoImageProcessor.from_pretrained(source.name, backend="pil", **options)
    except ValueError:
        # transformers 5.17 hides SegFormer's PIL processor where torchvision is missing, although it needs none.
        hidden = _pil_processor(model_type)
        if hidden is None:
            raise
        return hidden.from_pretrained(source.name, **source.options)


def _pil_processor(model_type: str) -> Any | None:
    try:
        home = importlib.import_module(f"transformers.models.{model_type}.image_processing_pil_{model_type}")
    except ImportError:
        return None
    (kind,) = (
        getattr(home, name) for name in dir(home) if name.lower() == f"{model_type.replace('_', '')}imageprocessorpil"
    )
    return kind


@dataclass
class _Source:
    """Where config, processor and weights come from, as arguments of `from_pretrained`.

    `trust_remote_code=False` is always passed as well: left out, transformers would ask on standard input.
    """

    name: str
    config_name: str
    options: dict[str, Any]
    weights_options: dict[str, Any]

    @property
    def safetensors_only(self) -> bool:
        return bool(self.weights_options.get("use_safetensors"))

    def config(self) -> Any:
        asked, _ = transformers.PreTrainedConfig.get_config_dict(self.config_name, **self.options)
        if sum(_whole_numbers(asked)) > MOST_IN_CONFIG:
            raise BadInput(f"{named(self.name)} has a config that asks for a gigantic model; {OTHER}.")
        if "transformers_weights" in asked and self.safetensors_only:
            # transformers follows it whatever `use_safetensors` says, to a pickle too
            raise BadInput(
                f"{named(self.name)} names the file of its weights in its config, which is not followed; {OTHER}."
            )
        config = transformers.AutoConfig.from_pretrained(self.config_name, trust_remote_code=False, **self.options)
        if self.safetensors_only:
            config.transformers_weights = None  # should the file have changed since
        config.return_dict = True
        config._attn_implementation = None  # the class decides, or the spec: one of the config's may be a Hub kernel
        if config.id2label is not None:
            config.id2label = {number: _label(label) for number, label in config.id2label.items()}
        return config


def _label(label: Any) -> str:
    """A config may hold anything as a label's text."""
    return fmt.printable(str(label).replace("\n", " "))[:MOST_LABEL]


def _whole_numbers(part: Any) -> Iterator[int]:
    """The size of every whole number in a config, those of its lists of labels left out."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name not in ("id2label", "label2id"):
                yield from _whole_numbers(value)
    elif isinstance(part, list):
        for value in part:
            yield from _whole_numbers(value)
    elif isinstance(part, int) and not isinstance(part, bool):
        yield abs(part)


def _refuse_large_files(source: _Source) -> None:
    """Asks the Hub how large the files are before one is fetched. Raises BadInput."""
    if source.options.get("local_files_only"):
        return

    def size(name: str) -> int:
        address = huggingface_hub.hf_hub_url(source.name, name, revision=source.options.get("revision"))
        try:
            return huggingface_hub.get_hf_file_metadata(address).size or 0
        except EntryNotFoundError:
            return 0

    sizes = {name: size(name) for name in SMALL_FILES}
    for name, found in sizes.items():
        if found > MOST_CONFIG_BYTES:
            raise BadInput(
                f"The file {name} of {source.name} has {fmt.size(found)}, the limit is {fmt.size(MOST_CONFIG_BYTES)}; "
                f"{OTHER}."
            )
    for name, entry in OTHER_NAMES.items():
        if sizes[name]:
            file = huggingface_hub.hf_hub_download(source.name, name, **source.options)
            if entry in json.loads(Path(file).read_bytes()):
                raise BadInput(f"The file {name} of {source.name} names others to be read in its place; {OTHER}.")
    weights = size("model.safetensors")
    if not weights and sizes[WEIGHTS_INDEX]:
        index = huggingface_hub.hf_hub_download(source.name, WEIGHTS_INDEX, **source.options)
        parts = set(json.loads(Path(index).read_bytes())["weight_map"].values())
        weights = sum(size(part) for part in sorted(parts)[:MOST_TENSORS])
    most = limits.current().parameters * BYTES_A_PARAMETER
    if weights > most:
        raise BadInput(
            f"The weights of {source.name} have {fmt.size(weights)}, the limit here is {fmt.size(most)}. Choose a "
            f"smaller checkpoint, or raise {limits.variable('parameters')}."
        )


def _refuse_other_parts(source: _Source) -> None:
    """Raises BadInput for an index, read already or of a folder, that names parts which are no safetensors.

    transformers would read them with pickle, whatever `use_safetensors` says.
    """
    if Path(source.name).is_absolute():
        index = Path(source.name, WEIGHTS_INDEX)
    else:
        revision = source.options.get("revision")
        index = Path(str(huggingface_hub.try_to_load_from_cache(source.name, WEIGHTS_INDEX, revision=revision)))
    if index.is_file():
        parts = set(json.loads(index.read_bytes())["weight_map"].values())
        if not all(str(part).endswith(".safetensors") for part in parts):
            raise BadInput(f"{named(source.name)} has weights that are no safetensors, the only kind read; {OTHER}.")


def _refuse_large_model(kind: Any, config: Any, checkpoint: str) -> None:
    """Builds the architecture without allocating any of it, and stops counting at the limit. Raises BadInput."""
    most = limits.current().parameters
    counted = tensors = 0

    def count(module: Any, name: str, parameter: torch.Tensor | None) -> None:
        nonlocal counted, tensors
        if parameter is None:
            return
        counted, tensors = counted + parameter.numel(), tensors + 1
        if counted > most or tensors > MOST_TENSORS:
            raise BadInput(
                f"{named(checkpoint)} is a model of more than {most:,} parameters or {MOST_TENSORS:,} weight tensors, "
                f"the limits here. Choose a smaller checkpoint, or raise {limits.variable('parameters')}."
            )

    registering = torch.nn.modules.module
    hooks = (
        registering.register_module_parameter_registration_hook(count),
        registering.register_module_buffer_registration_hook(count),
    )
    try:
        with torch.device("meta"):
            kind.from_config(copy.deepcopy(config))
    finally:
        for hook in hooks:
            hook.remove()


def _refuse_large_inputs(processor: Any, checkpoint: str) -> None:
    """Raises BadInput for a processor that would make of any picture one that fills the memory."""
    for name in ("size", "crop_size", "pad_size", "size_divisor"):
        asked = getattr(processor, name, None)
        sides = [asked] if isinstance(asked, int | float) else list(dict(asked).values()) if asked else []
        # ConvNeXT's and PoolFormer's share that a crop leaves: before it, they make the picture larger by as much.
        share = getattr(processor, "crop_pct", None) if name == "size" else None
        share = share if isinstance(share, int | float) and share > 0 else 1
        if any(isinstance(side, int | float) and side / share > MOST_SIDE for side in sides):
            raise BadInput(
                f"The processor of {named(checkpoint)} asks for pictures of more than {MOST_SIDE} pixels a side; "
                f"{OTHER}."
            )


def named(checkpoint: str) -> str:
    """A folder by its last part only: the whole path is nobody's business."""
    return Path(checkpoint).name if catalog.is_folder(checkpoint) else checkpoint


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
            raise _out_of_reach(spec, known)
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


def _out_of_reach(spec: RunSpec, known: Checkpoint | None) -> CannotLoad:
    cause = f"The Hugging Face Hub cannot be reached and {spec.checkpoint} is not in the local cache."
    if known is not None:
        return CannotLoad(
            cause,
            "Choose weights: random to time its architecture all the same (latency does not depend on the weights' "
            "values), or a bundled shapes checkpoint.",
        )
    return CannotLoad(cause, "Choose a checkpoint of the list with weights: random, or a bundled shapes checkpoint.")


def _describe(spec: RunSpec, config: Any) -> Checkpoint:
    """A catalogue entry for a checkpoint that somebody named, from its config. Raises BadInput for another task."""
    architectures = [str(name) for name in config.architectures or [] if not isinstance(config.architectures, str)]
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
        what = (", ".join(architectures) or config.model_type)[:MOST_LABEL]
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


def _missing(report: dict[str, Any]) -> list[str]:
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
        raise _refusal(checkpoint, error) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _refusal(checkpoint: str, error: BaseException) -> BadInput:
    causes = list(_causes(error))

    def any_of(*kinds: type[BaseException]) -> BaseException | None:
        return next((cause for cause in causes if isinstance(cause, kinds)), None)

    text = " ".join(str(cause) for cause in causes)
    name = named(checkpoint)
    other = f"{OTHER.capitalize()}."
    if "attention implementation" in text:
        return BadInput(f"{name} does not have the attention implementation that was asked for. Choose auto or eager.")
    known = catalog.find(checkpoint)
    if known is not None and known.bundled:
        return CannotLoad(
            f"A file of {name}, which ships with this project, is damaged or missing.",
            "Get the project's folder assets again.",
        )
    if any_of(GatedRepoError):
        return CannotLoad(
            f"{name} is gated on the Hub.", f"Accept its terms there and log in (hf auth login), or {OTHER}."
        )
    if any_of(RepositoryNotFoundError):
        return CannotLoad(
            f"{name} was not found on the Hub, or is private.",
            "Check the spelling: owner/name, as microsoft/resnet-50.",
        )
    if any_of(RevisionNotFoundError):
        return CannotLoad(f"{name} has no such revision on the Hub.", other)
    http = any_of(HfHubHTTPError)
    if isinstance(http, HfHubHTTPError) and not isinstance(http, EntryNotFoundError):
        status = http.response.status_code if http.response is not None else "an error"
        if status == 429:
            return CannotLoad(
                f"The Hub answered 429 (too many requests) for {name}.", "Wait a few minutes and run again."
            )
        if status in (401, 403):
            return CannotLoad(
                f"The Hub answered {status} for {name}.", f"Log in with access to it (hf auth login), or {OTHER}."
            )
        return CannotLoad(
            f"The Hub answered {status} for {name}.", "Try again later, or choose a bundled shapes checkpoint."
        )
    if any_of(HFValidationError):
        return BadInput(f"{checkpoint!r} is not a valid Hub id. It is owner/name, such as microsoft/resnet-50.")
    if any_of(LocalEntryNotFoundError):
        return CannotLoad(f"The Hub cannot be reached and {name} is not complete in the local cache.", other)
    system = any_of(OSError)
    if isinstance(system, OSError) and system.errno in NO_ROOM and catalog.is_folder(checkpoint):
        return CannotLoad(
            f"A file of {name} cannot be read: {os.strerror(system.errno)}.", f"Allow reading it, or {OTHER}."
        )
    if isinstance(system, OSError) and system.errno in NO_ROOM:
        return CannotLoad(
            f"The Hugging Face cache cannot take {name}: {os.strerror(system.errno)}.",
            "Make room and allow writing there, or set HF_HOME to another folder.",
        )
    if any_of(TimeoutError, ConnectionError) or any(type(cause).__module__.startswith("http") for cause in causes):
        return CannotLoad(
            f"The Hub did not answer for {name}.", "Try again later, or choose a bundled shapes checkpoint."
        )
    if "trust_remote_code" in text or "custom code" in text:
        return BadInput(f"{name} brings Python code of its own, which is never run here; {OTHER}.")
    if any(sign in text for sign in NO_SAFETENSORS):
        return BadInput(f"{name} has no safetensors weights, the only kind that is read; {OTHER}.")
    if any_of(json.JSONDecodeError, UnicodeDecodeError, SafetensorError):
        return CannotLoad(f"A file of {name} is damaged and cannot be read.", "Download or write the checkpoint again.")
    if "preprocessor_config.json" in text or "image processor" in text.lower():
        return BadInput(
            f"{name} has no image processor (preprocessor_config.json), so no picture can be prepared; {OTHER}."
        )
    if "ignore_mismatched_sizes" in text:
        return CannotLoad(
            f"The weights of {name} have other shapes than its config says.",
            f"Write or download the checkpoint again, or {OTHER}.",
        )
    missing = any_of(ImportError)
    if missing is not None:
        return BadInput(f"{name} needs a package that is not part of this project: {_reason(missing)}. {other}")
    return BadInput(f"{name} could not be loaded: {_reason(error)}. {other}")


def _reason(error: BaseException) -> str:
    """The first line that says something: one that ends in a colon only announces it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    announced = lines[0].endswith(":") and len(lines) > 1
    return " ".join(lines[: 2 if announced else 1])[:300].rstrip(".:")
