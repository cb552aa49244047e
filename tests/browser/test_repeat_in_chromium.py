"""Repeat, pressed by keyboard: one more process, and a narrower interval. A fake runner, a real browser."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from samples import MACHINE, measurement, ok_result
from troubles import heard

from demo.core.outputs import ImageInfo
from demo.core.result import Progress, RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import Spread
from demo.store.history import FOLDER_VARIABLE, History
from demo.ui.page import build, launch

ROUNDS = iter([(0.001, "one"), (0.00104, "two"), (0.00102, "three")])
"""The seconds of a compiled call, and the id, of each run of this file's one page."""


class Storing(FakeRunner):
    """Stores each answer, as the runner does."""

    def run(self, *asked: Any, **more: Any) -> Iterator[Progress | RunResult]:
        for event in super().run(*asked, **more):
            if isinstance(event, RunResult):
                History().append(event)
            yield event


def answer(spec: RunSpec, image: Path) -> RunResult:
    seconds, id = next(ROUNDS)
    picture = ImageInfo(image.name, 320, 240, hashlib.sha256(image.read_bytes()).hexdigest(), "/9j/")
    spread, compiled = Spread("assumed", 0.03), measurement(seconds)
    spec = dataclasses.replace(spec, device="cpu")
    return ok_result(id=id, spec=spec, compiled=compiled, spread=spread, image=picture, predictions=None)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("data")))
        page = build(Storing(answer, 1.5, MACHINE))
        _, url, _ = launch(page, prevent_thread_lock=True, server_port=None)
        yield url
        page.close(verbose=False)


def width(tab: Any) -> float:
    low, high = map(float, re.findall(r"\d\.\d\d", tab.locator("#top .interval").inner_text())[:2])
    return high - low


def test_each_press_of_repeat_adds_a_process_and_sharpens_the_answer(chromium: Any, address: str) -> None:
    tab = chromium.new_page(viewport={"width": 1440, "height": 900})
    troubles = heard(tab)
    tab.goto(address)
    tab.locator("#forecast .forecast").wait_for()
    tab.locator("#run:not([disabled])").click()
    repeat = tab.locator("#top button[data-repeat]")
    repeat.wait_for()
    assert "from 1 process" in tab.locator("#top .interval").inner_text()
    widths = [width(tab)]
    for processes in (2, 3):
        repeat.focus()
        tab.keyboard.press("Enter")
        tab.locator(".live .doing", has_text=f"Run {processes} of {processes}").wait_for()
        assert not repeat.is_visible()
        tab.locator("#top .interval", has_text=f"from {processes} processes").wait_for()
        assert tab.locator("#top .ruler .process").count() == processes
        widths.append(width(tab))
    assert widths[1] < widths[0]
    tab.wait_for_function("location.search.includes('run=three')")  # a moment after the answer
    tab.reload()  # the stored run, opened by its link
    repeat.wait_for()
    assert "run=three" in tab.url and "from 3 processes" in tab.locator("#top .interval").inner_text()
    tab.close()
    assert troubles == []
