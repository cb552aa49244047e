import dataclasses
from typing import Any

import pytest
from support.samples import GPU, failed_result, ok_result

from demo.core.measurement import Compilation
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present.guide_comparison import compare_with_guide

VIT = "google/vit-base-patch16-224"


def run(checkpoint: str = VIT, task: str = "image-classification", **changes: Any) -> RunResult:
    given = {"device": "cuda", **changes}
    return ok_result(spec=RunSpec(checkpoint, task, **given), image=None)


def test_a_void_run_is_called_one() -> None:
    void = ok_result(spec=run().spec, compilation=Compilation(5.5, "cold", 1, recompiles_while_timing=2))
    assert any("recompiled while timed" in one for one in compare_with_guide(void))


@pytest.mark.parametrize(
    "result",
    [ok_result(), run(batch_size=8), failed_result(status="cancelled", spec=run().spec)],
    ids=["not in the guide", "no row of its batch size", "no result"],
)
def test_where_there_is_nothing_to_compare_nothing_is_said(result: RunResult) -> None:
    assert compare_with_guide(result) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dtype": "tf32"}, "Number format: tf32 here, float32 in the guide"),
        ({"device": "cpu"}, "This run used the CPU; the guide measured GPUs"),
        ({"channels_last": True}, "Channels last: on here, off in the guide"),
    ],
    ids=lambda one: str(one)[:20],
)
def test_a_difference_is_said_only_where_there_is_one(changes: dict[str, Any], said: str) -> None:
    assert any(said in one for one in compare_with_guide(run(**changes)))
    assert not any(said in one for one in compare_with_guide(run()))


@pytest.mark.parametrize(
    ("in_force", "differs"),
    [("eager, sdpa", True), ("eager", False), (None, False)],
)
def test_sdpa_in_force_is_a_difference_to_the_guide(in_force: str | None, differs: bool) -> None:
    settings = {"attention": in_force} if in_force else {}
    machine = dataclasses.replace(GPU, settings=settings)
    made = dataclasses.replace(run(), environment=machine)
    assert any("--attention eager" in one for one in compare_with_guide(made)) is differs
