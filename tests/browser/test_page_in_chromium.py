"""The page as a visitor meets it: the real app, the real worker, a real browser."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from troubles import heard

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_SECONDS = 240
"""A default run takes seconds; this is for a machine that compiles with an empty cache while it does other things."""
HEADLINE = "#top .headline .figure"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`python app.py` at a free port, its results in a folder of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("app")
    environment = os.environ | {"GRADIO_SERVER_PORT": str(port), "WORTH_COMPILING_DATA": str(folder)}
    with (folder / "log").open("w") as log:
        app = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}/"
    try:
        deadline = time.monotonic() + 120
        while not _answers(url):
            assert app.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        yield url
    finally:
        app.terminate()
        app.wait(20)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (urllib.error.URLError, TimeoutError):
        return False


COUNT = """window.frames_asked = 0;
const frame = requestAnimationFrame.bind(window);
window.requestAnimationFrame = callback => { window.frames_asked++; return frame(callback); };"""


@pytest.fixture(scope="module")
def page(new_tab: Any, address: str) -> tuple[Any, list[str]]:
    """One tab for all tests of this file, and its troubles: an error that it logs, or a request to another machine."""
    tab = new_tab()
    troubles = heard(tab, address)
    tab.add_init_script(COUNT)
    return tab, troubles


@pytest.fixture
def tab(page: Any) -> Iterator[Any]:
    """The tab as the test before has left it."""
    yield page[0]
    assert page[1] == []


def _open(tab: Any, address: str) -> None:
    tab.goto(f"{address}?__theme=light")
    tab.get_by_role("button", name="Run", exact=True).wait_for()
    tab.locator("#chart .plot-container").wait_for()


def _run(tab: Any) -> None:
    tab.get_by_role("button", name="Run", exact=True).click()


def _until(tab: Any, selector: str) -> Any:
    found = tab.locator(selector)
    found.wait_for(timeout=PATIENCE_SECONDS * 1000)
    return found


def _width(tab: Any) -> int:
    return int(tab.evaluate("document.documentElement.scrollWidth"))


def _picture(tab: Any, shots: Path, name: str) -> None:
    tab.screenshot(path=shots / f"{name}.png", full_page=True)


PLACES = """() => ['#batch', '#advanced'].map(id => document.querySelector(id).getBoundingClientRect().top)"""


def test_the_form_follows_the_model_and_nothing_below_moves(tab: Any, address: str) -> None:
    """A text model asks for a prompt, an OWL-ViT for what to look for, and is offered photographs."""
    _open(tab, address)
    prompt, picture = tab.get_by_label("Prompt"), tab.locator("#picture")
    before = tab.evaluate(PLACES)
    assert picture.is_visible() and not prompt.is_visible()
    tab.get_by_label("Text generation", exact=True).check(force=True)
    tab.get_by_text("shapes-gemma?").wait_for()
    assert prompt.is_visible() and not picture.is_visible()
    tab.get_by_role("button", name="The picture shows a", exact=True).click()
    tab.wait_for_function("document.querySelector('#prompt textarea').value === 'The picture shows a'")
    prompt.fill("A long prompt.\n" * 30)
    assert tab.evaluate(PLACES) == before
    tab.get_by_label("Classification", exact=True).check(force=True)
    tab.get_by_text("shapes-vit?").wait_for()
    assert picture.is_visible() and tab.evaluate(PLACES) == before

    field = tab.get_by_label("What to look for")
    scenes, photographs = (tab.locator(f"#examples-{name} button") for name in ("drawn", "photographs"))
    assert not field.is_visible()
    assert scenes.last.is_visible() and not photographs.first.is_visible()
    tab.get_by_label("Detection", exact=True).check(force=True)
    tab.get_by_text("shapes-rtdetr?").wait_for()
    tab.get_by_role("combobox", name="Checkpoint").click()
    tab.get_by_role("option", name="google/owlvit-base-patch32").click()
    field.wait_for()
    photographs.last.wait_for()
    assert not scenes.first.is_visible()
    tab.locator("#picture img[src$='lion.jpg']").wait_for()
    assert photographs.first.get_attribute("aria-label") == "Example: lion"


def test_run_pressed_with_nothing_changed_answers_in_every_size_and_theme(tab: Any, address: str, shots: Path) -> None:
    _open(tab, address)
    _picture(tab, shots, "before-light-1440")
    for name in ("Run", "Cancel"):
        box = tab.get_by_role("button", name=name, exact=True).bounding_box()
        assert box["y"] + box["height"] <= 900
    _run(tab)
    _until(tab, ".live .steps li.now")
    assert tab.get_by_role("button", name="Run", exact=True).is_disabled()
    _picture(tab, shots, "during-light-1440")
    figure = _until(tab, HEADLINE)
    assert re.fullmatch(r"\d+(\.\d+)?×|no difference|No clear difference|Too noisy|Too busy", figure.inner_text())
    assert "95 % confidence" in tab.locator("#top .interval").inner_text()
    assert tab.locator("#seen .labels").count() == 2
    tab.locator("#chart").get_by_text("Latency of one call").wait_for()
    assert tab.get_by_role("button", name="Run", exact=True).is_enabled()
    tab.locator("#fold-cost .label-wrap").click()
    tab.get_by_role("rowheader", name="First three compiled calls").wait_for()
    for theme, width in (("light", 1920), ("light", 390), ("dark", 390), ("dark", 1440)):
        tab.evaluate("dark => document.body.classList.toggle('dark', dark)", theme == "dark")
        tab.set_viewport_size({"width": width, "height": 1080 if width > 390 else 844})
        tab.wait_for_timeout(400)  # plotly redraws a moment after the window has changed
        assert _width(tab) == width
        _picture(tab, shots, f"after-{theme}-{width}")


def test_an_open_page_leaves_the_machine_alone(tab: Any) -> None:
    """No more than a few frames a second are asked for, once everything stands still."""
    asked, lately = 0, 0
    for _ in range(8):
        tab.wait_for_timeout(3_000)
        lately, asked = tab.evaluate("window.frames_asked") - asked, tab.evaluate("window.frames_asked")
        if asked > 100 and lately < 60:
            break
    assert asked > 100  # gradio's own clocks, for the first seconds: so the count would show them
    assert lately < 60


def test_a_broken_picture_is_answered_with_a_sentence_and_the_form_stays(tab: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    tab.get_by_label("number input for Batch size").fill("3")
    tab.get_by_role("button", name="Remove Image").click()
    tab.locator("#picture input[type=file]").set_input_files(broken)
    tab.locator("#picture img").wait_for(state="attached")
    told = _until(tab, "#picture-note [role=status]")  # before anything is run
    assert "broken.png" in told.inner_text()
    _run(tab)
    card = _until(tab, "#notice .problem")
    assert "broken.png" in card.inner_text()
    assert tab.get_by_label("number input for Batch size").input_value() == "3"
    tab.locator("#run:not([disabled])").wait_for()
