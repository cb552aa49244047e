"""Train the bundled text model on descriptions of scenes, and write its folder.

    python -m tools.train_text

It is built as Gemma is, from random weights. Same torch and same processor give the same weights, as for the models of
`tools/train_shapes.py`: everything random comes from fixed seeds, and one thread does the sums.
"""

import argparse
import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GemmaConfig, GemmaForCausalLM, PreTrainedTokenizerFast

from tools import captions
from tools.evaluate_shapes import CHECKPOINTS
from tools.train_shapes import start_afresh
from tools.training_set import FIRST_TRAINING_SEED

NAME = "shapes-gemma"
CONTEXT = 512
LENGTH = 192  # tokens of one row
STEPS, BATCH_SIZE = 1200, 8
LEARNING_RATE, WEIGHT_DECAY, LARGEST_GRADIENT = 3e-3, 0.05, 1.0
TOKENIZER_DESCRIPTIONS = 2000
MOST_TOKENS = 512  # bytes, words and what words are merged from


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Every word of the grammar is one token. The 256 bytes are tokens too, so any other text goes in and out again.

    Special tokens have Gemma's numbers, and <bos> goes before every text as Gemma's tokenizer puts it.
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
    """1.2 M parameters. As in Gemma 2B, all query heads share one key and value head."""
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
    """(rows, LENGTH) token ids: descriptions one after another, cut off where the row ends.

    A row begins with the beginning of a description, or the first questions would be about what nobody can know. One
    description in four goes without <eos>: where a benchmark forbids that token, <bos> and the next one still follow.
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


def train(
    tokenizer: PreTrainedTokenizerFast, steps: int, seed: int = 0, say: Callable[[str], None] = print
) -> GemmaForCausalLM:
    """Build the model and train it for `steps` steps, on new text in each.

    Sets torch's global seed and thread count.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = build_model(tokenizer).train()
    start_afresh(model)
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [
            {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": WEIGHT_DECAY},
            {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
        ],
        lr=LEARNING_RATE,
        betas=(0.9, 0.99),
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=LEARNING_RATE, total_steps=steps + 1, pct_start=0.1
    )
    started, recent = time.perf_counter(), 0.0
    for step, batch in enumerate(draw_rows(tokenizer, steps * BATCH_SIZE).split(BATCH_SIZE), start=1):
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, LARGEST_GRADIENT)
        optimizer.step()
        schedule.step()
        recent += loss.item()
        if step % 100 == 0 or step == steps:
            taken = recent / (step % 100 or 100)
            say(f"{NAME} step {step}/{steps} loss {taken:.4f} {time.perf_counter() - started:.0f} s")
            recent = 0.0
    return model.eval()


def save(tokenizer: PreTrainedTokenizerFast, model: GemmaForCausalLM, folder: Path) -> None:
    """Write an ordinary `from_pretrained` folder."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # as any other file of the repository
    tokenizer.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the bundled text model on descriptions of scenes.")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"instead of {STEPS}")
    parser.add_argument("--into", type=Path, default=CHECKPOINTS, help="where the folder goes")
    arguments = parser.parse_args()

    tokenizer = build_tokenizer()
    started = time.perf_counter()
    model = train(tokenizer, arguments.steps, say=lambda line: print(line, flush=True))
    minutes = (time.perf_counter() - started) / 60
    folder = arguments.into / NAME
    save(tokenizer, model, folder)
    print(f"{NAME}: {arguments.steps} steps in {minutes:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
