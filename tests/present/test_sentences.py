"""The sentences that page and terminal share."""

from __future__ import annotations

import dataclasses

import pytest
from samples import BOXES, failed_result, measurement, ok_result

from demo.core.languages import LANGUAGES
from demo.core.result import (
    STATUSES,
    BackToBack,
    Compilation,
    CompileCost,
    EndToEnd,
    GpuState,
    GraphBreak,
    MachineState,
    Measurement,
    Parity,
    RunResult,
    RunSpec,
)
from demo.present import section_texts as words


def compiled_at(seconds: float) -> RunResult:
    return ok_result(compiled=measurement(seconds))


@pytest.mark.parametrize(
    ("seconds", "sentence"),
    [
        (0.001, "Compiled is 2.00× faster, 2.04 ms → 1.02 ms"),
        (0.01, "Compiled is 5.00× slower, 2.04 ms → 10.2 ms"),
        (0.002, "Compiled makes no difference, 2.04 ms → 2.04 ms"),
    ],
    ids=["win", "loss", "draw"],
)
def test_the_headline_tells_a_win_a_loss_and_a_draw_in_one_sentence(seconds: float, sentence: str) -> None:
    assert words.headline(compiled_at(seconds)) == sentence


def test_the_headline_of_a_void_run_makes_no_claim() -> None:
    good = ok_result()
    assert good.compilation is not None
    void = dataclasses.replace(good, compilation=dataclasses.replace(good.compilation, recompiles_while_timing=1))
    assert words.headline(void).startswith("Void: the model was recompiled while timed")


def test_the_headline_of_a_failure_is_its_message() -> None:
    assert words.headline(failed_result()).startswith("Batch size 256 ran out of memory")
    assert words.headline_parts(failed_result()) is None


def test_the_interval_of_a_loss_is_a_slow_down_so_that_its_digits_tell_something() -> None:
    assert words.interval(compiled_at(0.01)) == "slow-down 5.000 to 5.000×, 95 % confidence"
    assert words.interval(compiled_at(0.001)) == "speed-up 2.000 to 2.000×, 95 % confidence"


def test_two_decimals_are_enough_for_a_wide_interval() -> None:
    assert words.ends(1.41, 1.45) == ("1.41", "1.45×")
    assert words.ends(0.998, 1.003) == ("0.998", "1.003×")


def test_details_hold_a_name_a_value_and_an_explanation_and_only_what_was_measured() -> None:
    rows = words.details(ok_result())
    assert all(name and value and explanation for name, value, explanation in rows)
    names = [name for name, _, _ in rows]
    assert len(names) == len(set(names))
    assert "Compiled latency" in names and "Eager time on the GPU" not in names
    assert [name for name, _, _ in words.details(failed_result())] == ["Machine", "Versions", "Whole run"]


def test_every_graph_break_has_its_row() -> None:
    good = ok_result()
    assert good.compilation is not None
    breaks = (GraphBreak("print", "a.py:1 in forward"), GraphBreak("item()", ""))
    rows = words.details(
        dataclasses.replace(good, compilation=dataclasses.replace(good.compilation, graph_breaks=breaks))
    )
    assert ("Graph break 1", "print", "a.py:1 in forward") in rows
    assert ("Graph break 2", "item()", "dynamo did not say where") in rows


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({"top5_agreement": 1.0}, "Eager and compiled agree: the five likeliest labels are the same."),
        ({"top5_agreement": 0.6}, "Eager and compiled agree: 60 % of the labels are shared."),
        ({"mask_iou": 1.0, "changed_pixels": 0.0}, "Eager and compiled agree: the masks are the same."),
        ({}, "Eager and compiled agree."),
    ],
    ids=["same", "some", "masks", "nothing compared"],
)
def test_agreement_says_what_was_compared(task: dict[str, float], told: str) -> None:
    assert words.agreement(ok_result(parity=Parity("match", 0.0, "", task))) == told


def test_two_empty_pictures_are_not_called_a_match() -> None:
    nothing = dataclasses.replace(BOXES, boxes=())
    result = ok_result(
        parity=Parity("match", 0.0, "", {"matched_boxes": 1.0}), predictions={"eager": nothing, "compiled": nothing}
    )
    assert words.agreement(result) == "Eager and compiled agree: neither finds anything."
    assert words.agreement(ok_result(parity=Parity("not comparable", None, ""), predictions=None)) == ""


def test_every_status_has_its_words() -> None:
    told = [words.status(failed_result(status=status)) for status in STATUSES]
    assert len(set(told)) == len(STATUSES) and "Out of memory" in told


def test_counts_are_grouped_and_agree_with_their_noun() -> None:
    assert [words.count(n, "call") for n in (0, 1, 2)] == ["no calls", "1 call", "2 calls"]
    assert words.count(13997, "call") == "13\N{NARROW NO-BREAK SPACE}997 calls"


def test_a_rate_names_what_it_counts() -> None:
    assert words.rate(694.2) == "694 images/s"


def test_a_word_of_a_newer_worker_is_quoted_as_it_is() -> None:
    newer = Compilation(2.0, "cold", 1, cudagraphs="partly", cold=CompileCost(2.0, {"keys": 1.0}))
    japanese = LANGUAGES["ja"]
    assert words.cudagraphs(newer)[1] == "partly"
    assert japanese.marked(words.cudagraphs(newer, japanese)[1]) == japanese.quoted("partly")
    assert words.compile_parts(ok_result(compilation=newer)) == [("keys", "1.0 s", "")]


def two_clocks(eager_work: float, compiled_work: float, cudagraphs: str = "not asked") -> RunResult:
    """Calls of 10 ms and 5 ms of which so many seconds are work of the GPU."""
    eager, compiled = (
        Measurement((seconds,) * 8, (work,) * 3, (1.0,), 4)
        for seconds, work in ((0.01, eager_work), (0.005, compiled_work))
    )
    return ok_result(eager=eager, compiled=compiled, compilation=Compilation(1.0, "cold", 1, cudagraphs=cudagraphs))


def test_launch_overhead_is_told_with_what_can_remove_it() -> None:
    assert words.launch_overhead(two_clocks(0.0042, 0.0025)) == (
        "58 % of eager's time is launching kernels, 50 % of compiled's: CUDA graphs can remove it."
    )
    assert "CUDA graphs removed the difference" in words.launch_overhead(two_clocks(0.0042, 0.005, "used"))
    assert "the GPU is the limit" in words.launch_overhead(two_clocks(0.0099, 0.0049))
    assert words.launch_overhead(ok_result()) == ""


def test_every_figure_of_a_full_result_has_its_line() -> None:
    cost = CompileCost(12.0, {"dynamo": 1.0, "inductor": 11.0})
    gpu = GpuState(1.5e9, 1.9e9, 60.0, 250.0)
    throughput = BackToBack(100, 0.5, 50.0)
    result = two_clocks(0.0042, 0.0025)
    result = dataclasses.replace(
        result,
        eager=dataclasses.replace(
            result.eager, back_to_back=throughput, peak_memory_bytes=10**9, peak_reserved_bytes=2 * 10**9
        ),
        compilation=Compilation(
            12.0,
            "cold",
            2,
            (GraphBreak("a reason", "file.py:3"),),
            cold=cost,
            warm=dataclasses.replace(cost, first_call_seconds=1.5, run_id="earlier"),
            recompiles=(GraphBreak("a guard", "file.py:4 in f"),),
            fallbacks=(GraphBreak("too often", "file.py:5 in g"),),
            kernels=12,
            extern_kernels=34,
            cache_misses=2,
        ),
        end_to_end=EndToEnd(0.004, 0.0001, 0.002),
        machine_states=(MachineState(0.0, 0.05, gpu), MachineState(0.5, 0.15, gpu)),
    )
    lines = {name: f"{value} | {why}" for name, value, why in words.details(result)}
    for name, told in {
        "Launch overhead": "58 %",
        "Eager throughput": "200 images/s",
        "Eager energy": "0.5 J an image",
        "Eager peak memory": "1.00 GB, 2.00 GB reserved",
        "First call, cold": "dynamo 1.0 s, inductor 11 s",
        "First call, warm": "by run earlier",
        "Pays for itself, cold": "after 2\N{NARROW NO-BREAK SPACE}400 calls",
        "Graph break 1": "a reason | file.py:3",
        "Kernels": "12 generated, 34 of libraries",
        "Left to eager 1": "file.py:5 in g | too often",
        "Recompile 1": "a guard",
        "Whole request": "16.1 ms → 11.1 ms, 1.45×",
        "Other processes": "5.0 % to 15 %",
        "GPU clock": "1500 MHz",
        "GPU temperature": "60 °C",
        "GPU power": "250 W",
    }.items():
        assert told in lines[name], (name, lines[name])


def test_what_was_asked_names_everything_that_is_not_the_default() -> None:
    spec = RunSpec("shapes-vit", "image-classification", batch_size=4)
    assert words.asked(spec) == "shapes-vit · batch 4 · default · float32"
    special = dataclasses.replace(
        spec, weights="random", protocol="as published", fullgraph=True, channels_last=True, attention="eager",
        threads=1, cache="empty", graph_break=True,
    )  # fmt: skip
    assert words.asked(special).removeprefix(words.asked(spec)) == (
        " · random weights · as published · eager attention · 1 thread · empty cache · full graph only · channels last"
        " · a graph break put in"
    )


def test_the_calls_after_which_it_pays_lie_between_their_bounds() -> None:
    restless = tuple(0.001 * (1 + 0.02 * (call % 7)) for call in range(48))
    compiled = dataclasses.replace(measurement(0.001), wall_seconds=restless)
    result = ok_result(compiled=compiled, compilation=Compilation(2.0, "cold", 1, cold=CompileCost(2.0, {})))
    even = result.break_even(2.0)
    assert even is not None and even.low < even.calls < even.high
    (value, bounds), *_ = [row[1:] for row in words.details(result) if row[0] == "Pays for itself, cold"]
    order = [bounds.find(words.count(calls, "call")) for calls in (even.low, even.high)]
    assert words.count(even.calls, "call") in value and -1 < order[0] < order[1]
