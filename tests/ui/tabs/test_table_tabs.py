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
from page_support import HOSTILE, Tags, answering, asked_by, handler
from samples import ok_result
from shared_tables import cells, plausible, write

from demo.core import format as fmt, limits
from demo.core.languages import ENGLISH, LANGUAGES, Language
from demo.core.spec import RunSpec
from demo.present import sentences
from demo.store import published, shared_rows
from demo.store.history import FOLDER_VARIABLE
from demo.store.hub_dataset import PushedHistory
from demo.store.shared_rows import Shared
from demo.ui.html import many_runs
from demo.ui.page import Page
from demo.ui.tabs import links
from demo.ui.tabs.table_tabs import FIRST_PUBLISHED, FIRST_SHARED, MAX_SEARCH, published_shown, shared_shown


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
    _, chosen, outputs = published_shown(FIRST_PUBLISHED | changes, ENGLISH)
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


# ---- shared


def of_rows(folder: Path, rows: list[dict[str, Any]], **more: Any) -> Shared:
    read, _ = shared_rows.read(write(folder, rows))
    read.sort(key=lambda row: (row.started_at, row.id), reverse=True)
    return Shared("somebody/runs", tuple(read), fetched_at="2026-11-23T08:00:00Z", **more)


def view_shared(shared: Shared, lang: Language = ENGLISH, **asked: str) -> dict[str, Any]:
    choices, chosen, outputs = shared_shown(shared, FIRST_SHARED | asked, lang)
    return {"choices": choices, "chosen": chosen} | dict(zip(("status", "map", "table"), outputs, strict=True))


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Shared:
    return of_rows(tmp_path_factory.mktemp("shared"), plausible())


def page_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Page, PushedHistory]:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    history = PushedHistory("somebody/runs", lambda **_: None)
    return Page(answering(ok_result()), history=history), history


def tabs_of(page: Page) -> list[str]:
    return [block.id for block in page.blocks.values() if type(block).__name__ == "Tab"]


def test_nothing_is_fetched_before_the_tab_is_opened_nor_while_a_run_goes_on(tmp_path, monkeypatch) -> None:
    page, history = page_of(tmp_path, monkeypatch)
    looks: list[bool] = []
    monkeypatch.setattr(history.shared, "_renew", lambda: looks.append(True))
    select = handler(page, of=(block_of(page, "shared"), "select"))
    assert looks == [] and "shared" not in tabs_of(Page(answering(ok_result())))
    with page.run_queue.join():
        asked = "shared_device=Tesla+T4&shared_model=vit"
        chosen, *filters, told, _, _ = select(f"?tab=shared&{asked}")
        assert "when it has ended" in told and "data-fetching" in told and looks == []
        assert chosen == asked and filters == [gr.skip()] * 5  # a device that may still arrive
    *_, model, _, _, _ = select("", *[""] * 4, "vit")
    assert model == gr.skip()  # somebody may be typing there
    history.shared._thread.join()  # type: ignore[union-attr]
    assert looks == [True]
    tick = handler(page, of=(block_of(page, "shared-status"), "tick"))
    held = [tick("shared_model=de", typed)[5] for typed in ("detr", "")]
    assert held == [gr.skip(), "de"]  # a link's, which is not in the field yet
    assert tick("", "")[5] == gr.skip()


def test_one_setting_is_shown_at_first_that_of_most_rows(shared: Shared) -> None:
    first = view_shared(shared)
    labels = [name for name, _ in first["choices"]["setting"]]
    counts = [int(re.findall(r"(\d+) rows?$", name)[0]) for name in labels]
    assert counts == sorted(counts, reverse=True) and sum(counts) == len(shared.rows)
    assert labels[0].startswith("torch 2.13.0 · transformers 5.23.0 · batch 1 · default · float32")
    with_them = {line[5] for line in lines(first["table"])}
    assert with_them == {"torch 2.13.0, transformers 5.23.0, batch 1, default, float32"}


def test_a_cell_is_the_newest_run_with_its_interval_and_says_of_how_many(tmp_path) -> None:
    one = {"eager_ms": 29.0, "compiled_ms": 20.0, "speedup_low": 1.40, "speedup": 1.45, "speedup_high": 1.5}
    rows = [
        cells(id="old", started_at="2026-11-20T00:00:00Z"),
        cells(id="new", started_at="2026-11-21T00:00:00Z", **one),
        cells(id="gpu", device="cuda", device_name="Tesla T4", **one | {"verdict": "unsure"}),
    ]
    head = re.findall(r'<th scope="col">(.*?)</th>', (drawn := view_shared(of_rows(tmp_path, rows)))["map"])
    assert head[1:] == ["Example CPU<small>2 threads</small>", "Tesla T4"]
    assert lines(drawn["map"]) == [["shapes-vit", "▲ 1.45× 1.40 to 1.50× newest of 2", "unsure 1.40 to 1.50×"]]


def test_filters_leave_what_fits_and_forget_what_no_row_has(shared: Shared) -> None:
    def models(**asked: str) -> set[str]:
        return {line[0].split()[0] for line in lines(view_shared(shared, **asked)["table"])}

    assert models(task="object-detection") == {"detr-resnet-50"}
    assert models(model=" RESNET-50") == {"resnet-50", "detr-resnet-50"}
    assert {line[1] for line in lines(view_shared(shared, device="Tesla T4")["table"])} == {"Tesla T4"}
    assert all("torch 2.11.0" in line[5] for line in lines(view_shared(shared, torch="2.11.0")["table"]))
    other = view_shared(shared)["choices"]["setting"][1][1]
    assert view_shared(shared, setting=other)["chosen"]["setting"] == other
    gone = view_shared(shared, device="a device of <yesterday>", setting="0000")
    assert gone["chosen"]["device"] == "" and gone["table"] == view_shared(shared)["table"]
    assert "No row matches" in view_shared(shared, model="no such model")["map"]


def test_repeat_this_here_fills_the_form_with_the_rows_settings_where_the_page_can_run_them(
    tmp_path, monkeypatch
) -> None:
    gpu = cells(
        id="b", checkpoint="google/owlvit-base-patch32", task="object-detection", device="cuda", device_name="Tesla T4",
        batch_size=4, mode="lite", text="a cat, a dog", freezing=True, precision=0.05,
    )  # fmt: skip
    for row in shared_rows.read(write(tmp_path, [cells(id="a"), gpu]))[0]:
        assert specs_of(many_runs.shared_table([row], ENGLISH)) == [
            row.spec.on("cpu" if row.spec.device == "cpu" else "auto")
        ]
    monkeypatch.setattr(limits, "current", lambda: limits.Limits(hub_ids=False, batch=4))
    rows = shared_rows.read(write(tmp_path, [cells(checkpoint="somebody/own-model"), cells(batch_size=8)]))[0]
    assert len(rows) == 2 and "data-follow" not in many_runs.shared_table(rows, ENGLISH)


def test_only_so_many_rows_models_and_devices_are_drawn_and_it_says_so(tmp_path) -> None:
    many = [
        cells(id=f"{model}-{device}", checkpoint=f"a/model-{model}", device_name=f"CPU {device}")
        for model in range(50)
        for device in range(12)
    ]
    drawn = view_shared(of_rows(tmp_path, many))
    assert len(lines(drawn["table"])) == many_runs.MAX_LINES and "Only the newest 100 rows are shown" in drawn["table"]
    assert len(lines(drawn["map"])) == many_runs.MAX_MODELS and len(lines(drawn["map"])[0]) == many_runs.MAX_DEVICES + 1
    assert "40 models and 8 devices" in drawn["map"]


def test_a_prompt_cannot_become_a_tag(tmp_path) -> None:
    prompt = '"><img src=x onerror=alert(1)> [a](b)'
    hostile = cells(task="text-generation", checkpoint="shapes-gemma", prompt=prompt, tokens=8)
    drawn = view_shared(of_rows(tmp_path, [hostile]))
    assert "onerror" in drawn["map"]
    for part in (drawn["map"], drawn["table"]):
        assert not Tags(part).runs_script and "img" not in Tags(part).names


def test_the_status_says_of_when_the_copy_is_why_and_what_is_left_out(shared: Shared) -> None:
    def said(lang: Language, **more: Any) -> str:
        return many_runs.shared_status(Shared("somebody/runs", shared.rows, **more), lang)

    bad = {"unreadable_rows": 3004, "unreadable_files": 2, "cut": True}
    for lang in LANGUAGES.values():
        old = said(lang, fetched_at="2026-11-23T08:00:00Z", problem="failed", **bad)
        assert "2026-11-23 08:00 UTC" in old and lang.html("shared_failed") in old
        assert lang.html("shared_left_out", rows=sentences.grouped(3004), files=2) in old
        assert lang.html("shared_cut", count="360") in old
        assert lang.html("shared_busy") in said(lang, problem="busy")
        assert "data-fetching" not in old and "data-fetching" in said(lang, fetching=True)
        nothing = Shared("somebody/runs", fetched_at="2026-11-23T08:00:00Z")
        assert lang.html("shared_none") in view_shared(nothing, lang)["map"]


def test_figures_of_an_arabic_map_and_table_run_from_left_to_right(shared: Shared) -> None:
    drawn = view_shared(shared, LANGUAGES["ar"])
    for part in ("map", "table"):
        loose = re.sub(r'<(\w+)[^>]*\bdir="ltr"[^>]*>.*?</\1>', "", drawn[part])
        assert not re.search(r"\d", re.sub("<[^>]*>", " ", loose))
