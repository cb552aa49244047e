"""What a run prints, and the gate for a build."""

import dataclasses
import re
from typing import Any

import pytest
from support.samples import failed_result, full_result, measurement, ok_result, text_result

from demo.cli.main import main
from demo.cli.summary import summary
from demo.core.caveat import Caveat
from demo.core.outputs import Parity

RUN = ["run", "--checkpoint", "shapes-vit"]
LOUD = full_result(
    caveats=(Caveat("no_graph"), Caveat("wide", {"calls": "eager 12 %"})), without_breaks=ok_result().speedup
)


@pytest.mark.parametrize(
    "result", [ok_result(), LOUD, text_result(), failed_result()], ids=["plain", "with all", "text", "failed"]
)
def test_a_summary_has_twelve_lines_at_most(result: Any) -> None:
    assert 3 <= len(summary(result).splitlines()) <= 12


def test_a_line_for_each_variant_has_latency_spread_range_and_calls() -> None:
    eager, compiled = summary(ok_result()).splitlines()[1:3]
    assert re.split(r"\s{2,}", eager.strip()) == ["Eager", "2.04 ms ± 0.033 ms", "2.00 ms … 2.08 ms, 48 calls"]
    assert compiled.split()[:2] == ["Compiled", "1.02"]


def test_colours_mark_the_variants_and_the_answer() -> None:
    lines = summary(ok_result(), colour=True).splitlines()
    assert [re.findall(r"\x1b\[([\d;]+)m", line) for line in lines[:4]] == [
        ["1", "0"],
        ["33", "0"],
        ["34", "0"],
        ["1;32", "0"],
    ]
    assert re.sub(r"\x1b\[[\d;]+m", "", "\n".join(lines)) == summary(ok_result())


def test_a_name_from_outside_sends_no_code_to_the_terminal() -> None:
    result = ok_result()
    named = dataclasses.replace(result, environment=dataclasses.replace(result.environment, device_name="\x1b[31mGPU"))
    assert "\x1b" not in summary(named)


@pytest.mark.parametrize(
    ("changes", "bound", "code"),
    [
        pytest.param({}, "1.9", 0, id="beyond the bound"),
        pytest.param({}, "2.0", 1, id="its near end is not"),
        pytest.param({"compiled": measurement(0.004)}, "1.05", 1, id="slower"),
        pytest.param({"parity": Parity("differ", 1.0, "")}, "1.05", 1, id="other outputs"),
        pytest.param({"compiled": None}, "1.05", 1, id="no speed-up"),
    ],
)
def test_a_build_fails_unless_the_speed_up_is_known(changes: Any, bound: str, code: int, scripted: Any, capsys) -> None:
    scripted(ok_result(**changes))
    assert main([*RUN, "--at-least", bound]) == code
    assert ("Failed: " if code else "Passed: ") in capsys.readouterr().err


@pytest.mark.parametrize("given", ["fast", "0", "-1", "nan"])
def test_a_bound_that_is_no_ratio_is_refused(given: str, scripted: Any, capsys) -> None:
    scripted(ok_result())
    assert main([*RUN, "--at-least", given]) == 2
    assert f"Given: {given!r}" in capsys.readouterr().err
