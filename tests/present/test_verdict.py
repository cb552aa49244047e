"""The sentences that page and terminal share."""

import dataclasses

import pytest
from support.samples import BOXES, failed_result, full_result, measurement, ok_result, plain

from demo.cli import terminal
from demo.core import catalog
from demo.core.measurement import GraphBreak
from demo.core.outputs import Parity
from demo.core.result import RunResult
from demo.present import details, markdown, verdict

OLD = verdict.basis(ok_result().speedup)
"""What an interval rests on in a result of before the spread between processes was taken in."""


def compiled_at(seconds: float) -> RunResult:
    return ok_result(compiled=measurement(seconds))


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        (0.001, "Compiled is 2.00× faster, 2.04 ms → 1.02 ms"),
        (0.01, "Compiled is 5.00× slower, 2.04 ms → 10.2 ms"),
        (0.002, "Compiled makes no difference, 2.04 ms → 2.04 ms"),
    ],
    ids=["faster", "slower", "same"],
)
def test_the_headline_tells_each_outcome_in_one_sentence(seconds: float, sentence: str) -> None:
    assert verdict.headline(compiled_at(seconds)) == sentence


def test_the_headline_of_a_failed_run_is_its_message() -> None:
    assert verdict.headline(failed_result()).startswith("Batch size 256 ran out of memory")


def test_the_interval_of_a_loss_is_told_from_its_lower_end_to_its_upper_one() -> None:
    calls = tuple(0.01 * (1 + 0.1 * (block % 2)) for block in range(12) for _ in range(4))
    noisy = dataclasses.replace(measurement(0.01), wall_seconds=calls)
    assert verdict.interval(ok_result(compiled=noisy)) == f"slow-down 4.93 to 5.36×, 95 % confidence, {OLD}"
    assert verdict.interval(compiled_at(0.001)) == f"speed-up 1.993 to 2.007×, 95 % confidence, {OLD}"


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
    assert verdict.without_breaks(result) == line
    assert line in terminal.report(result) and line in markdown.of_run(result)


@pytest.mark.parametrize(
    ("checkpoint", "task", "told"),
    [
        ("shapes-vit", {"top5_agreement": 0.6}, ": 60 % of the labels are shared."),
        ("shapes-segformer", {"mask_iou": 1.0, "changed_pixels": 0.0}, ": the masks overlap by 100 %."),
        ("shapes-segformer", {}, "."),
    ],
    ids=["labels", "masks", "nothing"],
)
def test_agreement_says_what_was_compared(checkpoint: str, task: dict[str, float], told: str) -> None:
    result = ok_result(spec=catalog.make_spec(checkpoint), parity=Parity("match", 0.0, "", task))
    assert details.agreement(result) == f"Eager and compiled agree{told}"


def test_nothing_found_twice_is_said_to_agree() -> None:
    nothing = dict.fromkeys(("eager", "compiled"), dataclasses.replace(BOXES, boxes=()))
    result = ok_result(parity=Parity("match", 0.0, "", {"matched_boxes": 1.0}), predictions=nothing)
    assert details.agreement(result) == "Eager and compiled agree: neither finds anything."


FULL = """48 timed calls of each
A call 12.2 ms 6.12 ms median of this process 12.2 ms 6.12 ms
images/s, back to back 600 760
on the GPU 5.00 ms 4.80 ms
launching kernels 59 % 22 %
Graph break 1: modeling_vit.py:321 in forward · call to print
Recompile 1: modeling_vit.py:88 in forward · a size changed
Fallback to eager 2: – · a loop
with a kept cache, by run 20261121T093100-0f0f10
Whole request 19.4 ms 13.3 ms
A whole request: 1.46×
Processor kept busy by others: 2.0 %
GPU clock: 1350 MHz to 1410 MHz"""


def test_every_figure_of_a_full_result_has_its_line() -> None:
    fallbacks = (GraphBreak("too often", "file.py:5 in g"), GraphBreak("a loop", ""))
    compilation = dataclasses.replace(full_result().compilation, fallbacks=fallbacks)
    text = plain(markdown.of_run(full_result(compilation=compilation)))
    assert [line for line in FULL.splitlines() if line not in text] == []
