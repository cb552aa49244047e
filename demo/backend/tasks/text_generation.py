"""A causal language model that answers a prompt over a static cache, token by token.

A call is one greedy step of the decoding. Eager and compiled take turns over one cache and one place in it. The call of
the prompt, the prefill, is timed apart.

Covered: one prompt, repeated to a batch; full attention, and sliding attention whose window holds prompt and answer.
Not covered: models that keep another state, padding, sampling, and the end of a text before the last token. Nor does
the comparison cover an answer beyond the original length of longrope, at which the whole text is read anew.
"""

import functools
import math
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from transformers import StaticCache
from transformers.cache_utils import StaticLayer

from demo.backend import compilation, failures, models, timing
from demo.backend.messages import Events
from demo.backend.workload import Batch, Variants, Workload
from demo.core.measurement import Pair
from demo.core.outputs import Predictions
from demo.core.result import FIRST_TOKEN
from demo.core.size_log import Size
from demo.core.spec import BadInput, RunSpec

COMPARED_TOKENS = 64
"""Tokens of an answer whose logits are compared: a token has up to some 260,000 of them."""
CACHE_TOLERANCE = {"float32": 1e-3, "tf32": 0.02, "float16": 0.1, "bfloat16": 0.1}
"""How far a step over the cache may be from a call without one, as a share of the largest logit."""


class Decoding:
    """A static cache, the prompt that it begins with, and how far the answer has come.

    One eager call lays the cache out, since only the model knows the sizes of its keys and values. If a compiled call
    did, the addresses would not stay, as a CUDA graph needs.
    """

    def __init__(self, model: Any, prompt: torch.Tensor, tokens: int) -> None:
        """`prompt` is [batch, prompt tokens] on the model's device; `tokens` is the length of the answer."""
        self.prompt = prompt
        self.steps = tokens - 1
        """Steps of an answer, whose first token comes with the prompt."""
        self.step = 0
        self.first = self.token = prompt[:, -1:]
        """The answer's first token, and its last one so far; [batch, 1]."""
        self.eager: torch.Tensor | None = None
        """The tokens of eager's answer: [answer tokens], on the CPU; None before it."""
        length = prompt.shape[1] + tokens
        self.cache: Any = StaticCache(config=model.config, max_cache_len=length)
        # A sliding layer counts its tokens in a Python number, so every step would record a CUDA graph of its own. Its
        # window holds the whole text here (`_check_length`), so a full layer computes the same.
        self.cache.layers = [StaticLayer(length) for _ in self.cache.layers]
        self.options: Batch = {"past_key_values": self.cache, "use_cache": True, "logits_to_keep": 1}
        self._logits(model, prompt[:, :1])
        self._rewind(0)

    def prefill(self, model: Any) -> torch.Tensor:
        """Reads the prompt and chooses the answer's first token. Returns the logits, [batch, 1, vocabulary]."""
        self._rewind(0)
        logits = self._logits(model, self.prompt)
        self.first, self.step = self.token, 0
        return logits

    def decode(self, model: Any) -> torch.Tensor:
        """The next token's logits, [batch, 1, vocabulary]. After the answer's last token its second one comes again."""
        if self.step == self.steps:
            self.restart()
        self.step += 1
        return self._logits(model, self.token)

    def restart(self) -> None:
        """Goes back to the first token of the answer. The prompt stays in the cache."""
        self._rewind(self.prompt.shape[1])
        self.token, self.step = self.first, 0

    def answer(self, model: Any, forced: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """The tokens that the model chooses, and the logits of the first `COMPARED_TOKENS` of them.

        [answer tokens] and [compared, vocabulary], of the batch's first row, on the CPU. If `forced` is given, a row of
        tokens, the model is fed these in place of its own.
        """
        rows, tokens = [], []
        for index in range(self.steps + 1):
            logits = self.prefill(model) if index == 0 else self.decode(model)
            tokens.append(self.token[0].clone())
            if index < COMPARED_TOKENS:
                rows.append(logits[0, -1:].cpu().clone())
            if forced is not None:
                self.token = forced[index].to(self.token).expand_as(self.token)
        self.restart()
        return torch.cat(tokens).cpu(), torch.cat(rows)

    def _logits(self, model: Any, tokens: torch.Tensor) -> torch.Tensor:
        """The logits, whose likeliest token becomes the next one."""
        logits = model(input_ids=tokens, **self.options).logits
        self.token = logits[:, -1].argmax(-1, keepdim=True)
        return logits

    def _rewind(self, length: int) -> None:
        """Sets the length of the text in the cache. The mask hides later keys and values until they are overwritten."""
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(length)


@dataclass(frozen=True)
class TextWorkload(Workload):
    loaded: models.LoadedModel
    ids: torch.Tensor
    """The prompt's tokens, [1, prompt tokens], on the CPU."""

    @cached_property
    def decoding(self) -> Decoding:
        """Over the prompt repeated to a batch."""
        return Decoding(self.model, self.ids.repeat(self.spec.batch_size, 1).to(self.device), self.spec.tokens)

    def make_batch(self) -> Batch:
        """The arguments of one step."""
        return {"input_ids": self.decoding.prompt[:, -1:], **self.decoding.options}

    def batch_of(self, size: Size) -> Batch:
        """One call over the whole prompt, repeated up to the size's tokens; without a cache of keys and values."""
        own = self.ids.shape[1]
        tokens = size.prompt_tokens or own
        row = self.ids.repeat(1, math.ceil(tokens / own))[:, :tokens]
        return {"input_ids": row.repeat(size.batch_size, 1).contiguous(), "use_cache": False, "logits_to_keep": 1}

    def call(self, model: Any) -> timing.Call:
        """One step. The first one reads the prompt before, so that a compiled model's first call compiles both."""
        decoding, begun = self.decoding, False

        def step() -> torch.Tensor:
            nonlocal begun
            if not begun:
                decoding.prefill(model)
                begun = True
            return decoding.decode(model)

        return step

    def once(self, model: Any) -> Any:
        self.decoding.restart()
        outputs = model(**self.batch)
        self.decoding.restart()
        return outputs

    def outputs(self, model: Any) -> dict[str, Any]:
        """The tokens that the model chooses, and its logits if it is fed the tokens that eager chose.

        Parity compares tensors, and the tokens are a list: after one rounding two variants may write different texts.
        """
        tokens, logits = self.decoding.answer(model)
        if self.decoding.eager is None:
            self.decoding.eager = tokens
        elif not torch.equal(tokens, self.decoding.eager):
            _, logits = self.decoding.answer(model, self.decoding.eager)
        return {"tokens": tokens.tolist(), "logits": logits}

    def exact_outputs(self, exact: Any) -> dict[str, torch.Tensor]:
        """The same logits from one call over prompt and answer, without a cache."""
        assert self.decoding.eager is not None
        answer = self.decoding.eager[:COMPARED_TOKENS]
        text = torch.cat([self.ids[0], answer[:-1]]).unsqueeze(0).to(self.device)
        return {"logits": exact(input_ids=text, use_cache=False, logits_to_keep=len(answer)).logits[0]}

    def predictions(self, outputs: Any) -> Predictions | None:
        tokenizer = self.loaded.tokenizer
        return None if tokenizer is None else as_text(tokenizer, outputs["tokens"])

    def time_more(self, variants: Variants, log: compilation.CompileLog, events: Events) -> dict[str, Any]:
        """Times the prefill of both variants in turns."""
        events.progress("time", 0.85, code="prefill")
        eager, compiled = (functools.partial(self.decoding.prefill, one.model) for one in variants.by_name.values())
        min_calls = timing.min_warmup_calls(self.spec, self.device)
        warmup, _ = timing.warm_up(compiled, self.clock, log.events, min_calls)
        eager_warmup, _ = timing.warm_up(eager, self.clock, log.events)
        plan = timing.Plan.of(self.spec, variants.compiled.warmup[0])
        # A quarter of the time for the steps: an answer's time is mostly that of its steps.
        plan = replace(plan, max_seconds=plan.max_seconds / 4, longest_seconds=plan.longest_seconds / 4)
        half = timing.calls_per_half_block(eager_warmup, warmup, plan.iterations)
        samples = timing.time_interleaved(eager, compiled, self.clock, plan, half, lambda _: None)
        pair = Pair(
            samples.measurement("eager", eager_warmup),
            samples.measurement("compiled", warmup),
            samples.measurement("control") if samples.control else None,
        )
        return {"further": {FIRST_TOKEN: pair}, "prompt_tokens": self.ids.shape[1]}


def load(spec: RunSpec, device: torch.device) -> TextWorkload:
    """Raises BadInput for a model that does not decode over a static cache, and for a prompt that does not fit."""
    loaded = models.load_model(spec, device)
    config = loaded.model.config.get_text_config(decoder=True)
    if loaded.tokenizer is not None:
        ids = loaded.tokenizer(spec.prompt, return_tensors="pt")["input_ids"].long()
    else:  # random weights: a token for the beginning, each word and each mark
        ids = torch.arange(1 + len(re.findall(r"\w+|[^\w\s]", spec.prompt))).remainder(config.vocab_size).unsqueeze(0)
    _check_length(config, ids.shape[1], spec)
    workload = TextWorkload(spec, device, loaded.model, loaded, ids, caveats=loaded.caveats)
    _check_cache(workload)
    return workload


def _check_cache(workload: TextWorkload) -> None:
    """Raises BadInput if a step over the cache differs from a call without a cache.

    It differs for an encoder, for a model that ignores the cache or keeps another state, for a mask that does not fit a
    cache longer than the text, and for a model that lacks the tokenizer's words.
    """
    model, why = workload.model, ""
    try:
        with torch.no_grad():
            decoding = workload.decoding
            decoding.prefill(model)
            text = torch.cat([decoding.prompt, decoding.first], dim=1)
            first = decoding.decode(model)
            decoding.restart()
            steps = torch.stack([first, decoding.decode(model)])  # a state that is not rewound shows in the second
            whole = model(input_ids=text, use_cache=False, logits_to_keep=1).logits
            decoding.restart()
        if (steps - whole).abs().max() > CACHE_TOLERANCE[workload.spec.dtype] * whole.abs().max():
            why = "its steps differ from a call without a cache"
    except Exception as error:
        if failures.is_out_of_memory(error):
            raise
        why = compilation.first_line(error).rstrip(".")
    if why:
        name = failures.short_name(workload.spec.checkpoint)
        raise BadInput(
            f"{name} does not write token by token over a static cache of keys and values ({why}), so it is not timed "
            f"here; {failures.OTHER}."
        )


def as_text(tokenizer: Any, ids: list[int]) -> Predictions:
    """The text, and what each token adds to it. A character of several tokens comes with the last one.

    `tokenizers.decoders.DecodeStream` raises at bytes that are no UTF-8.
    """
    text, pieces = "", []
    for end in range(1, len(ids) + 1):
        longer = tokenizer.decode(ids[:end], skip_special_tokens=True)
        pieces.append("" if longer.endswith("\ufffd") else longer[len(text) :])
        text += pieces[-1]
    return Predictions(text=text, pieces=tuple(pieces), token_ids=tuple(ids))


def _check_length(config: Any, prompt_tokens: int, spec: RunSpec) -> None:
    """Raises BadInput for more tokens than the model's context, or its sliding window, holds."""
    names = ("max_position_embeddings", "sliding_window", "attention_chunk_size")
    sizes = [size for name in names if isinstance(size := getattr(config, name, None), int) and size > 0]
    context = min(sizes, default=math.inf)
    if prompt_tokens + spec.tokens > context:
        raise BadInput(
            f"The prompt has {prompt_tokens:,} tokens, {spec.tokens:,} more are asked for, and "
            f"{failures.short_name(spec.checkpoint)} takes {context:,} in all. Shorten the prompt, or ask for fewer "
            "tokens."
        )
