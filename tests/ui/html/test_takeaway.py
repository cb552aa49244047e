"""What a visitor carries off: the snippets really ask a running server for the run, and nothing in them gets out."""

import base64
import dataclasses
import json
import re
from pathlib import Path

from support.fake_runner import MACHINE
from support.page_support import answering, opened
from support.samples import ENVIRONMENT, failed_result, ok_result

from demo.core.result_json import from_json
from demo.core.spec import RunSpec
from demo.present import markdown
from demo.present.script import script
from demo.store.history import History
from demo.ui.html import takeaway
from demo.ui.page import Page, masthead

SCENE = Path(__file__).resolve().parents[3] / "assets" / "examples" / "shapes-scene-1.png"
HOSTILE = "a'b\"; $(touch hacked) `touch hacked` | <img src=x onerror=alert(1)> *x* \\ é"


CHANGED = RunSpec(
    "someone/model", "image-segmentation", device="cpu", batch_size=4, mode="max-autotune", dtype="bfloat16",
    fullgraph=True, iterations=30, channels_last=True, threads=2, precision=0.05,
)  # fmt: skip
FOLDER = ok_result(spec=RunSpec("/somewhere/model", "image-classification", device="cpu"))


def test_the_script_says_what_stands_in_for_a_picture_of_ones_own_and_where_bundled_weights_lie() -> None:
    sentence = "A grey picture of the same size stands in for yours."
    weights = "Start it in the project's folder"
    assert sentence in takeaway.section(ok_result()) and weights in takeaway.section(ok_result())
    assert weights not in takeaway.section(ok_result(spec=CHANGED))


def test_script_and_json_are_files_to_download() -> None:
    result = ok_result()
    html = takeaway.section(result)
    files = dict(
        re.findall(r'download="shapes-vit-[A-Za-z0-9.-]+\.(json|py)" href="data:[a-z/-]+;base64,([^"]+)"', html)
    )
    assert base64.b64decode(files["py"]).decode() == script(result)
    assert from_json(json.loads(base64.b64decode(files["json"]))) == result


def test_the_markdown_table_has_the_figures_and_no_markup_from_outside() -> None:
    environment = dataclasses.replace(ENVIRONMENT, device_name=HOSTILE)
    result = ok_result(environment=environment)
    lines = markdown.of_run(result).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert {row.count("|") for row in rows} == {4}
    assert "| A call | 2.04 ms | 1.02 ms |" in rows
    assert re.search(r"[^\\][|<`*]", lines[-1]) is None
    assert lines[2].startswith("Pays after ")


def test_a_failed_run_offers_its_script_and_no_figure() -> None:
    failed, folder = (takeaway.section(one) for one in (failed_result(), FOLDER))
    assert "take-script" in failed and "take-script" in folder
    assert not any(part in failed for part in ("take-code", "data-figure", "take-table", "data-follow"))


def test_a_shared_run_says_when_and_where_it_was_measured(history: History, monkeypatch) -> None:
    history.append(ok_result())
    page = Page(answering(ok_result()), history=history)
    (shown,) = opened(page, run=ok_result().id)
    html = shown[page.run_tab.pane.share]["value"]
    assert "2026-11-21 09:00 UTC" in html and "Example CPU" in html
    assert "{ADDRESS}/?run=20261121T090000-abcdef</code>" in html
    png = re.search(r'href="data:image/png;base64,([^"]+)" download=', html)
    assert base64.b64decode(png[1]).startswith(b"\x89PNG")
    lost = takeaway.share(ok_result(id="lost"), stored=False)
    assert "<button" not in lost and "Measured 2026-11-21 09:00 UTC" in lost
    monkeypatch.setenv("SPACE_ID", "me/page")
    assert "https://huggingface.co/spaces/me/page?run=" in takeaway.share(ok_result(), stored=True)
    assert "https://huggingface.co/spaces/me/page?duplicate=true" in masthead(MACHINE)
    assert 'data-address="https://huggingface.co/spaces/me/page"' in masthead(MACHINE)
    monkeypatch.delenv("SPACE_ID")
    assert "duplicate" not in masthead(MACHINE) and 'data-address=""' in masthead(MACHINE)
