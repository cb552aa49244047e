"""Whole runs with real compiles: the command line as a process, each bundled checkpoint, on a scene or a prompt."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from demo.core import base64_images, catalog
from demo.core.options import TEXT_GENERATION
from demo.core.result import RunResult
from demo.core.result_json import from_json
from demo.store.history import History
from tools.scenes import draw_scene

BATCHES = {"shapes-vit": "1", "shapes-segformer": "1"}
"""Batch sizes that other tests have, too: they find in the compile cache what is compiled here."""
BUNDLED = [checkpoint.id for checkpoint in catalog.CHECKPOINTS if checkpoint.bundled]


SCENE = draw_scene(777_001, (800, 600))
"""A scene that nobody trained on, larger than any model's input."""


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, RunResult]:
    """One run of each bundled checkpoint, as its JSON says."""
    folder = tmp_path_factory.mktemp("runs")
    path = folder / "fresh.png"
    SCENE.image.save(path)
    environment = os.environ | {"WORTH_COMPILING_DATA": str(folder / "data")}

    def result_of(name: str) -> RunResult:
        given = ["--image", str(path), "--batch-size", BATCHES.get(name, "2")]
        if catalog.find(name).task == TEXT_GENERATION:
            given = ["--tokens", "16", "--batch-size", "2", "--cache", "empty"]
        command = [sys.executable, "-m", "demo", "run", "--checkpoint", name, *given, "--iterations", "20", "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return from_json(json.loads(done.stdout))

    with ThreadPoolExecutor(2) as side_by_side:  # their figures are not judged, and a cold compile takes long
        found = dict(zip(BUNDLED, side_by_side.map(result_of, BUNDLED), strict=True))
    stored = {result.id: result for result in History(folder / "data" / "history.sqlite3").all()}
    assert stored == {result.id: result for result in found.values()}
    return found


@pytest.mark.parametrize("name", BUNDLED)
def test_a_run_of_a_bundled_checkpoint_has_all_figures(results: dict[str, RunResult], name: str):
    result = results[name]
    assert result.status == "ok"
    assert len(result.eager.wall_seconds) == len(result.compiled.wall_seconds) >= 20
    assert result.speedup.low < result.speedup.ratio < result.speedup.high
    assert result.speedup.control.low < result.speedup.control.high
    assert result.eager.peak_memory_bytes > 50e6
    assert result.environment.compiler
    assert result.eager.back_to_back.calls >= 3
    assert result.machine_states
    assert result.spec.task == TEXT_GENERATION or result.request_seconds[0] > result.latencies["eager"]
    assert result.compilation.graphs == (2 if result.spec.task == TEXT_GENERATION else 1)  # the prompt's and a step's
    assert result.compilation.graph_breaks == ()
    assert result.parity.verdict == "match"
    shares = dict(result.parity.task)
    assert shares.pop("score_difference", 0.0) < 0.01
    assert shares.pop("box_iou", 1.0) > 0.99
    assert set(shares.values()) <= {0.0, 1.0}


def test_an_empty_cache_measures_a_cold_and_a_warm_first_call(results: dict[str, RunResult]):
    emptied = results["shapes-gemma"].compilation
    cold, warm = emptied.cold, emptied.warm
    assert (emptied.cache, cold.run_id, warm.run_id) == ("cold", "", "")
    assert cold.parts["inductor"] > warm.parts["inductor"] == warm.parts["backend compile"] == 0
    for cost in (cold, warm):
        assert sum(cost.parts.values()) == pytest.approx(cost.first_call_seconds)


def test_both_variants_see_the_shapes_in_their_places(results: dict[str, RunResult]):
    for variant in ("eager", "compiled"):
        labels, boxes, segments = (
            results[name].predictions[variant] for name in ("shapes-vit", "shapes-rtdetr", "shapes-segformer")
        )
        assert labels.labels[0].label == SCENE.label
        assert sorted(box.label for box in boxes.boxes) == sorted(thing.label for thing in SCENE.objects)
        for box in boxes.boxes:
            alike = [thing.box for thing in SCENE.objects if thing.label == box.label]
            assert min(max(abs(a - b) for a, b in zip(one, box.box, strict=True)) for one in alike) < 40
        masks = {segment.label: segment.mask_png for segment in segments.segments}
        assert set(masks) - {"background"} == {thing.label for thing in SCENE.objects}
        background = base64_images.decode_mask(masks["background"]).mean()
        assert background == pytest.approx(float((SCENE.mask == 0).mean()), abs=0.03)
