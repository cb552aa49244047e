"""The class `Task`: which models can do a task, and how two predictions are compared."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from ..core.outputs import Predictions

P = TypeVar("P", bound=Predictions)


class Settings(Protocol):
    """The part of a `RunSpec` that a task may read. `RunSpec` itself cannot be imported: its file imports the tasks."""

    @property
    def checkpoint(self) -> str: ...
    @property
    def prompt(self) -> str: ...
    @property
    def compiler(self) -> str: ...
    @property
    def scope(self) -> str: ...


@dataclass(frozen=True)
class Task(Generic[P]):
    """A task of models, such as object detection. `P` is the class of its predictions."""

    name: str
    label: str
    auto_classes: tuple[str, ...]
    """Classes of transformers that load checkpoints of this task, in the order in which they are tried."""
    agreement: Callable[[P, P], dict[str, float]] = lambda eager, compiled: {}
    """Returns how far the predictions of eager and compiled agree or differ, from 0 to 1: {'top5_agreement': 0.8},
    {'mask_iou': 0.9, 'changed_pixels': 0.1}."""
    difference: Callable[[P, P], str] = lambda reference, other: ""
    """Returns how the second predictions differ, for the end of a sentence: 'shares 2 of 3 boxes with plain eager'; ''
    if they agree."""
    shares: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    """{name of a share that `agreement` returns: (text, smallest share to mention)}. A text: '{share} of the boxes
    match'."""
    fault: Callable[[P, P], str] = lambda eager, compiled: ""
    """Returns why rounding in float32 cannot explain a difference of the predictions, as a sentence; '' if it can, or
    without a difference."""
    tie: Callable[[P, P], str] = lambda reference, other: ""
    """Returns, as a sentence, where two predictions part because of rounding alone; '' if rounding is not known to be
    the cause."""
    refusal: Callable[[Settings], str] = lambda spec: ""
    """Returns why a `RunSpec` of this task cannot run, and what to choose, in sentences; '' if it can."""
    unit: Literal["image", "call", "token"] = "image"
    """What a rate counts, as in 'images per second'. A model takes a picture if this is 'image'."""
    unused: tuple[str, ...] = ("prompt", "tokens")
    """Names of the options of `RunSpec` that this task cannot use."""
    takes_queries: bool = False
    published: str = ""
    """A checkpoint of the Transformers guide for this task, trained on photographs; '' if it has none."""
    predictions: type[Predictions] = Predictions
    """The class of stored predictions: `Predictions`, or a subclass with further fields for this task."""
