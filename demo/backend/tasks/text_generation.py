"""Text generation: a causal language model continues a prompt token by token, with a static cache of keys and values.

A timed call is one greedy decoding step. The prefill, the call that reads the prompt, is timed separately. Not covered:
padding, sampling, an end-of-text token, a sliding window shorter than prompt and answer, and models that keep other
state than keys and values. With longrope scaling, the verdict "differ" may be wrong if the answer exceeds the model's
original context length.
"""

import functools
import math
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, StaticCache
from transformers.cache_utils import StaticLayer

from ...core.caveat import Caveat
from ...core.measurement import Pair
from ...core.options import BadInput, RunSpec
from ...core.outputs import Predictions
from ...core.result import FIRST_TOKEN
from ...core.size_log import InputSize
from .. import compilation, error_text, failures, models, timing
from ..messages import Events
from ..restorer import Restorer
from ..workload import Batch, Model, Variants, Workload

COMPARED_TOKENS = 64
"""The logits of at most this many tokens of an answer are compared: a token has up to about 260,000 logits."""
CACHE_TOLERANCE = {"float32": 1e-3, "tf32": 0.02, "float16": 0.1, "bfloat16": 0.1}
"""How far logits with and without a cache may differ, as a share of the largest logit, by number format.

0.02 is some 20 roundings of TF32, and 0.1 is some 13 of bfloat16, because roundings add up over the layers. Both are
chosen, not measured. They have to accept every correct cache. A wrong cache gives the logits of another text.
"""

TIE = 64 * 2**-23
"""A token counts as equally likely as the likeliest if its logit is less by at most this share of the largest absolute
logit. It is 64 roundings of float32: chosen, not measured."""
MOST_TIES = 100
"""Most token ids that are kept as ties of one token: a broken model finds all of a hundred thousand equally likely."""


class Decoding:
    """A prompt, the answer generated so far, and a static cache with the keys and values of both.

    The eager and the compiled model take turns: they share the cache and continue the same answer.
    """

    def __init__(self, model: PreTrainedModel, prompt: torch.Tensor, tokens: int) -> None:
        """`prompt` is [batch, prompt tokens] on the model's device; `tokens` is the length of the answer."""
        self.prompt = prompt
        self.steps = tokens - 1
        """Decoding steps of a whole answer: one fewer than its tokens, because the prefill gives the first."""
        self.step = 0
        self.first = self.token = prompt[:, -1:]
        """The answer's first and its latest token, both [batch, 1]. The prefill sets both."""
        self.eager_tokens: torch.Tensor | None = None
        """The eager model's answer, [answer tokens], on the CPU; None before there is one."""
        length = prompt.shape[1] + tokens
        self.cache: Any = StaticCache(config=model.config, max_cache_len=length)
        # A sliding layer counts its tokens in a Python number, so every step would record a CUDA graph of its own. Its
        # window holds the whole text here (`_check_length`), so a full layer computes the same.
        self.cache.layers = [StaticLayer(length) for _ in self.cache.layers]
        self.options: Batch = {"past_key_values": self.cache, "use_cache": True, "logits_to_keep": 1}
        # Only a call knows the sizes of keys and values, and so allocates the cache. It is an eager call: a compiled
        # one would allocate memory whose address changes, and a CUDA graph needs fixed addresses.
        self._logits(model, prompt[:, :1])
        self._rewind(0)

    def prefill(self, model: Model) -> torch.Tensor:
        """Reads the prompt and chooses the first token of the answer. Returns its logits, [batch, 1, vocabulary]."""
        self._rewind(0)
        logits = self._logits(model, self.prompt)
        self.first, self.step = self.token, 0
        return logits

    def decode(self, model: Model) -> torch.Tensor:
        """Generates the next token of the answer. Returns its logits, [batch, 1, vocabulary].

        A complete answer is started again from its first token, so that any number of calls can be timed.
        """
        if self.step == self.steps:
            self.restart()
        self.step += 1
        return self._logits(model, self.token)

    def restart(self) -> None:
        """Drops all tokens of the answer except the first. The prompt stays in the cache."""
        self._rewind(self.prompt.shape[1])
        self.token, self.step = self.first, 0

    def answer(
        self, model: Model, forced: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, list[list[int]]]:
        """Generates a whole answer. Returns its tokens, the logits of its first `COMPARED_TOKENS` tokens, and ties.

        - All three belong to the batch's first prompt. On the CPU: tokens, [answer tokens], and logits, [compared
          tokens, vocabulary].
        - The ties are, for each token of the answer, the ids of the likeliest token and of those that count as equally
          likely (`TIE`). At most `MOST_TIES` of them.
        - `forced`, [answer tokens]: the model is fed these as the answer so far, whatever it chooses itself. None: it
          is fed its own choices.
        """
        rows, tokens, ties = [], [], []
        for index in range(self.steps + 1):
            logits = self.prefill(model) if index == 0 else self.decode(model)
            tokens.append(self.token[0].clone())
            row = logits[0, -1].float()
            tied = (row >= row.max() - TIE * row.abs().max()).nonzero().flatten()
            ties.append(tied[:MOST_TIES].tolist())
            if index < COMPARED_TOKENS:
                rows.append(logits[0, -1:].cpu().clone())
            if forced is not None:
                self.token = forced[index].to(self.token).expand_as(self.token)
        self.restart()
        return torch.cat(tokens).cpu(), torch.cat(rows), ties

    def _logits(self, model: Model, tokens: torch.Tensor) -> torch.Tensor:
        """Calls the model on `tokens` and returns the logits. Sets `self.token` to the likeliest next token."""
        logits: torch.Tensor = model(input_ids=tokens, **self.options).logits
        self.token = logits[:, -1].argmax(-1, keepdim=True)
        return logits

    def _rewind(self, length: int) -> None:
        """Sets the cache's length to `length` tokens. Later keys and values are masked until they are overwritten."""
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(length)


@dataclass(frozen=True)
class TextWorkload(Workload):
    loaded: models.LoadedModel
    ids: torch.Tensor
    """The prompt's tokens, [1, prompt tokens], on the CPU."""

    @cached_property
    def decoding(self) -> Decoding:
        return Decoding(self.loaded.model, self.ids.repeat(self.spec.batch_size, 1).to(self.device), self.spec.tokens)

    def make_batch(self) -> Batch:
        """Returns the arguments of one decoding step."""
        return {"input_ids": self.decoding.prompt[:, -1:], **self.decoding.options}

    @cached_property
    def restorer(self) -> Restorer:
        return Restorer({})  # `Decoding` rewinds the cache, which is what a call changes

    def batch_of(self, size: InputSize) -> Batch:
        """Returns the arguments of a call without a cache. The run's prompt is repeated or cut to the size."""
        own = self.ids.shape[1]
        tokens = size.prompt_tokens or own
        row = self.ids.to(self.device).repeat(1, math.ceil(tokens / own))[:, :tokens]
        return {"input_ids": row.repeat(size.batch_size, 1).contiguous(), "use_cache": False, "logits_to_keep": 1}

    def call(self, model: Model) -> timing.Call:
        """Returns a function that makes one decoding step. Its first call also reads the prompt, as the prefill."""
        decoding, begun = self.decoding, False

        def step() -> torch.Tensor:
            nonlocal begun
            if not begun:
                decoding.prefill(model)
                begun = True
            return decoding.decode(model)

        return step

    def once(self, model: Model) -> object:
        self.decoding.restart()
        outputs = model(**self.batch)
        self.decoding.restart()
        return outputs

    def outputs(self, model: Model) -> dict[str, object]:
        """Returns {"tokens": ..., "logits": ..., "ties": ...} of a whole answer.

        - "tokens" and "ties": of the answer that the model itself chooses. "logits": when the model is fed eager's
          answer.
        - "tokens" is a list, because tensors would be compared as numbers, and a rounding may change a token.
        """
        tokens, logits, ties = self.decoding.answer(model)
        if self.decoding.eager_tokens is None:
            self.decoding.eager_tokens = tokens
        elif not torch.equal(tokens, self.decoding.eager_tokens):
            _, logits, _ = self.decoding.answer(model, self.decoding.eager_tokens)
        return {"tokens": tokens.tolist(), "logits": logits, "ties": ties}

    def exact_outputs(self, exact: Model) -> dict[str, torch.Tensor]:
        """Returns the logits of `exact`, a float64 copy of the model, from one call over prompt and answer together."""
        assert self.decoding.eager_tokens is not None
        answer = self.decoding.eager_tokens[:COMPARED_TOKENS]
        text = torch.cat([self.ids[0], answer[:-1]]).unsqueeze(0).to(self.device)
        return {"logits": exact(input_ids=text, use_cache=False, logits_to_keep=len(answer)).logits[0]}

    def predictions(self, outputs: object) -> Predictions | None:
        assert isinstance(outputs, dict)  # by `outputs`
        tokenizer = self.loaded.tokenizer
        if tokenizer is None:
            return None
        ties = tuple(tuple(ids) if len(ids) > 1 else () for ids in outputs["ties"])
        return replace(as_text(tokenizer, outputs["tokens"]), ties=ties)

    def time_more(self, variants: Variants, log: compilation.CompileLog, events: Events) -> dict[str, object]:
        """Times the prefill of the eager and of the compiled model, in turns. Returns the fields for the result."""
        events.progress("time", 0.85, code="prefill")
        eager, compiled = (
            functools.partial(self.decoding.prefill, variant.model) for variant in variants.by_name.values()
        )
        min_calls = timing.min_warmup_calls(self.spec, self.device)
        warmup, _ = timing.warm_up(compiled, self.clock, log.events, min_calls)
        eager_warmup, _ = timing.warm_up(eager, self.clock, log.events)
        plan = timing.Plan.of(self.spec, variants.compiled.warmup[0])
        # The prefill gets a quarter of the time that the steps get, because they take most of an answer's time.
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
    """Loads the model. Raises BadInput if it cannot use a static cache, or if prompt and answer are too long."""
    loaded = models.load_model(spec, device)
    config = loaded.model.config.get_text_config(decoder=True)
    if loaded.tokenizer is not None:
        ids = loaded.tokenizer(spec.prompt, return_tensors="pt")["input_ids"].long()
    else:  # random weights: a token for the beginning, each word and each mark
        ids = torch.arange(1 + len(re.findall(r"\w+|[^\w\s]", spec.prompt))).remainder(config.vocab_size).unsqueeze(0)
    _check_length(config, ids.shape[1], spec)
    caveats = [*loaded.caveats, *misplaced_marks(loaded, ids[0].tolist())]
    workload = TextWorkload(spec, device, loaded.model, loaded, ids, caveats=caveats)
    _check_cache(workload)
    return workload


def _check_cache(workload: TextWorkload) -> None:
    """Raises BadInput if a decoding step with the cache fails, or if its logits differ from a call without a cache.

    Possible causes: an encoder; a model that ignores the cache or keeps other state; a mask that does not fit a cache
    longer than the text; a tokenizer with more tokens than the model.
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
        why = error_text.first_line(error).rstrip(".")
    if why:
        name = failures.short_name(workload.spec.checkpoint)
        raise BadInput(
            f"{name} does not write token by token over a static cache of keys and values ({why}), so it is not timed "
            f"here; {failures.OTHER}."
        )


def misplaced_marks(loaded: models.LoadedModel, ids: list[int]) -> list[Caveat]:
    """Returns caveats if the prompt has two begin-of-text tokens at its start, or an end-of-text token at its end.

    Tokens whose text is only blanks are ignored. `ids`: the prompt's tokens.
    """
    tokenizer = loaded.tokenizer
    if tokenizer is None:
        return []
    caveats, read = [], [id for id in ids if _decode(tokenizer, [id]).strip()]
    if read[:2] == [tokenizer.bos_token_id] * 2:
        caveats.append(Caveat("bos_twice", {"mark": tokenizer.bos_token}))
    ends = getattr(loaded.model.generation_config, "eos_token_id", None)  # a list for models with an end of a turn
    if len(read) > 1 and read[-1] in {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}:
        caveats.append(Caveat("eos_at_end", {"mark": _decode(tokenizer, read[-1:]).strip()}))
    return caveats


def _decode(tokenizer: PreTrainedTokenizerBase, ids: list[int], **options: bool) -> str:
    text = tokenizer.decode(ids, **options)
    assert isinstance(text, str)  # a list only for several lists of tokens
    return text


def as_text(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> Predictions:
    """Returns the text of the tokens, and what each token adds to the text: '' if it completes no character."""
    pieces: list[str] = []
    # Each token is decoded after the last piece's tokens: alone, it would lose the space at its beginning.
    # `tokenizers.decoders.DecodeStream` does the same, but raises at bytes that are no UTF-8.
    start = read = 0
    for end in range(1, len(ids) + 1):
        before, longer = (_decode(tokenizer, ids[start:to], skip_special_tokens=True) for to in (read, end))
        pieces.append("" if longer.endswith("\ufffd") else longer[len(before) :])
        if pieces[-1]:
            start, read = read, end
    return Predictions(text="".join(pieces), pieces=tuple(pieces), token_ids=tuple(ids))


def _check_length(config: PreTrainedConfig, prompt_tokens: int, spec: RunSpec) -> None:
    """Raises BadInput if prompt and answer together are longer than the model's context or its sliding window."""
    names = ("max_position_embeddings", "sliding_window", "attention_chunk_size")
    sizes = [size for name in names if isinstance(size := getattr(config, name, None), int) and size > 0]
    context = min(sizes, default=math.inf)
    if prompt_tokens + spec.tokens > context:
        raise BadInput(
            f"The prompt has {prompt_tokens:,} tokens, {spec.tokens:,} more are asked for, and "
            f"{failures.short_name(spec.checkpoint)} takes {context:,} in all. Shorten the prompt, or ask for fewer "
            "tokens."
        )
