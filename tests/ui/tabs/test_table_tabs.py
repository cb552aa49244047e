"""The tabs of published and of shared tables without a browser."""

import base64
import csv
import io
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import gradio as gr
import measured_tables
import pytest
from page_support import HOSTILE, answering, asked_by, handler
from samples import ok_result

from demo.core import format as fmt, limits
from demo.core.spec import RunSpec
from demo.store import published
from demo.ui.page import Page
from demo.ui.tabs import links
from demo.ui.tabs.table_tabs import FIRST_PUBLISHED, MAX_SEARCH, published_shown


def lines(table: str) -> list[list[str]]:
    """The text of every cell of the table's body, with single spaces."""
    body = table.partition("<tbody>")[2]
    drawn = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in re.findall(r"<tr.*?</tr>", body)]
    return [[" ".join(unescape(re.sub("<[^>]*>", " ", cell)).split()) for cell in line] for line in drawn]


def specs_of(table: str) -> list[RunSpec | None]:
    """What the links of the rows ask for."""
    return [links.spec_of(query, "shapes-vit") for query in asked_by(table, "fill")]


def block_of(page: Page, id: str) -> Any:
    """A tab, or the component of this id."""
    blocks = page.blocks.values()
    return next(one for one in blocks if id in (getattr(one, "id", ""), getattr(one, "elem_id", "")))


# ---- published


def view(**changes: str) -> dict[str, Any]:
    _, chosen, outputs = published_shown(FIRST_PUBLISHED | changes)
    return chosen | dict(zip(("scope", "durations", "by_batch", "table"), outputs, strict=True))


def test_the_charts_show_the_rows_of_the_table() -> None:
    for asked in [{}, {"gpu": "T4", "batch_size": "16"}, {"task": "object-detection"}]:
        now = view(**asked)
        chart = now["durations"]["value"]
        bars = chart.data[0].x
        assert 2 * len(lines(now["table"])) == len(bars)
        for line, eager, compiled in zip(lines(now["table"]), bars[::2], bars[1::2], strict=True):
            scale = 1e3 if chart.layout.title.text.endswith(", s</b>") else 1
            assert [0.0 if cell == "OOM" else float(cell) for cell in line[4:6]] == pytest.approx(
                [eager * scale, compiled * scale], abs=1e-3
            )


def test_a_table_of_this_project_compares_with_and_without_its_settings_and_says_once_what_all_rows_share() -> None:
    """Mask2Former is 0.46 times as fast as eager with freezing, 1.32 times without it."""
    faulty = lines(view(subset="nightly", gpu="T4", batch_size="16")["table"])
    assert any(line[0].startswith("BeiT †") and "Repeats the A100's row" in line[0] for line in faulty)
    now = view(subset="measured freezing", gpu="", batch_size="")
    row = next(line for line in lines(now["table"]) if line[0].startswith("Mask2former"))
    assert "0.35× as fast as without freezing" in row[6] and "†" not in now["table"]
    assert now["table"].count("random weights") == 1
    means = [annotation.text for annotation in now["by_batch"]["value"].layout.annotations if "×" in annotation.text]
    frozen = [one for one in published.all_rows() if one.subset == "measured freezing"]
    mean = published.mean_speedup(frozen)
    assert mean is not None and any(fmt.ratio(mean) in text for text in means)


def test_each_row_that_ships_has_a_link_that_asks_for_what_it_measured() -> None:
    rows = published.all_rows()
    specs = specs_of(view(subset="", gpu="", batch_size="")["table"])
    assert [(spec.checkpoint, spec.task, spec.batch_size, spec.mode) for spec in specs if spec] == [
        (row.checkpoint, row.task, row.batch_size, row.mode) for row in rows
    ]
    own_specs = [spec for spec, row in zip(specs, rows, strict=True) if spec and row.measured]
    assert [published.subset_of(spec) for spec in own_specs] == [row.subset for row in rows if row.measured]
    assert {spec.freezing for spec in own_specs} == {False, True}
    own = lines(view(subset="measured freezing", gpu="", batch_size="")["table"])
    assert all(", default, float32, freezing, 2026-" in line[8] for line in own)


def test_a_link_of_a_measured_row_asks_for_every_setting_that_its_table_names(own: Path) -> None:
    settings: list[dict[str, Any]] = [
        {"mode": "reduce-overhead", "dtype": "bfloat16", "weights": "random", "threads": 1, "channels_last": True},
        {"compiler": "aot", "attention": "sdpa", "freezing": True, "dynamic": "on"},
        {"scope": "layers", "batch_size": 4},
    ]
    asked = [RunSpec("google/vit-base-patch16-224", "image-classification", **some) for some in settings]
    asked.append(RunSpec("google/gemma-2b", "text-generation", prompt="It is freezing tokens-", tokens=8))
    published.add_measured([ok_result(spec=spec) for spec in asked], own / "a.csv", "")
    assert specs_of(view(subset="", gpu="Example CPU", batch_size="")["table"]) == asked


def test_a_row_that_this_page_cannot_run_has_no_link(own: Path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(batch=4, hub_ids=False))
    measured_tables.write(
        own / "a.csv", {"batch_size": "16"}, {"checkpoint": "some/other"}, {"checkpoint": "/a/folder"}, {}
    )
    table = view(subset="measured", gpu="", batch_size="")["table"]
    assert len(lines(table)) == 4
    assert [spec.checkpoint for spec in specs_of(table) if spec] == ["google/vit-base-patch16-224"]
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(batch=4, hub_ids=True))
    found = specs_of(view(subset="measured", gpu="", batch_size="")["table"])
    assert [spec.checkpoint for spec in found if spec] == ["some/other", "google/vit-base-patch16-224"]


def test_a_search_narrows_table_and_charts_and_a_choice_that_the_table_lacks_falls_back_to_all() -> None:
    found = view(gpu="", model="owl")
    assert [line[2] for line in lines(found["table"])] == ["A100", "V100", "T4"]
    assert "speed-up, OwlViT" in found["by_batch"]["value"].layout.annotations[-1].text.replace("<br>", " ")
    fallen = view(subset="reduce-overhead", gpu="V100", batch_size="16")
    assert fallen["gpu"] == fallen["batch_size"] == ""
    assert len(lines(fallen["table"])) == 16


def test_the_tab_shows_what_its_link_chooses_or_else_what_its_fields_hold() -> None:
    page = Page(answering(ok_result()))
    show = handler(page, of=(block_of(page, "published"), "select"))
    for query, held, chosen in [
        ("", ["release", "T4", "1", "", "vit "], "published_gpu=T4&published_model=vit"),
        ("?published_gpu=V100&shared_gpu=T4", [], "published_gpu=V100"),
        ("?published_gpu=&published_batch_size=3", [], "published_gpu=&published_batch_size="),
        ("?published_model=" + "a" * 999, [], "published_model=" + "a" * MAX_SEARCH),
    ]:
        now, *lists, model = show(query, *held)[:6]
        assert now == chosen and (model == gr.skip()) is (not query)
        assert f"published_gpu={lists[1]['value']}" in now or lists[1]["value"] == "A100"


def test_a_search_without_a_hit_is_a_sentence_and_no_chart() -> None:
    for asked in [{"model": "gpt"}, {"model": HOSTILE}, {"model": "owl", "batch_size": "4"}]:
        empty = view(**asked)
        assert re.search(r"No (model|row)", empty["scope"]) and "<script" not in empty["scope"]
        assert not any(empty[chart]["visible"] for chart in ("durations", "by_batch"))
        assert lines(empty["table"]) == []


def test_the_downloads_hold_the_rows_of_the_table() -> None:
    table = view(gpu="T4", batch_size="16")["table"]
    links = dict(re.findall(r'href="data:([a-z/]+);base64,([^"]+)"', table))
    text = base64.b64decode(links["text/csv"]).decode()
    rows = json.loads(base64.b64decode(links["application/json"]))
    assert len(list(csv.DictReader(io.StringIO(text)))) == len(rows) == len(lines(table)) == 11


def test_text_of_a_measured_table_is_harmless(own: Path) -> None:
    measured_tables.write(own / "a.csv", {"gpu": HOSTILE, "model": HOSTILE, "checkpoint": HOSTILE, "torch": HOSTILE})
    now = view(subset="measured", gpu="")
    assert len(lines(now["table"])) == 1 and "<script" not in now["table"] + now["scope"]
