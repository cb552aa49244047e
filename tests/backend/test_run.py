"""The worker's story where a part of it fails: what was measured before stays. The bundled classifier, no process."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image

from demo.backend import parity, predictions, timing
from demo.backend import run as worker
from demo.core import catalog
from demo.core.result import PHASES, RunResult
from tools.scenes import draw_scene

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"


def run(picture: Path = SCENE, **asked: Any) -> RunResult:
    torch._dynamo.reset()
    spec = catalog.make_spec("shapes-vit", device="cpu", **{"iterations": 10, **asked})
    identity = {"id": "made-up", "started_at": "2026-11-21T09:00:00Z"}
    return worker.Run(spec, picture, identity, worker.Events(io.StringIO())).execute()


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def is_whole(result: RunResult) -> bool:
    """Both variants with every figure, their answers, and whether these agree."""
    return (
        (result.status, result.failure) == ("ok", None)
        and all(side.back_to_back and side.peak_memory_bytes for side in (result.eager, result.compiled))
        and set(result.predictions) == {"eager", "compiled"}
        and result.parity.verdict == "match"
        and result.end_to_end is not None
        and result.compilation.graphs == 1
    )


@pytest.mark.parametrize("at_warm_up", [False, True], ids=["while they take turns", "before they do"])
def test_models_that_do_not_fit_in_memory_together_are_timed_apart_with_every_figure(
    at_warm_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = failing(torch.OutOfMemoryError("made up"))
    warm_ups = iter((timing.warm_up, timing.warm_up, full))
    forgotten = []
    real = worker.compilation.forget
    if at_warm_up:
        monkeypatch.setattr(timing, "warm_up", lambda *given: next(warm_ups)(*given))
    else:
        monkeypatch.setattr(timing, "interleaved", full)
    monkeypatch.setattr(worker.compilation, "forget", lambda: forgotten.append(real()))
    result = run()
    assert is_whole(result)
    assert forgotten == [None]  # eager is timed once nothing of compiled is left
    assert not result.interleaved and result.control is None
    assert any("do not fit in memory together" in warning for warning in result.warnings)


def test_together_nothing_is_forgotten_and_there_is_a_noise_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.compilation, "forget", failing(AssertionError("the compiled model is still needed")))
    result = run()
    assert is_whole(result)
    assert result.interleaved and result.control is not None


@pytest.mark.parametrize(
    ("where", "what", "lost"),
    [(timing, "back_to_back", "memory"), (parity, "compare", "parity"), (predictions, "decode", "predictions")],
    ids=["throughput", "parity", "predictions"],
)
def test_what_fails_beside_the_timing_costs_its_own_figures_only(
    where: Any, what: str, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, what, failing(ValueError("made up for the test")))
    result = run()
    assert (result.status, result.failure) == ("ok", None)
    assert result.speedup is not None and result.compilation.graphs == 1
    assert any("made up for the test" in warning for warning in result.warnings)
    assert (result.predictions is None) == (lost == "predictions")
    assert (result.parity is None) == (lost == "parity")
    assert (result.eager.peak_memory_bytes is None) == (lost == "memory")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_gpu_too_small_for_tuning_is_told_of_where_the_run_uses_it(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking inductor starts CUDA, which a run on the CPU has no use for either."""
    monkeypatch.setattr(worker.machine, "too_few_multiprocessors", lambda: True)
    monkeypatch.setattr(worker.machine, "pick_device", lambda asked: torch.device(device))
    monkeypatch.setattr(worker.machine, "environment", lambda device: None)
    monkeypatch.setattr(worker.settings, "apply", lambda *given: None)
    monkeypatch.setattr(worker.models, "load", lambda *given: SimpleNamespace(warnings=[]))
    spec = catalog.make_spec("shapes-vit", mode="max-autotune")
    seen = worker.Run(spec, SCENE, {}, worker.Events(io.StringIO()))
    seen.load()
    assert any("multiprocessors" in warning for warning in seen.warnings) == (device == "cuda")


def test_the_guides_recipe_tells_how_far_it_is_through_every_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(worker, "TELL_EVERY_SECONDS", 0.0)
    told: list[dict[str, Any]] = []
    real = worker.Events.progress

    def heard(self: worker.Events, phase: str, fraction: float, **more: Any) -> None:
        told.append({"phase": phase, **more})
        real(self, phase, fraction, **more)

    monkeypatch.setattr(worker.Events, "progress", heard)
    result = run(protocol="as published", iterations=None)
    done = [one["timing_done"] for one in told if "timing_done" in one]
    assert result.status == "ok"
    assert done == sorted(done) and done[0] < 0.1 and done[-1] == 1.0
    assert list(dict.fromkeys(one["phase"] for one in told)) == list(PHASES[1:])  # in "start" there is no worker yet
    assert len(result.eager.wall_seconds) == len(result.compiled.wall_seconds) == 300
    assert result.speedup.ratio == result.eager.mean_seconds / result.compiled.mean_seconds
    assert result.control is None
    assert any("guide's recipe" in warning for warning in result.warnings)


@pytest.mark.parametrize("size", [(1, 1), (20, 400), (400, 20)])
def test_odd_pictures_run_too(size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "odd.png"
    with Image.open(SCENE) as scene:
        scene.resize(size).save(path)
    assert is_whole(result := run(path))
    assert (result.image.width, result.image.height) == size


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_run_and_are_recorded(dtype: str, tmp_path: Path) -> None:
    drawn = draw_scene(777_001, (800, 600))
    drawn.image.save(tmp_path / "fresh.png")
    result = run(tmp_path / "fresh.png", dtype=dtype)
    assert (result.status, result.spec.dtype) == ("ok", dtype)
    assert result.environment.settings["weights"] == dtype
    assert result.predictions["eager"].labels[0].label == drawn.label


@pytest.mark.parametrize(("dtype", "remedy"), [("float32", "preprocessor_config.json"), ("float16", "dtype float32")])
def test_a_model_that_fails_in_float32_is_not_told_to_be_run_in_float32(
    dtype: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "warm_up", failing(ValueError("Input image size (48*48) doesn't match model (64*64).")))
    result = run(dtype=dtype)
    assert (result.status, result.failure.stage) == ("failed", "warm up")
    assert remedy in result.failure.remedy
