"""The card of a run, drawn: its size, and that nothing runs over its edge."""

from __future__ import annotations

import dataclasses
import io

import numpy as np
from page_support import HOSTILE, noisy_result, stored
from PIL import Image
from samples import ENVIRONMENT, failed_result, full_result, measurement, ok_result, text_result

from demo.core.measurement import Compilation
from demo.core.result import Failure, RunResult
from demo.core.spec import OWN_MODEL, TEXT_GENERATION, RunSpec
from demo.present import card, sentences
from demo.present.palette import PAGE_PAPER, rgb

LONG = RunSpec(
    "an-organisation-with-a-long-name/" + "a-model-with-a-long-name-" * 9, "image-classification", 256,
    "max-autotune-no-cudagraphs", dtype="bfloat16", device="cpu", weights="random", fullgraph=True, threads=16,
)  # fmt: skip
BOX = dataclasses.replace(
    ENVIRONMENT, device_name="Processor of a long name " * 9, torch="2.14.0.dev20261120+" + "x" * 60
)
MESSAGE = "torch.compile failed: " + "LoweringException " * 60
RESULTS = {
    "classification": full_result(),
    "detection": stored("detection"),
    "slower": ok_result(compiled=measurement(0.004)),
    "same": ok_result(compiled=measurement(0.002)),
    "noisy": noisy_result(),
    "text": text_result(),
    "text of four": text_result(spec=RunSpec("shapes-gemma", TEXT_GENERATION, 4, prompt="x", tokens=4)),
    "own model": ok_result(spec=RunSpec("model.py:make", OWN_MODEL, device="cpu")),
    "void": ok_result(compilation=Compilation(1.0, "cold", 1, recompiles_while_timing=1)),
    "1000 times": ok_result(compiled=measurement(2e-6)),
    "seconds": ok_result(eager=measurement(2600.0), compiled=measurement(2000.0), control_times=measurement(2600.0)),
    "failed": failed_result(),
    "failed at length": failed_result(failure=Failure("compile", MESSAGE, MESSAGE)),
    "failed in one word": failed_result(failure=Failure("compile", "x" * 9000, "")),
    "no figures": failed_result(failure=None, status="interrupted", environment=None),
    "long": ok_result(spec=LONG, environment=BOX),
    "hostile": ok_result(
        spec=RunSpec(f"\u202e{HOSTILE}\x00 🐈 猫 قطة", "image-classification"),
        environment=dataclasses.replace(ENVIRONMENT, device_name="\ud800\n\u202e🐈"),
    ),
}


def drawn(result: RunResult) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(card.draw(result))).convert("RGB"))


def test_every_card_is_of_its_own_has_its_size_and_nothing_runs_over_its_edge() -> None:
    assert {sentences.outcome(one) for one in RESULTS.values()} >= {"faster", "slower", "same", "unsure", "void", None}
    cards = [drawn(result) for result in RESULTS.values()]
    assert len({pixels.tobytes() for pixels in cards}) == len(RESULTS)
    for pixels in cards:
        assert pixels.shape == (630, 1200, 3)
        paper = (pixels == rgb(PAGE_PAPER)).all(axis=2)[:620]
        # a letter may lean over the edge by a few pixels
        assert paper[:, :42].all() and paper[:, -42:].all() and paper[:30].all() and paper[610:].all()
        assert not paper[90:610].all()


def test_no_line_of_a_card_lies_over_another() -> None:
    """Between what was asked, the answer, the bars and the interval a few rows of pixels are empty."""
    for name in ["slower", "noisy", "void", "long"]:
        paper = (drawn(RESULTS[name]) == rgb(PAGE_PAPER)).all(axis=(1, 2))
        filled = np.flatnonzero(np.diff(np.concatenate(([False], ~paper, [False])).astype(int)))
        bands = filled.reshape(-1, 2)  # first row of each band, and the first row after it
        bars = next(place for place, (top, _) in enumerate(bands) if top == 392)
        assert bands[bars].tolist() == [392, 440] and bands[bars + 1].tolist() == [454, 502]
        assert len(bands) - bars == 5  # interval, foot, and the line at the edge
