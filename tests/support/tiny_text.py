"""Writes checkpoints of tiny language models, with random weights and a tokenizer, in the layout of the Hub.

Each config.json has the entries of a published config of its kind, with smaller sizes.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

CONTEXT = 64
END = "<|endoftext|>"
_SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
_LLAMA_LIKE = {
    **_SIZES,
    "num_key_value_heads": 1,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.3,
    "max_position_embeddings": CONTEXT,
    "rope_theta": 10000.0,
    "torch_dtype": "float16",
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **_LLAMA_LIKE},
    "mistral": {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 40, **_LLAMA_LIKE},
    "gemma": {
        "architectures": ["GemmaForCausalLM"],
        "model_type": "gemma",
        **_LLAMA_LIKE,
        "head_dim": 8,
        "hidden_act": "gelu",
        "hidden_activation": None,
    },
    "gpt2": {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "bos_token_id": 256,
        "eos_token_id": 256,
        "initializer_range": 0.3,
        "n_embd": 16,
        "n_head": 2,
        "n_layer": 2,
        "n_positions": CONTEXT,
    },
}


def write(folder: Path, kind: str, **changes: Any) -> Path:
    """Writes a checkpoint into `folder`; `kind` is a key of `CONFIGS`, `changes` are entries of its config.json."""
    folder.mkdir(parents=True)
    tokenizer, tokenizer_config = byte_level() if kind == "gpt2" else byte_fallback()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    entries = CONFIGS[kind] | {"vocab_size": tokenizer.get_vocab_size()} | changes
    (folder / "config.json").write_text(json.dumps(entries))
    torch.manual_seed(1)
    config = CONFIG_MAPPING[entries["model_type"]].from_dict(dict(entries))
    weights = AutoModelForCausalLM.from_config(config, dtype=torch.float32).state_dict()
    if config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    if entries["model_type"] == "gpt2":  # published GPT-2 files have no 'transformer.' prefix, but have causal masks
        weights = {name.removeprefix("transformer."): weight for name, weight in weights.items()}
        mask = torch.tril(torch.ones(CONTEXT, CONTEXT)).view(1, 1, CONTEXT, CONTEXT)
        weights |= {f"h.{layer}.attn.bias": mask.clone() for layer in range(2)}
    copies = {name: tensor.clone() for name, tensor in weights.items()}
    save_file(copies, folder / "model.safetensors", {"format": "pt"})
    return folder


def byte_level() -> tuple[Tokenizer, dict[str, Any]]:
    """Returns a tokenizer like GPT-2's, with a token for each byte, and its tokenizer_config.json."""
    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(BPE(letters, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END, special=True)])
    return tokenizer, {"model_max_length": CONTEXT, "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END}


def byte_fallback() -> tuple[Tokenizer, dict[str, Any]]:
    """Returns a tokenizer like LLaMA's and its config: '▁' for a blank, a token a letter, and bytes for all else."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abcdefghijklmnopqrstuvwxyz."]
    tokenizer = Tokenizer(BPE(dict(zip(words, range(len(words)), strict=True)), [], byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    marks = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in marks.values()])
    return tokenizer, {"model_max_length": CONTEXT, "tokenizer_class": "PreTrainedTokenizerFast", **marks}
