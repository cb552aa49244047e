"""Which cells the history answers already."""

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from samples import ENVIRONMENT, MACHINE, ok_result

from demo.core.machine import HostInfo
from demo.core.outputs import ImageInfo
from demo.core.result import RunResult
from demo.core.spec import TEXT_GENERATION, RunSpec
from demo.core.speedup import ProcessResult
from demo.core.stats import Interval
from demo.sweep.cells import Cell, make_cells
from demo.sweep.grid import PICTURE

SPEC = ok_result().spec


def stored(picture: Path = PICTURE, **changes: Any) -> RunResult:
    digest = hashlib.sha256(picture.read_bytes()).hexdigest()
    return ok_result(**{"image": ImageInfo("scene.png", 480, 360, digest, ""), **changes})


def made(results: Sequence[RunResult], spec: RunSpec = SPEC, machine: HostInfo = MACHINE, **more: Any) -> Cell:
    """The cell of one spec."""
    (cell,) = make_cells([spec], results, machine, PICTURE, **more)
    return cell


def test_the_newest_stored_result_of_the_same_spec_versions_and_device_answers_for_a_cell() -> None:
    results = [stored(id="new"), stored(id="old")]
    cell = made(results, SPEC.on("auto"))
    assert cell.stored and cell.result == results[0]
    assert not made(results, fresh=True).done


def test_any_other_stored_result_does_not_answer_for_it() -> None:
    for other in [
        stored(spec=dataclasses.replace(SPEC, batch_size=2)),
        stored(environment=dataclasses.replace(ENVIRONMENT, torch="2.12.0")),
        stored(environment=dataclasses.replace(ENVIRONMENT, transformers="5.22.0")),
        stored(environment=dataclasses.replace(ENVIRONMENT, device_name="Another CPU")),
        stored(environment=None),
        stored(image=ImageInfo("other.png", 480, 360, "00" * 32, "")),
        stored(status="cancelled"),
        stored(status="crashed"),
        stored(status="timed_out"),
    ]:
        assert not made([other]).done


def test_a_stored_cell_of_a_model_that_sees_no_picture_is_done_whatever_the_picture() -> None:
    spec = RunSpec("shapes-gemma", TEXT_GENERATION, prompt="The", device="cpu")
    for image in (None, ImageInfo("other.png", 480, 360, "00" * 32, "")):
        assert made([stored(spec=spec, image=image)], spec).done
    assert not made([stored(spec=spec, image=None)], dataclasses.replace(spec, prompt="A")).done


def test_another_driver_and_another_environment_of_equal_versions_are_another_machine() -> None:
    gpu = dataclasses.replace(MACHINE, gpu="A GPU", driver="580.1", triton="3.5.0")
    environment = dataclasses.replace(ENVIRONMENT, device_name="A GPU", driver="580.1", triton="3.5.0")
    on_gpu = stored(spec=SPEC.on("cuda"), environment=environment)
    there = dataclasses.replace(MACHINE, interpreter="new-3fa2c1")
    elsewhere = stored(environment=dataclasses.replace(ENVIRONMENT, interpreter="new-3fa2c1"))
    for result, machine, done in (
        (on_gpu, gpu, True),
        (on_gpu, dataclasses.replace(gpu, driver="581.0"), False),
        (stored(), there, False),
        (elsewhere, MACHINE, False),
        (elsewhere, there, True),
    ):
        assert made([result], SPEC.on("auto"), machine).done is done


def test_a_folder_that_was_written_to_since_is_run_again(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    spec = dataclasses.replace(SPEC, checkpoint=str(tmp_path))
    result = stored(spec=spec)
    ran = datetime.fromisoformat(result.started_at).timestamp()
    for seconds, done in ((-60, True), (+60, False)):
        os.utime(weights, (ran + seconds, ran + seconds))
        assert made([result], spec).done is done


def repeat(spec: RunSpec, repeats: int, **changes: Any) -> RunResult:
    """A stored run that ends so many repeats of `spec`."""
    before = tuple(
        ProcessResult(f"run-{number}", 0.002, 0.001, Interval(2.0, 1.9, 2.1)) for number in range(1, repeats)
    )
    spec = dataclasses.replace(spec, repeats=repeats)
    return stored(id=f"run-{repeats}", spec=spec, earlier=before, **changes)


def test_a_cell_goes_on_from_the_repeats_that_are_stored() -> None:
    spec = dataclasses.replace(SPEC, repeats=3)
    two = [repeat(SPEC, 2), repeat(SPEC, 1)]
    cell = made(two, spec)
    assert not cell.done and [one.id for one in cell.earlier] == ["run-1", "run-2"]
    cell = made([repeat(SPEC, 3), *two], spec)
    assert cell.result is not None and cell.result.id == "run-3" and not cell.earlier
    assert not made(two, spec, fresh=True).earlier
    assert made([repeat(SPEC, 3)]).done  # more processes than were asked for are an answer, too


def test_a_repeat_that_failed_for_good_is_the_answer_of_its_cell() -> None:
    spec = dataclasses.replace(SPEC, repeats=3)
    cell = made([repeat(SPEC, 1, status="out_of_memory")], spec)
    assert cell.stored and cell.value == "OOM"
    cell = made([repeat(SPEC, 2, status="crashed"), repeat(SPEC, 1)], spec)
    assert not cell.done and len(cell.earlier) == 1
