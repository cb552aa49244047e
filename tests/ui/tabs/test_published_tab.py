"""The tab of the published tables without a browser, and its endpoint."""

import base64
import csv
import io
import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import gradio as gr
import pytest
from fake_runner import FakeRunner
from gradio_client import Client
from gradio_client.exceptions import AppError
from measured_tables import write
from page_support import from_browser
from samples import ok_result

from demo.core import format as fmt
from demo.core import limits
from demo.core.languages import ENGLISH
from demo.core.spec import RunSpec
from demo.store import measured, published
from demo.ui.html import results
from demo.ui.page import build, launch
from demo.ui.tabs import links
from demo.ui.tabs.published_tab import FIRST, shown
from demo.ui.tabs.row_filters import MAX_SEARCH

HOSTILE = "<script>alert(1)</script>"


def view(**changes: str) -> dict[str, Any]:
    asked = {**FIRST} | changes
    _, chosen, outputs = shown(asked, ENGLISH)
    return chosen | dict(zip(("scope", "durations", "by_batch", "table"), outputs, strict=True))


def lines(table: str) -> list[list[str]]:
    """The text of every cell of the table's body."""
    return [
        [re.sub("<.*?>", " ", cell).strip() for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)]
        for line in re.findall(r"<tr>.*?</tr>", table.partition("<tbody>")[2])
    ]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    return tmp_path


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


def test_a_note_stands_at_the_faulty_row() -> None:
    table = view(subset="nightly", gpu="T4", batch_size="16")["table"]
    beit = next(line for line in lines(table) if line[0].startswith("BeiT"))
    assert beit[0].startswith("BeiT †") and "Repeats the A100&#x27;s row" in beit[0]


def test_a_table_of_this_project_compares_with_and_without_its_settings_and_says_once_what_all_rows_share() -> None:
    """Mask2Former is 0.46 times as fast as eager with freezing, 1.32 times without it."""
    now = view(subset="measured freezing", gpu="", batch_size="")
    row = next(line for line in lines(now["table"]) if line[0].startswith("Mask2former"))
    assert "0.35× as fast as without freezing" in row[6] and "†" not in now["table"]
    assert now["table"].count("random weights") == 1
    means = [annotation.text for annotation in now["by_batch"]["value"].layout.annotations if "×" in annotation.text]
    frozen = [one for one in published.all_rows() if one.subset == "measured freezing"]
    mean = published.mean_speedup(frozen)
    assert mean is not None and any(fmt.ratio(mean) in text for text in means)


def asked_by(table: str) -> list[RunSpec | None]:
    """What the links of the rows ask for."""
    found = [dict(parse_qsl(unescape(query))) for query in re.findall(r'href="\?([^"]*)" data-follow="fill"', table)]
    return [links.spec_of(query, "shapes-vit") for query in found]


def test_each_row_that_ships_has_a_link_that_asks_for_what_it_measured() -> None:
    rows = published.all_rows()
    specs = asked_by(view(subset="", gpu="", batch_size="")["table"])
    assert [(spec.checkpoint, spec.task, spec.batch_size, spec.mode) for spec in specs if spec] == [
        (row.checkpoint, row.task, row.batch_size, row.mode) for row in rows
    ]
    own_specs = [spec for spec, row in zip(specs, rows, strict=True) if spec and row.measured]
    assert [measured.subset_of(spec) for spec in own_specs] == [row.subset for row in rows if row.measured]
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
    measured.add_measured([ok_result(spec=spec) for spec in asked], own / "a.csv", "")
    assert asked_by(view(subset="", gpu="Example CPU", batch_size="")["table"]) == asked


def test_a_row_that_this_page_cannot_run_has_no_link(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(batch=4, hub_ids=False))
    write(own / "a.csv", {"batch_size": "16"}, {"checkpoint": "some/other"}, {"checkpoint": "/a/folder"}, {})
    table = view(subset="measured", gpu="", batch_size="")["table"]
    assert len(lines(table)) == 4
    assert [spec.checkpoint for spec in asked_by(table) if spec] == ["google/vit-base-patch16-224"]
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(batch=4, hub_ids=True))
    found = asked_by(view(subset="measured", gpu="", batch_size="")["table"])
    assert [spec.checkpoint for spec in found if spec] == ["some/other", "google/vit-base-patch16-224"]


def test_a_choice_that_the_table_lacks_falls_back_to_all() -> None:
    fallen = view(subset="reduce-overhead", gpu="V100", batch_size="16")
    assert fallen["gpu"] == fallen["batch_size"] == ""
    assert len(lines(fallen["table"])) == 16


def test_the_tab_shows_what_its_link_chooses_or_else_what_its_fields_hold() -> None:
    page = build(FakeRunner(lambda *_: ok_result()))
    (tab,) = (block for block in page.blocks.values() if getattr(block, "id", "") == "published")
    (show,) = {event.fn for event in page.fns.values() if (tab._id, "select") in event.targets}
    for query, held, chosen in [
        ("", ["release", "T4", "1", "", "vit "], "published_gpu=T4&published_model=vit"),
        ("?published_gpu=V100&shared_gpu=T4", [], "published_gpu=V100"),
        ("?published_gpu=&published_batch_size=3", [], "published_gpu=&published_batch_size="),
        ("?published_model=" + "a" * 999, [], "published_model=" + "a" * MAX_SEARCH),
    ]:
        now, *lists, model = show(from_browser(), query, *held)[:6]
        assert now == chosen and (model == gr.skip()) is (not query)
        assert f"published_gpu={lists[1]['value']}" in now or lists[1]["value"] == "A100"


def test_a_search_narrows_table_and_charts() -> None:
    found = view(gpu="", model="owl")
    assert [line[2] for line in lines(found["table"])] == ["A100", "V100", "T4"]
    assert "speed-up, OwlViT" in found["by_batch"]["value"].layout.annotations[-1].text.replace("<br>", " ")


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
    write(own / "a.csv", {"gpu": HOSTILE, "model": HOSTILE, "checkpoint": HOSTILE, "torch": HOSTILE})
    now = view(subset="measured", gpu="")
    assert len(lines(now["table"])) == 1 and "<script" not in now["table"] + now["scope"]


# Beside a run


def test_a_run_of_the_twelve_has_a_section_with_words_and_a_chart() -> None:
    result = ok_result(spec=RunSpec("microsoft/resnet-50", "image-classification", device="cpu", dtype="bfloat16"))
    section = results.beside(result, ENGLISH)
    assert "On the A100 with torch 2.0.1 the guide saw 1.58×." in section
    assert "bfloat16 here, float32 in the guide" in section and "used the CPU" in section
    assert results.guide_chart(result, ENGLISH) is not None


# The endpoint


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    page = build(FakeRunner(lambda *_: ok_result()))
    _, url, _ = launch(page, prevent_thread_lock=True)
    yield Client(url, verbose=False)
    page.close()


def test_the_endpoint_gives_rows_faults_and_sources(client: Client) -> None:
    given = client.predict(gpu="T4", subset="nightly", batch_size=16, api_name="/published")
    assert [(row["model"], row["eager_ms"]) for row in given["rows"]] == [("BeiT", 42.179), ("DETR", "OOM")]
    assert "Repeats" in given["rows"][0]["notes"][0]
    assert len(given["faults"]) == len(published.faults()) and given["sources"] and given["problems"] == []


def test_the_endpoint_refuses_in_a_sentence(client: Client) -> None:
    with pytest.raises(AppError, match=r"no GPU 'H100'\. They have: A100, V100, T4"):
        client.predict(gpu="H100", api_name="/published")
