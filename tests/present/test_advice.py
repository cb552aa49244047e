"""What an engineer takes home: whether it is worth it, and what to try next."""

import dataclasses
from typing import Any

from samples import measurement, ok_result, text_result

from demo.core import format as fmt
from demo.core.measurement import Compilation, CompileCost
from demo.core.outputs import Parity
from demo.core.result import RunResult
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
        assert advice.worth(one).replace("\N{NARROW NO-BREAK SPACE}", " ") == said
        told = advice.worth_why(one)
        assert why in told and bool(why) is bool(told)


def test_a_break_even_is_a_range_of_two_digits_in_calls_or_tokens() -> None:
    times = tuple(0.001 * (1 + 0.1 * (call // 4 % 3)) for call in range(48))
    one = of()
    one = dataclasses.replace(one, compiled=dataclasses.replace(one.compiled, wall_seconds=times))
    even = one.break_even(20.0)
    low, high = fmt.two_digits(even.low), fmt.two_digits(even.high)
    assert low < high and len(str(low).rstrip("0")) <= 2
    said = advice.worth(one)
    assert grouped(low) in said and grouped(high) in said and grouped(even.calls or 0) not in said
    text = text_result(compilation=Compilation(20.0, "cold", 1))
    assert ("tokens" in advice.worth(text)) and "calls" not in advice.worth(text)
