"""From when on compiling pays."""

import dataclasses
import re
from typing import Any

import pytest
from support.samples import measurement, ok_result, text_result

from demo.core.measurement import Compilation, CompileCost
from demo.core.outputs import Parity
from demo.core.result import RunResult
from demo.present import verdict

COLD, WARM = CompileCost(20.0, {}), CompileCost(2.0, {})
BOTH = Compilation(20.0, "cold", 1, cold=COLD, warm=WARM)
PACKAGE = dataclasses.replace(BOTH, package_bytes=5)
PARTLY = Compilation(2.0, "cold", 1, partly=True)
DIFFER = Parity("differ", 1.0, "")
VOID = dataclasses.replace(BOTH, recompiles_while_timing=1)


def result(**changes: Any) -> RunResult:
    """Compiled in 1 ms, eager in 2 ms."""
    return ok_result(**{"compilation": BOTH} | changes)


@pytest.mark.parametrize(
    ("changes", "pays"),
    [
        ({}, "Pays after 20 000 calls from nothing, 2 000 with a kept cache"),
        ({"compilation": PACKAGE}, "Pays after 20 000 calls from nothing, 2 000 with the package kept"),
        ({"compilation": PARTLY}, "Pays after 2 000 calls from a partly filled cache"),
        ({"compiled": measurement(0.004)}, "Never pays here"),
        (
            {"parity": Parity("differ", 1.0, "")},
            "Compiled gives other outputs than eager: whether it pays is not known",
        ),
        ({"compilation": VOID}, "It was recompiled while it was timed: no figure holds"),
        ({"compilation": None}, ""),
    ],
    ids=["both starts", "a package", "partly filled", "slower", "other outputs", "void", "nothing compiled"],
)
def test_when_it_pays_is_told_for_each_start_that_is_known(changes: dict[str, Any], pays: str) -> None:
    assert re.sub(r"\s", " ", verdict.worth(result(**changes))) == pays


@pytest.mark.parametrize(
    ("compilation", "why"),
    [
        (BOTH, "A start takes 20 s from nothing, 2.0 s with a kept cache"),
        (VOID, ""),
    ],
    ids=["both starts", "void"],
)
def test_a_start_is_told_with_its_time(compilation: Compilation, why: str) -> None:
    assert re.sub(r"\s", " ", verdict.worth_why(result(compilation=compilation))) == why


def test_a_second_press_gives_the_same_headline() -> None:
    """From an empty cache, then from the one that this filled: each has from the other what it did not measure."""
    second = Compilation(2.0, "warm", 1, cold=dataclasses.replace(COLD, run_id="first"), warm=WARM)
    assert verdict.worth(result(compilation=second)) == verdict.worth(result())


def test_a_text_model_pays_after_tokens() -> None:
    text = text_result(compilation=Compilation(20.0, "cold", 1))
    assert "tokens" in verdict.worth(text) and "calls" not in verdict.worth(text)
