"""The compiled model called with inputs of another size, after the timing and in the same process.

Covered: the first call, which may compile again, and the steady latencies of both variants, for another batch size and,
where the model's input follows the picture, for the picture in other proportions. Not covered: a third size, which
needs no further compile where dynamo took the second as a reason to compile for any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from PIL import Image

from demo.backend import predictions, timing
from demo.backend.compilation import CompileLog
from demo.backend.picture_subject import PictureSubject
from demo.backend.subject import Batch
from demo.backend.variants import Variants
from demo.core import limits
from demo.core.measurement import AnotherSize

ITERATIONS = 24
"""Timed calls of each variant for each size."""


def measured(subject: PictureSubject, variants: Variants, log: CompileLog) -> Iterator[AnotherSize]:
    """One for each other size, as it is measured."""
    for changed, batch in other_batches(subject):
        compiled, eager = subject.call(variants.compiled.model, batch), subject.call(subject.model, batch)
        recompiles, fallbacks = len(log.recompiles), len(log.fallbacks)
        first = subject.clock.time(compiled)
        min_calls = timing.min_warmup_calls(subject.spec, subject.device)
        warmup, _ = timing.warm_up(compiled, subject.clock, log.events, min_calls)
        eager_warmup, _ = timing.warm_up(eager, subject.clock, log.events)
        half = timing.calls_per_half_block(eager_warmup, warmup, ITERATIONS)
        plan = timing.Plan(iterations=ITERATIONS)
        samples = timing.time_interleaved(eager, compiled, subject.clock, plan, half, lambda _: None, None)
        images, _, height, width = batch["pixel_values"].shape
        yield AnotherSize(
            changed=changed,
            batch_size=images,
            height=height,
            width=width,
            first_call_seconds=first,
            recompiles=len(log.recompiles) - recompiles,
            fallbacks=len(log.fallbacks) - fallbacks,
            eager=samples.measurement("eager", eager_warmup),
            compiled=samples.measurement("compiled", [first, *warmup]),
        )


def other_batches(subject: PictureSubject) -> Iterator[tuple[Literal["batch size", "picture"], Batch]]:
    """What is changed, 'batch size' or 'picture', and the inputs."""
    spec = subject.spec
    size = spec.batch_size * 2 if spec.batch_size * 2 <= limits.current().batch else max(1, spec.batch_size // 2)
    yield "batch size", predictions.to_batch(subject.inputs, replace(spec, batch_size=size), subject.device)
    inputs = predictions.prepare(subject.loaded, in_other_proportions(subject.picture), spec.text)
    if inputs["pixel_values"].shape != subject.inputs["pixel_values"].shape:
        yield "picture", predictions.to_batch(inputs, spec, subject.device)


def in_other_proportions(picture: Image.Image) -> Image.Image:
    """A quarter turn, which changes portrait and landscape; of a square the upper three quarters."""
    width, height = picture.size
    if width != height:
        return picture.transpose(Image.Transpose.ROTATE_90)
    return picture.crop((0, 0, width, max(1, height * 3 // 4)))
