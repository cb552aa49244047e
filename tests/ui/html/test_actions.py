"""Buttons and links for the next step after a run."""

import dataclasses
from pathlib import Path

from page_support import (
    HOSTILE,
    asked_by,
    noisy_result,
)
from samples import failed_result, ok_result

from demo.core.languages import ENGLISH
from demo.core.result import Failure
from demo.core.spec import RunSpec
from demo.ui.html import results
from demo.ui.tabs import links

ROOT = Path(__file__).resolve().parents[3]
VIT = "google/vit-base-patch16-224"


def test_a_caveat_is_told_once_and_noise_has_a_button_for_a_longer_run() -> None:
    html = results.headline(noisy_result(warnings=("It is noisy.", "It is noisy.")), ENGLISH)
    assert html.count("It is noisy.") == 1
    assert asked_by(html) == [{"checkpoint": "shapes-vit", "device": "cpu", "most_seconds": "30.0"}]
    assert "Run again with 30 s" in html
    assert asked_by(results.headline(ok_result(warnings=("Random weights.",)), ENGLISH)) == []


def test_a_longer_run_is_offered_only_where_more_time_would_be_used() -> None:
    for changes in [
        {"most_seconds": 30.0},
        {"iterations": 50},
        {"protocol": "as published"},
        {"checkpoint": "/srv/model"},
    ]:
        spec = dataclasses.replace(ok_result().spec, **changes)
        assert asked_by(results.headline(noisy_result(spec=spec), ENGLISH)) == []


def test_a_remedy_that_names_a_setting_is_a_button_that_runs_with_it() -> None:
    for change, words in [
        ({"weights": "random"}, "Weights: random"),
        ({"batch_size": 64, "dtype": "bfloat16"}, "Batch size: 64"),
        ({"fullgraph": False}, "Full graph only: off"),
        ({"mode": "default"}, "Compile mode: default"),
    ]:
        spec = RunSpec("microsoft/resnet-50", "image-classification", 256, "max-autotune", fullgraph=True)
        failure = Failure("load", "It failed.", "Do something else.", change)
        html = results.failure(failed_result(spec=spec, failure=failure), ENGLISH)
        assert words in html
        repeated = [links.spec_of(query, "shapes-vit") for query in asked_by(html)]
        assert repeated == [dataclasses.replace(spec, **{name: value}) for name, value in change.items()]


def test_a_stored_change_that_is_no_setting_gives_no_button() -> None:
    for change in ({"nothing": 1}, {"batch_size": 0}, {"checkpoint": []}, {"mode": HOSTILE}, {"text": 3}):
        failure = Failure("load", "It failed.", "Do something else.", change)
        assert asked_by(results.failure(failed_result(failure=failure), ENGLISH)) == []
