"""The folded section of the processes behind an answer."""

from __future__ import annotations

import math
from typing import Any

from page_support import HOSTILE
from samples import measurement, ok_result

from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.ui.html import reruns_html

SECTION = reruns_html.SECTION


def after(processes: int, **changes: Any) -> RunResult:
    """The last of so many processes."""
    earlier: tuple[Any, ...] = ()
    for number in range(processes):
        faster = measurement(0.001 / math.exp(0.02 * number))
        result = ok_result(**{"id": f"run {number}", "compiled": faster, "earlier": earlier} | changes)
        earlier = result.as_processes()
    return result


def test_from_three_processes_on_each_is_shown_with_the_answers_own_interval() -> None:
    assert SECTION.html(after(2), ENGLISH) == "" and SECTION.figure(after(2), ENGLISH) is None  # type: ignore[misc]
    result = after(3)
    assert result.speedup is not None
    low, high = f"{result.speedup.low:.2f}", f"{result.speedup.high:.2f}×"
    assert f"({low} to {high})" in SECTION.html(result, ENGLISH)
    figure = SECTION.figure(result, ENGLISH)  # type: ignore[misc]
    band = figure.layout.shapes[0]
    assert len(figure.data[0].x) == 3 and (band.x0, band.x1) == (result.speedup.low, result.speedup.high)


def test_it_is_told_in_every_language_and_with_harmless_text() -> None:
    result = after(3, spec=RunSpec(f"{HOSTILE}/model", "image-classification", device="cpu"))
    assert len({SECTION.html(result, lang) for lang in LANGUAGES.values()}) == len(LANGUAGES)
    for lang in LANGUAGES.values():
        figure = SECTION.figure(result, lang)  # type: ignore[misc]
        assert "<img" not in figure.layout.meta["aloud"] + str(figure.layout.annotations[-1].text)
