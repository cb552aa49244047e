"""Fixtures for the tests in a browser: Chromium, a page with a fake runner, its tabs, and a folder for screenshots."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.chromium_page import Runner, open_link, run
from support.samples import MACHINE
from support.troubles import collect_troubles

from demo.core import cores
from demo.store.history import History
from demo.ui.page import Page, launch

ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or "/usr/bin/chromium"
"""Path of Chromium. Its headless shell is preferred, because drawing a window costs as much as drawing the page."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Yields a Chromium for each module of tests.

    It ends with the module: playwright holds an event loop while it runs, which other tests need."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if not Path(CHROMIUM).exists():
        pytest.skip("no Chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Callable[[Any], str]]:
    """Yields a function that serves a page until the module's tests are over, and returns the page's address."""
    with contextlib.ExitStack() as at_the_end:

        def serve(page: Any) -> str:
            _, address, _ = launch(page, server_name="127.0.0.1", prevent_thread_lock=True, server_port=None)
            at_the_end.callback(page.close, verbose=False)
            return str(address)

        yield serve


@pytest.fixture(scope="module")
def troubles() -> list[str]:
    """Returns the list to which the tabs of this module add their errors."""
    return []


@pytest.fixture(autouse=True)
def untroubled(troubles: list[str]) -> Iterator[None]:
    yield
    complaints, troubles[:] = troubles[:], []
    assert complaints == []


@pytest.fixture(scope="module")
def new_tab(chromium: Any, address: str, troubles: list[str]) -> Iterator[Callable[..., Any]]:
    """Yields a function that closes the last tab, and opens one of a new visitor for the module's `address`.

    The tabs of a module share Chromium's compiled scripts: to compile them anew takes three seconds.
    """
    window = chromium.new_context(reduced_motion="reduce")  # else every wait costs the drawing of what moves meanwhile
    window.set_default_timeout(60_000)
    window.add_init_script("if (!sessionStorage.met) { localStorage.clear(); sessionStorage.met = 'yes'; }")

    def opened(width: int = 1440, height: int = 900) -> Any:
        for tab in window.pages:
            tab.close()
        tab = window.new_page()
        tab.set_viewport_size({"width": width, "height": height})
        collect_troubles(tab, address, troubles)
        return tab

    yield opened
    window.close()


@pytest.fixture(autouse=True, scope="module")
def idle_machine() -> Iterator[None]:
    """Makes the servers of this process find an idle machine. Otherwise the page would say that it is busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cores, "others_share", lambda *_, **__: 0.0)
        patch.setattr(cores, "crowd", cores.Crowd)
        yield


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """Returns the folder for screenshots: SCREENSHOTS_FOLDER, or else one that pytest removes."""
    folder = Path(os.environ.get("SCREENSHOTS_FOLDER") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# ---- the tab Run, with a fake runner. A module may have an address of its own


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    history = History(tmp_path_factory.mktemp("data") / "history.sqlite3")
    fake_runner = Runner(lambda spec, image: fake_runner.answer_to(spec, image), 0.4, MACHINE, history)
    return fake_runner


@pytest.fixture(scope="module")
def address(runner: Runner, served: Any) -> str:
    return str(served(Page(runner, history=runner.history)))


@pytest.fixture(scope="module")
def page(new_tab: Any) -> Any:
    """Returns the tab that all tests of this file share."""
    return new_tab()


@pytest.fixture
def tab(page: Any, runner: Runner) -> Iterator[Any]:
    """Yields the shared tab as the test before has left it, in the size of a desktop window."""
    page.set_viewport_size({"width": 1440, "height": 900})
    yield page
    runner.hold = False


@pytest.fixture
def shown(tab: Any, address: str) -> Any:
    """Returns the shared tab, with the answer of a run in it."""
    if not tab.locator("#top .headline").count():
        open_link(tab, address)
        run(tab)
    tab.locator("#top .headline").wait_for()
    return tab
