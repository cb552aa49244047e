"""Finds what a checkpoint says and a run does not follow: its number format, its image processor, code of its own."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.image_processing_base import ImageProcessingMixin

from ..core import format as fmt
from ..core.caveat import Caveat
from ..core.options import RunSpec
from .workload import dtype_of

MAX_NAME = 200
"""Most characters of a name from a checkpoint's files. Longer names are cut."""
EIGHT_BITS = {"F8_E4M3": "float8_e4m3", "F8_E5M2": "float8_e5m2"}
FLOAT_NAMES = {"F64": "float64", "F16": "float16", "BF16": "bfloat16", **EIGHT_BITS}
"""{number format in the header of a safetensors file: its name in torch}, without float32 and integers."""
NO_VALUES = {"image_processor_type", "feature_extractor_type", "processor_class", "auto_map"}
"""Entries of preprocessor_config.json that do not say how a picture becomes the model's input."""


def of_quantization(config: PreTrainedConfig, model: PreTrainedModel) -> list[Caveat]:
    """Returns a caveat if transformers does not know how the checkpoint is quantised. It then only logs a warning."""
    known = getattr(model, "hf_quantizer", None) is not None or not getattr(config, "quantization_config", None)
    return [] if known else [Caveat("unknown_quantization", {"method": _quantization(config)})]


def of_formats(spec: RunSpec, config: PreTrainedConfig, files: Iterable[Path]) -> list[Caveat]:
    """Returns a caveat if the checkpoint stores its weights in another number format than the run's, by these rules:

    - If the run is in float32 or TF32, the caveat names all other formats in `FLOAT_NAMES`. If it is in float16 or
      bfloat16, which users have to ask for, the caveat names 8-bit floats only.
    - The library of a quantised checkpoint computes in its 8-bit floats, so these are not named. With random weights,
      which are not quantised, the caveat is 'quantized' instead.
    - `files`: the safetensors files of the weights. If there are none, the number format in the config is taken.
    """
    quantized = getattr(config, "quantization_config", None)
    if quantized and spec.weights == "random":
        return [Caveat("quantized", {"method": _quantization(config)})]
    entry = str(getattr(config, "dtype", None) or "").removeprefix("torch.")
    headers = [stored_formats(file) for file in files]
    stored = {FLOAT_NAMES[name] for header in headers for name in header & FLOAT_NAMES.keys()} if headers else {entry}
    told = set(FLOAT_NAMES.values()) if dtype_of(spec) == torch.float32 else {*EIGHT_BITS.values()}
    told -= {*EIGHT_BITS.values()} if quantized else set()  # the library that reads them computes in them
    formats = " and ".join(sorted(stored & told))
    return [Caveat("stored_dtype", {"stored": formats, "dtype": spec.dtype})] if formats else []


def stored_formats(file: Path) -> set[str]:
    """Returns the number formats that the header of a safetensors file names, such as {'F32', 'I64'}."""
    with file.open("rb") as weights:
        header = weights.read(int.from_bytes(weights.read(8), "little"))
    return {name.decode() for name in re.findall(rb'"dtype"\s*:\s*"(\w+)"', header)}


def of_code(auto_map: object, auto_class: str, used: object) -> list[Caveat]:
    """Returns a caveat if the checkpoint has Python code for `auto_class`: transformers' object `used` replaces it."""
    own = isinstance(auto_map, Mapping) and auto_class in auto_map
    return [Caveat("own_code", {"used": type(used).__name__})] if own else []


def of_processor(processor: object, checkpoint: str, options: dict[str, Any]) -> list[Caveat]:
    """Returns a caveat unless the picture is prepared as the checkpoint's preprocessor_config.json says.

    - The file may not say how: the image processor's default values are then used.
    - If the file names an image processor that transformers lacks, transformers takes the one of the model's type,
      without a warning.
    - `options`: the arguments with which the files are loaded.
    """
    entries, _ = ImageProcessingMixin.get_image_processor_dict(checkpoint, **options)
    named = str(entries.get("image_processor_type") or entries.get("feature_extractor_type") or "")
    used = _common_name(type(processor).__name__)
    if named and _common_name(named) != used:
        return [Caveat("other_processor", {"named": _printable(named), "used": used})]
    if entries.keys() <= NO_VALUES:
        return [Caveat("default_processor", {"used": used})]
    return of_code(entries.get("auto_map"), "AutoImageProcessor", processor)


def _quantization(config: Any) -> str:
    entries = config.quantization_config
    return _printable((entries if isinstance(entries, dict) else vars(entries)).get("quant_method", "")) or "?"


def _common_name(processor: str) -> str:
    """Returns an image processor's class name as newer releases write it, without a suffix for its backend.

    It is 'ViTImageProcessor' for 'ViTImageProcessorFast', 'ViTImageProcessorPil' and 'ViTFeatureExtractor'.
    """
    return processor.removesuffix("Pil").removesuffix("Fast").replace("FeatureExtractor", "ImageProcessor")


def _printable(name: object) -> str:
    return fmt.printable(str(name))[:MAX_NAME]
