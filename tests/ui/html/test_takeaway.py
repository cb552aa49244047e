"""What a visitor carries off: the snippets really ask a running server for the run, and nothing in them gets out."""

import base64
import dataclasses
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import MACHINE, FakeRunner
from page_support import answering, opened, serving
from samples import ENVIRONMENT, failed_result, info_of, ok_result

from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.core.stats import Gain
from demo.present import markdown
from demo.present.script import script
from demo.store.history import History
from demo.ui.html import takeaway
from demo.ui.page import Page, masthead
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

    with serving(Page(FakeRunner(answer))) as address:
        yield address.rstrip("/"), asked


OWL = RunSpec(
    "google/owlvit-base-patch32", "object-detection", device="cpu", weights="random",
    text=("a cat's tail", HOSTILE.replace(";", ""), "猫!! 🐈", "قطة"),
)  # fmt: skip  # ";" parts queries
CHANGED = RunSpec(
    "someone/model", "image-segmentation", device="cpu", batch_size=4, mode="max-autotune", dtype="bfloat16",
    fullgraph=True, iterations=30, channels_last=True, threads=2, precision=0.05,
)  # fmt: skip
FOLDER = ok_result(spec=RunSpec("/somewhere/model", "image-classification", device="cpu"))
RUNS = {
    "as it comes, scene": (ok_result().spec, form.scenes()[1]),
    "queries, photograph": (OWL, form.photographs()[2]),
    "changed, own": (CHANGED, None),
}


@pytest.fixture(params=RUNS)
def run(request) -> tuple[RunResult, Path | None]:
    """A result of each task on each kind of picture, and the picture where the server has it."""
    spec, picture = RUNS[request.param]
    return ok_result(spec=spec, **({"image": info_of(picture)} if picture else {})), picture


def pasted(shell: list[str], snippet: str, folder: Path) -> str:
    """What a shell, or Python, prints of what is pasted into it as a whole."""
    done = subprocess.run(shell, input=snippet, cwd=folder, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr and "syntax error" not in done.stderr
    return done.stdout + done.stderr


BASH = ["bash", "--norc", "-i"]
PYTHON = [sys.executable, "-I", "-"]


def test_the_script_says_what_stands_in_for_a_picture_of_ones_own_and_where_bundled_weights_lie() -> None:
    sentence = "A grey picture of the same size stands in for yours."
    weights = "Start it in the project's folder"
    assert sentence in takeaway.section(ok_result(), ENGLISH) and weights in takeaway.section(ok_result(), ENGLISH)
    assert weights not in takeaway.section(ok_result(spec=CHANGED), ENGLISH)


def test_what_to_try_next_is_one_line_and_the_button_of_the_search() -> None:
    gains = (Gain("freezing", True, 1.6, ("shapes-vit",)), Gain("compiler", "aot", 1.3, ("shapes-vit",)))
    html = takeaway.section(ok_result(gains=gains), ENGLISH)
    line = html.partition('<div class="next">')[2].partition("</div>")[0]
    assert "“Freezing: on” made compiled 1.60× as fast here" in line and "1.30×" not in line
    assert re.findall(r'href="[?]([^"]*)" data-follow="(\w+)"', html) == [
        ("checkpoint=shapes-vit&amp;device=cpu&amp;best", "best")
    ]
    for without in (failed_result(), FOLDER):
        assert "data-follow" not in takeaway.section(without, ENGLISH)


def test_only_where_the_picture_is_the_visitors_own_the_calls_have_a_place_for_it() -> None:
    for picture in (*form.scenes(), *form.photographs()):
        assert takeaway.UPLOADED not in takeaway.section(ok_result(image=info_of(picture)), ENGLISH)
    html = takeaway.section(ok_result(), ENGLISH)
    assert html.count(f"Put the path of your picture in place of {takeaway.UPLOADED}.") == 2


def test_curl_pasted_into_an_empty_folder_repeats_the_run(served: Any, run: Any, tmp_path) -> None:
    (address, asked), (result, picture) = served, run
    snippet, before = takeaway.curl(result, address), len(asked)
    told = pasted(BASH, snippet, tmp_path)
    if picture is None:
        assert "curl: (26)" in told and len(asked) == before
        shutil.copy(SCENE, tmp_path / takeaway.UPLOADED)
        told = pasted(BASH, snippet, tmp_path)
    assert "event: complete" in told, told
    data = json.loads(re.findall(r"^data: (.+)$", told, re.MULTILINE)[-1])
    assert RunResult.from_json(data[0]).spec == result.spec
    assert asked[before:] == [(result.spec, (picture or SCENE).read_bytes())]
    assert {file.name for file in tmp_path.iterdir()} <= {takeaway.UPLOADED}


def test_gradio_client_pasted_into_an_empty_folder_repeats_the_run(served: Any, run: Any, tmp_path) -> None:
    (address, asked), (result, picture) = served, run
    snippet, before = takeaway.client(result, address), len(asked)
    if picture is None:
        shutil.copy(SCENE, tmp_path / takeaway.UPLOADED)
    assert re.search(r"^ok \{.*'verdict': 'faster'", told := pasted(PYTHON, snippet, tmp_path), re.MULTILINE), told
    assert asked[before:] == [(result.spec, (picture or SCENE).read_bytes())]


def test_script_and_json_are_files_to_download() -> None:
    result = ok_result()
    html = takeaway.section(result, ENGLISH)
    files = dict(
        re.findall(r'download="shapes-vit-[A-Za-z0-9.-]+\.(json|py)" href="data:[a-z/-]+;base64,([^"]+)"', html)
    )
    assert base64.b64decode(files["py"]).decode() == script(result)
    assert RunResult.from_json(json.loads(base64.b64decode(files["json"]))) == result


def test_the_markdown_table_has_the_figures_and_no_markup_from_outside() -> None:
    environment = dataclasses.replace(ENVIRONMENT, device_name=HOSTILE)
    result = ok_result(environment=environment)
    lines = markdown.of_run(result).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert {row.count("|") for row in rows} == {4}
    assert "| latency | 2.04 ms | 1.02 ms |" in rows
    assert re.search(r"[^\\][|<`*]", lines[-1]) is None
    assert lines[0].startswith("Worth it from about ")


def test_a_failed_run_offers_its_script_and_no_figure_and_a_folder_no_call_of_the_api() -> None:
    failed, folder = (takeaway.section(one, ENGLISH) for one in (failed_result(), FOLDER))
    assert "take-script" in failed and "take-script" in folder
    assert not any(part in failed for part in ("take-code", "traffic", "data-figure", "take-table"))
    assert "take-curl" not in folder and "command line" in folder


def test_a_shared_run_says_when_and_where_it_was_measured_in_every_language(history: History, monkeypatch) -> None:
    history.append(ok_result())
    page = Page(answering(ok_result()), history=history)
    fold = page.run_tab.pane.folds[-1].html["takeaway"]
    for code in LANGUAGES:
        (shown,) = opened(page, run=ok_result().id, lang=code)
        html = shown[page.run_tab.pane.share]["value"]
        assert "2026-11-21 09:00 UTC" in html and "Example CPU" in html
        assert "{ADDRESS}/?run=20261121T090000-abcdef</code>" in html
        assert f'href="{{ADDRESS}}/card/{ok_result().id}.png"' in html
        assert f"]({{ADDRESS}}/badge/{ok_result().id}.svg)]" in shown[fold]["value"]
    lost = takeaway.share(ok_result(id="lost"), stored=False, lang=ENGLISH)
    assert "<button" not in lost and "/card/" not in lost and "Measured 2026-11-21 09:00 UTC" in lost
    monkeypatch.setenv("SPACE_ID", "me/page")
    assert "https://huggingface.co/spaces/me/page?run=" in takeaway.share(ok_result(), stored=True, lang=ENGLISH)
    assert "https://huggingface.co/spaces/me/page?duplicate=true" in masthead(MACHINE, ENGLISH)
    monkeypatch.setenv("SPACE_HOST", "me-page.hf.space,my.example")  # huggingface.co has no badge of a Space
    space = "https://huggingface.co/spaces/me/page"
    says = "torch.compile: 2.00× faster on Example CPU"
    image = f"![{says}](https://me-page.hf.space/badge/{ok_result().id}.svg)"
    assert takeaway.badge(ok_result()) == f"[{image}]({space}?run={ok_result().id})"
    assert 'data-address="https://huggingface.co/spaces/me/page"' in masthead(MACHINE, ENGLISH)
    monkeypatch.delenv("SPACE_ID")
    assert "duplicate" not in masthead(MACHINE, ENGLISH) and 'data-address=""' in masthead(MACHINE, ENGLISH)
