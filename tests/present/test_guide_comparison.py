import dataclasses
from typing import Any

import pytest
from support.samples import GPU, failed_result, measurement, ok_result, on_gpu

from demo.core.measurement import Compilation
from demo.core.record import Failure
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present.guide_comparison import GuideComparison, compare_with_guide, nearest_rows

VIT = "google/vit-base-patch16-224"


def run(checkpoint: str = VIT, task: str = "image-classification", **changes: Any) -> RunResult:
    given = {"device": "cuda", **changes}
    return ok_result(spec=RunSpec(checkpoint, task, **given), image=None)


def found(result: RunResult) -> GuideComparison:
    return compare_with_guide(result)


def test_the_nearest_batch_is_taken_by_ratio_and_of_two_the_smaller() -> None:
    for asked, taken in [(1, 1), (2, 1), (3, 4), (7, 4), (8, 4), (9, 16), (256, 16)]:
        rows = nearest_rows(VIT, batch_size=asked)
        assert [(row.gpu, row.batch_size, row.mode) for row in rows] == [
            (gpu, taken, "default") for gpu in ("A100", "V100", "T4")
        ]


def test_the_mode_is_taken_where_a_gpu_has_it_and_default_elsewhere() -> None:
    rows = nearest_rows("microsoft/resnet-50", "reduce-overhead", 16)
    assert [(row.gpu, row.mode, row.batch_size) for row in rows] == [
        ("A100", "reduce-overhead", 4),
        ("V100", "default", 16),
        ("T4", "reduce-overhead", 4),
    ]


def test_a_void_run_is_called_one_and_gives_no_ratio() -> None:
    result = run()
    void = found(ok_result(spec=result.spec, compilation=Compilation(5.5, "cold", 1, recompiles_while_timing=2)))
    assert void.ratio is None and "recompiled while timed" in void.here


def test_where_there_is_nothing_to_compare_nothing_is_said() -> None:
    for result in [
        ok_result(),
        run("somebody/model"),
        failed_result(status="crashed", spec=run().spec, failure=Failure("time", "It crashed.", "Try again.")),
        failed_result(status="cancelled", spec=run().spec),
    ]:
        assert compare_with_guide(result) is None


def test_each_difference_is_said_and_only_where_there_is_one() -> None:
    for changes, said in [
        ({"batch_size": 8}, "Batch size: 8 here, 4 in the guide"),
        ({"mode": "max-autotune"}, "Compile mode: max-autotune here, default in the guide"),
        ({"dtype": "bfloat16"}, "Number format: bfloat16 here, float32 in the guide"),
        ({"dtype": "tf32"}, "Number format: tf32 here, float32 in the guide"),
        ({"device": "cpu"}, "This run used the CPU; the guide measured GPUs"),
        ({"weights": "random"}, "Weights: random here, pretrained in the guide"),
        ({"channels_last": True}, "Channels last: on here, off in the guide"),
    ]:
        assert any(said in difference for difference in found(run(**changes)).differences)
        assert not any(said in difference for difference in found(run()).differences)


@pytest.mark.parametrize(
    ("in_force", "differs"),
    [("sdpa", True), ("eager, sdpa", True), ("eager", False), ("none", False), (None, False)],
)
def test_sdpa_is_a_difference_to_the_guide_whatever_was_asked(in_force: str | None, differs: bool) -> None:
    settings = {"attention": in_force} if in_force else {}
    machine = dataclasses.replace(GPU, settings=settings)
    for asked in ("auto", "eager", "sdpa"):
        made = dataclasses.replace(run(attention=asked), environment=machine)
        assert any("--attention eager" in one for one in found(made).differences) is differs


@pytest.mark.parametrize(
    ("device_seconds", "said"), [(0.004, True), (0.006, False), (None, False)], ids=["idle", "busy", "a CPU"]
)
def test_a_call_that_is_mostly_launches_is_said_to_be_the_processors(device_seconds: float | None, said: bool) -> None:
    eager = on_gpu(0.010, device_seconds, 1, 100) if device_seconds else measurement(0.010)
    made = dataclasses.replace(run(), eager=eager)
    assert any("launching kernels" in one for one in found(made).differences) is said
