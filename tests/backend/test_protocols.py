"""Both variants called with another size after the timing, by a run in this process."""

import io
from pathlib import Path
from typing import Any

import pytest
import tiny_vit
import torch
from PIL import Image

from demo.backend import compile_model, predictions, protocols
from demo.backend.events import Events, Job
from demo.backend.picture_workload import in_other_proportions
from demo.backend.run_steps import Run
from demo.core import catalog, cores
from demo.core.result import RunResult

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"


def test_the_other_proportions_differ_from_those_of_the_picture() -> None:
    for width, height, other in [(40, 30, (30, 40)), (30, 40, (40, 30)), (40, 40, (40, 30))]:
        assert in_other_proportions(Image.new("RGB", (width, height))).size == other


def test_another_size_is_called_after_the_timing_and_changes_no_other_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_vit.of_any_size(tmp_path)
    prepare = predictions.prepare

    def of_any_size(loaded: Any, image: Image.Image, text: Any) -> Any:
        """As a detector's processor: the input follows the picture."""
        inputs = prepare(loaded, image, text)
        return inputs if image.width > image.height else {"pixel_values": inputs["pixel_values"][..., :32]}

    torch._dynamo.reset()
    monkeypatch.setattr(cores, "read", lambda: None)
    monkeypatch.setattr(predictions, "prepare", of_any_size)
    monkeypatch.setattr(
        compile_model, "compiled", lambda model, spec: torch.compile(model, backend="eager", dynamic=False)
    )
    asked = {"device": "cpu", "iterations": 10, "another_size": True}
    spec = catalog.make_spec(str(tmp_path), "image-classification", folders=True, **asked)
    result = Run(Job(spec, str(SCENE)), Events(io.StringIO())).execute()
    assert result.status == "ok" and result.compilation.recompiles_while_timing == 0, result.warnings
    batch, picture = result.another_sizes
    assert (batch.changed, batch.batch_size, batch.width) == ("batch size", 2, batch.height)
    assert (picture.changed, picture.batch_size, picture.width, picture.height) == ("picture", 1, 32, batch.height)
    assert (batch.recompiles, picture.recompiles, batch.fallbacks) == (1, 1, 0)
    assert batch.first_call_seconds > batch.compiled.median_seconds
    assert len(batch.eager.wall_seconds) == len(batch.compiled.wall_seconds) == protocols.OTHER_SIZE_CALLS
    assert batch.eager.wall_seconds != batch.compiled.wall_seconds
    data = result.to_json()
    assert data["another_sizes"][0]["speedup"]["ratio"] == pytest.approx(batch.speedup.ratio)
    assert RunResult.from_json(data).another_sizes == result.another_sizes
