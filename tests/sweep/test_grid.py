"""Tests of grids of runs: their specs, their refusals, the cells with a stored result, and their table."""

import dataclasses
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from support.samples import ENVIRONMENT, MACHINE, info_of, ok_result

from demo.core import catalog
from demo.core.comparison import ProcessFigure, ProcessResult
from demo.core.machine import HostInfo
from demo.core.options import TEXT_GENERATION, BadInput, RunSpec
from demo.core.outputs import ImageInfo
from demo.core.result import RunResult
from demo.core.stats import Interval
from demo.store import published
from demo.sweep.grid import AXES, PICTURE, PRESETS, GridRun, make_cells, make_specs

SPEC = ok_result().spec


def specs(*checkpoints: str, **grid: Any) -> tuple[RunSpec, ...]:
    return make_specs({"checkpoints": checkpoints, **grid}, "grid.yaml", folders=True)


def test_a_grid_is_every_combination_once_in_order() -> None:
    axes = {"batch_sizes": (1, 4, 1), "modes": ["default", "lite"], "dtypes": ["float32", "bfloat16"]}
    settings = [(s.checkpoint, s.batch_size, s.mode, s.dtype) for s in specs("shapes-vit", "shapes-rtdetr", **axes)]
    assert len(settings) == len(set(settings)) == 16
    assert settings[0] == ("shapes-vit", 1, "default", "float32")
    assert [checkpoint for checkpoint, *_ in settings] == ["shapes-vit"] * 8 + ["shapes-rtdetr"] * 8
    assert len(specs(*["shapes-vit"] * 1000, batch_sizes=[1] * 1000)) == 1


def test_the_presets_are_the_guides_table_and_the_bundled_checkpoints() -> None:
    guide = make_specs(PRESETS["published"])
    assert len(guide) == 12 * 3 * 2
    assert {spec.batch_size for spec in guide} == {row.batch_size for row in published.guide_rows()}
    assert {spec.checkpoint for spec in guide if spec.text} == {"google/owlvit-base-patch32"}
    smoke = make_specs(PRESETS["smoke"])
    bundled = [checkpoint.id for checkpoint in catalog.CHECKPOINTS if checkpoint.bundled]
    assert [spec.checkpoint for spec in smoke] == bundled


def test_a_setting_goes_to_the_checkpoints_that_use_it() -> None:
    shared = {"task": "object-detection", "prompt": "The", "tokens": "9", "text": "a cat"}
    grid_specs = specs("shapes-vit", "shapes-gemma", "google/owlvit-base-patch32", "somebody/detector", **shared)
    assert [(spec.prompt, spec.tokens, spec.text) for spec in grid_specs[:3]] == [
        ("", 64, ()),
        ("The", 9, ()),
        ("", 64, ("a cat",)),
    ]
    assert [grid_specs[0].task, grid_specs[3].task] == ["image-classification", "object-detection"]


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({"checkpoint": "shapes-vit"}, r"grid.yaml has the entry 'checkpoint', which .* mean 'checkpoints'\?"),
        ({}, "no checkpoints"),
        ({"checkpoints": "shapes-vit", "modes": []}, "no modes"),
        ({"checkpoints": "shapes-gemma"}, "needs a prompt"),
        ({"checkpoints": "shapes-vit", "batch_sizes": [0]}, "from 1 to 256"),
        ({name: list(range(1000)) for name in AXES}, "at most 2000 cells. Given: 1000000000000"),
        ({"checkpoints": ["shapes-vit", 3]}, "Unknown checkpoint '3'"),
        ({"checkpoints": "shapes-vit", "batch_sizes": [{}]}, "batch sizes must be single values"),
    ],
    ids=["unknown", "empty", "empty list", "no prompt", "value", "too large", "no name", "nested"],
)
def test_a_grid_that_cannot_be_run_is_refused(grid: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        make_specs(grid, "grid.yaml")


def stored(picture: Path = PICTURE, **changes: Any) -> RunResult:
    return ok_result(**{"image": info_of(picture), **changes})


def cell(results: Sequence[RunResult], spec: RunSpec = SPEC, machine: HostInfo = MACHINE, **more: Any) -> GridRun:
    (grid_cell,) = make_cells([spec], results, machine, PICTURE, **more)
    return grid_cell


def test_the_newest_stored_result_answers_for_a_cell() -> None:
    results = [stored(id="new"), stored(id="old")]
    grid_cell = cell(results, SPEC.on("auto"))
    assert grid_cell.stored and grid_cell.result == results[0]
    assert not cell(results, fresh=True).done


TEXT = RunSpec("shapes-gemma", TEXT_GENERATION, prompt="The", device="cpu")
ANOTHER_PICTURE = ImageInfo("other.png", 480, 360, "00" * 32, "")
GPU = dataclasses.replace(MACHINE, gpu="A GPU", driver="580.1", triton="3.5.0")


def environment(**changes: Any) -> dict[str, Any]:
    return {"environment": dataclasses.replace(ENVIRONMENT, **changes)}


ON_GPU = {"spec": SPEC.on("cuda"), **environment(device_name="A GPU", driver="580.1", triton="3.5.0")}


@pytest.mark.parametrize(
    ("changes", "spec", "machine", "done"),
    [
        pytest.param({"spec": dataclasses.replace(SPEC, batch_size=2)}, SPEC, MACHINE, False, id="batch"),
        pytest.param(environment(torch="2.12.0"), SPEC, MACHINE, False, id="torch"),
        pytest.param(environment(device_name="Another CPU"), SPEC, MACHINE, False, id="device"),
        pytest.param({"environment": None}, SPEC, MACHINE, False, id="no machine"),
        pytest.param({"image": ANOTHER_PICTURE}, SPEC, MACHINE, False, id="picture"),
        pytest.param({"status": "crashed"}, SPEC, MACHINE, False, id="crashed"),
        pytest.param({"spec": TEXT, "image": None}, TEXT, MACHINE, True, id="sees no picture"),
        pytest.param({"spec": TEXT, "image": None}, dataclasses.replace(TEXT, prompt="A"), MACHINE, False, id="prompt"),
        pytest.param(ON_GPU, SPEC.on("auto"), GPU, True, id="GPU"),
        pytest.param(ON_GPU, SPEC.on("auto"), dataclasses.replace(GPU, driver="581.0"), False, id="driver"),
    ],
)
def test_a_stored_result_answers_unless_a_condition_differs(
    changes: dict[str, Any], spec: RunSpec, machine: HostInfo, done: bool
) -> None:
    assert cell([stored(**changes)], spec, machine).done is done


@pytest.mark.parametrize(("seconds", "done"), [(-60, True), (60, False)], ids=["before", "after"])
def test_a_folder_that_was_written_to_since_is_run_again(seconds: int, done: bool, tmp_path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    spec = dataclasses.replace(SPEC, checkpoint=str(tmp_path))
    result = stored(spec=spec)
    written = datetime.fromisoformat(result.started_at).timestamp() + seconds
    os.utime(weights, (written, written))
    assert cell([result], spec).done is done


def repeat(repeats: int, **changes: Any) -> RunResult:
    """Returns a stored run that was the last of `repeats` processes."""
    process = ProcessResult("", {"call": ProcessFigure(0.002, 0.001, Interval(2.0, 1.9, 2.1))})
    before = tuple(dataclasses.replace(process, id=f"run-{number}") for number in range(1, repeats))
    return stored(id=f"run-{repeats}", spec=dataclasses.replace(SPEC, repeats=repeats), earlier=before, **changes)


@pytest.mark.parametrize(
    ("result", "repeats", "done"),
    [
        pytest.param(repeat(2), 3, False, id="too few"),
        pytest.param(repeat(3), 3, True, id="all"),
        pytest.param(repeat(3), 1, True, id="more"),
        pytest.param(repeat(1, status="out_of_memory"), 3, True, id="failed for good"),
    ],
)
def test_a_cell_with_repeats_is_done_when_as_many_are_stored(result: RunResult, repeats: int, done: bool) -> None:
    assert cell([result], dataclasses.replace(SPEC, repeats=repeats)).done is done
