"""The config.json of a checkpoint as a config of the installed transformers."""

from __future__ import annotations

from typing import Any

import transformers
from transformers import CONFIG_MAPPING, PreTrainedConfig

from demo.backend import model_limits
from demo.backend.load_errors import OTHER, named
from demo.backend.model_source import Source
from demo.core import format as fmt
from demo.core.errors import BadInput

MAX_LABEL = 200


def read(source: Source) -> Any:
    """The source's config, as loading and compiling need it.

    Raises BadInput for a config that needs Python code of its own or asks for a gigantic model, and what transformers
    raises where it does not know the model type or refuses an entry.
    """
    entries, _ = PreTrainedConfig.get_config_dict(source.config_name, **source.options)
    kind = _class_of(entries.get("model_type"))
    if kind is None:
        if "auto_map" in entries:
            raise BadInput(f"{named(source.name)} brings Python code of its own, which is never run here; {OTHER}.")
        if not entries:
            raise FileNotFoundError("it has no config.json")
        given = entries.get("model_type")
        raise ValueError(f"transformers {transformers.__version__} does not know its config's model_type, {given!r}")
    model_limits.refuse_large_numbers(entries, source.name)
    # transformers would read the file that this entry names whatever `use_safetensors` says, a pickle too.
    entries.pop("transformers_weights", None)
    config = kind.from_dict(_fitted(kind, entries))
    config.return_dict = True
    # The model's class decides, or the spec. A config's entry may name a kernel to be fetched from the Hub.
    config._attn_implementation = None
    if config.id2label is not None:
        config.id2label = {number: _label(label) for number, label in config.id2label.items()}
    return config


def _label(label: Any) -> str:
    """The text of a label, which in a config may be anything."""
    return fmt.printable(str(label).replace("\n", " "))[:MAX_LABEL]


def _class_of(model_type: Any) -> Any | None:
    """The installed transformers' config class, or None where it knows no such model type."""
    return CONFIG_MAPPING[model_type] if isinstance(model_type, str) and model_type in CONFIG_MAPPING else None


def _fitted(kind: Any, entries: dict[str, Any]) -> dict[str, Any]:
    """The entries without the nulls that release 4 of transformers wrote and release 5 refuses.

    Such is `"dilation": null` in the config of every DETR whose backbone is not from timm.
    """
    fitted: dict[str, Any] = {}
    for name, value in entries.items():
        part = _class_of(value.get("model_type")) if isinstance(value, dict) else None
        if part is not None:
            fitted[name] = _fitted(part, value)
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
