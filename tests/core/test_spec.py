"""What may be asked of a run, and how a refusal says what is allowed."""

from typing import Any

import pytest

from demo.core.spec import MAX_PROMPT, TEXT_GENERATION, BadInput, RunSpec

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
def test_a_refusal_says_what_was_given_and_what_is_allowed(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(BadInput) as refusal:
        RunSpec(**VIT | {field: value})
    assert repr(value) in str(refusal.value) and allowed in str(refusal.value)


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
    ("options", "words"),
    [
        ({"protocol": "as published", "iterations": 20}, "300 calls"),
        ({"graph_break": True, "fullgraph": True}, "switch graph_break off, or choose fullgraph off"),
        ({"graph_break": True, "scope": "layers"}, "scope model"),
        ({"graph_break": True, "compiler": "aot"}, "compiler jit"),
        ({"compiler": "aot", "scope": "layers"}, "choose scope model, or compiler jit"),
        ({"compiler": "aot", "mode": "reduce-overhead"}, "Choose mode default, max-autotune-no-cudagraphs, lite, or"),
        ({"compiler": "aot", "mode": "max-autotune"}, "or compiler jit"),
        ({"prompt": "A"}, "image-classification cannot use prompt. Leave that out."),
        ({"task": "object-detection", "tokens": 9}, "cannot use tokens"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together_are_refused_with_the_way_out(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        RunSpec(**VIT | options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prompt": ""}, "Text generation needs a prompt, the text to go on from. Give one."),
        ({"prompt": None}, "The prompt is a text. Given: None."),
        ({"prompt": "half \ud83d"}, "The prompt holds half a character (a lone surrogate). Type it anew."),
        ({"prompt": "a" * 30_000}, f"The prompt may have {MAX_PROMPT:,} characters. Given: 30,000."),
        ({"channels_last": True}, "cannot use channels_last. Leave that out."),
        ({"compiler": "aot"}, "choose compiler jit"),
        ({"scope": "layers"}, "choose scope model"),
    ],
    ids=["empty", "none", "half a character", "long", "channels_last", "aot", "layers"],
)
def test_text_generation_refuses_what_it_cannot_do(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as refusal:
        RunSpec(**GEMMA | options)
    assert words in str(refusal.value) and len(str(refusal.value)) < 200


@pytest.mark.parametrize(("fields", "unit"), [(VIT, "image"), (GEMMA, "token")], ids=["picture", "text"])
def test_only_a_task_of_images_sees_a_picture(fields: dict[str, Any], unit: str) -> None:
    spec = RunSpec(**fields)
    assert (spec.unit, spec.sees_picture) == (unit, unit == "image")
