from collections.abc import Callable

import pytest

from demo.core import format as fmt


@pytest.mark.parametrize(
    ("formatter", "texts"),
    [
        (fmt.latency, {0.00000413: "0.0041 ms", 0.000431: "0.43 ms", 0.0144: "14.4 ms", 0.9996: "1.00 s"}),
        (fmt.duration, {0.0092: "9.20 ms", 0.42: "0.4 s", 12.3: "12 s", 60: "60 s", 260: "4 min 20 s", 300: "5 min"}),
        (fmt.duration, {5399: "89 min 59 s", 9000: "2 h 30 min", 7200: "2 h", 3e7: "347 days"}),
        (fmt.rounded_duration, {0.2: "1 s", 7.2: "7 s", 43: "45 s", 700: "12 min", 7300: "2 h"}),
        (fmt.ratio, {2.294: "2.29×", 12.34: "12.3×", 0.098: "0.10×", 1.0: "1.00×"}),
        (fmt.percent, {0.58: "58 %", 0.004: "0.4 %", 1.0: "100 %", -0.54: "-54 %", 0.0994: "9.9 %", 0.0996: "10 %"}),
        (fmt.size, {0: "0 B", 999: "999 B", 812_000: "812 kB", 1_230_000_000: "1.23 GB", 5e12: "5000 GB"}),
        (fmt.parameters, {86_567_656: "86.6 M", 431_080: "431 k", 1_000_000: "1.00 M"}),
    ],
    ids=lambda parameter: getattr(parameter, "__name__", ""),
)  # fmt: skip
def test_a_figure_has_three_digits(formatter: Callable[[float], str], texts: dict[float, str]) -> None:
    assert {value: formatter(value) for value in texts} == texts


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (9, 33, "9.0 to 33 s"),
        (0.0092, 0.02, "9.20 to 20.0 ms"),
        (0.05, 2, "50.0 ms to 2.0 s"),
        (48, 130, "48 s to 2 min 10 s"),
        (120, 180, "2 to 3 min"),
        (130, 300, "2 min 10 s to 5 min"),
    ],
)
def test_a_range_of_times_names_a_unit_once(low: float, high: float, text: str) -> None:
    assert fmt.duration_range(low, high) == text


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("resnet50", "microsoft/resnet-50"),
        ("Max_Autotune", "max-autotune"),
        ("fp16", "float16"),
        ("gpu", "cuda"),
        ("shapes", ""),
        ("", ""),
        (3, ""),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest(word: object, meant: str) -> None:
    known = ("microsoft/resnet-50", "max-autotune", "max-autotune-no-cudagraphs", "float16", "bfloat16", "cpu", "cuda")
    assert fmt.did_you_mean(word, known) == (f" Did you mean {meant!r}?" if meant else "")


def test_a_usual_name_of_something_else_is_no_hint() -> None:
    assert fmt.did_you_mean("gpu", ("T4", "A100")) == ""


@pytest.mark.parametrize("text", ["❤\ufe0f", "خواهم", "e\u0301", "黒\u3000猫", "a\u00a0b"], ids=ascii)
def test_printable_text_keeps_letters_of_all_scripts(text: str) -> None:
    assert fmt.printable(text) == fmt.redact(text) == text


@pytest.mark.parametrize("hidden", "\u202e\u2066\u200b\ufeff\x1b\x9b\x00\u2028\u200d\U000e0041", ids=ascii)
def test_what_misleads_a_reader_is_replaced(hidden: str) -> None:
    assert fmt.printable(f"cat{hidden}s") == "cat\N{REPLACEMENT CHARACTER}s"


@pytest.mark.parametrize(
    "text",
    [
        "\u06cc\u200c\u062e",
        "\u094d\u200d\u092f",
        "\U0001f469\u200d\U0001f4bb",
        "\u2764\ufe0f\u200d\U0001f525",
    ],
    ids=["Persian", "Hindi", "emoji", "emoji with a variation"],
)
def test_joiners_of_scripts_and_emoji_stay(text: str) -> None:
    assert fmt.printable(text) == text


@pytest.mark.parametrize(
    "text", ["a\u200db", "\u0430\u200c\u0431", "\u200d", "\u0645\u200c\u200c", " \u200d"], ids=ascii
)
def test_joiners_that_join_nothing_are_shown(text: str) -> None:
    assert "\N{REPLACEMENT CHARACTER}" in fmt.printable(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:hunter2@hub.example/a", "https://hub.example/a"),
        ("no answer from http://me:p@ss@host:80: 'x'", "no answer from http://host:80: 'x'"),
        ("the token hf_abcdefghijklmnop is refused", "the token hf_… is refused"),
        ("{'Authorization': 'Bearer abcdefghijklmnop'}", "{'Authorization': 'Bearer …'}"),
        ("me@example.org asks https://host/@me", "me@example.org asks https://host/@me"),
        ("hf_hub_download of task-classification-model, basic configuration", None),
    ],
)
def test_no_secret_of_an_error_is_shown(text: str, shown: str | None) -> None:
    assert fmt.redact(text) == (text if shown is None else shown)
