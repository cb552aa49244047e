"""A text model's prompt and its whole answer, timed beside the steps of the decoding.

The prefill, the call that reads the prompt, by the interleaved protocol; and transformers' own generate(), which
compiles by itself where it has a GPU and a static cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from demo.backend import protocols, timing
from demo.backend.compilation import CompileLog
from demo.backend.events import Events
from demo.backend.workload import Variants, Workload
from demo.core.measurement import Prefill
from demo.core.result import RunResult

SHARE = 0.25
"""Share of the time for the steps, which are what most of an answer's time goes into."""
LONGEST_ANSWER = 10.0
"""Seconds of eager's answer beyond which generate() is left out: it takes as long, three times over."""
GENERATE_CALLS = 3


def timed(workload: Workload, prefill: Callable[[Any], Any], variants: Variants, log: CompileLog) -> Prefill:
    """Both variants read the prompt in turns: `prefill` is called with the model of each. They are compiled by now."""

    def call(model: Any) -> timing.Call:
        return lambda: prefill(model)

    plan = timing.Plan.of(workload.spec, variants.compiled.warmup[0])
    plan = replace(plan, max_seconds=plan.max_seconds * SHARE, longest_seconds=plan.longest_seconds * SHARE)
    eager, compiled = call(variants.eager.model), call(variants.compiled.model)
    return Prefill(*protocols.both_timed(workload, eager, compiled, log, plan))


def with_generate(workload: Workload, prompt: torch.Tensor, result: RunResult, events: Events) -> RunResult:
    """The result with the times of generate(), where its answer does not take too long. `prompt` is [batch, tokens].

    The compile that generate() does by itself stays in the process, so nothing is measured in it afterwards.
    """
    answer = result.answer_seconds
    if result.generation is None or answer is None or answer[0] > LONGEST_ANSWER:
        return result
    events.doing("generate", 0.948)
    plain = _generate(workload, prompt, disable_compile=True)
    automatic = _generate(workload, prompt, disable_compile=False) if workload.device.type == "cuda" else None
    return replace(result, generation=replace(result.generation, generate_seconds=plain, automatic_seconds=automatic))


def _generate(workload: Workload, prompt: torch.Tensor, disable_compile: bool) -> float:
    """Median seconds of generate() for the whole answer, after a call that is not counted."""
    tokens = workload.spec.tokens

    def call() -> torch.Tensor:
        answer: torch.Tensor = workload.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            cache_implementation="static",
            disable_compile=disable_compile,
        )
        return answer

    call()
    return timing.median_of_few(call, workload.clock, GENERATE_CALLS, seconds=LONGEST_ANSWER)
