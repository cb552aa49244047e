"""What an engineer takes home: whether it is worth it, and what to try next."""

import dataclasses
from typing import Any

from samples import measurement, ok_result, text_result

from demo.core import format as fmt
from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.measurement import Compilation, CompileCost
from demo.core.outputs import Parity
from demo.core.result import RunResult
from demo.core.stats import Gain
from demo.present import advice
from demo.present.sentences import grouped

COLD, WARM = CompileCost(20.0, {}), CompileCost(2.0, {})


def result(**changes: Any) -> RunResult:
    """Compiled twice as fast as eager, its cold first call 20 s."""
    return ok_result(**{"compilation": Compilation(20.0, "cold", 1, cold=COLD), **changes})


def of(**asked: Any) -> RunResult:
    return result(spec=dataclasses.replace(ok_result().spec, **asked))


BOTH = Compilation(20.0, "cold", 1, cold=COLD, warm=WARM)


def test_worth_is_counted_from_what_each_start_really_costs() -> None:
    for changes, said, why in [
        ({}, "Worth it from about 20 000 calls after each start", "20 s: the first call, with an empty compile cache"),
        (
            {"compilation": BOTH},
            "Worth it from about 2 000 calls after each start",
            "2.0 s: the first call, with a filled compile cache",
        ),
        (
            {"compilation": dataclasses.replace(BOTH, package_bytes=5)},
            "Worth it from about 2 000 calls after each start",
            "2.0 s: loading the package and calling it once",
        ),
        (
            {"compilation": Compilation(2.0, "cold", 1, partly=True)},
            "Worth it from about 2 000 calls after each start",
            "2.0 s: the first call, with a partly filled compile cache",
        ),
        ({"compiled": measurement(0.004)}, "Not worth it here", "20 s: the first call, with an empty compile cache"),
        ({"parity": Parity("differ", 1.0, "")}, "Not known yet: compiled gives other outputs than eager", ""),
        (
            {"compilation": dataclasses.replace(BOTH, recompiles_while_timing=1)},
            "Not known yet: the model was recompiled while it was timed",
            "",
        ),
        ({"compilation": None}, "", ""),
    ]:
        one = result(**{"eager": measurement(0.002), "compiled": measurement(0.001)} | changes)
        assert advice.worth(one, ENGLISH).replace("\N{NARROW NO-BREAK SPACE}", " ") == said
        told = advice.worth_why(one, ENGLISH)
        assert why in told and bool(why) is bool(told)


def test_a_break_even_is_a_range_of_two_digits_in_calls_or_tokens() -> None:
    for lang in LANGUAGES.values():
        times = tuple(0.001 * (1 + 0.1 * (call // 4 % 3)) for call in range(48))
        one = of()
        one = dataclasses.replace(one, compiled=dataclasses.replace(one.compiled, wall_seconds=times))
        even = one.break_even(20.0)
        low, high = fmt.two_digits(even.low), fmt.two_digits(even.high)
        assert low < high and len(str(low).rstrip("0")) <= 2
        said = advice.worth(one, lang)
        assert grouped(low) in said and grouped(high) in said and grouped(even.calls or 0) not in said
        text = text_result(compilation=Compilation(20.0, "cold", 1))
        assert ("tokens" in advice.worth(text, ENGLISH)) and "calls" not in advice.worth(text, ENGLISH)


OTHER = ("microsoft/resnet-50", "shapes-segformer")


def steps(*gains: Gain, **asked: Any) -> list[str]:
    one = dataclasses.replace(of(**{"device": "cpu", **asked}), gains=gains)
    return [step.words for step in advice.next_steps(one, ENGLISH)]


def test_what_gained_most_here_is_tried_next_and_then_what_nobody_tried() -> None:
    known = (
        Gain("freezing", True, 1.4, OTHER),
        Gain("mode", "lite", 1.02, ("shapes-vit",)),
        Gain("compiler", "aot", 1.6, ("shapes-vit",)),
    )
    assert steps(*known) == [
        "“Compiler: aot” made compiled 1.60× as fast here, on this model.",
        "“Freezing: on” made compiled 1.40× as fast here, on microsoft/resnet-50, shapes-segformer.",
    ]


def test_what_lost_or_cannot_be_combined_is_not_offered() -> None:
    assert (
        steps(Gain("freezing", True, 0.8, ("shapes-vit",)), Gain("scope", "layers", 2.0, OTHER), compiler="aot") == []
    )
    assert steps(checkpoint="facebook/some-other") == [
        f"Nothing is known here of “{way}” with this model." for way in ("Freezing: on", "Compiler: aot")
    ]
    assert all("CUDA" not in said and "reduce-overhead" not in said for said in steps())
    assert any("reduce-overhead" in said for said in steps(device="cuda"))
    assert advice.next_steps(result(compiled=None, gains=()), ENGLISH) == []
    assert advice.next_steps(result(), ENGLISH) == []  # of before gains were kept


def test_a_month_of_traffic_saves_or_costs_as_on_the_page() -> None:
    one = result()  # saves 1 ms a call, and a start costs 20 s
    assert advice.month(one, 100_000, 0, None, ENGLISH) == "Compiling saves 51 min of work a month."
    said = advice.month(one, 0, 6, 2.0, ENGLISH)
    assert said == "Compiling costs 60 min of work more a month. At that price: 2.00."
    assert advice.month(result(compiled=None), 1, 1, None, ENGLISH) == ""
