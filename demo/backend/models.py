"""From a spec to a model in eval mode with its processor: from the Hub, a bundled folder, or with random weights.

A checkpoint that somebody named has limits: the sizes of its files before one is fetched, weights in safetensors only,
its parameters (counted without allocating any), and the pictures that its processor makes. Not covered: the memory that
a call takes.
"""

import copy
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
import transformers
from transformers import CONFIG_MAPPING, PreTrainedConfig
from transformers.utils import cached_file

from demo import tasks
from demo.backend.failures import OTHER, in_sentences, short_name
from demo.backend.workload import dtype_of, memory_format_of
from demo.core import catalog, format as fmt, hub, limits
from demo.core.catalog import KEY_MAPPINGS
from demo.core.caveat import Caveat
from demo.core.spec import TEXT_GENERATION, BadInput, RunSpec

UNUSED_WEIGHTS = (".swin.layernorm.weight", ".swin.layernorm.bias", "mask_token", "num_batches_tracked")
"""Ends of the names of weights that no prediction depends on: Mask2Former's backbone norms its stages instead."""
TEXT_MODELS = ("owlvit", "owlv2")
"""Zero-shot detectors whose queries are a list of short texts; other ones join the queries in their own ways."""
MAX_LABEL = 200
MAX_NUMBER = 10_000_000
"""The largest whole number in a config."""
MAX_ENTRIES = 100_000
"""Entries of a list or an object in a config, and labels: each costs 20 microseconds and a kilobyte. ImageNet-21k has
21,843 labels."""
MAX_TENSORS = 20_000
"""Weight tensors of a model that somebody named. The largest vision models have about two thousand."""
MAX_TEXT_BYTES = 50_000_000
"""Bytes of a file beside the weights. Gemma 3's tokenizer.json has 33 MB."""
TEXT_FILES = (".json", ".txt", ".jinja")
MAX_SIDE = 4096
"""Pixels of a side to which a processor may resize a picture. The catalogue's ask for 1333 at most."""
MAX_PARAMETER_BYTES = 8
"""In the widest number format of a weights file."""


@dataclass
class Loaded:
    model: Any
    processor: Any
    """None for a model that sees no picture."""
    tokenizer: Any | None
    """None for a model without text, and for random weights: see `PictureWorkload.preprocess`."""
    checkpoint: catalog.Checkpoint
    caveats: list[Caveat]


@dataclass(frozen=True)
class Source:
    """Arguments of `from_pretrained`, of which `options` are for config, processor, tokenizer and weights."""

    name: str
    config_name: str
    options: dict[str, Any]
    weights_options: dict[str, Any]


def load(spec: RunSpec, device: torch.device) -> Loaded:
    """The model on `device` in the asked dtype, in eval mode, with its processor.

    Raises BadInput if the checkpoint cannot be run as asked: of another task, in pickle only, larger than the limits;
    and CannotLoad if it cannot be loaded now: unknown, gated, damaged, or the Hub out of reach.
    """
    entry = catalog.find(spec.checkpoint)
    with in_sentences(spec.checkpoint):
        source = _source(spec, entry)
        if entry is None:
            refuse_large_files(source)
            refuse_pickled_parts(source)
        config = _config(source)
        checkpoint = entry or _catalogue_entry(spec, config)
        kind = getattr(transformers, checkpoint.auto_class)
        if entry is None:
            refuse_large_model(kind, config, spec.checkpoint)
        # Without trust_remote_code transformers would ask on standard input.
        options = {"config": config, "trust_remote_code": False, **source.options}
        model, missing = _model(spec, kind, source, options)
        reads_text = checkpoint.takes_text or spec.task == TEXT_GENERATION
        tokenizer = _tokenizer(source, options) if reads_text and spec.weights == "pretrained" else None
        processor = None
        if spec.sees_picture:
            # Over Pillow, which needs no torchvision.
            processor = transformers.AutoImageProcessor.from_pretrained(source.name, backend="pil", **options)
            refuse_large_inputs(processor, spec.checkpoint)
        # What a checkpoint lacks, transformers initialises at random.
        names = sorted(name for name in missing if not name.endswith(UNUSED_WEIGHTS))
        caveats = [Caveat("missing_weights", {"count": len(names), "first": names[0]})] if names else []
    model = model.to(device, memory_format=memory_format_of(spec)).eval()
    return Loaded(model, processor, tokenizer, checkpoint, caveats)


def _catalogue_entry(spec: RunSpec, config: Any) -> catalog.Checkpoint:
    """A catalogue entry for a checkpoint that somebody named, from its config. Raises BadInput for one of another task,
    or saved from another class, so that its head for this task would be random.
    """
    architectures = [str(name) for name in config.architectures or [] if not isinstance(config.architectures, str)]
    for auto_class in tasks.BY_NAME[spec.task].auto_classes:
        found = getattr(transformers, auto_class)._model_mapping.get(type(config), ())
        classes: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)
        fits = bool(classes) if not architectures else any(one.__name__ in architectures for one in classes)
        if fits and ("ZeroShot" not in auto_class or config.model_type in TEXT_MODELS):
            break
    else:
        what = (", ".join(architectures) or config.model_type)[:MAX_LABEL]
        raise BadInput(
            f"{short_name(spec.checkpoint)} is a {what}, which does not do {spec.task.replace('-', ' ')} here. "
            "Choose another task, or a checkpoint of this task."
        )
    takes_text = config.model_type in TEXT_MODELS
    if takes_text and not spec.text:
        raise BadInput(catalog.TEXT_MISSING.format(checkpoint=spec.checkpoint))
    return catalog.Checkpoint(
        id=spec.checkpoint,
        task=spec.task,
        family=config.model_type,
        title=spec.checkpoint,
        auto_class=auto_class,
        takes_text=takes_text,
    )


def _model(spec: RunSpec, kind: Any, source: Source, options: dict[str, Any]) -> tuple[Any, Iterable[str]]:
    """The model of class `kind` on the CPU, and the names of the weights that its checkpoint lacks."""
    # At once: from float32 a large model would need twice the memory of half types.
    asked: dict[str, Any] = {"dtype": dtype_of(spec)}
    if spec.attention != "auto":
        asked["attn_implementation"] = spec.attention
    if spec.weights == "random":
        torch.manual_seed(0)  # random weights are the same in every run
        return kind.from_config(options["config"], **asked), ()
    asked |= {"output_loading_info": True, **source.weights_options}
    model, report = kind.from_pretrained(source.name, **options, **asked)
    return model, report["missing_keys"]


def _tokenizer(source: Source, options: dict[str, Any]) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(source.name, **options)
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        # Where the files are missing, transformers makes one without words: every query would be the same.
        raise BadInput(f"{short_name(source.name)} has no tokenizer (tokenizer.json) to read a text; {OTHER}.")
    return tokenizer


# Its files: where they come from, and its config for the installed transformers


def _source(spec: RunSpec, entry: catalog.Checkpoint | None) -> Source:
    """`entry` is None where somebody named the checkpoint. Raises BadInput for a folder without a config."""
    folder = None
    if entry is not None and (entry.bundled or spec.weights == "random"):
        folder = catalog.config_folder(entry)
    elif catalog.is_folder(spec.checkpoint):
        folder = Path(spec.checkpoint).absolute()
        if not (folder / "config.json").is_file():
            raise BadInput(f"The folder {folder.name!r} holds no config.json. Give one written by save_pretrained.")
    if folder is not None:
        return Source(str(folder), str(folder), {"local_files_only": True}, {"use_safetensors": True})
    options: dict[str, Any] = {"revision": entry.revision} if entry and entry.revision else {}
    if not hub.reachable():
        options["local_files_only"] = True
    if entry is None:
        return Source(spec.checkpoint, spec.checkpoint, options, {"use_safetensors": True})
    # Without use_safetensors a .bin of the catalogue's checkpoints is read, too, with weights_only=True.
    if (mapping := KEY_MAPPINGS.get(spec.checkpoint)) is None:
        return Source(spec.checkpoint, spec.checkpoint, options, {})
    # The published config asks for timm; ours builds the same backbone from transformers and renames the keys.
    return Source(spec.checkpoint, str(catalog.config_folder(entry)), options, {"key_mapping": mapping})


def _config(source: Source) -> Any:
    """The source's config, as loading and compiling need it. Raises BadInput for a config that asks for a gigantic
    model, and ValueError or what transformers raises for an unknown model type or entry.
    """
    entries, _ = PreTrainedConfig.get_config_dict(source.config_name, **source.options)
    given = entries.get("model_type")
    kind = _class_of(given)
    if kind is None:  # such as a model that brings Python code of its own, which is never run here
        raise ValueError(f"transformers {transformers.__version__} does not know its config's model_type, {given!r}")
    for name, amount, limit in _amounts(entries):
        if amount > limit:
            what = f"{fmt.printable(name)[:MAX_LABEL]} is {fmt.shortened(f'{amount:,}', 40)}, the limit is {limit:,}"
            raise BadInput(f"{short_name(source.name)} has a config that asks for a gigantic model: {what}; {OTHER}.")
    # transformers would read the file that this entry names whatever `use_safetensors` says, a pickle too.
    entries.pop("transformers_weights", None)
    config = kind.from_dict(_without_nulls(kind, entries))
    config.return_dict = True
    # The model's class decides, or the spec. A config's entry may name a kernel to be fetched from the Hub.
    config._attn_implementation = None
    if config.id2label is not None:
        texts = {number: str(label).replace("\n", " ") for number, label in config.id2label.items()}  # may be anything
        config.id2label = {number: fmt.printable(text)[:MAX_LABEL] for number, text in texts.items()}
    return config


def _amounts(part: Any, name: str = "the config") -> Iterator[tuple[str, int, int]]:
    """Every number in a config and of its entries: its name, itself and its limit. The base of the rotary embeddings
    has none."""
    if isinstance(part, dict | list):
        yield f"the number of entries of {name}", len(part), MAX_ENTRIES
        for key, value in part.items() if isinstance(part, dict) else ((name, value) for value in part):
            yield from _amounts(value, key)
    if isinstance(part, int) and name != "rope_theta":
        yield name, abs(part), MAX_ENTRIES if re.search("label|classes", name) else MAX_NUMBER


def _class_of(model_type: Any) -> Any | None:
    """The installed transformers' config class, or None where it knows no such model type."""
    return CONFIG_MAPPING[model_type] if isinstance(model_type, str) and model_type in CONFIG_MAPPING else None


def _without_nulls(kind: Any, entries: dict[str, Any]) -> dict[str, Any]:
    """The entries without the nulls of transformers 4 that release 5 refuses, such as a DETR's `"dilation": null`."""
    fitted: dict[str, Any] = {}
    for name, value in entries.items():
        part = _class_of(value.get("model_type")) if isinstance(value, dict) else None
        if part is not None:
            fitted[name] = _without_nulls(part, value)
        elif value is not None or _takes_null(kind, name):
            fitted[name] = value
    if fitted.get("use_timm_backbone") and not fitted.get("backbone_config") and "backbone" in fitted:
        # Named by its entry alone, transformers would first ask the Hub for a repository of that name.
        fitted["backbone_config"] = {"model_type": "timm_backbone", "backbone": fitted.pop("backbone")}
    return fitted


def _takes_null(kind: Any, name: str) -> bool:
    try:
        for check in kind.__validators__.get(name, ()):
            check(None)
    except (TypeError, ValueError):
        return False
    return True


# What a checkpoint that somebody named may ask of this machine: each raises BadInput beyond a limit


def refuse_large_files(source: Source) -> None:
    """Asks the Hub for the sizes of the files before one is fetched."""
    if source.options.get("local_files_only"):
        return
    # Without a timeout of its own this request would wait for as long as the Hub keeps the connection open.
    repository = huggingface_hub.model_info(
        source.name, files_metadata=True, timeout=huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT
    )
    sizes = {file.rfilename: file.size or 0 for file in repository.siblings or []}
    for name, bytes_of_file in sizes.items():
        if name.endswith(TEXT_FILES) and bytes_of_file > MAX_TEXT_BYTES:
            raise BadInput(
                f"The file {fmt.printable(name)[:100]} of {source.name} has {fmt.size(bytes_of_file)}, the limit is "
                f"{fmt.size(MAX_TEXT_BYTES)}; {OTHER}."
            )
    weights = sum(bytes_of_file for name, bytes_of_file in sizes.items() if name.endswith(".safetensors"))
    limit = limits.current().parameters * MAX_PARAMETER_BYTES
    if weights > limit:
        raise BadInput(
            f"The weights of {source.name} have {fmt.size(weights)}, the limit here is {fmt.size(limit)}. Choose a "
            f"smaller checkpoint, or raise {limits.VARIABLES['parameters']}."
        )


def refuse_pickled_parts(source: Source) -> None:
    """Refuses an index of weights that are no safetensors: transformers unpickles them despite `use_safetensors`."""
    name = "model.safetensors.index.json"
    index = cached_file(source.name, name, _raise_exceptions_for_missing_entries=False, **source.options)
    parts = json.loads(Path(index).read_bytes())["weight_map"].values() if index is not None else ()
    if not all(str(part).endswith(".safetensors") for part in parts):
        raise BadInput(f"{short_name(source.name)} has weights that are no safetensors, the only kind read; {OTHER}.")


def refuse_large_model(kind: Any, config: Any, checkpoint: str) -> None:
    """Builds the architecture without allocating its weights, and stops as soon as it has counted beyond the limit."""
    limit = limits.current().parameters
    counted = tensors = 0

    def count(module: Any, name: str, parameter: torch.Tensor | None) -> None:
        nonlocal counted, tensors
        if parameter is None:
            return
        counted, tensors = counted + parameter.numel(), tensors + 1
        if counted > limit or tensors > MAX_TENSORS:
            raise BadInput(
                f"{short_name(checkpoint)} is a model of more than {limit:,} parameters or {MAX_TENSORS:,} weight "
                f"tensors, the limits here. Choose a smaller checkpoint, or raise {limits.VARIABLES['parameters']}."
            )

    kinds = ("parameter", "buffer")
    hooks = [getattr(torch.nn.modules.module, f"register_module_{kind}_registration_hook")(count) for kind in kinds]
    try:
        with torch.device("meta"):
            kind.from_config(copy.deepcopy(config))
    finally:
        for hook in hooks:
            hook.remove()


def refuse_large_inputs(processor: Any, checkpoint: str) -> None:
    """Refuses a processor that resizes any picture to more than `MAX_SIDE` pixels a side."""
    # ConvNeXT and PoolFormer resize to the size over `crop_pct` before they crop to the size.
    share = getattr(processor, "crop_pct", None) or 1
    for name in ("size", "crop_size", "pad_size", "size_divisor"):
        given = getattr(processor, name, None) or 0
        sides = [given] if isinstance(given, int | float) else dict(given).values()
        if any(side is not None and side / share > MAX_SIDE for side in sides):
            raise BadInput(
                f"The processor of {short_name(checkpoint)} asks for pictures of more than {MAX_SIDE} pixels a side; "
                f"{OTHER}."
            )
