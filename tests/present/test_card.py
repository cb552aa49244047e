"""The card of a run, and the title of its page."""

import dataclasses
import io

import numpy as np
import pytest
from PIL import Image
from support.page_support import HOSTILE, noisy_result
from support.samples import ENVIRONMENT, failed_result, measurement, ok_result, text_result

from demo.core.measurement import Compilation
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL, RunSpec
from demo.present import card
from demo.present.pictures import PAGE_PAPER, rgb


@pytest.mark.parametrize(
    ("result", "title"),
    [
        (ok_result(compiled=measurement(0.004)), "shapes-vit 2.00× slower"),
        (noisy_result(), "shapes-vit: too noisy to tell"),
        (failed_result(), "owlvit-base-patch32: Out of memory"),
    ],
    ids=["slower", "noisy", "failed"],
)
def test_the_title_of_the_window_tells_the_answer(result: RunResult, title: str) -> None:
    assert card.title(result) == title


def test_of_a_model_on_this_machine_no_folder_is_told() -> None:
    own = ok_result(spec=RunSpec("/home/alice/models/net.py:make", OWN_MODEL, device="cpu"))
    assert card.model(own) == "net.py:make"
    assert card.title(own) == "net.py:make 2.00× faster"


LONG = RunSpec(
    "an-organisation-with-a-long-name/" + "a-model-with-a-long-name-" * 9, "image-classification", 256,
    "max-autotune-no-cudagraphs", dtype="bfloat16", device="cpu", weights="random", fullgraph=True, threads=16,
)  # fmt: skip
BOX = dataclasses.replace(
    ENVIRONMENT, device_name="Processor of a long name " * 9, torch="2.14.0.dev20261120+" + "x" * 60
)
RESULTS = {
    "slower": ok_result(compiled=measurement(0.004)),
    "noisy": noisy_result(),
    "text": text_result(),
    "void": ok_result(compilation=Compilation(1.0, "cold", 1, recompiles_while_timing=1)),
    "failed": failed_result(),
    "no figures": failed_result(failure=None, status="interrupted", environment=None),
    "long": ok_result(spec=LONG, environment=BOX),
    "hostile": ok_result(
        spec=RunSpec(f"\u202e{HOSTILE}\x00 🐈 猫 قطة", "image-classification"),
        environment=dataclasses.replace(ENVIRONMENT, device_name="\ud800\n\u202e🐈"),
    ),
}


def drawn(result: RunResult) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(card.card(result))).convert("RGB"))


def test_every_card_is_of_its_own_has_its_size_and_nothing_runs_over_its_edge() -> None:
    cards = [drawn(result) for result in RESULTS.values()]
    assert len({pixels.tobytes() for pixels in cards}) == len(RESULTS)
    for pixels in cards:
        assert pixels.shape == (630, 1200, 3)
        paper = (pixels == rgb(PAGE_PAPER)).all(axis=2)[:620]
        # a letter may lean over the edge by a few pixels
        assert paper[:, :42].all() and paper[:, -42:].all() and paper[:30].all() and paper[610:].all()
        assert not paper[90:610].all()
