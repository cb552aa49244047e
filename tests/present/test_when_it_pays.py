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


def result(**changes: Any) -> RunResult:
    """Compiled in 1 ms, eager in 2 ms."""
    return ok_result(**{"compilation": BOTH} | changes)


@pytest.mark.parametrize(
    ("changes", "pays", "start"),
    [
        pytest.param(
            {},
            "Pays after 20 000 calls from nothing, 2 000 with a kept cache",
            "A start takes 20 s from nothing, 2.0 s with a kept cache",
            id="both starts",
        ),
        pytest.param(
            {"compilation": Compilation(20.0, "cold", 1, cold=COLD)},
            "Pays after 20 000 calls from nothing",
            "A start takes 20 s from nothing",
            id="from nothing alone",
        ),
        pytest.param(
            {"compilation": PACKAGE},
            "Pays after 20 000 calls from nothing, 2 000 with the package kept",
            "A start takes 20 s from nothing, 2.0 s with the package kept",
            id="a package",
        ),
        pytest.param(
            {"compilation": Compilation(2.0, "cold", 1, partly=True)},
            "Pays after 2 000 calls from a partly filled cache",
            "A start takes 2.0 s from a partly filled cache",
            id="partly filled",
        ),
        pytest.param(
            {"compiled": measurement(0.004)},
            "Never pays here",
            "A start takes 20 s from nothing, 2.0 s with a kept cache",
            id="slower",
        ),
        pytest.param(
            {"parity": Parity("differ", 1.0, "")},
            "Compiled gives other outputs than eager: whether it pays is not known",
            "A start takes 20 s from nothing, 2.0 s with a kept cache",
            id="other outputs",
        ),
        pytest.param(
            {"compilation": dataclasses.replace(BOTH, recompiles_while_timing=1)},
            "It was recompiled while it was timed: no figure holds",
            "",
            id="void",
        ),
        pytest.param({"compilation": None}, "", "", id="nothing compiled"),
    ],
)
def test_when_it_pays_is_told_for_each_start_that_is_known(changes: dict[str, Any], pays: str, start: str) -> None:
    said = [
        re.sub(r"\s", " ", text) for text in (verdict.worth(result(**changes)), verdict.worth_why(result(**changes)))
    ]
    assert said == [pays, start]


def test_a_second_press_gives_the_same_headline() -> None:
    """From an empty cache, then from the one that this filled: each has from the other what it did not measure."""
    second = Compilation(2.0, "warm", 1, cold=dataclasses.replace(COLD, run_id="first"), warm=WARM)
    assert verdict.worth(result(compilation=second)) == verdict.worth(result())


def test_a_text_model_pays_after_tokens() -> None:
    text = text_result(compilation=Compilation(20.0, "cold", 1))
    assert "tokens" in verdict.worth(text) and "calls" not in verdict.worth(text)
