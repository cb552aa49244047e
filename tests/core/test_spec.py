"""What may be asked of a run, and how a refusal says what is allowed."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from demo.core.spec import MAX_PROMPT, TEXT_GENERATION, BadInput, RunSpec

garbage: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.fixed_dictionaries({"checkpoint": garbage, "task": garbage}, optional={"batch_size": garbage, "mode": garbage,
       "fullgraph": garbage, "dtype": garbage, "device": garbage, "weights": garbage, "text": garbage,
       "iterations": garbage, "prompt": garbage, "tokens": garbage}))  # fmt: skip
def test_a_spec_of_garbage_is_refused_with_a_sentence(values: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as refusal:
        RunSpec(**values)
    assert str(refusal.value).strip().endswith(".")


def test_a_refusal_says_what_was_given_and_what_is_allowed() -> None:
    for field, value, allowed in [
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
    ]:
        with pytest.raises(BadInput) as refusal:
            RunSpec(**{"checkpoint": "shapes-vit", "task": "image-classification", field: value})
        assert repr(value) in str(refusal.value)
        assert allowed in str(refusal.value)


def test_a_checkpoint_and_text_queries_say_something() -> None:
    nothing = [("checkpoint", value, "No checkpoint") for value in ("", "   ", None, 7)]
    nothing += [("text", value, "text queries") for value in (("",), (" ",), ["a cat"], "a cat", (1,))]
    for field, value, words in nothing:
        with pytest.raises(BadInput, match=words):
            RunSpec(**{"checkpoint": "google/owlvit-base-patch32", "task": "object-detection", field: value})


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
    spec = RunSpec("shapes-vit", "image-classification", device=device, freezing=freezing, compiler=compiler)
    assert spec.cached is cached


def test_departures_are_the_options_that_are_not_at_their_default() -> None:
    spec = RunSpec("shapes-vit", "image-classification", mode="lite", threads=2)
    assert spec.departures() == {"mode": "lite", "threads": 2}


def test_settings_that_torch_does_not_have_together_are_refused_with_the_way_out():
    for changes, words in [
        ({"protocol": "as published", "iterations": 20}, "300 calls"),
        ({"graph_break": True, "fullgraph": True}, "switch graph_break or fullgraph off"),
        ({"scope": "layers", "graph_break": True}, "switch graph_break off, or choose scope model"),
        ({"compiler": "aot", "scope": "layers"}, "choose scope model, or compiler jit"),
        ({"compiler": "aot", "graph_break": True}, "switch graph_break off, or choose compiler jit"),
        ({"compiler": "aot", "mode": "reduce-overhead"}, "Choose mode default, max-autotune-no-cudagraphs, lite, or"),
        ({"compiler": "aot", "mode": "max-autotune"}, "or compiler jit"),
    ]:
        with pytest.raises(BadInput, match=words):
            RunSpec("shapes-vit", "image-classification", **changes)


def test_prompt_and_tokens_check_themselves() -> None:
    for changes, words in [
        ({"prompt": ""}, "Text generation needs a prompt, the text to go on from. Give one."),
        ({"prompt": None}, "The prompt is a text. Given: None."),
        ({"prompt": "half \ud83d"}, "The prompt holds half a character (a lone surrogate). Type it anew."),
        ({"prompt": "a" * 30_000}, f"The prompt may have {MAX_PROMPT:,} characters. Given: 30,000."),
        ({"channels_last": True}, "cannot use channels_last. Leave that out."),
        ({"compiler": "aot"}, "choose compiler jit"),
        ({"scope": "layers"}, "choose scope model"),
        ({"task": "image-classification"}, "image-classification cannot use prompt. Leave that out."),
        ({"task": "object-detection", "prompt": "", "tokens": 9}, "cannot use tokens"),
    ]:
        with pytest.raises(BadInput) as refusal:
            RunSpec(**{"checkpoint": "shapes-gemma", "task": TEXT_GENERATION, "prompt": "A", **changes})
        assert words in str(refusal.value) and len(str(refusal.value)) < 200


def test_a_spec_of_text_generation_sees_no_picture_and_counts_tokens() -> None:
    text = RunSpec("shapes-gemma", TEXT_GENERATION, prompt=" The \N{CAT FACE}\n", tokens=2)
    assert (text.sees_picture, text.unit, text.prompt) == (False, "token", " The \N{CAT FACE}\n")
    picture = RunSpec("shapes-vit", "image-classification")
    assert (picture.sees_picture, picture.unit) == (True, "image")
