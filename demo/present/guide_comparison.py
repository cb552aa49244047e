"""A run beside the guide's rows for the same checkpoint: which rows, what differs between them, and that in words.

Nothing is compared silently: every setting in which a run and a row differ is a sentence of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from demo.core import catalog
from demo.core import format as fmt
from demo.core.languages import ENGLISH, Language
from demo.core.result import PUBLISHED_CALLS, PublishedRow, RunResult, RunSpec
from demo.present import section_texts as words

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


def beside(result: RunResult, rows: Iterable[PublishedRow], say: Language = ENGLISH) -> Beside | None:
    """None where there is nothing to set beside: a checkpoint that the guide lacks, or a run without an answer.

    Out of memory is an answer, and so is a void run, which is called one.
    """
    nearest = nearest_rows(result.spec, rows)
    answered = result.status == "out_of_memory" or (result.status == "ok" and result.speedup is not None)
    if not answered or not nearest:
        return None
    ratio = result.speedup.ratio if result.speedup and result.status == "ok" and not result.void else None
    sentences = tuple(_sentence(row, result.spec, ratio, say) for row in nearest)
    return Beside(nearest, sentences, ratio, _here(result, say), tuple(_differences(result, nearest, say)))


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
    return [*found.sentences, ENGLISH.composed("beside_here", said=found.here), *found.differences]


def _distance(row: PublishedRow, spec: RunSpec) -> tuple[float, int]:
    return round(abs(math.log(row.batch_size / spec.batch_size)), 9), row.batch_size


def _here(result: RunResult, say: Language) -> str:
    machine = result.environment
    said = _saw(result, say)
    if machine is None:
        return said
    where = {"torch": say.plain_value(machine.torch), "device": say.plain_value(machine.device_name)}
    return say.composed("beside_where", said=said, **where)


def _saw(result: RunResult, say: Language) -> str:
    speedup = result.speedup
    if result.status == "out_of_memory" or speedup is None:
        return words.out_of_memory(say)
    if result.void:
        return say.plain("beside_void")
    low, high = words.ends(speedup.low, speedup.high)
    key = "beside_unsure" if speedup.verdict == "unsure" else "row_speedup_value"
    return say.plain(key, ratio=fmt.ratio(speedup.ratio), low=low, high=high)


def _sentence(row: PublishedRow, spec: RunSpec, ratio: float | None, say: Language) -> str:
    setting = [say.plain("asked_batch", size=row.batch_size)] if row.batch_size != spec.batch_size else []
    setting += [say.plain("beside_mode", mode=row.mode)] if row.mode != spec.mode else []
    return say.composed(
        "beside_saw_an" if row.gpu[:1] == "A" else "beside_saw_a",
        gpu=say.plain_value(row.gpu),
        torch=say.plain_value(row.torch),
        setting=say.composed("beside_setting", setting=say.listed(setting)) if setting else "",
        saw=words.out_of_memory(say) if row.speedup is None else say.plain_value(fmt.ratio(row.speedup)),
        here="" if ratio is None else say.plain("beside_saw_here", ratio=fmt.ratio(ratio)),
    )


def _differences(result: RunResult, rows: tuple[PublishedRow, ...], say: Language) -> Iterator[str]:
    spec, machine = result.spec, result.environment
    if others := sorted({row.batch_size for row in rows} - {spec.batch_size}):
        yield say.composed("beside_batch", here=say.plain_value(spec.batch_size), there=_each(others, say))
    if modes := sorted({row.mode for row in rows} - {spec.mode}):
        yield say.composed("beside_modes", here=say.plain_value(spec.mode), there=_each(modes, say))
    if spec.dtype != "float32":
        yield say.plain("beside_dtype", here=spec.dtype, there="float32")
    if spec.device == "cpu":
        yield say.plain("beside_cpu")
    elif spec.dtype == "float32" and any(row.gpu == "A100" for row in rows):
        yield say.plain("beside_tf32", gpu="A100", dtype="TF32")
    if spec.weights == "random":
        yield say.plain("beside_weights")
    if spec.channels_last:
        yield say.plain("beside_memory_format", here="channels last")
    if spec.attention != "auto":
        yield say.plain("beside_attention", attention=spec.attention)
    known, image = catalog.find(spec.checkpoint), result.image
    if known and image and known.input_size[0] != known.input_size[1] and image.width * 3 != image.height * 4:
        yield say.plain("beside_shape", here=f"{image.width} × {image.height}", there="640 × 480")
    if known and known.takes_text:
        yield say.plain("beside_text", count=len(spec.text))
    yield say.composed(
        "beside_versions",
        here=say.plain("beside_versions_here", torch=machine.torch, transformers=machine.transformers)
        if machine
        else say.plain("beside_versions_unknown"),
        torch=_each(sorted({row.torch for row in rows}), say),
        year=say.plain_value(2023),
    )
    if spec.protocol != "as published":
        yield say.plain("beside_protocol", calls=PUBLISHED_CALLS)


def _each(values: Iterable[object], say: Language) -> str:
    return words.enumerated(map(say.plain_value, values), say)
