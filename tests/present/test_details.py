"""Tests of the sections with a run's details: all that was measured has a line, and titles state results."""

import dataclasses
from typing import Any

import pytest
from support.samples import GPU, failed_result, full_result, measurement, ok_result, plain, text_result

from demo.core import catalog
from demo.core.machine import GpuSample, HostSample
from demo.core.measurement import Compilation, CompileCost, GraphBreak
from demo.core.options import OWN_MODEL, RunSpec
from demo.core.outputs import Parity, Predictions
from demo.core.result import RunResult
from demo.present import details, markdown, naming
from demo.present.report import Report

EVERYTHING = """48 timed calls of each
A call, trimmed mean 12.2 ms 6.12 ms median of this process 12.2 ms 6.12 ms
images/s, back to back 600 760
energy per image 0.015 J 0.0118 J
on the GPU 5.00 ms 4.80 ms
launching kernels 59 % 22 %
Same output? match Outputs are close to within 0.001.
Graph break 1: modeling_vit.py:321 in forward · call to print
Recompile 1: modeling_vit.py:88 in forward · a size changed
Fallback to eager 2: – · a loop
with a kept cache, by run 20261121T093100-0f0f10
First call 31 s 3.4 s
generating code (inductor) 22 s –
Memory: 620 MB → 540 MB
reserved 744 MB 648 MB
Whole request 19.4 ms 13.3 ms
A whole request: 1.46×
Processor kept busy by others: 2.0 %
Host taken by others: 12 %
GPU clock: 1350 MHz to 1410 MHz
GPU throttled: thermal"""


NOTHING = Predictions(boxes=())


def compiled(**changes: Any) -> RunResult:
    return full_result(compilation=dataclasses.replace(full_result().compilation, **changes))


@pytest.mark.parametrize("line", EVERYTHING.splitlines())
def test_every_figure_of_a_full_result_has_its_line(line: str) -> None:
    warm = CompileCost(3.4, {"dynamo": 2.2}, "20261121T093100-0f0f10")
    result = compiled(warm=warm, fallbacks=(GraphBreak("too often", "file.py:5 in g"), GraphBreak("a loop", "")))
    hot = HostSample(3.0, 0.02, GpuSample(None, None, ("thermal",), 1), None, 0.12)
    result = dataclasses.replace(result, machine_states=(*result.machine_states, hot))
    assert line in plain(markdown.of_run(Report(result)))


def test_a_run_without_figures_has_only_the_machine() -> None:
    failed = failed_result(spec=ok_result().spec)
    titles = [part.title for parts in details.tree(Report(failed)).values() for part in parts]
    assert titles == ["Machine: Example CPU"]
    assert not any(details.tree(Report(dataclasses.replace(failed, environment=None))).values())


def test_equal_peaks_of_memory_have_no_part() -> None:
    peaks = {"eager": measurement(0.002, peak=491_000_000), "compiled": measurement(0.001, peak=500_000_000)}
    assert details.memory(Report(ok_result(**peaks))) is None


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"graphs": 0, "graph_breaks": ()}, "No: torch.compile captured no graph"),
        ({"fallbacks": (GraphBreak("an unsupported call", ""),)}, "Partly: 1 frame of it fell back"),
        ({}, "Partly: 2 graphs, 1 graph break"),
        ({"graphs": 1, "graph_breaks": ()}, "Yes: the whole model is one graph"),
        ({"graphs": 2, "graph_breaks": ()}, "Yes: 2 graphs, no breaks"),
    ],
)
def test_the_title_answers_whether_it_really_compiled(changes: dict[str, Any], answer: str) -> None:
    assert details.compilation(Report(compiled(**changes))).title.startswith(f"Did it really compile? {answer}")


def test_equal_hints_of_breaks_stand_once_with_their_page() -> None:
    hints = ("Remove the call.", "Or move it.")
    breaks = tuple(GraphBreak("print", f"a.py:{line}", hints, "GB0059") for line in (1, 2))
    result = compiled(graph_breaks=(*breaks, GraphBreak("unknown", "a.py:3")))
    text = markdown.of_section(details.compilation(Report(result)))
    page = "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html"
    assert text.count("Remove the call. Or move it.") == 1 and text.count(f"[GB0059]({page})") == 1
    assert text.index("a.py:1") < text.index("Remove") < text.index("a.py:2")
    assert GraphBreak("print", "", number="GB0059/../x").page == ""


COLD = CompileCost(17.0, {})
PROBED = (CompileCost(20.0, {"instruction probe": 17.0}), CompileCost(2.0, {"instruction probe": 0.5}))
COSTS = [
    (Compilation(20.0, "cold", 1, cold=PROBED[0], warm=PROBED[1]), {"cold": 3.0, "warm": 1.5}),
    (Compilation(0.5, "warm", 1, cold=COLD), {"cold": 17.0, "warm": 0.5}),
    (Compilation(5.5, "off", 1), {"cold": 5.5}),
    (Compilation(4.5, "cold", 1, partly=True, warm=CompileCost(0.5, {})), {"partly": 4.5, "warm": 0.5}),
    (Compilation(4.5, "cold", 1, partly=True, cold=COLD), {"cold": 17.0}),
]


@pytest.mark.parametrize(
    ("compilation", "costs"),
    COSTS,
    ids=["without the probe", "kept", "no cache", "partly filled", "known from nothing"],
)
def test_a_runs_own_first_call_counts_if_nothing_else_was_measured(compilation: Compilation, costs: dict) -> None:
    assert compilation.known_costs == costs


@pytest.mark.parametrize(
    ("checkpoint", "task", "shares", "changes"),
    [
        ("shapes-vit", {"top5_agreement": 0.6}, ": 60 % of the labels are shared", {}),
        ("shapes-segformer", {"mask_iou": 1.0, "changed_pixels": 0.0}, ": the masks overlap by 100 %", {}),
        ("shapes-segformer", {}, "", {}),
        ("shapes-rtdetr", {"matched_boxes": 1.0}, ": neither finds anything", {"predictions": {"eager": NOTHING}}),
    ],
    ids=["labels", "masks", "not compared", "no box"],
)
def test_agreement_says_what_was_compared(checkpoint: str, task: Any, shares: str, changes: Any) -> None:
    parity = Parity("match", 0.0, "", task)
    result = ok_result(spec=catalog.make_spec(checkpoint), parity=parity, **changes)
    assert Report(result).agreement == f"Eager and compiled agree{shares}"


@pytest.mark.parametrize(("dtype", "excused"), [("float32", False), ("bfloat16", True)])
def test_texts_differ_from_a_token_on(dtype: str, excused: bool) -> None:
    result = text_result(spec=dataclasses.replace(text_result().spec, dtype=dtype))
    other = Predictions(text=" a <b>", pieces=(" a", " <b>", "", "."), token_ids=(5, 9, 3, 8))
    (words,) = Report(
        dataclasses.replace(result, predictions=result.predictions | {"compiled": other})
    ).prediction_notes
    assert "from token 2 on" in words and ("rounding" in words) is excused
    assert Report(result).prediction_notes == []


def test_the_threads_of_a_cpu_stand_once_in_a_runs_line() -> None:
    for changes, times in (({}, 1), ({"threads": 2}, 1), ({"device": "cuda"}, 0)):
        result = ok_result(spec=dataclasses.replace(ok_result().spec, **changes))
        assert naming.run_line(result).count("2 threads") == times


def test_a_model_of_ones_own_has_no_batch() -> None:
    assert "batch" not in naming.settings(RunSpec("/home/me/mine.py:build", OWN_MODEL, device="cpu"))


def vit(**changes: Any) -> RunResult:
    spec = RunSpec("google/vit-base-patch16-224", "image-classification", **{"device": "cuda", **changes})
    return ok_result(spec=spec, image=None)


def test_a_run_without_a_counterpart_is_not_compared_with_the_guide() -> None:
    for result in (ok_result(), vit(batch_size=8), failed_result(status="cancelled", spec=vit().spec)):
        assert details.guide(Report(result)) is None


@pytest.mark.parametrize(
    ("changes", "attention", "words"),
    [
        ({"dtype": "tf32"}, "eager", "Number format: tf32 here, float32 in the guide"),
        ({"device": "cpu"}, "eager", "This run used the CPU; the guide measured GPUs"),
        ({"channels_last": True}, "eager", "Channels last: on here, off in the guide"),
        ({}, "eager, sdpa", "--attention eager"),
    ],
    ids=["dtype", "device", "channels last", "attention"],
)
def test_a_difference_to_the_guide_is_named(changes: dict[str, Any], attention: str, words: str) -> None:
    def texts(changes: dict[str, Any], attention: str) -> str:
        machine = dataclasses.replace(GPU, settings={"attention": attention})
        report = Report(dataclasses.replace(vit(**changes), environment=machine))
        return " ".join(details.guide(report).sentences)

    assert words in texts(changes, attention) and words not in texts({}, "eager")
