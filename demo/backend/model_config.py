"""The config.json of any release of transformers, converted to the config classes of the installed one.

transformers 5 checks the type of every entry. Release 4 did not, and wrote entries that fail the check, such as
`"dilation": null` in the config of every DETR whose backbone is not from timm.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    model_type = entries.get("model_type")
    if not has_config_class(model_type):
        if "auto_map" in entries:
            raise BadInput(f"{named(source.name)} brings Python code of its own, which is never run here; {OTHER}.")
        if not entries:
            raise FileNotFoundError("it has no config.json")
        raise ValueError(
            f"its config gives {model_type!r} as model_type, which transformers {transformers.__version__} does not "
            "know"
        )
    entries = fitted(entries)
    model_limits.refuse_large_numbers(entries, source.name)
    if entries.pop("transformers_weights", None) and source.safetensors_only:
        # transformers reads the named file whatever `use_safetensors` says, a pickle too
        raise BadInput(
            f"{named(source.name)} names the file of its weights in its config, which is not followed; {OTHER}."
        )
    config = build(entries)
    config.return_dict = True
    # The model's class decides, or the spec. A config's entry may name a kernel to be fetched from the Hub.
    config._attn_implementation = None
    if config.id2label is not None:
        config.id2label = {number: _label(label) for number, label in config.id2label.items()}
    return config


def _label(label: Any) -> str:
    """The text of a label, which in a config may be anything."""
    return fmt.printable(str(label).replace("\n", " "))[:MAX_LABEL]


def has_config_class(model_type: Any) -> bool:
    """Whether the installed transformers has a config class for this model type."""
    return isinstance(model_type, str) and model_type in CONFIG_MAPPING


def fitted(entries: dict[str, Any]) -> dict[str, Any]:
    """The entries of a config.json whose `model_type` is known, each converted to a type that its field takes.

    A null becomes false, or is left out, where its field takes none. A value that no conversion fits stays as it is,
    and `build` refuses it.
    """
    return _fitted(CONFIG_MAPPING[entries["model_type"]], entries)


def build(entries: dict[str, Any]) -> Any:
    """The config of fitted entries. Raises what transformers raises for an entry of the wrong type."""
    try:
        return CONFIG_MAPPING[entries["model_type"]].from_dict(entries)
    except KeyError as error:
        parts = [name for name, part in entries.items() if name.endswith("config") and isinstance(part, dict)]
        untyped = [name for name in parts if not has_config_class(entries[name].get("model_type"))]
        lacking = f"{untyped[0]} has no model_type that it knows" if untyped else f"it lacks {error}"
        raise ValueError(f"transformers {transformers.__version__} cannot read its config: {lacking}") from error


def _fitted(kind: Any, entries: dict[str, Any]) -> dict[str, Any]:
    fitted: dict[str, Any] = {}
    for name, value in entries.items():
        nested = _nested_kind(kind, name, value)
        if nested is not None:
            value = _fitted(nested, value)
        elif not _fits(kind, name, value):
            value = next((other for other in _conversions(value) if _fits(kind, name, other)), value)
        if value is not None or (name in kind.__dataclass_fields__ and _fits(kind, name, None)):
            fitted[name] = value
    if labels := fitted.get("id2label"):
        fitted["num_labels"] = len(labels)  # where both are given the labels count, as in release 4
    elif "num_labels" in kind.__dataclass_fields__:  # PVT's is 1000 by default; release 4 did not write two labels
        fitted.setdefault("num_labels", 2)
    if fitted.get("use_timm_backbone") and not fitted.get("backbone_config") and "backbone" in fitted:
        # Named by its entry alone, transformers would first ask the Hub for a repository of that name.
        fitted["backbone_config"] = {"model_type": "timm_backbone", "backbone": fitted.pop("backbone")}
    return fitted


def _nested_kind(kind: Any, name: str, value: Any) -> Any | None:
    if not isinstance(value, dict):
        return None
    declared = kind.sub_configs.get(name)
    if isinstance(declared, type) and issubclass(declared, PreTrainedConfig):
        return declared
    model_type: Any = value.get("model_type")
    return CONFIG_MAPPING[model_type] if has_config_class(model_type) else None


def _fits(kind: Any, name: str, value: Any) -> bool:
    try:
        for check in kind.__validators__.get(name, ()):
            check(value)
    except (TypeError, ValueError):
        return False
    return True


def _conversions(value: Any) -> Iterator[Any]:
    """The same value in other types, nearest first."""
    match value:
        case None:
            yield False  # for an option that is off
        case bool():
            yield from (int(value), float(value))
        case int():
            yield float(value)
            if value in (0, 1):
                yield bool(value)
        case float() if value.is_integer():
            yield int(value)
        case str():
            for number in (int, float):
                try:
                    yield number(value)
                except ValueError:
                    continue
        case [int() | float() as first, *rest] if all(isinstance(item, int | float) for item in rest):
            if all(item == first for item in rest):
                yield first  # [224, 224] for a side of 224
            yield [float(item) for item in value]
            if all(float(item).is_integer() for item in value):
                yield [int(item) for item in value]
        case dict():
            yield {str(key): str(item) for key, item in value.items()}
