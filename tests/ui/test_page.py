"""Tests of the page as a whole: what its process imports, what it serves, and its server's settings."""

import contextlib
import dataclasses
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import gradio.networking
import pytest
from support.fake_runner import FakeRunner
from support.page_support import answering, serving
from support.samples import MACHINE, ok_result

from demo.core import hub
from demo.ui.look.theme import CSS
from demo.ui.page import SESSIONS, Page, masthead
from demo.ui.tabs.form import default_picture, servable

ROOT = Path(__file__).resolve().parents[2]


def test_the_masthead_of_a_space_has_the_address_of_the_outer_page(monkeypatch) -> None:
    assert 'data-address=""' in masthead(MACHINE)
    monkeypatch.setenv("SPACE_ID", "me/page")
    assert 'data-address="https://huggingface.co/spaces/me/page"' in masthead(MACHINE)


def test_the_page_imports_neither_torch_nor_transformers() -> None:
    code = (
        "import sys; import app; early = 'gradio' in sys.modules;"  # it loads while the worker loads torch
        "sys.path.insert(0, 'tests'); from support.fake_runner import FakeRunner;"
        "from demo.ui.page import Page; Page(FakeRunner(None));"
        "print(early, sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    child = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert child.stdout.strip() == "False []", child.stderr


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    """Yields the address of an app that was started from another folder."""
    with contextlib.chdir(tmp_path_factory.mktemp("elsewhere")):
        page = Page(answering(ok_result()))
        with serving(page) as address:
            assert page.app.state_holder.capacity == SESSIONS  # each call of the API is a session
            yield address


def test_no_two_parts_of_the_page_have_the_same_id() -> None:
    ids = Counter(part.elem_id for part in Page(FakeRunner(None)).blocks.values())
    assert [id for id, parts in ids.items() if id and parts > 1] == []


def test_the_masthead_says_why_nothing_can_be_compiled() -> None:
    problem = "torch.compile cannot build code here: no <Python.h>. Install it."
    shown = masthead(dataclasses.replace(MACHINE, compile_problem=problem))
    assert problem.replace("<", "&lt;").replace(">", "&gt;") in shown
    assert "obstacle" not in masthead(MACHINE)


def test_the_masthead_names_the_lines_that_a_gpus_space_needs() -> None:
    """Those that `deploy` writes: torch's usual build is too new for the driver of a T4 there."""
    lines = f"{hub.CUDA_12_INDEX} and torch==2.13.0+cu126"
    problem = f"torch 2.13.0+cu130 cannot use the Tesla T4; in the Space's requirements.txt write {lines}"
    shown = masthead(dataclasses.replace(MACHINE, gpu_problem=problem))
    assert f"{lines}. Until then runs use the CPU." in shown


@pytest.mark.parametrize(("gpu", "shown"), [(None, "Example CPU, 6 cores</b>"), ("Tesla T4", "Tesla T4</b>")])
def test_a_processor_stands_with_its_cores(gpu: str | None, shown: str, monkeypatch) -> None:
    monkeypatch.setattr("demo.ui.page.usable_cores", lambda: 6)
    assert shown in masthead(dataclasses.replace(MACHINE, gpu=gpu))


def test_a_page_that_opens_has_the_modes_of_the_machine() -> None:
    page = Page(FakeRunner(lambda *_: ok_result(), machine=dataclasses.replace(MACHINE, modes=("default", "new"))))
    top, modes = page._greet()
    assert "Example CPU" in top and modes["choices"] == ["default", "new"]


def test_few_parts_of_the_page_are_own_html() -> None:
    sources = [file.read_text(encoding="utf-8") for file in (ROOT / "demo" / "ui").rglob("*.py")]
    assert sum(source.count("gr.HTML(") for source in sources) <= 8
    assert len(list((ROOT / "demo" / "ui").rglob("*.html"))) <= 5


def test_no_media_rule_names_the_root() -> None:
    """gradio puts `.contain` before `:root` in media rules, so that such a rule would match nothing."""
    assert not re.search(r"html|:root", "".join(re.findall(r"@media[^{]*\{((?:[^{}]*\{[^{}]*\})*)", CSS)))


def test_a_slow_first_page_does_not_end_the_start(address: str) -> None:
    assert gradio.networking.url_ok("http://127.0.0.1:1/")  # gradio's own allows it three seconds


def test_no_file_of_the_project_is_served(address: str) -> None:
    for path in ("app.py", "assets/published/published.csv"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{address}gradio_api/file={ROOT / path}")
        assert refused.value.code in (403, 404)


def test_pictures_are_served_to_an_app_started_elsewhere(address: str) -> None:
    config = json.loads(urllib.request.urlopen(f"{address}config").read())
    (picture,) = (part["props"] for part in config["components"] if part["props"].get("elem_id") == "picture")
    for url in (picture["value"]["url"], f"{address}gradio_api/file={servable(default_picture('shapes-vit'))}"):
        assert urllib.request.urlopen(url).status == 200


def test_the_page_fetches_nothing_from_outside(address: str) -> None:
    html = urllib.request.urlopen(address).read().decode()
    fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', html)
    assert [url for url in fetched if not url.startswith(address)] == []
