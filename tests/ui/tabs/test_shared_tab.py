"""The tab of shared results without a browser."""

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import gradio as gr
import pytest
from fake_runner import FakeRunner
from page_support import Tags, handler
from samples import ok_result
from shared_tables import cells, plausible, write

from demo.core import limits
from demo.core.languages import ENGLISH, LANGUAGES, Language
from demo.present import sentences
from demo.store import shared_rows
from demo.store.history import FOLDER_VARIABLE
from demo.store.hub_dataset import PushedHistory
from demo.store.shared_copy import Shared
from demo.ui.html import shared_html as html
from demo.ui.page import Page
from demo.ui.tabs import links
from demo.ui.tabs.shared_tab import shown


def of_rows(folder: Path, rows: list[dict[str, Any]], **more: Any) -> Shared:
    read, _ = shared_rows.read(write(folder, rows))
    read.sort(key=lambda row: (row.started_at, row.id), reverse=True)
    return Shared("somebody/runs", tuple(read), fetched_at="2026-11-23T08:00:00Z", **more)


def view(shared: Shared, lang: Language = ENGLISH, **asked: str) -> dict[str, Any]:
    asked = {"setting": "", "task": "", "device": "", "torch": "", "model": ""} | asked
    choices, chosen, outputs = shown(shared, asked, lang)
    return {"choices": choices, "chosen": chosen} | dict(zip(("status", "map", "table"), outputs, strict=True))


def lines(table: str) -> list[list[str]]:
    """The text of every cell of the body, with single spaces."""
    body = table.partition("<tbody>")[2]
    drawn = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in re.findall(r"<tr.*?</tr>", body)]
    return [[" ".join(unescape(re.sub("<[^>]*>", " ", cell)).split()) for cell in line] for line in drawn]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    return of_rows(tmp_path_factory.mktemp("shared"), plausible())


def page_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Page, PushedHistory]:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    history = PushedHistory("somebody/runs", lambda **_: None)
    return Page(FakeRunner(lambda *_: ok_result()), history=history), history


def tabs_of(page: Page) -> list[str]:
    return [block.id for block in page.blocks.blocks.values() if type(block).__name__ == "Tab"]


def test_the_tab_exists_only_where_a_dataset_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, _ = page_of(tmp_path, monkeypatch)
    assert "shared" in tabs_of(page)
    assert "shared" not in tabs_of(Page(FakeRunner(lambda *_: ok_result())))


def test_nothing_is_fetched_before_the_tab_is_opened_nor_while_a_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, history = page_of(tmp_path, monkeypatch)
    looks: list[bool] = []
    monkeypatch.setattr(history.shared, "_renew", lambda: looks.append(True))
    (tab,) = (block for block in page.blocks.blocks.values() if getattr(block, "id", "") == "shared")
    select = handler(page, of=(tab, "select"))
    assert looks == []
    with page.queue.join():
        asked = "shared_device=Tesla+T4&shared_model=vit"
        chosen, *filters, told, _, _ = select(f"?tab=shared&{asked}")
        assert "when it has ended" in told and "data-fetching" in told and looks == []
        assert chosen == asked and filters == [gr.skip()] * 5  # a device that may still arrive
    *_, model, _, _, _ = select("", *[""] * 4, "vit")
    assert model == gr.skip()  # somebody may be typing there
    history.shared._thread.join()  # type: ignore[union-attr]
    assert looks == [True]
    (status,) = (block for block in page.blocks.blocks.values() if getattr(block, "elem_id", "") == "shared-status")
    tick = handler(page, of=(status, "tick"))
    held = [tick("shared_model=de", typed)[5] for typed in ("detr", "")]
    assert held == [gr.skip(), "de"]  # a link's, which is not in the field yet
    assert tick("", "")[5] == gr.skip()


def test_one_setting_is_shown_at_first_that_of_most_rows(shared: Shared) -> None:
    first = view(shared)
    labels = [name for name, _ in first["choices"]["setting"]]
    counts = [int(re.findall(r"(\d+) rows?$", name)[0]) for name in labels]
    assert counts == sorted(counts, reverse=True) and sum(counts) == len(shared.rows)
    assert labels[0].startswith("torch 2.13.0 · transformers 5.23.0 · batch 1 · default · float32")
    with_them = {line[5] for line in lines(first["table"])}
    assert with_them == {"torch 2.13.0, transformers 5.23.0, batch 1, default, float32"}


def test_a_cell_is_the_newest_run_with_its_interval_and_says_of_how_many(tmp_path: Path) -> None:
    one = {"eager_ms": 29.0, "compiled_ms": 20.0, "speedup_low": 1.40, "speedup": 1.45, "speedup_high": 1.5}
    rows = [
        cells(id="old", started_at="2026-11-20T00:00:00Z"),
        cells(id="new", started_at="2026-11-21T00:00:00Z", **one),
        cells(id="gpu", device="cuda", device_name="Tesla T4", **one | {"verdict": "unsure"}),
    ]
    head = re.findall(r'<th scope="col">(.*?)</th>', (drawn := view(of_rows(tmp_path, rows)))["map"])
    assert head[1:] == ["Example CPU<small>2 threads</small>", "Tesla T4"]
    assert lines(drawn["map"]) == [["shapes-vit", "▲ 1.45× 1.40 to 1.50× newest of 2", "unsure 1.40 to 1.50×"]]


def test_filters_leave_what_fits_and_forget_what_no_row_has(shared: Shared) -> None:
    models = {line[0].split()[0] for line in lines(view(shared, task="object-detection")["table"])}
    assert models == {"detr-resnet-50"}
    assert {line[1] for line in lines(view(shared, device="Tesla T4")["table"])} == {"Tesla T4"}
    assert all("torch 2.11.0" in line[5] for line in lines(view(shared, torch="2.11.0")["table"]))
    assert {line[0].split()[0] for line in lines(view(shared, model=" RESNET-50")["table"])} == {
        "resnet-50",
        "detr-resnet-50",
    }
    other = view(shared)["choices"]["setting"][1][1]
    assert view(shared, setting=other)["chosen"]["setting"] == other
    gone = view(shared, device="a device of <yesterday>", setting="0000")
    assert gone["chosen"]["device"] == "" and gone["table"] == view(shared)["table"]
    assert "No row matches" in view(shared, model="no such model")["map"]


def test_repeat_this_here_fills_the_form_with_the_rows_settings(tmp_path: Path) -> None:
    gpu = cells(
        id="b", checkpoint="google/owlvit-base-patch32", task="object-detection", device="cuda", device_name="Tesla T4",
        batch_size=4, mode="lite", text="a cat, a dog", freezing=True, precision=0.05,
    )  # fmt: skip
    for row in shared_rows.read(write(tmp_path, [cells(id="a"), gpu]))[0]:
        table = html.table([row], ENGLISH)
        (query,) = re.findall(r'href="\?([^"]*)" data-follow="fill"', table)
        spec = links.spec_of(dict(parse_qsl(unescape(query))), "shapes-vit")
        assert spec == row.spec.on("cpu" if row.spec.device == "cpu" else "auto")


def test_what_this_page_cannot_run_has_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(hub_ids=False, batch=4))
    rows = shared_rows.read(write(tmp_path, [cells(checkpoint="somebody/own-model"), cells(batch_size=8)]))[0]
    assert len(rows) == 2 and "data-follow" not in html.table(rows, ENGLISH)


def test_only_so_many_rows_models_and_devices_are_drawn_and_it_says_so(tmp_path: Path) -> None:
    many = [
        cells(id=f"{model}-{device}", checkpoint=f"a/model-{model}", device_name=f"CPU {device}")
        for model in range(50)
        for device in range(12)
    ]
    drawn = view(of_rows(tmp_path, many))
    assert len(lines(drawn["table"])) == html.MAX_LINES and "Only the newest 100 rows are shown" in drawn["table"]
    assert len(lines(drawn["map"])) == html.MAX_MODELS and len(lines(drawn["map"])[0]) == html.MAX_DEVICES + 1
    assert "40 models and 8 devices" in drawn["map"]


def test_a_prompt_cannot_become_a_tag(tmp_path: Path) -> None:
    prompt = '"><img src=x onerror=alert(1)> [a](b)'
    hostile = cells(task="text-generation", checkpoint="shapes-gemma", prompt=prompt, tokens=8)
    drawn = view(of_rows(tmp_path, [hostile]))
    assert "onerror" in drawn["map"]
    for part in (drawn["map"], drawn["table"]):
        assert not Tags(part).runs_script and "img" not in Tags(part).names


def test_the_status_says_of_when_the_copy_is_why_and_what_is_left_out(shared: Shared) -> None:
    def said(lang: Language, **more: Any) -> str:
        return html.status(Shared("somebody/runs", shared.rows, **more), lang)

    bad = {"unreadable_rows": 3004, "unreadable_files": 2, "cut": True}
    for lang in LANGUAGES.values():
        old = said(lang, fetched_at="2026-11-23T08:00:00Z", problem="failed", **bad)
        assert "2026-11-23 08:00 UTC" in old and lang.html("shared_failed") in old
        assert lang.html("shared_left_out", rows=sentences.grouped(3004), files=2) in old
        assert lang.html("shared_cut", count="360") in old
        assert lang.html("shared_busy") in said(lang, problem="busy")
        assert "data-fetching" not in old and "data-fetching" in said(lang, fetching=True)
        assert lang.html("shared_none") in view(Shared("somebody/runs", fetched_at="2026-11-23T08:00:00Z"), lang)["map"]


def test_figures_of_an_arabic_map_and_table_run_from_left_to_right(shared: Shared) -> None:
    drawn = view(shared, LANGUAGES["ar"])
    for part in ("map", "table"):
        loose = re.sub(r'<(\w+)[^>]*\bdir="ltr"[^>]*>.*?</\1>', "", drawn[part])
        assert not re.search(r"\d", re.sub("<[^>]*>", " ", loose))
