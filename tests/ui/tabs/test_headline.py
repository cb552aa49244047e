"""Tests of the HTML at the top of the result pane: verdict, scale, progress, failure, and escaping."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from support.page_support import HOSTILE
from support.samples import ENVIRONMENT, failed_result, ok_result

from demo.core import catalog
from demo.core.caveat import Caveat, note
from demo.core.options import RunSpec
from demo.core.progress import Progress
from demo.core.result import Failure
from demo.core.stats import Interval
from demo.present.report import Report
from demo.ui.tabs import headline as headlines, tables
from demo.ui.tabs.events import problem_card
from demo.ui.tabs.headline import (
    compile_parts,
    doing,
    headline,
    intro,
    progress_strip,
    recorded_run,
    recorded_runs,
    ruler,
)
from tools import record

TEMPLATES = Path(__file__).parents[3] / "demo" / "ui" / "templates"


def test_each_template_escapes_texts() -> None:
    templates = [file.read_text(encoding="utf-8") for file in TEMPLATES.glob("*.html")]
    assert templates and not any(re.search(r"\|\s*safe|autoescape|=\s*\{\{", text) for text in templates)


def test_the_most_important_caveat_stands_beside_the_answer() -> None:
    caveats = (Caveat("random_weights"), Caveat("breaks", {"breaks": 2, "graphs": 3}), Caveat("compiles_itself"))
    html = headline(Report(ok_result(caveats=caveats)))
    assert str(caveats[2]) in html and not any(str(caveat) in html for caveat in caveats[:2])
    assert not re.search(r">\s*\n\s*<", html)  # a browser would show a space


def test_texts_from_outside_cannot_become_html() -> None:
    spec = RunSpec(f"{HOSTILE}/model", "image-classification")
    elsewhere = dataclasses.replace(ENVIRONMENT, device_name=HOSTILE, cpu=HOSTILE)
    result = ok_result(id=HOSTILE, spec=spec, caveats=(note(HOSTILE),), environment=elsewhere)
    failed = failed_result(failure=Failure("load", HOSTILE, HOSTILE))
    pieces = [
        headline(Report(result)),
        headline(Report(failed)),
        problem_card("This cannot be run", HOSTILE, HOSTILE),
        intro(HOSTILE),
        progress_strip(Progress(HOSTILE, 0.5, 1.0, code=HOSTILE), spec),
        tables.status_line(HOSTILE),
    ]
    assert not any(re.search(r"<img src=x|<script", piece) for piece in pieces)


def test_each_model_is_introduced_by_its_own_recorded_run(monkeypatch) -> None:
    text = ok_result(id="text", spec=catalog.make_spec("shapes-gemma", prompt=catalog.PROMPT))
    tuned, plain = (
        ok_result(id=mode, spec=catalog.make_spec("shapes-vit", mode=mode)) for mode in ("max-autotune", "default")
    )
    monkeypatch.setattr(headlines, "recorded_runs", lambda: (plain, text, tuned))
    models = {"shapes-vit": "default", "shapes-gemma": "text", "google/gemma-2b": "text", "somebody/model": "default"}
    assert {model: recorded_run(model).id for model in models} == models


def test_each_bundled_model_and_preset_has_a_recorded_run_that_can_stand_for_another() -> None:
    assert {dataclasses.replace(run.spec, device="auto") for run in recorded_runs()} == set(record.specs().values())
    assert all(Report(run).usable for run in recorded_runs())


def span(html: str, kind: str) -> tuple[float, float]:
    """Returns where the first element of this class begins and ends, in per cent of the scale."""
    left, width = re.findall(rf'class="{kind}" style="left:([\d.]+)%;width:([\d.]+)%', html)[0]
    return float(left), float(left) + float(width)


@pytest.mark.parametrize(("low", "high"), [(0.21, 0.26), (3.8, 4.7)], ids=["loss", "win"])
def test_the_ruler_contains_the_interval(low: float, high: float) -> None:
    html = ruler(Interval((low * high) ** 0.5, low, high), True, 0.01)
    start, end = span(html, "range")
    assert "on an axis from 0.2× to 5×" in html and 0 < start < start + 5 < end < 100


def test_the_ruler_shows_processes_inside_the_interval() -> None:
    html = ruler(Interval(1.25, 1.15, 1.36), True, 0.01, Interval(1.25, 1.23, 1.27), [1.2, 1.3, 2.4])
    (start, end), (inner_start, inner_end) = span(html, "range outer"), span(html, "within")
    assert start < inner_start < inner_end < end and inner_end - inner_start < (end - start) / 3
    assert html.count('class="process"') == 3 and "processes: 1.20×, 1.30×, 2.40×" in html
    assert ">3×<" in html  # the axis contains a process outside of the interval


# ---- a run that goes on

SPEC = RunSpec("shapes-vit", "image-classification", batch_size=4)
BROKEN = dataclasses.replace(SPEC, graph_break=True)
SECONDS = {"eager_seconds": 0.012, "compiled_seconds": 0.006}


def timed(**changes: Any) -> Progress:
    fields = {"speedup": Interval(2.0, 1.9, 2.1), **SECONDS}
    return Progress(
        **({"phase": "time", "fraction": 0.7, "elapsed_seconds": 5.0, "remaining_seconds": 2.0} | fields | changes)
    )


def test_phases_times_and_latencies_are_shown() -> None:
    html = progress_strip(timed(), BROKEN)
    assert re.findall(r'<li class="(\w+)"', html) == ["done", "done", "done", "now", "next"]
    assert "5.0 s elapsed · about 2 s left" in html
    assert all(words in html for words in ("Eager, 12.0 ms", "Compiled, with breaks, 6.00 ms"))
    assert "Eager: is warming up" in progress_strip(Progress("load", 0.0, 0.1), SPEC)


def test_the_parts_of_a_compile_have_their_seconds() -> None:
    steps = (("dynamo", 0.5), ("inductor", 1.5), ("dynamo", 3.5), ("backend compile", 4.0))
    going = Progress("compile", 0.3, 9.0, racing_seconds=6.0, compile_steps=steps, graphs=2, breaks=1)
    assert compile_parts(going) == "Tracing 1.5 s · code 2.0 s · C++ or Triton 2.0 s. Graphs so far: 2, breaks: 1."
    assert compile_parts(dataclasses.replace(going, first_seconds=5.0)).endswith("C++ or Triton 1.0 s.")


def test_a_code_of_a_worker_has_words() -> None:
    words = [doing(Progress("check", 0.9, 1.0, code=code)) for code in ("newer", "explain")]
    assert words == ["Newer", "Looking for the reason: kernels, operations, bytes"]


def test_the_strip_keeps_its_elements_so_that_lines_grow_instead_of_jumping() -> None:
    late, second = timed(phase="check", racing_seconds=7.0, first_seconds=3.0), timed(repeat=2, repeats=3)
    strips = [progress_strip(progress, SPEC) for progress in (timed(), second, late)]
    assert ["Run 2 of 3" in strip for strip in strips] == [False, True, False]
    assert len({tuple(re.findall(r"<(\w+)", strip)) for strip in strips}) == 1
