"""Tiny language models with random weights and a tokenizer, written as the Hub holds such checkpoints.

The entries of each config.json are those of a published one of its kind, with smaller sizes; from memory.
"""

from __future__ import annotations

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
    "hidden_act": "silu",
    "initializer_range": 0.3,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "transformers_version": "4.31.0",
    "use_cache": True,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "pretraining_tp": 1,
        "rope_scaling": None,
        **_LLAMA_LIKE,
    },
    "mistral": {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 40, **_LLAMA_LIKE},
    "gemma": {
        "architectures": ["GemmaForCausalLM"],
        "model_type": "gemma",
        **_LLAMA_LIKE,
        "head_dim": 8,
        "hidden_act": "gelu",
        "hidden_activation": None,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.38.0.dev0",
    },
    "gpt2": {
        "activation_function": "gelu_new",
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": 0.1,
        "bos_token_id": 256,
        "embd_pdrop": 0.1,
        "eos_token_id": 256,
        "initializer_range": 0.3,
        "layer_norm_epsilon": 1e-05,
        "model_type": "gpt2",
        "n_ctx": CONTEXT,
        "n_embd": 16,
        "n_head": 2,
        "n_layer": 2,
        "n_positions": CONTEXT,
        "resid_pdrop": 0.1,
        "summary_activation": None,
        "summary_first_dropout": 0.1,
        "summary_proj_to_labels": True,
        "summary_type": "cls_index",
        "summary_use_proj": True,
        "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    },
    "mamba": {
        "architectures": ["MambaForCausalLM"],
        "bos_token_id": 0,
        "conv_kernel": 4,
        "eos_token_id": 0,
        "expand": 2,
        "hidden_act": "silu",
        "hidden_size": 16,
        "intermediate_size": 32,
        "model_type": "mamba",
        "num_hidden_layers": 2,
        "state_size": 4,
        "time_step_rank": 1,
        "torch_dtype": "float32",
        "transformers_version": "4.39.0.dev0",
    },
    "bert": {
        "architectures": ["BertForMaskedLM"],
        "attention_probs_dropout_prob": 0.1,
        "gradient_checkpointing": False,
        **_SIZES,
        "hidden_act": "gelu",
        "max_position_embeddings": CONTEXT,
        "model_type": "bert",
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
        "transformers_version": "4.6.0.dev0",
        "type_vocab_size": 2,
    },
}


def written(folder: Path, kind: str, **changes: Any) -> Path:
    """A checkpoint of one of the kinds in `CONFIGS`; `changes` are entries of its config.json."""
    folder.mkdir(parents=True)
    tokenizer, told = byte_level() if kind in ("gpt2", "mamba") else byte_fallback()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    entries = CONFIGS[kind] | {"vocab_size": tokenizer.get_vocab_size()} | changes
    (folder / "config.json").write_text(json.dumps(entries))
    torch.manual_seed(1)
    config = CONFIG_MAPPING[entries["model_type"]].from_dict(dict(entries))
    weights = AutoModelForCausalLM.from_config(config, dtype=torch.float32).state_dict()
    if config.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    if entries["model_type"] == "gpt2":  # as published: without the prefix, and with the causal masks
        weights = {name.removeprefix("transformer."): weight for name, weight in weights.items()}
        mask = torch.tril(torch.ones(CONTEXT, CONTEXT)).view(1, 1, CONTEXT, CONTEXT)
        weights |= {f"h.{layer}.attn.bias": mask.clone() for layer in range(2)}
    save_file({name: one.clone() for name, one in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    return folder


def byte_level() -> tuple[Tokenizer, dict[str, Any]]:
    """A tokenizer like GPT-2's, with a token for each byte, and its tokenizer_config.json."""
    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(BPE(letters, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END, special=True)])
    return tokenizer, {"model_max_length": CONTEXT, "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END}


def byte_fallback() -> tuple[Tokenizer, dict[str, Any]]:
    """A tokenizer like LLaMA's: words with a mark in place of the blank before them, and bytes for all others."""
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
