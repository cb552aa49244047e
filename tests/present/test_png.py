"""Tests of the PNGs of a result: its card, and its race (calls over time) without animation."""

import dataclasses
import io
import math
from importlib import metadata

import numpy as np
import pytest
from PIL import Image, ImageDraw
from support.page_support import HOSTILE, noisy_result
from support.samples import ENVIRONMENT, failed_result, full_result, measurement, ok_result, text_result

from demo.core.machine import HostSample
from demo.core.measurement import Compilation
from demo.core.options import OWN_MODEL, BadInput, RunSpec
from demo.core.result import RunResult
from demo.present import pictures, png, race
from demo.present.colours import COMPILED, EAGER, PAGE_PAPER, rgb
from demo.present.pictures import printable_label
from demo.present.report import Report

LONG = RunSpec(
    "an-organisation-with-a-long-name/" + "a-model-with-a-long-name-" * 9, "image-classification", 256,
    "max-autotune-no-cudagraphs", dtype="bfloat16", device="cpu", weights="random", fullgraph=True, threads=16,
)  # fmt: skip
BOX = dataclasses.replace(ENVIRONMENT, device_name="Processor of a long name " * 9, torch="2.14.0+" + "x" * 80)
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


def pixels(data: bytes) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_nothing_runs_over_the_edge_of_a_card(result: RunResult) -> None:
    card = pixels(png.card(Report(result)))
    assert card.shape == (630, 1200, 3)
    paper = (card == rgb(PAGE_PAPER)).all(axis=2)[:620]
    # a letter may lean over the edge by a few pixels
    assert paper[:, :42].all() and paper[:, -42:].all() and paper[:30].all() and paper[610:].all()
    assert not paper[90:610].all()


def test_a_card_has_room_to_say_that_calls_were_disturbed(monkeypatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(png, "printable_label", lambda text, most: written.append(printable_label(text, most)) or text)
    busy = tuple(HostSample(at_seconds=at, foreign_cpu=0.9, free_cores=0.2) for at in (0.0, 1.0))
    png.card(Report(ok_result(machine_states=busy, compiled=measurement(0.0018))))
    assert written.count("per call, disturbed") == 2


def test_a_card_hides_the_folders_of_this_machine() -> None:
    specs = (RunSpec(f"{folder}net.py:make", OWN_MODEL, device="cpu") for folder in ("", "/home/alice/models/"))
    bare, card = (png.card(Report(ok_result(spec=spec))) for spec in specs)
    assert card == bare


@pytest.mark.parametrize(("share", "eager_leads"), [(0.5, True), (1.4, False)], ids=["before it pays", "after"])
def test_the_race_at_rest_shows_who_leads(share: float, eager_leads: bool) -> None:
    result = full_result()
    # Thirty equal starts, so that the range beside the mark is narrow.
    equal = {"first_calls": {"cold": (31.2,) * 30}}
    result = dataclasses.replace(result, compilation=dataclasses.replace(result.compilation, warm=None), **equal)
    report = Report(result)
    lines = report.race
    at = share * lines[1].crossing[1] / race.horizon(lines)
    column = pixels(png.race_at_rest(report))[
        : png.RACE_GROUND + 5, png.RACE_LEFT + round(at * (png.RACE_RIGHT - png.RACE_LEFT))
    ]

    def height(colour: str) -> int:
        """Returns how many pixels below the top the highest pixel of this colour lies."""
        return next(y for y, pixel in enumerate(column) if math.dist(pixel, rgb(colour)) < 30)

    assert (height(EAGER) < height(COMPILED)) is eager_leads


def test_a_result_without_an_answer_has_no_race() -> None:
    report = Report(noisy_result())
    for draw in (png.race_at_rest, lambda report: race.file(report.race, "")):
        with pytest.raises(BadInput, match="no race"):
            draw(report)


def test_without_gradio_pictures_have_no_empty_boxes(monkeypatch) -> None:
    def distribution(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    written: list[str] = []
    monkeypatch.setattr(metadata, "distribution", distribution)
    monkeypatch.setattr(ImageDraw.ImageDraw, "text", lambda pen, place, text, *rest: written.append(text))
    pictures.font_for.cache_clear()
    png.card(Report(full_result()))
    png.race_at_rest(Report(full_result()))
    pictures.font_for.cache_clear()
    assert any("x faster" in text for text in written) and not any("×" in text for text in written)


def test_the_race_at_rest_carries_the_answer(monkeypatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(png, "printable_label", lambda text, most: written.append(printable_label(text, most)) or text)
    png.race_at_rest(report := Report(full_result()))
    assert [text.lower() for text in written[:3]] == [
        printable_label(text, 500).lower() for text in (report.answer, report.pays, report.interval_and_basis)
    ]
