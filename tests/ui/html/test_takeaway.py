"""What a visitor carries off: the snippets really ask a running server for the run, and nothing in them gets out."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from samples import ENVIRONMENT, failed_result, ok_result

from demo.core import catalog
from demo.core.result import ImageInfo, RunResult, RunSpec
from demo.present.script import script
from demo.ui import presets
from demo.ui.html import takeaway
from demo.ui.jobs.fake_runner import FakeRunner
from demo.ui.page import Page, build, launch
from demo.ui.tabs import form

SCENE = Path(__file__).resolve().parents[3] / "assets" / "examples" / "shapes-scene-1.png"
HOSTILE = "a'b\"; $(touch hacked) `touch hacked` | <img src=x onerror=alert(1)> *x* \\ é"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, list[tuple[RunSpec, bytes]]]]:
    """A server's address, and what its runner was asked for so far: specs, and the bytes of the pictures."""
    asked: list[tuple[RunSpec, bytes]] = []

    def answer(spec: RunSpec, image: Path) -> RunResult:
        asked.append((spec, image.read_bytes()))
        return ok_result(spec=spec)

    page = build(FakeRunner(answer))
    _, address, _ = launch(page, server_name="127.0.0.1", prevent_thread_lock=True)
    yield address.rstrip("/"), asked
    page.close()


OWL = RunSpec(
    "google/owlvit-base-patch32", "object-detection", device="cpu", text=("a cat's tail", HOSTILE.replace(";", ""))
)  # ";" parts queries
SPECS = {
    "as it comes": RunSpec("shapes-vit", "image-classification", device="cpu"),
    "changed": RunSpec(
        "someone/model", "image-segmentation", device="cpu", batch_size=4, mode="max-autotune", dtype="bfloat16",
        fullgraph=True, iterations=30, channels_last=True, threads=2, precision=0.05, graph_break=True,
    ),
    "queries": OWL,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the picture that the snippets name."""
    shutil.copy(SCENE, tmp_path / takeaway.UPLOADED)
    return tmp_path


def test_the_script_of_a_run_on_a_picture_of_ones_own_says_that_it_has_to_be_named() -> None:
    sentence = "Name your picture with --image: without it a grey one of the same size is used."
    assert sentence in takeaway.section(ok_result())
    known = ImageInfo("anything.png", 320, 240, hashlib.sha256(SCENE.read_bytes()).hexdigest(), "/9j/")
    assert sentence not in takeaway.section(ok_result(image=known))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_curl_snippet_runs_the_same_spec_and_picture(served: Any, folder: Path, spec: RunSpec) -> None:
    address, asked = served
    snippet = takeaway.curl(ok_result(spec=spec), address)
    done = subprocess.run(["sh", "-c", snippet], cwd=folder, capture_output=True, text=True, timeout=60)
    assert "event: complete" in done.stdout, done.stdout + done.stderr
    data = json.loads(re.findall(r"^data: (.+)$", done.stdout, re.MULTILINE)[-1])
    assert RunResult.from_json(data[0]).spec == spec
    assert asked[-1] == (spec, SCENE.read_bytes())
    assert sorted(file.name for file in folder.iterdir()) == [takeaway.UPLOADED]


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_gradio_client_snippet_runs_the_same_spec_and_picture(served: Any, folder: Path, spec: RunSpec) -> None:
    address, asked = served
    snippet = takeaway.client(ok_result(spec=spec), address)
    done = subprocess.run([sys.executable, "-c", snippet], cwd=folder, capture_output=True, text=True, timeout=60)
    assert "'verdict': 'faster'" in done.stdout, done.stdout + done.stderr
    assert asked[-1] == (spec, SCENE.read_bytes())


class Parts(HTMLParser):
    """Tags, links to download, texts by the id of their element, and whether anything would run as a script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.copies: list[str] = []
        self.events = False
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.tags.append(tag)
        self.events |= any(name.startswith("on") for name in given)
        self._inside = given.get("id", "")
        if "download" in given:
            self.links[given["download"]] = given["href"]
        if "data-copies" in given:
            self.copies.append(given["data-copies"])

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        self.texts[self._inside] = self.texts.get(self._inside, "") + data


def test_each_piece_has_a_button_that_copies_it_whole() -> None:
    result = ok_result()
    parts = Parts(takeaway.section(result, address="http://here"))
    assert parts.copies == ["take-script", "take-table", "take-curl", "take-client"]
    assert parts.texts["take-script"] == script(result)
    assert parts.texts["take-table"] == takeaway.markdown(result)
    assert parts.texts["take-curl"] == takeaway.curl(result, "http://here")
    assert parts.texts["take-client"] == takeaway.client(result, "http://here")


def test_the_script_is_a_file_to_download() -> None:
    result = ok_result()
    ((name, link),) = Parts(takeaway.section(result)).links.items()
    assert re.fullmatch(r"[A-Za-z0-9.-]+\.py", name)
    assert base64.b64decode(link.removeprefix("data:text/x-python;base64,")).decode() == script(result)


def test_text_from_outside_is_shown_as_text() -> None:
    environment = dataclasses.replace(ENVIRONMENT, device_name=HOSTILE, torch=HOSTILE)
    parts = Parts(takeaway.section(ok_result(spec=OWL, environment=environment, id=HOSTILE)))
    assert "img" not in parts.tags
    assert not parts.events


def test_the_markdown_table_has_the_figures_and_no_markup_from_outside() -> None:
    environment = dataclasses.replace(ENVIRONMENT, device_name=HOSTILE)
    result = ok_result(environment=environment)
    lines = takeaway.markdown(result).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert {row.count("|") for row in rows} == {4}
    assert "| median of a call | 2.04 ms | 1.02 ms |" in rows
    assert re.search(r"[^\\][|<`*]", lines[-1]) is None


def test_a_failed_run_offers_its_script_and_no_figure() -> None:
    html = takeaway.section(failed_result())
    assert "take-script" in html
    assert "data-figure" not in html and "take-table" not in html


def test_variants_timed_apart_have_no_script_and_the_section_says_why() -> None:
    html = takeaway.section(ok_result(interleaved=False))
    assert "take-script" not in html and "take-curl" in html
    assert "one after the other" in html


def test_a_folder_has_a_script_and_no_call_of_the_api() -> None:
    html = takeaway.section(ok_result(spec=RunSpec("/somewhere/model", "image-classification", device="cpu")))
    assert "take-script" in html
    assert "take-curl" not in html and "command line" in html


# ---- presets of the stage


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_preset_fills_the_form_with_a_valid_spec(gpu: bool, number: int) -> None:
    page = Page(FakeRunner(lambda *_: ok_result()))
    values = {name: field.value for name, field in page.run_tab.form.inputs.items()}
    chosen = presets.presets(gpu, loadable=False)[number].values
    assert set(chosen) <= set(values)
    spec, _ = form.read(values | chosen)
    assert spec == catalog.make_spec(**chosen)


def test_without_a_gpu_every_preset_works_offline() -> None:
    for preset in presets.presets(gpu=False):
        found = catalog.find(preset.values["checkpoint"])
        assert found is not None and found.bundled


def test_the_full_size_segformer_needs_no_network_either() -> None:
    first = presets.presets(gpu=True, loadable=False)[0]
    assert (first.values["checkpoint"], first.values["weights"]) == (presets.SEGFORMER, "random")


def test_a_call_tells_what_was_asked_and_no_default() -> None:
    assert takeaway.arguments(RunSpec("shapes-vit", "image-classification")) == {"checkpoint": "shapes-vit"}
    asked = {"batch_size": 4, "fullgraph": True, "precision": 0.02}
    assert takeaway.arguments(RunSpec("a/b", "image-classification", **asked)) == {
        "checkpoint": "a/b",
        "task": "image-classification",
        **asked,
    }
