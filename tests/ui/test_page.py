"""The page as a whole: what its process imports, what it serves, how its server is set."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from page_support import answering
from samples import ok_result

from demo.ui.page import SESSIONS, build, launch

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; import app; early = 'gradio' in sys.modules;"  # it loads while the worker loads torch
        "from tests.fake_runner import FakeRunner; from demo.ui.page import build; build(FakeRunner(None));"
        "print(early, sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    child = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert child.stdout.strip() == "False []", child.stderr


class Served(NamedTuple):
    address: str
    page: Any
    app: Any


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    page = build(answering(ok_result()))
    app, address, _ = launch(page, prevent_thread_lock=True, server_port=None)
    yield Served(address, page, app)
    page.close(verbose=False)


def test_no_file_of_the_project_is_served(served: Served) -> None:
    for path in ("pyproject.toml", "app.py", "assets/published/published.csv"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{served.address}gradio_api/file={ROOT / path}")
        assert refused.value.code in (403, 404)


def test_pictures_are_served_wherever_the_app_was_started_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = build(answering(ok_result()))
    _, address, _ = launch(page, prevent_thread_lock=True)
    try:
        config = json.loads(urllib.request.urlopen(f"{address}config").read())
        named = {part["props"].get("elem_id"): part for part in config["components"]}
        assert urllib.request.urlopen(named["picture"]["props"]["value"]["url"]).status == 200
        preset = named["preset-1"]["id"]
        (pressed,) = (one for one in config["dependencies"] if [preset, "click"] in one["targets"])
        sent = {"fn_index": pressed["id"], "data": [None], "session_hash": "a page", "trigger_id": preset}
        request = urllib.request.Request(
            f"{address}gradio_api/run/predict", json.dumps(sent).encode(), {"Content-Type": "application/json"}
        )
        answer = urllib.request.urlopen(request).read().decode()
        (picture,) = set(re.findall(r'"url": *"([^"]+png)"', answer))
        assert urllib.request.urlopen(picture).status == 200
    finally:
        page.close(verbose=False)


def test_the_page_asks_nothing_of_the_outside(served: Served) -> None:
    """Fonts and scripts come from this server; gradio's own page only names its home and its preview picture."""
    html = urllib.request.urlopen(served.address).read().decode()
    fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', html)
    assert [url for url in fetched if not url.startswith(served.address)] == []


def test_the_server_keeps_no_more_sessions_than_its_memory_is_meant_for(served: Served) -> None:
    """Each call of the API counts as a session, and gradio would keep ten thousand of them."""
    assert served.app.state_holder.capacity == SESSIONS
