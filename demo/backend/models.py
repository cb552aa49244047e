"""Loads a model with its processor and tokenizer: from the Hub, from a folder, or with random weights.

A checkpoint that is not in the catalogue is refused if it is too large (files, weights, labels or picture size), or if
its weights are not stored as safetensors. Not checked: the memory that a call needs.
"""

import copy
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import huggingface_hub
import torch
import transformers
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, cached_file

from ..core import catalog, format as fmt, hub, limits
from ..core.caveat import Caveat
from ..core.codec import JsonObject
from ..core.files import LFS_REMEDY
from ..core.options import TEXT_GENERATION, BadInput, RunSpec
from ..tasks.registry import BY_NAME
from . import causes, checkpoint_caveats
from .failures import OTHER, CannotLoad, loading_errors_as_bad_input, short_name
from .workload import dtype_of

UNUSED_WEIGHTS = (".swin.layernorm.weight", ".swin.layernorm.bias", "mask_token", "num_batches_tracked")
"""Ends of the names of weights that a checkpoint's file may lack, because no prediction uses them."""
COMPUTED = ("position_ids", "inv_freq", "masked_bias", "num_batches_tracked", "relative_position_index", "attn.bias")
"""Ends of the names of tensors that old checkpoint files store, and that transformers' models now compute."""
TEXT_MODELS = ("owlvit", "owlv2")
"""Model types of zero-shot detectors whose processor takes the queries as a list of texts. Other types are refused:
Grounding DINO takes all queries joined in one text, and OmDet-Turbo needs a sentence for its task as well."""
NO_CONFIG, SAVE = "holds no config.json", "Give one written by save_pretrained."
NO_OWN_CODE = (
    "no code of a checkpoint is run here. Load it with trust_remote_code=True in a function of your own, and time that "
    "one (--model FILE.py:FUNCTION)."
)
MAX_LABEL = 200
"""Most characters of a label, and of other names from a model's files, such as a weight's. Longer ones are cut."""
MAX_ENTRIES = 100_000
"""Most entries of a list or an object in a config. For comparison: ImageNet-21k has 21,843 labels."""
MAX_LAYERS = 200
"""Most layers of a model: Llama 3.1 405B has 126. Counting the weights of 1,000 layers takes a minute and 2 GB."""
LAYER_COUNTS = "layers?$|depths?$"
MAX_NUMBERS = {"label|classes": MAX_ENTRIES, LAYER_COUNTS: MAX_LAYERS, "^rope_theta$": 10**12, "": 10_000_000}
"""{regular expression for a name in a config: largest whole number allowed}. The first match counts."""
MAX_TENSORS = 20_000
"""Most weight tensors of a model. For comparison: the largest vision models have about 2,000."""
SAFETENSORS_HEADER = 100_000_000
"""The longest header that the library safetensors reads, in bytes."""
HEADER_BYTES = 500
"""The most bytes for each tensor in the header of a safetensors file. For comparison: usual ones have 150."""
MAX_SIDE = 4096
"""Longest side, in pixels, that a processor may give a picture. The catalogue's processors ask for 2560 at most."""
MAX_TEXT_BYTES = 50_000_000
"""Largest text file of a checkpoint. For comparison: Gemma 3's tokenizer.json has 33 MB."""
TEXT_FILES = (".json", ".txt", ".jinja")
TOKENIZER_FILES = (*TEXT_FILES, ".model")
MAX_PARAMETER_BYTES = 8
"""Bytes of a parameter in float64, the widest number format."""


Options = dict[str, Any]
"""Keyword arguments for functions of transformers, such as `from_pretrained`."""


@dataclass
class LoadedModel:
    model: PreTrainedModel
    processor: Any
    """None for a model that sees no picture."""
    tokenizer: PreTrainedTokenizerBase | None
    """None for a model that reads no text, and for random weights."""
    checkpoint: catalog.Checkpoint
    caveats: list[Caveat]


@dataclass(frozen=True)
class Source:
    """Where a checkpoint's files are loaded from: arguments for transformers' `from_pretrained`.

    `options` are for config, processor and tokenizer. The weights are loaded with `options` and `weights_options`.
    """

    name: str
    config_name: str
    options: Options
    weights_options: Options


def load_model(spec: RunSpec, device: torch.device) -> LoadedModel:
    """Returns the model in eval mode, on `device`, in the spec's number format, with its processor and tokenizer.

    Raises BadInput if the checkpoint does another task, exceeds a limit or, outside the catalogue, has pickled weights.
    Raises CannotLoad if the checkpoint is unknown, gated or damaged, or if the Hub cannot be reached.
    """
    entry = catalog.find(spec.checkpoint)
    with loading_errors_as_bad_input(spec.checkpoint):
        source = _source(spec, entry)
        if entry is None:
            refuse_large_files(source)
            refuse_pickled_parts(source)
        config = _config(source)
        checkpoint = entry or _catalogue_entry(spec, config)
        auto_class = getattr(transformers, checkpoint.auto_class)
        if entry is None:
            refuse_large_model(auto_class, config, spec.checkpoint)
        # Without trust_remote_code transformers would ask on standard input.
        options = {"config": config, "trust_remote_code": False, **source.options}
        if spec.sees_picture:
            refuse_other_channels(None, config, spec.checkpoint)
        if entry is None and spec.weights == "pretrained":
            refuse_many_tensors(source)
        model, caveats = _model(spec, auto_class, source, options)
        reads_text = checkpoint.takes_text or spec.task == TEXT_GENERATION
        tokenizer = _tokenizer(source, options) if reads_text and spec.weights == "pretrained" else None
        processor = None
        if spec.sees_picture:
            # Pillow's backend needs no torchvision.
            processor = transformers.AutoImageProcessor.from_pretrained(source.name, backend="pil", **options)
            refuse_large_inputs(processor, spec.checkpoint)
            refuse_other_channels(processor, config, spec.checkpoint)
            caveats += checkpoint_caveats.of_processor(processor, source.name, source.options)
    memory_format = torch.channels_last if spec.channels_last else torch.contiguous_format
    model.to(device, memory_format=memory_format).eval()  # type: ignore[arg-type]  # transformers' stub loses `self`
    return LoadedModel(model, processor, tokenizer, checkpoint, caveats)


def _catalogue_entry(spec: RunSpec, config: PreTrainedConfig) -> catalog.Checkpoint:
    """Makes a `Checkpoint`, like those of the catalogue, from the config of a checkpoint that is not in the catalogue.

    Raises BadInput if the checkpoint does not do the spec's task, or if it is a zero-shot detector and queries are
    missing.
    """
    architectures = [str(name) for name in config.architectures or [] if not isinstance(config.architectures, str)]
    for auto_class in BY_NAME[spec.task].auto_classes:
        classes = getattr(transformers, auto_class)._model_mapping.get(type(config), ())
        names = {class_.__name__ for class_ in (classes if isinstance(classes, tuple) else (classes,))}
        fits = names & {*architectures} if architectures else names
        if fits and ("ZeroShot" not in auto_class or config.model_type in TEXT_MODELS):
            break
    else:
        kind = (", ".join(architectures) or config.model_type)[:MAX_LABEL]
        if any(name in (getattr(config, "auto_map", None) or {}) for name in BY_NAME[spec.task].auto_classes):
            raise BadInput(
                f"{short_name(spec.checkpoint)} brings its own Python code for its {kind}, and {NO_OWN_CODE}"
            )
        raise BadInput(
            f"{short_name(spec.checkpoint)} is a {kind}, which does not do {spec.task.replace('-', ' ')} here. "
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


def _model(spec: RunSpec, auto_class: Any, source: Source, options: Options) -> tuple[PreTrainedModel, list[Caveat]]:
    """Returns the model on the CPU, as `auto_class` loads it, and caveats about its weights and the checkpoint's code.

    Raises CannotLoad if no weight of the model is in the checkpoint's files.
    """
    config = options["config"]
    # The dtype is set here, because a large model in float32 would need twice the memory.
    model_options: Options = {"dtype": dtype_of(spec)}
    if spec.attention != "auto":
        model_options["attn_implementation"] = spec.attention
    if spec.weights == "random":
        caveats = checkpoint_caveats.of_formats(spec, config, [])
        torch.manual_seed(0)  # random weights are the same in every run
        return auto_class.from_config(config, **model_options), caveats
    model_options |= {"output_loading_info": True, **source.weights_options}
    model, report = auto_class.from_pretrained(source.name, **options, **model_options)
    # Nothing is asked of the Hub: what was loaded is in the cache by now.
    files = _weight_files(source, local_files_only=True, _raise_exceptions_for_connection_errors=False)
    caveats = checkpoint_caveats.of_formats(spec, config, files)
    caveats += checkpoint_caveats.of_quantization(config, model)
    caveats += checkpoint_caveats.of_code(getattr(config, "auto_map", None), auto_class.__name__, model)
    # What a checkpoint lacks, transformers initialises at random.
    missing = sorted(name for name in report["missing_keys"] if not name.endswith(UNUSED_WEIGHTS))
    unused = sorted(name for name in report["unexpected_keys"] if not name.endswith(COMPUTED))
    if set(report["missing_keys"]) >= {weight for weight, _ in model.named_parameters()}:
        name = short_name(spec.checkpoint)
        if not unused:
            raise CannotLoad(f"The file of {name}'s weights holds none.", "Download or write it again.")
        raise CannotLoad(
            f"None of the weights of {name} has a name that a {type(model).__name__} knows: the first is "
            f"{fmt.printable(unused[0])[:MAX_LABEL]}, and the model needs {missing[0]}.",
            "Write the folder with save_pretrained of the model itself, without the wrapper that adds a prefix to the "
            "names, such as torch.compile's _orig_mod.",
        )
    for key, names in (("missing_weights", missing), ("unused_weights", unused)):
        if names:
            caveats.append(Caveat(key, {"count": len(names), "first": fmt.printable(names[0])[:MAX_LABEL]}))
    return model, caveats


def _tokenizer(source: Source, options: Options) -> PreTrainedTokenizerBase:
    if unfetched := causes.pointers(Path(source.name), TOKENIZER_FILES):  # else one may be read as the vocabulary
        raise BadInput(f"{short_name(source.name)} has Git LFS pointers in place of {unfetched}. {LFS_REMEDY}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(source.name, **options)
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        # If the files are missing, transformers makes a tokenizer without words: all queries would be the same.
        raise BadInput(f"{short_name(source.name)} has no tokenizer (tokenizer.json) to read a text; {OTHER}.")
    return tokenizer


# Its files: where they come from, and its config for the installed transformers


def _source(spec: RunSpec, entry: catalog.Checkpoint | None) -> Source:
    """Returns the arguments that load the checkpoint's files. Raises BadInput for a folder without config.json.

    `entry`: the checkpoint in the catalogue; None if it is not there.
    """
    folder = None
    if entry is not None and (entry.bundled or spec.weights == "random"):
        folder = catalog.config_folder(entry)
    elif catalog.is_folder(spec.checkpoint):
        folder = Path(spec.checkpoint).absolute()
        if not (folder / "config.json").is_file():
            what, remedy = causes.of_checkpoint(str(folder), damaged=False) or (NO_CONFIG, SAVE)
            raise BadInput(f"The folder {folder.name!r} {what}. {remedy}")
    if folder is not None:
        return Source(str(folder), str(folder), {"local_files_only": True}, {"use_safetensors": True})
    options: Options = {"revision": entry.revision} if entry and entry.revision else {}
    if not hub.reachable():
        options["local_files_only"] = True
    if entry is None:
        return Source(spec.checkpoint, spec.checkpoint, options, {"use_safetensors": True})
    # Without use_safetensors, transformers also reads a catalogue checkpoint's .bin, with weights_only=True.
    if (mapping := catalog.KEY_MAPPINGS.get(spec.checkpoint)) is None:
        return Source(spec.checkpoint, spec.checkpoint, options, {})
    # The published config asks for timm; ours builds the same backbone from transformers and renames the keys.
    return Source(spec.checkpoint, str(catalog.config_folder(entry)), options, {"key_mapping": mapping})


def _config(source: Source) -> PreTrainedConfig:
    """Returns the checkpoint's config, with changes that loading and compiling need.

    Raises BadInput if the config describes a gigantic model or needs code of the checkpoint, and ValueError for an
    unknown model type or labels that are no dict. For any other wrong value, transformers' own error is raised.
    """
    entries, _ = PreTrainedConfig.get_config_dict(source.config_name, **source.options)
    model_type = entries.get("model_type")
    if (kind := _class_of(model_type)) is None:  # a checkpoint may bring Python code for it, which is never run here
        if model_type is None:
            raise ValueError("its config.json names no model_type, so it is no model of transformers")
        if entries.get("auto_map"):
            raise BadInput(
                f"{short_name(source.name)} brings its own Python code for its model_type, {model_type!r}, and "
                f"{NO_OWN_CODE}"
            )
        version = transformers.__version__
        raise ValueError(f"transformers {version} does not know its config's model_type, {model_type!r}")
    for name, amount, limit in _amounts(entries):
        if amount > limit:
            what = f"{fmt.printable(name)[:MAX_LABEL]} is {fmt.shorten(f'{amount:,}', 40)}, the limit is {limit:,}"
            raise BadInput(f"{short_name(source.name)} has a config that asks for a gigantic model: {what}; {OTHER}.")
    if not isinstance(entries.get("id2label") or {}, dict):
        raise ValueError("its config's id2label is no dict from numbers to labels")
    # transformers would read the file that this entry names whatever `use_safetensors` says, a pickle too.
    entries.pop("transformers_weights", None)
    config = kind.from_dict(_without_nulls(kind, entries))
    config.return_dict = True
    # The model's class decides, or the spec. A config's entry may name a kernel to be fetched from the Hub.
    config._attn_implementation = None
    if config.id2label is not None:
        labels = {int(number): str(label).replace("\n", " ") for number, label in config.id2label.items()}
        config.id2label = {number: fmt.printable(label)[:MAX_LABEL] for number, label in labels.items()}
    return config


def _amounts(part: object, name: str = "the config") -> Iterator[tuple[str, int, int]]:
    """Yields (name, number, largest allowed number) for each whole number in a config, to refuse gigantic models.

    - The lengths of lists and dicts are yielded as well, and the sums of lists whose name ends with "depths".
    - `part`: the config as JSON values, or one value in it. `name`: the key of that value.
    """
    if isinstance(part, dict | list):
        yield f"the number of entries of {name}", len(part), MAX_ENTRIES
        for key, value in part.items() if isinstance(part, dict) else ((name, value) for value in part):
            yield from _amounts(value, key)
    if isinstance(part, list) and name.endswith("depths") and all(isinstance(count, int) for count in part):
        yield f"the sum of {name}", sum(map(abs, part)), MAX_LAYERS
    if isinstance(part, int):
        yield name, abs(part), next(most for pattern, most in MAX_NUMBERS.items() if re.search(pattern, name))


def _class_of(model_type: object) -> type[PreTrainedConfig] | None:
    """Returns transformers' config class for the model type; None if the installed transformers lacks it."""
    return CONFIG_MAPPING[model_type] if isinstance(model_type, str) and model_type in CONFIG_MAPPING else None


def _without_nulls(kind: type[PreTrainedConfig], entries: JsonObject) -> JsonObject:
    """Returns `entries` without nulls that the config class `kind` refuses, such as DETR's old `"dilation": null`.

    If `entries` name a timm backbone without a config, a config is added.
    """
    fitted: JsonObject = {}
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


def _takes_null(kind: type[PreTrainedConfig], name: str) -> bool:
    try:
        for check in kind.__validators__.get(name, ()):  # type: ignore[attr-defined]  # a strict dataclass has it
            check(None)
    except (TypeError, ValueError):
        return False
    return True


# Limits of a checkpoint that is not in the catalogue


def refuse_large_files(source: Source) -> None:
    """Raises BadInput for files that are too large. The Hub is asked for their sizes: nothing is downloaded yet.

    The files of a folder, and those of the local cache if the Hub is not reachable, are not checked.
    """
    if source.options.get("local_files_only"):
        return
    timeout = huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT  # by default the request would wait for ever
    repository = huggingface_hub.model_info(source.name, files_metadata=True, timeout=timeout)
    sizes = {file.rfilename: file.size or 0 for file in repository.siblings or []}
    text = max((size for name, size in sizes.items() if name.endswith(TEXT_FILES)), default=0)
    weights = sum(size for name, size in sizes.items() if name.endswith(".safetensors"))
    limit = limits.current().parameters * MAX_PARAMETER_BYTES
    if text > MAX_TEXT_BYTES:
        most = fmt.size(MAX_TEXT_BYTES)
        raise BadInput(f"{source.name} has a text file of {fmt.size(text)}, the limit is {most}; {OTHER}.")
    if weights > limit:
        raise BadInput(
            f"The weights of {source.name} have {fmt.size(weights)}, the limit here is {fmt.size(limit)}. Choose a "
            f"smaller checkpoint, or raise {limits.VARIABLES['parameters']}."
        )


def refuse_pickled_parts(source: Source) -> None:
    """Raises BadInput if the index of the weights names pickles. Transformers reads these despite `use_safetensors`."""
    if not all(str(part).endswith(".safetensors") for part in _weight_map(source).values()):
        raise BadInput(f"{short_name(source.name)} has weights that are no safetensors, the only kind read; {OTHER}.")


def refuse_large_model(auto_class: Any, config: PreTrainedConfig, checkpoint: str) -> None:
    """Raises BadInput for a model with too many weights. They are counted on the meta device, without memory."""
    tensors = itertools.count(1)

    def stop(*_: object) -> None:
        if next(tensors) > MAX_TENSORS:
            raise BadInput(
                f"{short_name(checkpoint)} has more than {MAX_TENSORS:,} weight tensors, the limit; {OTHER}."
            )

    with torch.nn.modules.module.register_module_parameter_registration_hook(stop), torch.device("meta"):
        model = auto_class.from_config(copy.deepcopy(config))
    counted = sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers()))
    limit = limits.current().parameters
    if counted > limit:
        raise BadInput(
            f"{short_name(checkpoint)} is a model of more than {limit:,} parameters, the limit here. Choose a smaller "
            f"checkpoint, or raise {limits.VARIABLES['parameters']}."
        )


def _weight_map(source: Source, **options: bool) -> dict[str, object]:
    """Returns {name of a weight: name of its file} from the index of the weights; {} without an index."""
    optional = {"_raise_exceptions_for_missing_entries": False}
    index = cached_file(source.name, SAFE_WEIGHTS_INDEX_NAME, **optional, **(source.options | options))
    parts: dict[str, object] = json.loads(Path(index).read_bytes())["weight_map"] if index is not None else {}
    return parts


def _weight_files(source: Source, **options: bool) -> list[Path]:
    """Returns the safetensors files of the weights. A missing file is left out: transformers' own error names it."""
    optional = {"_raise_exceptions_for_missing_entries": False, **source.options, **options}
    names = {str(part) for part in _weight_map(source, **options).values()} or {SAFE_WEIGHTS_NAME}
    files = (cached_file(source.name, name, **optional) for name in sorted(names))
    return [Path(file) for file in files if file is not None]


def refuse_many_tensors(source: Source) -> None:
    """Raises BadInput for more than `MAX_TENSORS` tensors of weights: transformers would sort them for a minute."""
    count = longest = 0
    for file in _weight_files(source):
        with file.open("rb") as weights:
            if (size := int.from_bytes(weights.read(8), "little")) > SAFETENSORS_HEADER:
                continue  # transformers says that it is no safetensors
            longest = max(longest, size)
            count += weights.read(min(size, MAX_TENSORS * HEADER_BYTES)).count(b'"dtype"')
    if max(count, len(_weight_map(source))) > MAX_TENSORS or longest > MAX_TENSORS * HEADER_BYTES:
        raise BadInput(f"{short_name(source.name)} names more than {MAX_TENSORS:,} weight tensors, the limit; {OTHER}.")


def refuse_other_channels(processor: object, config: PreTrainedConfig, checkpoint: str) -> None:
    """Raises BadInput if the checkpoint needs pictures with channels other than red, green and blue."""
    mean = getattr(processor, "image_mean", None)
    normalised = len(mean) if isinstance(mean, list | tuple) and getattr(processor, "do_normalize", False) else 3
    seen = getattr(config, "num_channels", None)
    for channels, whose in ((seen, "the model"), (normalised, "its processor's image_mean")):
        if isinstance(channels, int) and channels != 3:
            raise BadInput(
                f"{short_name(checkpoint)} is for pictures of another number of channels: {whose} has {channels}, and "
                f"pictures here have 3 (red, green, blue); {OTHER}."
            )


def refuse_large_inputs(processor: object, checkpoint: str) -> None:
    """Raises BadInput if the processor makes a side of the picture longer than `MAX_SIDE`."""
    # ConvNeXT and PoolFormer resize to the size over `crop_pct` before they crop to the size.
    share = getattr(processor, "crop_pct", None) or 1
    for name in ("size", "crop_size", "pad_size", "size_divisor"):
        size = getattr(processor, name, None) or 0
        sides = [size] if isinstance(size, int | float) else dict(size).values()
        if any(side is not None and side / share > MAX_SIDE for side in sides):
            what = f"The processor of {short_name(checkpoint)} asks for pictures of more than {MAX_SIDE} pixels a side"
            raise BadInput(f"{what}; {OTHER}.")
