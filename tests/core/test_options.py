"""Tests of the options of a run: which values are allowed, and how a refusal says so."""

from typing import Any

import pytest

from demo.core.options import MAX_PROMPT, TEXT_GENERATION, BadInput, RunSpec, read_calls

VIT = {"checkpoint": "shapes-vit", "task": "image-classification"}
GEMMA = {"checkpoint": "shapes-gemma", "task": TEXT_GENERATION, "prompt": "A"}


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("task", "image-captioning", "object-detection"),
        ("batch_size", 0, "Batch size must be a whole number from 1 to 256"),
        ("batch_size", 1.5, "whole number"),
        ("batch_size", True, "whole number"),
        ("mode", "fastest", "max-autotune"),
        ("cache", True, "compile cache"),
        ("fullgraph", 1, "true or false"),
        ("precision", 0.0, "Precision must be a number from 0.001 to 0.2"),
        ("precision", "fine", "Precision"),
        ("precision", float("nan"), "Precision"),
        ("max_seconds", 1e9, "Seconds of timing"),
        *(("text", value, "text queries") for value in (("",), (" ",), ["a cat"], "a cat", (1,))),
    ],
    ids=str,
)
def test_a_refusal_says_what_is_allowed(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(BadInput) as refusal:
        RunSpec(**VIT | {field: value})
    assert repr(value) in str(refusal.value) and allowed in str(refusal.value)


def test_a_refusal_writes_a_large_limit_out() -> None:
    with pytest.raises(BadInput, match="from 1 to 100,000,000"):
        read_calls(0)


@pytest.mark.parametrize(
    ("device", "freezing", "compiler", "cached"),
    [
        ("cpu", False, "jit", True),
        ("cpu", True, "jit", False),
        ("cuda", True, "jit", True),
        ("auto", True, "jit", False),
        ("cuda", False, "aot", False),
    ],
)
def test_frozen_graphs_are_cached_on_a_gpu_only(device: str, freezing: bool, compiler: str, cached: bool) -> None:
    assert RunSpec(**VIT, device=device, freezing=freezing, compiler=compiler).cached is cached


def test_departures_are_the_options_that_are_not_at_their_default() -> None:
    assert RunSpec(**VIT, mode="lite", threads=2).departures() == {"mode": "lite", "threads": 2}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (VIT | {"protocol": "as published", "iterations": 20}, "300 calls"),
        (VIT | {"graph_break": True, "fullgraph": True}, "switch graph_break off, or choose fullgraph off"),
        (VIT | {"graph_break": True, "scope": "layers"}, "scope model"),
        (VIT | {"graph_break": True, "compiler": "aot"}, "compiler jit"),
        (VIT | {"compiler": "aot", "scope": "layers"}, "choose scope model, or compiler jit"),
        (VIT | {"compiler": "aot", "mode": "reduce-overhead"}, "mode default, max-autotune-no-cudagraphs, lite, or"),
        (VIT | {"compiler": "aot", "mode": "max-autotune"}, "or compiler jit"),
        (VIT | {"prompt": "A"}, "image-classification cannot use prompt. Leave that out."),
        (VIT | {"task": "object-detection", "tokens": 9}, "cannot use tokens"),
        (GEMMA | {"prompt": ""}, "Text generation needs a prompt, the text to go on from. Give one."),
        (GEMMA | {"prompt": None}, "The prompt is a text. Given: None."),
        (GEMMA | {"prompt": "half \ud83d"}, "The prompt holds half a character (a lone surrogate). Type it anew."),
        (GEMMA | {"prompt": "a" * 30_000}, f"The prompt may have {MAX_PROMPT:,} characters. Given: 30,000."),
        (GEMMA | {"channels_last": True}, "cannot use channels_last. Leave that out."),
        (GEMMA | {"compiler": "aot"}, "choose compiler jit"),
        (GEMMA | {"scope": "layers"}, "choose scope model"),
    ],
    ids=lambda value: ascii(list(value.items())[1:])[:80] if isinstance(value, dict) else "",
)
def test_a_conflict_of_options_names_a_change_that_works(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as refusal:
        RunSpec(**fields)
    assert words in str(refusal.value) and len(str(refusal.value)) < 200


@pytest.mark.parametrize(("fields", "unit"), [(VIT, "image"), (GEMMA, "token")], ids=["picture", "text"])
def test_only_a_task_of_images_sees_a_picture(fields: dict[str, Any], unit: str) -> None:
    assert (RunSpec(**fields).unit, RunSpec(**fields).sees_picture) == (unit, unit == "image")
