"""A text model's prompt and its whole answer, timed beside the steps of the decoding.

The prefill, the call that reads the prompt, by the interleaved protocol; and transformers' own generate(), which
compiles by itself where it has a GPU and a static cache.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from demo.backend import timing
from demo.backend.compilation import CompileLog
from demo.backend.events import Events
from demo.backend.text_workload import TextWorkload
from demo.backend.variants import Variants
from demo.core.measurement import Generation, Prefill
from demo.core.result import RunResult

SHARE = 0.25
"""Of the time for the steps, which are what most of an answer's time goes into."""
LONGEST_ANSWER = 10.0
"""Seconds of eager's answer beyond which generate() is left out: it takes as long, three times over."""
GENERATE_CALLS = 3


def measured(
    workload: TextWorkload, variants: Variants, result: RunResult, log: CompileLog, events: Events
) -> RunResult:
    """The result with the prompt's figures, and what is known of the cache."""
    events.doing("prefill", 0.85, phase="time")
    places = workload.ids.shape[1] + workload.spec.tokens
    asked = Generation(workload.ids.shape[1], places, workload.decoding.bytes())
    return replace(result, prefill=timed(workload, variants, log), generation=asked)


def with_generate(workload: TextWorkload, result: RunResult, events: Events) -> RunResult:
    """The result with the times of generate(), where its answer does not take too long.

    The compile that generate() does by itself stays in the process, so nothing is measured in it afterwards.
    """
    answer = result.answer_seconds
    if result.generation is None or answer is None or answer[0] > LONGEST_ANSWER:
        return result
    events.doing("generate", 0.948)
    plain = _generate(workload, disable_compile=True)
    automatic = _generate(workload, disable_compile=False) if workload.device.type == "cuda" else None
    return replace(result, generation=replace(result.generation, generate_seconds=plain, automatic_seconds=automatic))


def timed(workload: TextWorkload, variants: Variants, log: CompileLog) -> Prefill:
    """Both variants read the prompt in turns. They are compiled by now."""
    decoding, clock = workload.decoding, workload.clock

    def calls(model: Any) -> timing.Call:
        return lambda: decoding.prefill(model)

    eager, compiled = calls(variants.eager.model), calls(variants.compiled.model)
    min_calls = timing.min_warmup_calls(workload.spec, workload.device)
    warmup, _ = timing.warm_up(compiled, clock, log.events, min_calls)
    eager_warmup, _ = timing.warm_up(eager, clock, log.events)
    plan = timing.Plan.of(workload.spec, variants.compiled.warmup[0])
    plan = replace(plan, max_seconds=plan.max_seconds * SHARE, longest_seconds=plan.longest_seconds * SHARE)
    half = timing.calls_per_half_block(eager_warmup, warmup, plan.iterations)
    samples = timing.time_interleaved(eager, compiled, clock, plan, half, lambda _: None)
    control = samples.measurement("control") if samples.control else None
    return Prefill(samples.measurement("eager", eager_warmup), samples.measurement("compiled", warmup), control)


def _generate(workload: TextWorkload, disable_compile: bool) -> float:
    """Median seconds of generate() for the whole answer, after a call that is not counted."""
    spec, prompt = workload.spec, workload.decoding.prompt

    def call() -> torch.Tensor:
        answer: torch.Tensor = workload.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=spec.tokens,
            min_new_tokens=spec.tokens,
            do_sample=False,
            cache_implementation="static",
            disable_compile=disable_compile,
        )
        return answer

    call()
    return timing.median_of_few(call, workload.clock, GENERATE_CALLS, seconds=LONGEST_ANSWER)
