"""The task image classification, whose predictions are the likeliest labels of a picture."""

from ..core import format as fmt
from ..core.outputs import Predictions
from .task import Task

SCORE = 0.05
"""Two runs agree if their likeliest label is the same and its scores differ by at most this."""


def agreement(eager: Predictions, compiled: Predictions) -> dict[str, float]:
    names, others = ({label.label for label in side.labels or ()} for side in (eager, compiled))
    return {"top5_agreement": len(names & others) / len(names) if names else 1.0}


def difference(reference: Predictions, other: Predictions) -> str:
    if not reference.labels:
        return ""
    first = reference.labels[0]
    if not other.labels:  # a NaN score gives no label
        return f"gives no finite score where plain eager sees {first.label}"
    second = other.labels[0]
    if first.label != second.label:
        return f"sees {second.label} where plain eager sees {first.label}"
    if abs(first.score - second.score) > SCORE:
        return f"gives {first.label} {fmt.percent(second.score)} where plain eager gives {fmt.percent(first.score)}"
    return ""


TASK = Task(
    "image-classification",
    "Classification",
    ("AutoModelForImageClassification",),
    agreement,
    difference,
    shares={"top5_agreement": ("{share} of the labels are shared", 0.0)},
    published="google/vit-base-patch16-224",
)
