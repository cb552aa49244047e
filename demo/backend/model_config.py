"""The config.json of a checkpoint as a config of the installed transformers.

transformers 5 checks the type of every entry. Release 4 did not, and wrote nulls that fail the check, such as
`"dilation": null` in the config of every DETR whose backbone is not from timm.
"""

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

    Raises BadInput for a config that needs Python code of its own, asks for a gigantic model, or names the file of its
    weights; and what transformers raises where it does not know the model type or refuses an entry.
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
    if entries.pop("transformers_weights", None) and source.safetensors_only:
        # transformers reads the named file whatever `use_safetensors` says, a pickle too
        raise BadInput(
            f"{named(source.name)} names the file of its weights in its config, which is not followed; {OTHER}."
        )
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
    """The entries of a config of class `kind`, in the layout of transformers 5.

    A null is left out where its field takes none, and a whole number becomes a float where its field takes no other.
    `from_dict` refuses everything else that does not fit.
    """
    fitted: dict[str, Any] = {}
    for name, value in entries.items():
        part = _class_of(value.get("model_type")) if isinstance(value, dict) else None
        if part is not None:
            fitted[name] = _fitted(part, value)
        elif _fits(kind, name, value):
            fitted[name] = value
        elif value is not None:
            fitted[name] = float(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if fitted.get("use_timm_backbone") and not fitted.get("backbone_config") and "backbone" in fitted:
        # Named by its entry alone, transformers would first ask the Hub for a repository of that name.
        fitted["backbone_config"] = {"model_type": "timm_backbone", "backbone": fitted.pop("backbone")}
    return fitted


def _fits(kind: Any, name: str, value: Any) -> bool:
    try:
        for check in kind.__validators__.get(name, ()):
            check(value)
    except (TypeError, ValueError):
        return False
    return True
