"""Tests of the marks rough, fair and solid, which say how reliable a speed-up is."""

import dataclasses
from typing import Any

import pytest
from support.samples import measurement, ok_result

from demo.core.caveat import Caveat
from demo.core.comparison import ProcessResult, Spread
from demo.core.machine import HostSample
from demo.core.measurement import Compilation
from demo.core.quality import quality
from demo.core.result import RunResult

CALLS = tuple(0.001 * (1 + 0.6 * (block % 2)) for block in range(12) for _ in range(4))
WIDE = dataclasses.replace(measurement(0.001), wall_seconds=CALLS)
PUBLISHED = dataclasses.replace(ok_result().spec, protocol="as published")
SLOWED = Caveat("gpu_slowed", {"reasons": "power"}), Caveat("gpu_clock", {"low": "", "high": "", "most": ""})
WAITING = dataclasses.replace(measurement(0.002), device_seconds=(0.001,))
"""Eager calls on a GPU, half of whose time is launching kernels."""
TAKEN = (HostSample(0.5, None, None, None, 0.2),)
RECOMPILED = Compilation(1.0, "cold", 1, recompiles_while_timing=1)


def pooled(count: int, **changes: Any) -> RunResult:
    own = ok_result(**{"spread": Spread("assumed", 0.01, None)} | changes)
    return dataclasses.replace(own, earlier=tuple(ProcessResult(f"{n}", own.own_figures, 2) for n in range(1, count)))


def states(foreign: float, free: float = 2.0) -> tuple[HostSample, ...]:
    return (HostSample(0.0, foreign, None, free),) * 4


@pytest.mark.parametrize(
    ("result", "mark", "remedy"),
    [
        pytest.param(pooled(1), "fair", "repeat", id="one process"),
        pytest.param(pooled(2), "fair", "repeat", id="two processes"),
        pytest.param(pooled(3), "solid", "", id="three processes"),
        pytest.param(pooled(3, spread=Spread("assumed", 0.06, None)), "fair", "repeat", id="three that differ"),
        pytest.param(pooled(1, compiled=WIDE), "rough", "repeat", id="a wide interval"),
        pytest.param(pooled(3, machine_states=states(0.3)), "rough", "quiet", id="other programs"),
        pytest.param(pooled(3, machine_states=states(0.05)), "solid", "", id="others that hardly do anything"),
        pytest.param(pooled(1, machine_states=states(0.05, 1.0)), "rough", "quiet", id="taken cores"),
        pytest.param(
            pooled(4, machine_states=states(0.05, 1.0)), "solid", "", id="taken cores beside three quiet runs"
        ),
        pytest.param(pooled(3, caveats=(Caveat("gpu_others", {"count": 1}),)), "rough", "quiet", id="a shared GPU"),
        pytest.param(pooled(3, caveats=SLOWED), "solid", "", id="a slow GPU, for both alike"),
        pytest.param(pooled(1, caveats=SLOWED, compiled=WIDE), "rough", "repeat", id="a GPU that was slow for one"),
        pytest.param(pooled(3, eager=WAITING, machine_states=TAKEN), "fair", "quiet", id="a host that others use"),
        pytest.param(pooled(3, eager=WAITING), "solid", "", id="a host of its own"),
        pytest.param(pooled(3, spec=PUBLISHED), "rough", "", id="one after the other"),
        pytest.param(ok_result(compiled=None), None, None, id="no speed-up"),
        pytest.param(ok_result(compilation=RECOMPILED), None, None, id="recompiled"),
    ],
)
def test_the_quality_mark_names_its_remedy(result: RunResult, mark: str | None, remedy: str | None) -> None:
    rating = quality(result)
    assert (rating and rating.mark, rating and rating.remedy) == (mark, remedy)
