"""A run beside the guide's rows for the same checkpoint: which rows, what differs between them, and that in words.

Nothing is compared silently: every setting in which a run and a row differ is a sentence of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from demo import catalog
from demo import format as fmt
from demo.schema import PublishedRow, RunResult, RunSpec

GPUS = ("A100", "V100", "T4")
_DETAIL = {"release": 0, "reduce-overhead": 1, "nightly": 2}
"""Which table of the guide is taken where several hold a row for the same GPU, batch size and mode."""


@dataclass(frozen=True)
class Beside:
    """A run, the guide's nearest row for each GPU, and what to know before the two are compared."""

    rows: tuple[PublishedRow, ...]
    sentences: tuple[str, ...]
    """'On an A100 with torch 2.0.1 the guide saw 1.52×; here 1.61×.', one for each row."""
    ratio: float | None
    """This run's speed-up; None where it ran out of memory or is void."""
    here: str
    """What this run saw: '1.61×, with torch 2.13.0 on a Tesla T4'."""
    differences: tuple[str, ...]


def beside(result: RunResult, rows: Iterable[PublishedRow]) -> Beside | None:
    """None where there is nothing to set beside: a checkpoint that the guide lacks, or a run without an answer.

    Out of memory is an answer, and so is a void run, which is called one.
    """
    nearest = nearest_rows(result.spec, rows)
    answered = result.status == "out_of_memory" or (result.status == "ok" and result.speedup is not None)
    if not answered or not nearest:
        return None
    ratio = result.speedup.ratio if result.speedup and result.status == "ok" and not _void(result) else None
    sentences = tuple(_sentence(row, result.spec, ratio) for row in nearest)
    return Beside(nearest, sentences, ratio, _here(result), _differences(result, nearest))


def nearest_rows(spec: RunSpec, rows: Iterable[PublishedRow]) -> tuple[PublishedRow, ...]:
    """One row of the guide for each of its GPUs: in the run's mode, else in 'default'; then the nearest batch size.

    Batch sizes are compared by their ratio; of two equally far ones the smaller is taken.
    """
    found = []
    for gpu in GPUS:
        own = [row for row in rows if (row.measured, row.gpu, row.checkpoint) == (None, gpu, spec.checkpoint)]
        own = [row for row in own if row.mode == spec.mode] or [row for row in own if row.mode == "default"]
        if own:
            found.append(min(own, key=lambda row: (_distance(row, spec), _DETAIL.get(row.subset, 9))))
    return tuple(found)


def sentences_of(found: Beside) -> list[str]:
    """All of it, a sentence a line, for a terminal."""
    return [*found.sentences, f"Here: {found.here}.", *found.differences]


def _distance(row: PublishedRow, spec: RunSpec) -> tuple[float, int]:
    return round(abs(math.log(row.batch_size / spec.batch_size)), 9), row.batch_size


def _void(result: RunResult) -> bool:
    return result.compilation is not None and result.compilation.recompiles_while_timing > 0


def _here(result: RunResult) -> str:
    machine, speedup = result.environment, result.speedup
    where = f", with torch {machine.torch} on {machine.device_name}" if machine else ""
    if result.status == "out_of_memory" or speedup is None:
        return f"out of memory{where}"
    if _void(result):
        return f"no figure, for the model was recompiled while timed{where}"
    doubt = ", too noisy to tell" if speedup.verdict == "unsure" else ""
    return f"{fmt.ratio(speedup.ratio)} ({fmt.ratio_interval(speedup.low, speedup.high)}{doubt}){where}"


def _sentence(row: PublishedRow, spec: RunSpec, ratio: float | None) -> str:
    article = "an" if row.gpu[:1] == "A" else "a"
    setting = [f"batch {row.batch_size}"] if row.batch_size != spec.batch_size else []
    setting += [f"mode {row.mode}"] if row.mode != spec.mode else []
    other = f" ({', '.join(setting)})" if setting else ""
    saw = "out of memory" if row.speedup is None else fmt.ratio(row.speedup)
    here = "" if ratio is None else f"; here {fmt.ratio(ratio)}"
    return f"On {article} {row.gpu} with torch {row.torch}{other} the guide saw {saw}{here}."


def _differences(result: RunResult, rows: tuple[PublishedRow, ...]) -> tuple[str, ...]:
    spec, machine = result.spec, result.environment
    said = []
    if others := sorted({row.batch_size for row in rows} - {spec.batch_size}):
        said.append(
            f"The batch sizes differ: {spec.batch_size} here, {_and(others)} there, the nearest that the guide has."
        )
    if modes := sorted({row.mode for row in rows} - {spec.mode}):
        said.append(f"The compile modes differ: {spec.mode} here, {_and(modes)} there.")
    if spec.dtype != "float32":
        said.append(f"The number formats differ: {spec.dtype} here, float32 there.")
    if spec.device == "cpu":
        said.append("This run used the CPU; the guide measured GPUs. Their latencies say nothing about each other.")
    elif spec.dtype == "float32" and any(row.gpu == "A100" for row in rows):
        said.append(
            "The guide set no precision: its A100 may have used TF32 in convolutions, torch's default; here not."
        )
    if spec.weights == "random":
        said.append("The weights are random here and trained there: latency does not depend on their values.")
    if spec.channels_last:
        said.append("The memory formats differ: channels last here, the default there.")
    if spec.attention != "auto":
        said.append(f"The attention implementation was chosen here ({spec.attention}), and left to its default there.")
    known, image = catalog.find(spec.checkpoint), result.image
    if known and image and known.input_size[0] != known.input_size[1] and image.width * 3 != image.height * 4:
        said.append(
            f"The pictures' shapes differ, and this model keeps them: {image.width} × {image.height} pixels here, "
            "640 × 480 there."
        )
    if known and known.takes_text:
        said.append(f"This model's work grows with its text queries: {len(spec.text)} here, not told by the guide.")
    versions = (
        f"torch {machine.torch} and transformers {machine.transformers} here" if machine else "other versions here"
    )
    there = _and(sorted({row.torch for row in rows}))
    said.append(f"Always different: {versions}, torch {there} and the Transformers of 2023 there.")
    if spec.protocol != "as published":
        said.append(
            "Timed differently: in turns here, the speed-up being the trimmed mean of the turns' ratios; there as two "
            "means of 300 calls."
        )
    return tuple(said)


def _and(values: Iterable[object]) -> str:
    *most, last = map(str, values)
    return f"{', '.join(most)} and {last}" if most else last
