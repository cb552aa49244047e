"""Grids: their specs and what is refused, the cells that the history answers already, and their table."""

import dataclasses
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from support.samples import ENVIRONMENT, MACHINE, info_of, measurement, ok_result

from demo.core import catalog
from demo.core.comparison import ProcessFigure, ProcessResult
from demo.core.machine import HostInfo
from demo.core.outputs import ImageInfo
from demo.core.result import RunResult
from demo.core.spec import TEXT_GENERATION, BadInput, RunSpec
from demo.core.stats import Interval
from demo.store import published
from demo.sweep.grid import AXES, PICTURE, PRESETS, Cell, Grid, make_cells, read_grid, write_device_table

SPEC = ok_result().spec


def test_the_grids_task_is_for_the_checkpoints_that_are_not_in_the_list() -> None:
    grid = Grid(("shapes-vit", "somebody/detector"), settings={"task": "object-detection"})
    assert [spec.task for spec in grid.specs(folders=True)] == ["image-classification", "object-detection"]


def test_a_grid_is_every_combination_once_in_order() -> None:
    grid = Grid(("shapes-vit", "shapes-rtdetr", "shapes-vit"), (1, 4), ("default", "lite"), ("float32", "bfloat16"))
    cells = [(s.checkpoint, s.batch_size, s.mode, s.dtype) for s in grid.specs()]
    assert len(cells) == len(set(cells)) == 16
    assert cells[0] == ("shapes-vit", 1, "default", "float32")
    assert [cell[0] for cell in cells] == ["shapes-vit"] * 8 + ["shapes-rtdetr"] * 8


def test_the_presets_are_the_guides_table_and_the_bundled_checkpoints() -> None:
    specs = PRESETS["published"].specs()
    assert len(specs) == 12 * 3 * 2
    assert [bool(spec.text) for spec in specs] == [spec.checkpoint == "google/owlvit-base-patch32" for spec in specs]
    smoke = PRESETS["smoke"].specs()
    assert [spec.checkpoint for spec in smoke] == [one.id for one in catalog.CHECKPOINTS if one.bundled]


def test_prompt_and_tokens_go_to_those_that_generate_text() -> None:
    asked = {"task": TEXT_GENERATION, "prompt": "The", "tokens": "9", "text": "a cat"}
    specs = Grid(("shapes-vit", "shapes-gemma", "google/owlvit-base-patch32"), settings=asked).specs()
    given = [(spec.prompt, spec.tokens, spec.text) for spec in specs]
    assert given == [("", 64, ()), ("The", 9, ()), ("", 64, ("a cat",))]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"checkpoint": "shapes-vit"}, "'checkpoint', which means nothing"),
        ({}, "no checkpoints"),
        ({"checkpoints": "shapes-gemma"}, "needs a prompt"),
        ({"checkpoints": "shapes-vit", "batch_sizes": [0]}, "from 1 to 256"),
        ({name: list(range(1000)) for name in AXES}, "at most 2000 cells. Given: 1000000000000"),
        ({"checkpoints": ["shapes-vit", 3]}, "Unknown checkpoint '3'"),
        ({"checkpoints": "shapes-vit", "batch_sizes": [{}]}, "batch sizes must be single values"),
    ],
)
def test_a_grid_that_cannot_be_run_is_refused_with_a_sentence(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_grid(given, "grid.yaml").specs()


def test_what_is_named_more_than_once_is_one_cell_and_counts_as_one() -> None:
    many = {"checkpoints": ["shapes-vit"], "batch_sizes": [1], "modes": ["default"], "dtypes": ["float32"]}
    assert len(read_grid({name: values * 1000 for name, values in many.items()}, "grid.yaml").specs()) == 1


def stored(picture: Path = PICTURE, **changes: Any) -> RunResult:
    return ok_result(**{"image": info_of(picture), **changes})


def made(results: Sequence[RunResult], spec: RunSpec = SPEC, machine: HostInfo = MACHINE, **more: Any) -> Cell:
    """The cell of one spec."""
    (cell,) = make_cells([spec], results, machine, PICTURE, **more)
    return cell


def test_the_newest_stored_result_of_the_same_spec_versions_and_device_answers_for_a_cell() -> None:
    results = [stored(id="new"), stored(id="old")]
    cell = made(results, SPEC.on("auto"))
    assert cell.stored and cell.result == results[0]
    assert not made(results, fresh=True).done


TEXT = RunSpec("shapes-gemma", TEXT_GENERATION, prompt="The", device="cpu")
ANOTHER_PICTURE = ImageInfo("other.png", 480, 360, "00" * 32, "")
GPU = dataclasses.replace(MACHINE, gpu="A GPU", driver="580.1", triton="3.5.0")


def environment(**changes: Any) -> dict[str, Any]:
    return {"environment": dataclasses.replace(ENVIRONMENT, **changes)}


@pytest.mark.parametrize(
    ("changes", "spec", "machine", "done"),
    [
        ({"spec": dataclasses.replace(SPEC, batch_size=2)}, SPEC, MACHINE, False),
        (environment(torch="2.12.0"), SPEC, MACHINE, False),
        (environment(device_name="Another CPU"), SPEC, MACHINE, False),
        ({"environment": None}, SPEC, MACHINE, False),
        ({"image": ANOTHER_PICTURE}, SPEC, MACHINE, False),
        ({"status": "crashed"}, SPEC, MACHINE, False),
        ({"spec": TEXT, "image": None}, TEXT, MACHINE, True),  # it sees no picture
        ({"spec": TEXT, "image": None}, dataclasses.replace(TEXT, prompt="A"), MACHINE, False),
    ],
)
def test_another_stored_result_answers_only_where_nothing_differs_that_counts(
    changes: dict[str, Any], spec: RunSpec, machine: HostInfo, done: bool
) -> None:
    assert made([stored(**changes)], spec, machine).done is done


def test_another_driver_is_another_machine() -> None:
    result = stored(spec=SPEC.on("cuda"), **environment(device_name="A GPU", driver="580.1", triton="3.5.0"))
    assert made([result], SPEC.on("auto"), GPU).done
    assert not made([result], SPEC.on("auto"), dataclasses.replace(GPU, driver="581.0")).done


def test_a_folder_that_was_written_to_since_is_run_again(tmp_path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    spec = dataclasses.replace(SPEC, checkpoint=str(tmp_path))
    result = stored(spec=spec)
    ran = datetime.fromisoformat(result.started_at).timestamp()
    for seconds, done in ((-60, True), (+60, False)):
        os.utime(weights, (ran + seconds, ran + seconds))
        assert made([result], spec).done is done


def repeat(repeats: int, **changes: Any) -> RunResult:
    """A stored run that ends so many repeats."""
    one = ProcessResult("", {"call": ProcessFigure(0.002, 0.001, Interval(2.0, 1.9, 2.1))})
    before = tuple(dataclasses.replace(one, id=f"run-{number}") for number in range(1, repeats))
    return stored(id=f"run-{repeats}", spec=dataclasses.replace(SPEC, repeats=repeats), earlier=before, **changes)


@pytest.mark.parametrize(
    ("result", "asked", "done"),
    [
        pytest.param(repeat(2), 3, False, id="too few"),
        pytest.param(repeat(3), 3, True, id="all"),
        pytest.param(repeat(3), 1, True, id="more"),
        pytest.param(repeat(1, status="out_of_memory"), 3, True, id="failed for good"),
    ],
)
def test_a_cell_with_repeats_is_done_when_as_many_are_stored(result: RunResult, asked: int, done: bool) -> None:
    assert made([result], dataclasses.replace(SPEC, repeats=asked)).done is done


def test_a_sweep_becomes_the_measured_table_of_its_device_whose_other_rows_stay(tmp_path) -> None:
    large, other = (dataclasses.replace(SPEC, **changes) for changes in ({"batch_size": 4}, {"mode": "lite"}))
    full = Cell(other, ok_result(spec=other, status="out_of_memory", compiled=None))
    write_device_table([Cell(SPEC, ok_result()), Cell(large, ok_result(spec=large)), full, Cell(SPEC)], tmp_path)
    again = ok_result(compiled=measurement(0.0005))
    path = write_device_table([Cell(SPEC, again)], tmp_path)
    assert path == tmp_path / "example-cpu.csv"
    rows = {(row.batch_size, row.mode): row.compiled_seconds for row in published.read_measured(path)}
    assert rows.pop((1, "lite")) is None
    expected = {(4, "default"): ok_result().latencies["compiled"], (1, "default"): again.latencies["compiled"]}
    assert rows == pytest.approx(expected, abs=1e-7)


ELSEWHERE = ok_result(**environment(device_name="Another"))


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([], "No cell has a result"),
        ([ok_result(status="failed", compiled=None)], "nothing to put into a table"),
        ([ok_result(), ELSEWHERE], "Another, Example CPU: a measured table belongs to one device"),
        ([ok_result()], r"measured table .*example-cpu\.csv"),
    ],
    ids=["none", "failed only", "two devices", "a table that cannot be read"],
)
def test_what_makes_no_table_is_refused_and_nothing_is_changed(results: list[RunResult], words: str, tmp_path) -> None:
    (tmp_path / "example-cpu.csv").write_text("my,own,notes\n1,2,3\n")
    with pytest.raises(BadInput, match=words):
        write_device_table([Cell(SPEC, result) for result in results], tmp_path)
    (kept,) = tmp_path.iterdir()
    assert kept.read_text() == "my,own,notes\n1,2,3\n"
