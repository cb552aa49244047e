"""Tests of the page as a visitor meets it: the real app, the real worker, a real browser."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.page_start import free_port

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the address of `python app.py` at a free port."""
    settings = {"GRADIO_SERVER_PORT": str(free_port()), "WORTH_COMPILING_DATA": str(tmp_path_factory.mktemp("app"))}
    command = [sys.executable, "app.py"]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | settings, stdout=subprocess.PIPE, text=True) as app:
        assert app.stdout is not None
        yield next(line.split()[-1] for line in app.stdout if "Find out at" in line)
        app.terminate()


def test_run_pressed_with_nothing_changed_answers_in_every_size_and_theme(
    new_tab: Any, address: str, shots: Path
) -> None:
    tab = new_tab()
    tab.emulate_media(reduced_motion="no-preference")
    tab.goto(f"{address}?__theme=light")
    run = tab.get_by_role("button", name="Run", exact=True)
    tab.locator("#forecast .forecast").wait_for()
    tab.screenshot(path=shots / "before-light-1440.png", full_page=True)
    run.click()
    tab.locator(".live .steps li.now").wait_for()
    assert run.is_disabled()
    tab.screenshot(path=shots / "during-light-1440.png", full_page=True)
    figure = tab.locator("#top .headline .figure")
    figure.wait_for(timeout=240_000)  # it takes seconds, unless a busy machine compiles with an empty cache
    assert re.fullmatch(r"\d+(\.\d+)?×|no difference|No clear difference|Too noisy|Too busy", figure.inner_text())
    assert "95\N{NO-BREAK SPACE}% confidence" in tab.locator("#top .interval").inner_text()
    labels = tab.locator("#seen [data-testid=label]")
    labels.nth(1).wait_for()  # drawn a moment after the verdict
    assert labels.count() == 2
    if "×" in figure.inner_text():
        tab.locator("#race .race:visible").get_by_text("Calls answered over time").wait_for()
    tab.locator("#run:not([disabled])").wait_for()
    tops = [tab.locator(part).bounding_box()["y"] for part in ("#top .headline", "#seen", "#stage .fold >> nth=0")]
    assert tops == sorted(tops)
    tab.locator("#stage .fold > .label-wrap", has_text="Cost").click()
    tab.locator("#stage .section table").first.wait_for()
    for theme, width in (("light", 1920), ("light", 390), ("dark", 390), ("dark", 1440)):
        tab.evaluate("dark => document.body.classList.toggle('dark', dark)", theme == "dark")
        tab.set_viewport_size({"width": width, "height": 1080 if width > 390 else 844})
        # plotly redraws a moment after the window has changed
        tab.wait_for_function("width => document.documentElement.scrollWidth === width", arg=width)
        tab.screenshot(path=shots / f"after-{theme}-{width}.png", full_page=True)
