"""The class `Task`: which models do a task, and how two predictions are compared and the outcome put into words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from demo.core.outputs import Predictions


@dataclass(frozen=True)
class Task:
    """One task of models. Its functions compare two `Predictions`: eager's (or a reference's) come first."""

    name: str
    label: str
    """Name in the form: 'Detection'."""
    auto_classes: tuple[str, ...]
    """The transformers classes that load checkpoints of this task, in the order in which they are tried."""
    agreement: Callable[[Any, Any], dict[str, float]] = lambda eager, compiled: {}
    """Returns how far eager and compiled of one run agree: {'top5_agreement': 0.8}, shares from 0 to 1."""
    difference: Callable[[Any, Any], str] = lambda reference, other: ""
    """Returns what a user would see change between two runs, as the end of a sentence; '' if nothing changes."""
    shares: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """For each name in `agreement`: words with a place for {share}, and the least share that is mentioned."""
    fault: Callable[[Any, Any], str] = lambda eager, compiled: ""
    """Returns why rounding in float32 cannot explain a difference of predictions, as a sentence; '' if rounding
    can."""
    refusal: Callable[[Any], str] = lambda spec: ""
    """Returns why a `RunSpec` of this task cannot run, and what to choose, as sentences; '' if it can."""
    unit: Literal["image", "call", "token"] = "image"
    """The thing that a rate counts, as in 'images per second'. The model takes a picture if it is 'image'."""
    unused: tuple[str, ...] = ("prompt", "tokens")
    """Names of the options of `RunSpec` that this task cannot use."""
    takes_queries: bool = False
    """Whether some models of this task take text queries."""
    published: str = ""
    """Id of a checkpoint in the published tables, trained on photographs; '' without one."""
    predictions: type[Predictions] = Predictions
    """The class of the stored predictions: `Predictions`, or a subclass with further fields for this task."""
