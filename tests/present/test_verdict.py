"""The sentences that page and terminal share."""

import dataclasses
import re

import pytest
from support.samples import BOXES, failed_result, full_result, measurement, ok_result, plain

from demo.cli import terminal
from demo.core import catalog, format as fmt
from demo.core.measurement import Compilation, CompileCost, CompiledFirst, GraphBreak
from demo.core.outputs import Parity
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL, RunSpec
from demo.present import details, markdown, verdict
from demo.ui.tabs.headline import headline

OLD = verdict.basis(ok_result().speedup)
"""What an interval rests on in a result of before the spread between processes was taken in."""


def compiled_at(seconds: float) -> RunResult:
    return ok_result(compiled=measurement(seconds))


def test_the_headline_tells_each_outcome_in_one_sentence() -> None:
    for seconds, sentence in [
        (0.001, "Compiled is 2.00× faster, 2.04 ms → 1.02 ms"),
        (0.01, "Compiled is 5.00× slower, 2.04 ms → 10.2 ms"),
        (0.002, "Compiled makes no difference, 2.04 ms → 2.04 ms"),
    ]:
        assert verdict.headline(compiled_at(seconds)) == sentence
    void = ok_result(compilation=Compilation(1.0, "cold", 1, recompiles_while_timing=1))
    assert verdict.headline(void).startswith("Void: recompiled while timed")
    assert verdict.headline(failed_result()).startswith("Batch size 256 ran out of memory")
    assert verdict.headline_parts(failed_result()) is None


def test_the_interval_of_a_loss_is_told_from_its_lower_end_to_its_upper_one() -> None:
    calls = tuple(0.01 * (1 + 0.1 * (block % 2)) for block in range(12) for _ in range(4))
    noisy = dataclasses.replace(measurement(0.01), wall_seconds=calls)
    assert verdict.interval(ok_result(compiled=noisy)) == f"slow-down 4.93 to 5.36×, 95 % confidence, {OLD}"
    assert verdict.interval(compiled_at(0.001)) == f"speed-up 1.993 to 2.007×, 95 % confidence, {OLD}"


def rows(result: RunResult) -> list[details.Row]:
    return [row for parts in details.tree(result).values() for part in parts.values() for row in part.rows]


def test_rows_hold_a_name_and_a_value_and_only_what_was_measured() -> None:
    found = rows(ok_result(timing_seconds=1.0))
    assert all(name and value for name, value, _ in found)
    names = [name for name, _, _ in found]
    assert len(names) == len(set(names)) and "GPU clock" not in names
    assert [name for name, _, _ in rows(failed_result())] == ["CPU", "Memory", "Versions", "Whole run"]


BROKEN = ok_result(spec=dataclasses.replace(ok_result().spec, graph_break=True))


def test_a_run_with_added_breaks_says_so_wherever_it_is_told() -> None:
    report, table = terminal.report(BROKEN), markdown.of_run(BROKEN)
    assert "Compiled is 2.00× faster (with added graph breaks)" in report
    assert "compiled with added graph breaks against eager" in report
    assert all("Compiled, with breaks" in text and "added graph breaks" in text for text in (report, table))


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.001, "2.00× (1.993 to 2.007×)"),
        (0.004, "0.50× (0.498 to 0.502×)"),
        (0.002, "no difference (1.000 to 1.000×)"),
    ],
    ids=["faster", "slower", "same"],
)
def test_beside_it_stands_the_stored_answer_without_them(seconds: float, told: str) -> None:
    line = f"Without the added breaks, stored: {told}"
    result = dataclasses.replace(BROKEN, without_breaks=compiled_at(seconds).speedup)
    assert line in terminal.report(result)
    assert line in markdown.of_run(result)
    assert line in headline(result).replace("\N{NO-BREAK SPACE}", " ")


def test_without_a_stored_answer_nothing_is_said_of_one() -> None:
    assert verdict.without_breaks(BROKEN) == verdict.without_breaks(ok_result()) == ""


def test_no_table_names_the_batch_or_the_weights_of_a_model_of_ones_own() -> None:
    own = ok_result(spec=RunSpec("/home/me/mine.py:build", OWN_MODEL, device="cpu"))
    tables = (markdown.of_run(own), markdown.of_cells([(own.spec, own, "")]), terminal.history_table([own]))
    for text in tables:
        assert not re.search(r"batch 1|weights|mine.py:build[| ]+1", text)
    assert "batch 1" in terminal.history_table([ok_result()])


def test_what_compiling_before_eager_gives_is_told_with_what_to_do() -> None:
    first = CompiledFirst(2, (GraphBreak("a lock", "hooks.py:27"),) * 2)
    good = ok_result(compilation=Compilation(5.5, "cold", 1, compiled_first=first))
    page = markdown.section(details.compiled(good))
    report = " ".join(terminal.report(good).split())
    becomes = "Compiled before any eager call, this model becomes {}, and its first call takes another time."
    for text in (report, page):
        assert becomes.format("2 graphs, 2 breaks") in text
        assert "Call the model once in eager before compiling." in text
    assert "hooks.py:27" in page
    better = ok_result(compilation=Compilation(5.5, "cold", 3, compiled_first=CompiledFirst(1)))
    assert details.compiled(better).sentences == [becomes.format("1 graph, 0 breaks")]
    assert details.compiled(ok_result()).sentences == []


def test_agreement_says_what_was_compared() -> None:
    for checkpoint, task, told in [
        ("shapes-vit", {"top5_agreement": 1.0}, ": 100 % of the labels are shared."),
        ("shapes-vit", {"top5_agreement": 0.6}, ": 60 % of the labels are shared."),
        ("shapes-segformer", {"mask_iou": 1.0, "changed_pixels": 0.0}, ": the masks overlap by 100 %."),
        ("shapes-segformer", {}, "."),
    ]:
        result = ok_result(spec=catalog.make_spec(checkpoint), parity=Parity("match", 0.0, "", task))
        assert details.agreement(result) == f"Eager and compiled agree{told}"

    nothing = dataclasses.replace(BOXES, boxes=())
    result = ok_result(
        parity=Parity("match", 0.0, "", {"matched_boxes": 1.0}), predictions={"eager": nothing, "compiled": nothing}
    )
    assert details.agreement(result) == "Eager and compiled agree: neither finds anything."
    assert details.agreement(ok_result(parity=Parity("not comparable", None, ""), predictions=None)) == ""


def test_counts_are_grouped_and_agree_with_their_noun() -> None:
    assert [fmt.count(n, "call") for n in (0, 1, 2)] == ["0 calls", "1 call", "2 calls"]
    assert fmt.count(13997, "call") == "13\N{NARROW NO-BREAK SPACE}997 calls"


def test_a_word_of_a_newer_worker_is_quoted_as_it_is() -> None:
    newer = Compilation(2.0, "cold", 1, cudagraphs="partly", cold=CompileCost(2.0, {"keys": 1.0}))
    result = ok_result(compilation=newer)
    assert ("CUDA graphs", "partly") in [row[:2] for row in rows(result)]
    part = details.pays(result)
    assert part is not None and part.table == (["", "from nothing"], [["keys", "1.0 s"]])


@pytest.mark.parametrize(
    "text",
    [
        "48 timed calls of each",
        "A call 12.2 ms 6.12 ms median of this process 12.2 ms 6.12 ms",
        "images/s, back to back 600 760",
        "energy for each 0.0525 J",
        "on the GPU 5.00 ms 4.80 ms",
        "launching kernels 59 % 22 %",
        "Graph break 1: modeling_vit.py:321 in forward · call to print",
        "Recompile 1: modeling_vit.py:88 in forward · a size changed",
        "Fallback to eager 1: file.py:5 in g · too often",
        "Fallback to eager 2: – · a loop",
        "with a kept cache, by run 20261121T093100-0f0f10",
        "Whole request 19.4 ms 13.3 ms",
        "A whole request: 1.46×",
        "Processor kept busy by others: 2.0 %",
        "GPU clock: 1350 MHz to 1410 MHz",
        "GPU temperature: 61 °C to 63 °C",
        "GPU power: 66 W to 68 W",
    ],
)
def test_every_figure_of_a_full_result_has_its_line(text: str) -> None:
    fallbacks = (GraphBreak("too often", "file.py:5 in g"), GraphBreak("a loop", ""))
    compilation = dataclasses.replace(full_result().compilation, fallbacks=fallbacks)
    assert text in plain(markdown.of_run(full_result(compilation=compilation)))
