"""Trains the bundled text model on descriptions of scenes, and writes its folder.

    python -m tools.train_text

The model has Gemma's architecture and starts from random weights. The same torch and the same processor give the same
weights, as in `tools/train_shapes.py`: all random numbers come from fixed seeds, and sums are computed in one thread.
"""

import argparse
import os
import time
from itertools import count
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GemmaConfig, GemmaForCausalLM, PreTrainedTokenizerFast

from tools import captions
from tools.evaluate_shapes import CHECKPOINTS
from tools.train_shapes import fit, make_repeatable, save, start_afresh
from tools.training_set import FIRST_TRAINING_SEED

NAME = "shapes-gemma"
CONTEXT = 512
LENGTH = 192  # tokens of one row
STEPS, BATCH_SIZE = 1200, 8
LEARNING_RATE, WEIGHT_DECAY = 3e-3, 0.05
TOKENIZER_DESCRIPTIONS = 2000
MOST_TOKENS = 512  # bytes, words and what words are merged from


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer with a token for each word of the grammar and for each of the 256 bytes.

    So it accepts any text. Special tokens have Gemma's numbers. As in Gemma's tokenizer, <bos> is put before every
    text.
    """
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=MOST_TOKENS,
        special_tokens=["<pad>", "<eos>", "<bos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    seeds = range(FIRST_TRAINING_SEED, FIRST_TRAINING_SEED + TOKENIZER_DESCRIPTIONS)
    bare.train_from_iterator((captions.describe(seed).text for seed in seeds), trainer)
    bare.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", bare.token_to_id("<bos>"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bare,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        padding_side="left",
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def build_model(tokenizer: PreTrainedTokenizerFast) -> GemmaForCausalLM:
    """Returns a Gemma with 1.2 M parameters. As in Gemma 2B, all query heads share one key and value head."""
    return GemmaForCausalLM(
        GemmaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=6,
            num_attention_heads=4,
            num_key_value_heads=1,
            head_dim=32,
            max_position_embeddings=CONTEXT,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=tokenizer.bos_token_id,
        )
    )


def draw_rows(tokenizer: PreTrainedTokenizerFast, rows: int) -> torch.Tensor:
    """Returns (rows, LENGTH) token ids: descriptions one after another, cut off at the end of the row.

    Each row begins with a new description, because the first questions would otherwise be about unknown shapes. One
    description in four is not followed by <eos>. So the model also learns to go on with <bos> and the next description,
    which it does if a benchmark forbids <eos>.
    """
    seeds = count(FIRST_TRAINING_SEED)
    drawn = []
    for _ in range(rows):
        row: list[int] = []
        while len(row) < LENGTH:
            seed = next(seeds)
            row += tokenizer(captions.describe(seed).text).input_ids
            row += [tokenizer.eos_token_id] if seed % 4 else []
        drawn.append(row[:LENGTH])
    return torch.tensor(drawn)


def train(tokenizer: PreTrainedTokenizerFast, steps: int) -> GemmaForCausalLM:
    """Builds the model and trains it for `steps` steps, each on new text."""
    make_repeatable()
    model = build_model(tokenizer).train()
    start_afresh(model)
    batches = draw_rows(tokenizer, steps * BATCH_SIZE).split(BATCH_SIZE)
    losses = (model(input_ids=batch, labels=batch, use_cache=False).loss for batch in batches)
    fit(NAME, list(model.parameters()), losses, steps, LEARNING_RATE, WEIGHT_DECAY)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the bundled text model on descriptions of scenes.")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"instead of {STEPS}")
    parser.add_argument("--into", type=Path, default=CHECKPOINTS, help="where the folder goes")
    arguments = parser.parse_args()

    tokenizer = build_tokenizer()
    started = time.perf_counter()
    model = train(tokenizer, arguments.steps)
    minutes = (time.perf_counter() - started) / 60
    folder = arguments.into / NAME
    save(model, tokenizer, folder)
    print(f"{NAME}: {arguments.steps} steps in {minutes:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
