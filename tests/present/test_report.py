"""Tests of `Report`, the sentences about a result that page, terminal and export share."""

import dataclasses
import re
from typing import Any

import pytest
from support.page_support import noisy_result
from support.samples import failed_result, launching, measurement, ok_result, text_result

from demo.cli import terminal
from demo.core import format as fmt
from demo.core.caveat import Caveat, note
from demo.core.comparison import BreakEven, ProcessResult, Spread
from demo.core.machine import HostSample
from demo.core.measurement import Compilation, CompileCost, InstructionProbe, Measurement, Pair
from demo.core.outputs import EndToEnd, Parity
from demo.core.result import RunResult
from demo.present import details, markdown
from demo.present.report import Report
from demo.ui.tabs.headline import headline

COLD, WARM = CompileCost(20.0, {}), CompileCost(2.0, {})
BOTH = Compilation(20.0, "cold", 1, cold=COLD, warm=WARM)
PACKAGE = dataclasses.replace(BOTH, package_bytes=5)
PARTLY = Compilation(2.0, "cold", 1, partly=True)
SECOND = Compilation(2.0, "warm", 1, cold=dataclasses.replace(COLD, run_id="first"), warm=WARM)
"""The compile of a second run, which found the cache filled. Its cold cost is that of the first run."""
VOID = dataclasses.replace(BOTH, recompiles_while_timing=1)
DIFFER, UNKNOWN = Parity("differ", 1.0, ""), Parity("not comparable", None, "")
NEVER_KNOWN = "Compiled gives other outputs than eager: whether it pays is not known"
BROKEN = ok_result(spec=dataclasses.replace(ok_result().spec, graph_break=True))


def compiled_at(seconds: float) -> RunResult:
    return ok_result(compiled=measurement(seconds))


def wide_calls(seconds: float) -> Measurement:
    """Returns six blocks of calls of about `seconds`, whose times vary by 60 %."""
    times = tuple(seconds * (1 + 0.3 * (block % 4 - 1.5)) for block in range(6) for _ in range(4))
    return dataclasses.replace(measurement(seconds), wall_seconds=times)


def test_where_launching_takes_long_cuda_graphs_are_offered() -> None:
    result = launching(0.62)
    offer = "Launching kernels is 62 % of an eager call. Mode reduce-overhead launches all of them at once"
    assert Report(result).launching == offer
    assert f"  {offer}: --mode reduce-overhead\n" in terminal.summary(Report(result))
    assert f"{offer.partition('. ')[2]}. <a " in headline(Report(result)) and "mode=reduce-overhead" in headline(
        Report(result)
    )


@pytest.mark.parametrize(
    "result",
    [
        launching(0.2),
        launching(0.62, mode="reduce-overhead"),
        launching(0.62, scope="layers"),
        launching(0.62, compiler="aot"),
        ok_result(),
    ],
    ids=["the GPU is busy", "used already", "refused with layers", "refused with a package", "a CPU"],
)
def test_where_cuda_graphs_would_not_help_none_are_offered(result: RunResult) -> None:
    report = Report(result)
    assert report.launching == "" and "reduce-overhead" not in terminal.summary(report).split("\n", 1)[1]


def test_the_headline_is_one_sentence() -> None:
    assert Report(compiled_at(0.001)).headline == "Compiled is 2.00× faster, 2.04 ms → 1.02 ms"
    assert Report(compiled_at(0.01)).headline == "Compiled is 5.00× slower, 2.04 ms → 10.2 ms"
    assert Report(compiled_at(0.002)).headline == "Compiled makes no difference, 2.04 ms → 2.04 ms"
    assert Report(failed_result()).headline == failed_result().failure.message


def test_the_title_of_the_window_has_the_answer() -> None:
    assert Report(compiled_at(0.004)).title == "shapes-vit 2.00× slower"
    assert Report(noisy_result()).title == "shapes-vit: too noisy to tell"
    assert Report(failed_result()).title == "owlvit-base-patch32: Out of memory"


def test_the_interval_of_a_loss_is_a_slow_down() -> None:
    calls = tuple(0.01 * (1 + 0.1 * (block % 2)) for block in range(12) for _ in range(4))
    noisy = dataclasses.replace(measurement(0.01), wall_seconds=calls)
    assert Report(ok_result(compiled=noisy)).interval == "slow-down 4.93 to 5.36×, 95 % confidence"
    assert Report(compiled_at(0.001)).interval == "speed-up 1.993 to 2.007×, 95 % confidence"


def test_noise_is_how_far_eager_differs_from_itself() -> None:
    assert Report(ok_result()).noise == "Eager timed against itself: 0.3 % apart"
    assert Report(ok_result(control_times=None)).noise == "Eager was not timed against itself"


def test_added_breaks_are_named_in_every_report() -> None:
    report = terminal.in_full(Report(BROKEN))
    assert "Compiled is 2.00× faster (with added graph breaks)" in report
    assert "compiled with added graph breaks against eager" in report
    for text in (report, markdown.of_run(Report(BROKEN))):
        assert "Compiled, with breaks" in text and "added graph breaks" in text


ANSWERS = {0.001: "2.00× (1.993 to 2.007×)", 0.004: "0.50× (0.498 to 0.502×)", 0.002: "no difference (1.000 to 1.000×)"}


@pytest.mark.parametrize("seconds", ANSWERS)
def test_the_stored_answer_without_breaks_stands_beside_it(seconds: float) -> None:
    line = f"Without the added breaks, stored: {ANSWERS[seconds]}"
    result = dataclasses.replace(BROKEN, without_breaks=compiled_at(seconds).speedup)
    report = Report(result)
    assert report.without_breaks == line
    assert line in terminal.in_full(report) and line in markdown.of_run(report)


BUSY = (HostSample(1.0, 0.9, None, 0.1), HostSample(2.0, 0.9, None, 0.1))
APART = measurement(0.0023)
"""A second series of eager calls (control), whose times differ from the first by 15 %."""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "from 1 process, including about 2.5 % between processes"),
        ({"control_times": APART}, "from 1 process, as wide as eager differed from itself: 15 %"),
        ({"machine_states": BUSY}, "from 1 process, with a factor of 1.75 at each end for taken cores"),
        (
            {"machine_states": BUSY, "spread": None},
            "within one process, with a factor of 1.75 at each end for taken cores",
        ),
        (
            {"control_times": APART, "compiled": measurement(0.002), "spread": Spread("assumed", 0.001)},
            "from 1 process, including about 0.1 % between",
        ),
    ],
    ids=["processes", "control", "taken cores", "taken cores, within one process", "no difference"],
)
def test_the_basis_names_what_made_the_interval(changes: dict[str, Any], words: str) -> None:
    assumed = {"spread": Spread("assumed", 0.025, 10.0)} | changes
    assert Report(ok_result(**assumed)).basis.startswith(words)


# ---- when compiling pays


PAYS: dict[str, tuple[dict[str, Any], str]] = {
    "both starts": ({}, "Pays after {cold} calls from nothing, {warm} with a kept cache"),
    "a second press": ({"compilation": SECOND}, "Pays after {cold} calls from nothing, {warm} with a kept cache"),
    "a package": ({"compilation": PACKAGE}, "Pays after {cold} calls from nothing, {warm} with the package kept"),
    "partly filled": ({"compilation": PARTLY}, "Pays after {partly} calls with part of the cache kept"),
    "partly filled, then full": (
        {"compilation": dataclasses.replace(PARTLY, first_call_seconds=12.0, warm=WARM)},
        "Pays after {warm} calls with a kept cache",
    ),
    "slower": ({"compiled": measurement(0.004)}, "Never pays here"),
    "other outputs": ({"parity": DIFFER}, NEVER_KNOWN),
    "outputs not compared": (
        {"parity": UNKNOWN, "compilation": PARTLY},
        "Pays after {partly} calls with part of the cache kept, if its outputs are right",
    ),
    "void": ({"compilation": VOID}, "It was recompiled while it was timed: no figure holds"),
    "nothing compiled": ({"compilation": None}, ""),
}


@pytest.mark.parametrize(("changes", "pays"), PAYS.values(), ids=PAYS)
def test_each_known_start_has_its_break_even(changes: dict[str, Any], pays: str) -> None:
    result = ok_result(**{"compilation": BOTH} | changes)
    report = Report(result)
    ranges = {start.state: start.range.removesuffix(" calls") for start in report.starts}
    assert report.pays.replace("\N{NARROW NO-BREAK SPACE}", " ") == re.sub(r"\s", " ", pays.format(**ranges))


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(9_140, 21_900, "9 100 to 22 000 calls"), (900, 902, "about 900 calls"), (900, None, "at least 900 calls")],
)
def test_when_compiling_pays_is_a_range(low: int, high: int | None, text: str) -> None:
    even = BreakEven(calls=1_000, low=low, high=high, images=1_000, seconds=1.0)
    (start,) = Report(ok_result()).starts
    assert re.sub(r"\s", " ", dataclasses.replace(start, paid=even).range) == text


@pytest.mark.parametrize(("parity", "doubt"), [(DIFFER, "wrong outputs"), (UNKNOWN, "outputs not compared")])
def test_a_doubt_of_the_outputs_stands_beside_the_speed_up(parity: Parity, doubt: str) -> None:
    result = ok_result(parity=parity)
    assert Report(result).answer.endswith(f"× faster ({doubt})")
    assert Report(result).ratio.endswith(f"× ({doubt})")
    assert f"× ({doubt}) (" in Report(result).summary


def test_no_break_even_stands_anywhere_if_it_is_not_known() -> None:
    wrong = ok_result(compilation=BOTH, parity=DIFFER)
    slower = dataclasses.replace(wrong, compiled=measurement(0.004))
    for result in (wrong, slower, ok_result(compilation=VOID)):
        assert Report(result).race == ()
        assert "Break-even" not in markdown.of_section(details.costs(Report(result)))


def test_a_first_call_from_a_partly_kept_cache_stands_apart() -> None:
    partly = dataclasses.replace(PARTLY, first_call_seconds=12.0, warm=dataclasses.replace(WARM, parts={"dynamo": 2.0}))
    part = details.costs(Report(ok_result(compilation=partly)))
    (fact,) = part.facts
    assert fact.value == "12 s" and "part of its code" in fact.why
    assert "–" not in [cell for row in part.table[1] for cell in row]
    assert details.costs(Report(ok_result(compilation=PARTLY))).facts == []


def test_a_start_has_its_time() -> None:
    both = Report(ok_result(compilation=BOTH)).start_times
    assert both == "A start takes 20 s from nothing, 2.0 s with a kept cache"
    assert Report(ok_result(compilation=VOID)).start_times == ""


@pytest.mark.parametrize(
    "compilation",
    [
        dataclasses.replace(BOTH, probe=InstructionProbe(17.0, 0.8)),
        # as it was stored before the probe stood apart
        Compilation(
            37.0,
            "cold",
            1,
            cold=CompileCost(37.0, {"instruction probe": 17.0}),
            warm=CompileCost(2.8, {"instruction probe": 0.8}),
        ),
    ],
    ids=["new", "older"],
)
def test_the_probe_of_a_machine_is_named_and_no_part_of_a_start(compilation: Compilation) -> None:
    report, plain = Report(ok_result(compilation=compilation)), Report(ok_result(compilation=BOTH))
    assert [start.seconds for start in report.starts] == pytest.approx([20.0, 2.0])
    assert report.pays == plain.pays
    probe = "inductor's instruction probe, 17 s once for a compile cache, 0.8 s in each process"
    assert report.start_times == f"{plain.start_times}; not counted: {probe}"
    assert [line.kind for line in plain.race] == ["eager", "compiled", "compiled kept"]
    assert report.race[1].words == f"{plain.race[1].words}, without 17 s of the machine's probe"
    part = details.costs(report)
    assert [fact.value for fact in part.facts] == [probe]
    assert part.table[1][0] == ["First call", "20 s", "2.0 s"] and not any("vector" in row[0] for row in part.table[1])


def test_a_text_model_pays_after_tokens() -> None:
    result = text_result(spec=dataclasses.replace(text_result().spec, batch_size=2))
    even = result.break_even("cold")
    assert even.images == 2 * even.calls
    assert even.answers == pytest.approx(5.5 / (result.answer_seconds[0] - result.answer_seconds[1]), abs=1)
    low, high = (fmt.group_thousands(fmt.two_digits(2 * calls)) for calls in (even.low, even.high))
    (start,) = Report(result).starts[:1]
    assert dataclasses.replace(start, paid=even).range == (
        f"about {low} tokens" if low == high else f"{low} to {high} tokens"
    )
    assert " tokens from nothing" in Report(result).pays


def test_a_slower_prompt_may_never_pay() -> None:
    slower = Pair(measurement(0.005), measurement(0.05), measurement(0.005))
    result = text_result(further={"first_token": slower})
    assert result.speedup.verdict == "faster"
    even = result.break_even("cold")
    assert (even.calls, even.images, even.answers) == (None, None, None)


QUIET = ok_result().as_processes()
SET_ASIDE = ok_result(id="now", machine_states=BUSY, compiled=measurement(0.0018), earlier=QUIET)


@pytest.mark.parametrize(
    ("earlier", "words"),
    [
        (QUIET * 3, "from 3 quiet processes; this one was disturbed and does not count"),
        (
            (dataclasses.replace(QUIET[0], threads=1),),
            "from 1 quiet process with 1 thread; this one was disturbed and does not count",
        ),
    ],
    ids=["same threads", "other threads"],
)
def test_the_basis_says_that_a_disturbed_process_does_not_count(earlier: tuple[ProcessResult, ...], words: str) -> None:
    assert Report(dataclasses.replace(SET_ASIDE, earlier=earlier)).basis == words


def test_the_answer_of_quiet_processes_is_not_called_rough() -> None:
    report = Report(SET_ASIDE)
    assert (report.kind, report.usable) == ("faster", True)
    assert report.quality_line == "Fair: it rests on 1 process"
    assert "disturbed call" not in terminal.summary(report)


WIDE = ok_result(compiled=wide_calls(0.0007))


def test_beyond_30_per_cent_the_largest_line_is_the_range() -> None:
    report = Report(WIDE)
    assert report.speedup.half_width > 0.3 and report.large == ("Compiled is", "2.3 to 5.2×", "faster")
    assert report.answer == "2.3 to 5.2× faster (rough)" and report.ratio_in_full == "2.30 to 5.18×"
    assert "2.3 to 5.2×" in headline(report) and "2.3 to 5.2× faster" in terminal.summary(report)


def test_the_range_of_a_loss_is_that_of_the_slow_down() -> None:
    assert Report(ok_result(compiled=wide_calls(0.006))).large == ("Compiled is", "1.7 to 3.7×", "slower")


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.21, 12.95, "1.2 to 13×"),
        (1.003, 1.9, "1.003 to 1.9×"),
        (0.2, 5.0, "0.20 to 5.0×"),
        (0.21, 0.4499, "0.21 to 0.45×"),
        (95, 130, "95 to 130×"),
    ],
)
def test_an_end_of_a_range_is_never_rounded_to_no_difference(low: float, high: float, text: str) -> None:
    assert fmt.two_ends(low, high) == text


def test_latencies_of_disturbed_calls_say_so() -> None:
    report = Report(ok_result(machine_states=BUSY, compiled=measurement(0.0018)))
    assert report.headline.endswith("in disturbed calls") and "per call, disturbed" in headline(report)
    assert "disturbed calls" in terminal.summary(report)


def test_a_request_that_gains_less_than_a_call_stands_above_the_folds() -> None:
    around = ok_result(end_to_end=EndToEnd(0.004, 0.001, 0.0))
    words = "A whole request is 1.17× faster: the rest of it is not compiled"
    assert Report(around).request == words
    assert words in headline(Report(around)) and words in terminal.summary(Report(around))
    assert Report(ok_result(end_to_end=EndToEnd(1e-9, 0.0, 0.0))).request == ""


def test_a_note_does_not_hide_that_nobody_knows_whether_outputs_agree() -> None:
    unknown = Caveat("not_compared", {"reason": "The model draws random numbers."})
    assert Report(ok_result(caveats=(note("The cache was not filled."), unknown))).caveat == str(unknown)
