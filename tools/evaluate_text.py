"""Measure the bundled text model on fresh descriptions, and keep the figures on its model card.

    python -m tools.evaluate_text               print the figures

The model writes on as in the app: always the likeliest next token. What each figure means:

- *in the grammar*: share of beginnings of a description that are continued so that the whole text, up to its last
  complete sentence, is one that `tools/captions.py` could have made. Its `check` says what that takes.
- *right answers*: share of descriptions of which one question is answered in exactly the words of the grammar.
"""

import argparse
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tools.captions import COLOURS, QUESTIONS, Description, NotGrammar, ask, check, describe
from tools.evaluate_shapes import CARD_SEED, CHECKPOINTS, COUNT, count_parameters
from tools.scenes import SHAPES

NAME = "shapes-gemma"
CONTINUATIONS = (48, 128)
"""Tokens written in a row, for the figures on the card."""
_ANSWER = 12  # tokens: no answer is longer


class Writer:
    """A text model with its tokenizer, which writes on from many texts at once."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.model.generation_config.eos_token_id = None  # it writes on past the end of a description

    def write(self, beginnings: Sequence[str], tokens: int) -> list[str]:
        """What comes after each beginning, exactly so many tokens, special ones by their names."""
        inputs = self.tokenizer(list(beginnings), return_tensors="pt", padding=True)
        with torch.no_grad():
            written = self.model.generate(**inputs, do_sample=False, max_new_tokens=tokens)
        return self.tokenizer.batch_decode(written[:, inputs.input_ids.shape[1] :])


def fresh_descriptions(first_seed: int, count: int = COUNT) -> list[Description]:
    return [describe(seed) for seed in range(first_seed, first_seed + count)]


def begin(description: Description, seed: int) -> str:
    """The first words of a description, cut off anywhere between its third word and the end of what is said of its
    second shape."""
    words = description.until(2).split(" ")
    return " ".join(words[: random.Random(seed).randint(3, len(words))])


def in_grammar(text: str) -> bool:
    """Whether a text that begins with a description stays within the grammar; <bos> begins every further one."""
    try:
        check(text.replace("\n<eos>", "\n").replace("\n<bos>", "\n"))
    except NotGrammar:
        return False
    return True


def share_in_grammar(writer: Writer, descriptions: Sequence[Description], tokens: int) -> float:
    beginnings = [begin(description, seed) for seed, description in enumerate(descriptions)]
    written = writer.write(beginnings, tokens)
    return _share(in_grammar(one + other) for one, other in zip(beginnings, written, strict=True))


def share_answered(writer: Writer, descriptions: Sequence[Description], kind: str) -> float:
    """Of one question of this kind about each description, on one of its shapes as soon as it is described."""
    asked, texts = [], []
    for seed, one in enumerate(descriptions):
        number = random.Random(seed).randrange(len(one.things))
        asked.append(ask(one.things[number], kind))
        texts.append(" ".join(filter(None, [one.until(number), one.sentences[number], asked[-1][0]])))
    written = writer.write(texts, _ANSWER)
    return _share(said.startswith(f" {answer}") for said, (_, answer) in zip(written, asked, strict=True))


def _share(right: Iterable[bool]) -> float:
    answers = list(right)
    return sum(answers) / len(answers)


def measure(folder: Path, seed: int = CARD_SEED) -> dict[str, float]:
    """Every figure by its name, on 200 descriptions."""
    writer, descriptions = Writer(folder), fresh_descriptions(seed)
    return {
        **{
            f"in the grammar, {tokens} tokens on": share_in_grammar(writer, descriptions, tokens)
            for tokens in CONTINUATIONS
        },
        **{f"right answers on {kind}": share_answered(writer, descriptions, kind) for kind in QUESTIONS},
    }


def as_table(figures: dict[str, float]) -> str:
    lines = [f"| {COUNT} fresh descriptions | share |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {share:.3f} |" for name, share in figures.items())])


# --- the model card ---------------------------------------------------------------------------------------------------

_CARD = """---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---

# {name}

A six-layer Gemma that describes scenes of plain shapes in English, and answers questions on them. Shapes: {shapes}.
Colours: {colours}.

It exists so that the benchmark can show real text with no network and no GPU: {parameters:.2f} M parameters, {size:.1f}
MB, {tokens} tokens in its vocabulary, a context of {context}. Licence: Apache-2.0, as the project's.

## Training

From random weights, on descriptions made by the grammar of `tools/captions.py`: three to five shapes, and after each
one or two questions about it. {steps} steps of {batch_size} rows of {length} tokens took {minutes} minutes on one core
of a CPU shared with other work. No GPU and nobody's texts were used. Made by

    {command}

The tokenizer is trained on the same text: byte-level BPE, in which each word of the grammar is one token. Any other
text is taken in pieces down to single bytes, and comes back unchanged.

## Figures

Printed and written here by `python -m tools.evaluate_text --card`, on descriptions that training never saw
(seeds {first} to {last}). Its first lines say what each figure means.

{table}

## Limits

It knows sentences such as this, and no others:

> {example}

On any other text it still writes on, mostly sentences of this kind, and they mean nothing. It describes a scene that
it makes up: no picture goes in. It answers questions about the shape that was described last, and about no other.
Places are words to it: two shapes may end up at one place. It was trained on no text longer than {length} tokens. Its
speed says nothing about the speed of the large models it is built like.
"""


def write_card(folder: Path, training: dict[str, Any] | None = None) -> str:
    """Measure the checkpoint in `folder`, write its README.md and return the table.

    `training` says how it was made; it is kept in training.json for later cards.
    """
    kept = folder / "training.json"
    if training is None:
        training = json.loads(kept.read_text())
    else:
        kept.write_text(json.dumps(training, indent=2) + "\n")
    config = json.loads((folder / "config.json").read_text())
    weights = folder / "model.safetensors"
    table = as_table(measure(folder))
    card = _CARD.format(
        name=NAME,
        shapes=", ".join(SHAPES),
        colours=", ".join(COLOURS),
        parameters=count_parameters(weights) / 1e6,
        size=weights.stat().st_size / 1e6,
        tokens=config["vocab_size"],
        context=config["max_position_embeddings"],
        first=CARD_SEED,
        last=CARD_SEED + COUNT - 1,
        table=table,
        example=describe(CARD_SEED).text.strip(),
        **training,
    )
    (folder / "README.md").write_text(card)
    return f"{NAME}\n{table}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the bundled text model on fresh descriptions.")
    parser.add_argument("--seed", type=int, default=CARD_SEED, help="first seed; the model card keeps to the default")
    parser.add_argument("--card", action="store_true", help="also rewrite the figures on the model card")
    arguments = parser.parse_args()
    if arguments.card and arguments.seed != CARD_SEED:
        parser.error("--card states the default seeds: leave --seed out.")
    folder = CHECKPOINTS / NAME
    print(write_card(folder) if arguments.card else f"{NAME}\n{as_table(measure(folder, arguments.seed))}")


if __name__ == "__main__":
    main()
