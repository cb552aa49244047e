"""Tests of the one HTML file to send: it needs no other file, and is small."""

import dataclasses
import re

import pytest
from support.page_support import HOSTILE, stored
from support.samples import failed_result, full_result, measurement, ok_result, text_result

from demo.core.options import OWN_MODEL, RunSpec
from demo.core.result import RunResult
from demo.present import markdown, race, share, whole_work
from demo.present.report import Report

RESULTS = {
    "a GPU": full_result(),
    "text": text_result(),
    "slower": ok_result(compiled=measurement(0.004)),
    "failed": failed_result(),
    "no speed-up": ok_result(compiled=None),
    "detection": stored("detection"),
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_a_file_to_send_needs_nothing_else(result: RunResult) -> None:
    text = share.page(Report(result))
    assert len(text.encode()) < 100_000
    assert not re.search(r"""\b(src|href|action)=|url\((?!#)|@import""", text)
    assert "default-src 'none'" in text
    assert result.id in text and (result.environment is None or result.environment.torch in text)


def test_a_file_to_send_has_the_race_the_slider_and_the_code() -> None:
    text = share.page(Report(full_result()), 40_000)
    assert text.count('<svg class="race') == 2 and "model = torch.compile(model" in text
    slider = whole_work.slider(whole_work.choice_of(Report(full_result())), 40_000)
    assert slider in text and whole_work.file_text("whole_work.js") in text


@pytest.mark.parametrize(
    "spec", [RunSpec("/home/me/vit", "image-classification"), RunSpec("/home/me/vit.py:f", OWN_MODEL)]
)
def test_nothing_to_send_names_a_folder_of_this_machine(spec: RunSpec) -> None:
    result = ok_result(spec=dataclasses.replace(spec, device="cpu"))
    report = Report(result)
    texts = [share.page(report), report.summary, markdown.of_run(report), markdown.of_cells([(spec, result, "")])]
    texts.append(race.file(report.race, report.source))
    for text in texts:
        assert "vit" in text and "/home/me" not in text


def test_names_from_outside_are_text() -> None:
    name = f"{HOSTILE}\x1b\u202e"
    result = ok_result(spec=RunSpec(name, "image-classification", device="cpu"))
    result = dataclasses.replace(result, environment=dataclasses.replace(result.environment, torch=name))
    text = share.page(Report(result))
    assert "<img" not in text and text.count("<script>") == 1 and not re.search("[\x1b\u202e]", text)


def test_a_notebook_shows_the_file_in_a_frame() -> None:
    assert share.page(Report(ok_result())).count("&") < share.frame(Report(ok_result())).count("&")
    assert share.frame(Report(ok_result())).startswith("<iframe srcdoc=")
