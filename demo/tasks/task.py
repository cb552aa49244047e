"""What the program knows of a task: which models do it, and how two predictions are compared and worded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from demo.core.outputs import Predictions


@dataclass(frozen=True)
class Task:
    """One task. Its functions take `Predictions` of the class `predictions`, eager's or the reference's first."""

    name: str
    label: str
    """In the form."""
    auto_classes: tuple[str, ...]
    """The transformers classes that load its checkpoints, in the order in which they are tried."""
    agreement: Callable[[Any, Any], dict[str, float]] = lambda eager, compiled: {}
    """How far eager and compiled of one run agree: shares from 0 to 1, as `Parity.task` keeps them."""
    difference: Callable[[Any, Any], str] = lambda reference, other: ""
    """What a user would see change from one run to another, as the end of a sentence; '' if nothing."""
    shares: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """Words for each share in `agreement`, and the least share that is mentioned."""
    fault: Callable[[Any, Any], str] = lambda eager, compiled: ""
    """Why no rounding of float32 explains how two predictions differ, as a sentence; '' if one may."""
    refusal: Callable[[Any], str] = lambda spec: ""
    """What a `RunSpec` of this task lacks or cannot have, as sentences; '' if nothing."""
    unit: Literal["image", "call", "token"] = "image"
    """What a rate counts. A task of images sees a picture."""
    unused: tuple[str, ...] = ("prompt", "tokens")
    """The options of a run that it cannot use."""
    takes_queries: bool = False
    """Whether some of its models take text queries."""
    published: str = ""
    """A checkpoint of the published tables, trained on photographs."""
    predictions: type[Predictions] = Predictions
    """What is stored. A task with predictions of another kind brings a subclass with a field for them."""
