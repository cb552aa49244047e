"""Tests of text generation with tiny models: decoding with the static cache, comparison of outputs, refusals."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support import tiny_text
from support.own_workload import result_of, without_inductor
from tokenizers import Tokenizer, decoders
from tokenizers.models import WordPiece

from demo.backend import compile_model, parity
from demo.backend.tasks import text_generation
from demo.backend.tasks.text_generation import TextWorkload, as_text
from demo.core.options import TEXT_GENERATION, BadInput, RunSpec
from demo.core.outputs import Predictions
from demo.core.result import FIRST_TOKEN
from demo.core.result_json import from_json, to_json
from demo.tasks.text_generation import agreement, fault, tie

CPU = torch.device("cpu")
TOKENS = 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Returns a folder with a tiny checkpoint of each kind in `tiny_text.CONFIGS`."""
    folder = tmp_path_factory.mktemp("text")
    for kind in tiny_text.CONFIGS:
        tiny_text.write(folder / kind, kind)
    return folder


@pytest.fixture(autouse=True)
def no_gradients() -> Any:
    with torch.no_grad():
        yield


def spec_of(folder: Path, **options: Any) -> RunSpec:
    return RunSpec(str(folder), TEXT_GENERATION, **{"prompt": "a cat.", "tokens": TOKENS, "device": "cpu", **options})


def load(folder: Path, **options: Any) -> TextWorkload:
    return text_generation.load(spec_of(folder, **options), CPU)


def without_cache(model: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the tokens of the first row's answer and their logits.

    Each token is from a call over the whole text so far.
    """
    text, rows = ids, []
    for _ in range(TOKENS):
        rows.append(model(input_ids=text, use_cache=False).logits[0, -1])
        text = torch.cat([text, rows[-1].argmax().view(1, 1)], dim=1)
    return text[0, ids.shape[1] :], torch.stack(rows)


# The cache


@pytest.mark.parametrize(("kind", "batch"), [("gemma", 1), ("gpt2", 2), ("llama", 2), ("mistral", 1)])
def test_the_answer_is_that_of_calls_without_a_cache(folder: Path, kind: str, batch: int) -> None:
    workload = load(folder / kind, batch_size=batch)
    model, decoding = workload.model, workload.decoding
    expected, logits = without_cache(model, workload.ids)
    assert len(set(expected.tolist())) > 1
    for _ in range(2):
        tokens, cached_logits, _ = decoding.answer(model)
        assert torch.equal(tokens, expected)
        torch.testing.assert_close(cached_logits, logits, rtol=1e-4, atol=1e-4)
        assert workload.once(model).logits.shape[:2] == (batch, 1)


def test_after_the_last_token_the_cache_is_rewound_to_the_prompt(folder: Path) -> None:
    workload = load(folder / "mistral", batch_size=2)
    decoding, prompt = workload.decoding, workload.ids.shape[1]
    answer, _, _ = decoding.answer(workload.model)
    call, other = workload.call(workload.model), workload.call(workload.model)
    steps = []
    for _ in range(2 * decoding.steps):
        call()
        steps.append((int(decoding.cache.get_seq_length()), decoding.token[-1, 0]))
    assert steps == list(enumerate(answer[1:], prompt + 1)) * 2
    other()  # it begins anew, in the same cache, and the first one goes on from there
    call()
    assert decoding.token[-1, 0] == answer[2]


def test_the_static_cache_keeps_its_addresses(folder: Path) -> None:
    """A CUDA graph uses the addresses with which it was recorded, so the cache's tensors may not move."""
    workload = load(folder / "llama", batch_size=2)
    layer = workload.decoding.cache.layers[0]
    before = layer.keys.data_ptr(), layer.cumulative_length.data_ptr()
    workload.outputs(workload.model)
    assert (layer.keys.data_ptr(), layer.cumulative_length.data_ptr()) == before


def test_prompt_and_step_are_one_graph_each_of_tensors_alone(folder: Path) -> None:
    """Prompt and step each compile to one graph.

    A Python number among its inputs would cost a CUDA graph for each number.
    """
    workload = load(folder / "mistral")
    graphs: list[list[type]] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append([type(tensor) for tensor in inputs])
        return graph

    torch.compiler.reset()
    step = workload.call(torch.compile(workload.model, backend=backend))
    for _ in range(4):
        step()
    assert len(graphs) == 2 and not any(torch.SymInt in graph or int in graph for graph in graphs)


# Outputs, parity


def test_logits_are_those_over_the_tokens_that_eager_chose(folder: Path) -> None:
    workload = load(folder / "gemma", batch_size=2)
    eager = workload.outputs(workload.model)
    token = (eager["tokens"][3] + 1) % 100

    def preferring(**batch: Any) -> Any:
        """Calls the model, but makes `token` the likeliest at one place of each answer."""
        outputs = workload.model(**batch)
        if workload.decoding.step == 3:
            outputs.logits[:, -1, token] = outputs.logits.max() + 1e-3
        return outputs

    other = workload.outputs(preferring)
    assert other["tokens"][:3] == eager["tokens"][:3] and other["tokens"][3] == token
    differ = (other["logits"] != eager["logits"]).any(-1)
    assert differ.nonzero().flatten().tolist() == [3]


def test_a_float64_copy_without_a_cache_agrees_with_the_cached_logits(folder: Path) -> None:
    workload = load(folder / "mistral")
    outputs = workload.outputs(workload.model)
    exact = parity.float64_reference(workload, None)()
    assert exact["logits"].dtype == torch.float64
    torch.testing.assert_close(outputs["logits"].double(), exact["logits"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "token", "verdict"),
    [("float32", 4, "match"), ("float32", 7, "differ"), ("bfloat16", 7, "match")],
)
def test_another_token_counts_in_float32_only(dtype: str, token: int, verdict: str) -> None:
    eager, compiled = (Predictions(token_ids=(1, 2, 3, last)) for last in (4, token))
    assert agreement(eager, compiled) == {"same_tokens": 1.0 if token == 4 else 0.75}
    outputs = {"logits": torch.ones(4, 8)}
    result = parity.compare_outputs(outputs, outputs, outputs, dtype, None, {}, fault(eager, compiled))
    assert result.verdict == verdict
    assert ("part at token 4 of 4" in result.reason) == (verdict == "differ")


@pytest.mark.parametrize(("gap", "tied"), [(1e-6, True), (1e-3, False)], ids=["by a rounding", "by more"])
def test_another_token_that_is_as_likely_is_a_tie(gap: float, tied: bool, folder: Path) -> None:
    workload = load(folder / "gemma")
    place = 3

    def with_two_likeliest(first: int, second: int) -> Any:
        def call(**batch: Any) -> Any:
            outputs = workload.model(**batch)
            if workload.decoding.step == place:
                most = outputs.logits.abs().max() + 1
                outputs.logits[:, -1, [first, second]] = torch.stack([most, most * (1 - gap)])
            return outputs

        return call

    eager, compiled = (workload.outputs(with_two_likeliest(*tokens)) for tokens in ((5, 6), (6, 5)))
    assert (eager["tokens"][place], compiled["tokens"][place]) == (5, 6)
    ours, theirs = workload.predictions(eager), workload.predictions(compiled)
    assert tie(ours, theirs).startswith(f"The answers part at token {place + 1} of {TOKENS}") == tied
    assert tie(ours, ours) == ""


def test_a_model_that_finds_all_tokens_as_likely_fills_no_memory(folder: Path, monkeypatch) -> None:
    workload = load(folder / "gemma")
    monkeypatch.setattr(text_generation, "MOST_TIES", 3)

    def undecided(**batch: Any) -> Any:
        outputs = workload.model(**batch)
        outputs.logits.zero_()
        return outputs

    assert workload.outputs(undecided)["ties"] == [[0, 1, 2]] * TOKENS


# Text


def word_pieces() -> Tokenizer:
    words = ["[UNK]", "a", "cat", "##s", "."]
    tokenizer = Tokenizer(WordPiece(dict(zip(words, range(5), strict=True))))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(["[END]"])
    return tokenizer


@pytest.mark.parametrize(
    ("tokenizer", "tokens", "pieces"),
    [
        (tiny_text.byte_level()[0], ["w", "Ġ", *"ðŁĲ±", "Ù", "Ĥ"], ("w", " ", "", "", "", "\N{CAT FACE}", "", "ق")),
        (tiny_text.byte_level()[0], ["w", "Ġ", "Ê", "Ì", "w", "Ġ"], ("w", " ", "", "", "\ufffd\ufffdw", " ")),
        (tiny_text.byte_fallback()[0], ["<s>", "▁", "▁", "w", "<0xCA>", "▁"], ("", "", " ", "w", "", "\ufffd ")),
        (tiny_text.byte_fallback()[0], ["▁", "a", "<0xE7>", "<0x8C>", "<0xAB>", "w"], ("", "a", "", "", "猫", "w")),
        (word_pieces(), ["a", "[END]", "cat", "##s", "."], ("a", "", " cat", "s", ".")),
    ],
    ids=["byte level", "byte level, cut", "SentencePiece, cut", "SentencePiece", "WordPiece"],
)
def test_pieces_are_the_parts_of_the_whole_text(tokenizer: Any, tokens: list[str], pieces: tuple[str, ...]) -> None:
    ids = [tokenizer.token_to_id(token) for token in tokens]
    assert as_text(tokenizer, ids).pieces == pieces
    assert as_text(tokenizer, ids).text == "".join(pieces) == tokenizer.decode(ids)


def test_a_byte_that_spoils_the_text_before_it_is_replaced_alone() -> None:
    """The second of three tokens is an invalid byte, which would change the decoded text of the first one."""
    tokenizer, _ = tiny_text.byte_fallback()
    ids = [tokenizer.token_to_id(token) for token in ("<0x62>", "<0xCA>", "w")]
    assert as_text(tokenizer, ids).pieces == ("b", "", "\ufffdw")


def test_a_long_text_is_decoded_in_short_parts() -> None:
    lengths: list[int] = []
    tokenizer = SimpleNamespace(decode=lambda ids, **_: lengths.append(len(ids)) or "ab" * len(ids))
    assert as_text(tokenizer, [7] * 500).pieces == ("ab",) * 500 and max(lengths) == 2


@pytest.mark.parametrize(
    ("kind", "prompt", "ends", "marks"),
    [
        ("llama", "<s>a cat.", 2, [("bos_twice", "<s>")]),
        ("llama", " <s> a cat.", 2, [("bos_twice", "<s>")]),
        ("llama", "a cat.</s>", 2, [("eos_at_end", "</s>")]),
        ("llama", "<s>a cat.</s>\n", None, [("bos_twice", "<s>"), ("eos_at_end", "</s>")]),
        ("gpt2", f"a cat.{tiny_text.END}\n", 256, [("eos_at_end", tiny_text.END)]),
        ("llama", "a cat", [2, "last"], [("eos_at_end", "t")]),
        ("gpt2", tiny_text.END, 256, []),
        ("gpt2", f"{tiny_text.END}a cat.", 256, []),
        ("llama", "a cat.</s> a dog.", 2, []),
        ("llama", "a cat.", 2, []),
    ],
    ids=[
        "a doubled beginning", "behind a blank", "an end", "a chat's template", "before a line's end",
        "the end of a turn", "a mark alone", "a beginning that nobody adds", "an end within", "no mark",
    ],
)  # fmt: skip
def test_a_misplaced_mark_in_a_prompt_has_a_caveat(kind, prompt, ends, marks, folder):
    workload = load(folder / kind, prompt=prompt)
    ids = workload.ids[0].tolist()
    workload.model.generation_config.eos_token_id = [2, ids[-1]] if isinstance(ends, list) else ends
    caveats = text_generation.misplaced_marks(workload.loaded, ids)
    assert [(caveat.key, caveat.values["mark"]) for caveat in caveats] == marks


def test_a_misplaced_mark_is_in_the_runs_caveats(folder: Path) -> None:
    keys = [caveat.key for caveat in load(folder / "llama", prompt="<s>a cat.").caveats]
    assert keys == ["bos_twice"]


# What is refused


def refusal(folder: Path, **options: Any) -> str:
    with pytest.raises(BadInput) as refused:
        load(folder, **options)
    assert str(folder.parent) not in str(refused.value)
    return str(refused.value)


def test_more_tokens_than_a_model_holds_are_refused(folder: Path) -> None:
    assert "has 70 tokens, 9 more are asked for, and gpt2 takes 64" in refusal(folder / "gpt2", prompt="a" * 70)
    assert "has 8 tokens, 33 more are asked for, and mistral takes 40" in refusal(folder / "mistral", tokens=33)
    assert load(folder / "mistral", tokens=32).ids.shape[1] == 8


NEO = {"model_type": "gpt_neo", "architectures": ["GPTNeoForCausalLM"], "hidden_size": 16, "num_layers": 2}
NEO |= {"num_heads": 2, "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64}
NEO |= {"window_size": 8, "intermediate_size": 32}
"""Its local attention counts from the end of the cache, which is wrong in a cache longer than the window."""
FEW_WORDS = {"vocab_size": 40, "bos_token_id": None, "eos_token_id": None}


@pytest.mark.parametrize("config", [NEO, FEW_WORDS], ids=["local attention", "fewer words than the tokenizer"])
def test_a_model_that_does_not_write_over_a_static_cache_is_refused(config: dict[str, Any], tmp_path) -> None:
    folder = tiny_text.write(tmp_path / "wrong", "gpt2", **config)
    assert "wrong does not write token by token over a static cache" in refusal(folder)


def test_a_checkpoint_without_a_tokenizer_is_refused_unless_its_weights_are_random(tmp_path) -> None:
    bare = tiny_text.write(tmp_path / "bare", "llama")
    (bare / "tokenizer.json").unlink()
    (bare / "tokenizer_config.json").unlink()
    assert refusal(bare).startswith(
        "bare has no tokenizer.json, and no other tokenizer file that can be read here. Give"
    )
    workload = load(bare, weights="random", prompt="a cat, a dog")
    assert workload.ids.shape == (1, 6) and workload.predictions(workload.outputs(workload.model)) is None


def test_a_run_of_a_text_model_has_every_figure(tmp_path, monkeypatch) -> None:
    one_layer = tiny_text.write(tmp_path / "gemma", "gemma", num_hidden_layers=1)
    monkeypatch.setattr(compile_model, "apply_compile", without_inductor)
    spec = spec_of(one_layer, iterations=10, profile="on")
    result = result_of(spec, tiny_text.__file__)  # no picture, and not looked at
    assert (result.status, result.failure, result.image) == ("ok", None, None)
    assert not any("could not" in warning or "Not all" in warning for warning in result.warnings), result.warnings
    assert result.parity.verdict == "match" and result.parity.task == {"same_tokens": 1.0}
    assert result.predictions["eager"] == result.predictions["compiled"]
    assert len(result.predictions["eager"].token_ids) == TOKENS
    assert result.compilation.recompiles_while_timing == 0 and result.compilation.graph_breaks == ()
    assert FIRST_TOKEN in result.comparisons
    assert from_json(to_json(result)) == result and result.prompt_tokens == 8


@pytest.mark.parametrize(("tied", "verdict"), [(True, "match"), (False, "differ")])
def test_a_run_with_a_tie_is_no_fault(tied: bool, verdict: str, tmp_path, monkeypatch) -> None:
    """The predictions of compiled have another last token than those of eager, with the same logits."""
    one_layer, ends = tiny_text.write(tmp_path / "gemma", "gemma", num_hidden_layers=1), [1, 2]
    ties = ((), (1, 2) if tied else ())
    monkeypatch.setattr(compile_model, "apply_compile", without_inductor)
    monkeypatch.setattr(TextWorkload, "predictions", lambda *_: Predictions(token_ids=(7, ends.pop(0)), ties=ties))
    result = result_of(spec_of(one_layer, iterations=10, profile="off"), tiny_text.__file__)
    assert (result.parity.verdict, ends) == (verdict, [])
    reason = "differ by rounding only." if tied else "compiled chooses another one there."
    assert result.parity.reason.endswith(reason)
