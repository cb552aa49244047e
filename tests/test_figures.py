"""Tests that all places show the same figures of a run, and that no place states a ratio that is not known."""

import dataclasses
import html
import json
import math
import random
import re
from collections.abc import Callable, Iterable

import pytest
from support.samples import full_result, plain

from demo.cli import sweep_command, terminal
from demo.core import format as fmt
from demo.core.comparison import Spread
from demo.core.measurement import Compilation, Measurement
from demo.core.options import RunSpec
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.core.result_json import to_json
from demo.core.stats import Interval
from demo.present import charts, details, markdown, race
from demo.present.details import Fact
from demo.present.report import Report
from demo.present.script import script
from demo.store import export
from demo.sweep.grid import GridRun, table_row
from demo.ui.tabs import compare, history_tab, sweep_tab
from demo.ui.tabs.headline import headline, progress_strip

NUMBERS = {"faster": (1.45, 0.05), "slower": (0.7, 0.05), "same": (1.004, 0.008), "unsure": (1.37, 0.9)}
"""For each verdict: the speed-up around which the ratios of blocks lie, and how far they lie apart (in logarithms)."""


def disturbed(ratio: float, spread: float) -> tuple[Measurement, Measurement]:
    """Returns times of eager and compiled on a machine that slows down.

    The quotient of their medians is not the speed-up.
    """
    rng = random.Random(3)
    eager, compiled = [], []
    for block in range(24):
        seconds = 0.004 * (1 + block**2 / 60)
        pull = spread * (1.4 if block % 2 else -1.0) + spread * (1.2 * (8 <= block < 16) - 0.6)
        eager += [seconds * (1 + 0.001 * rng.random()) for _ in range(4)]
        compiled += [seconds / ratio * math.exp(-pull) for _ in range(4)]
    sides = (Measurement(tuple(times), None, (0.5, 0.01, 0.01), 4, 1_000_000) for times in (eager, compiled))
    return next(sides), next(sides)


def run(kind: str) -> RunResult:
    """Returns a run of a checkpoint of the Transformers guide with the verdict `kind`, or a void (recompiled) one."""
    eager, compiled = disturbed(*NUMBERS["faster" if kind == "void" else kind])
    compilation = Compilation(31.2, "cold", 1, recompiles_while_timing=int(kind == "void"))
    spec = RunSpec("google/vit-base-patch16-224", "image-classification", device="cuda")
    sides = {"eager": eager, "compiled": compiled, "control_times": None}
    return full_result(spec=spec, **sides, compilation=compilation, predictions=None, roofline=None)


RESULTS = {kind: run(kind) for kind in (*NUMBERS, "void")}
each_kind = pytest.mark.parametrize("kind", RESULTS)


def compare_tab(result: RunResult) -> str:
    both = [Report(result)] * 2
    lines = [" ".join(row.values()) for row in compare.rows(both)]
    return "\n".join([compare.conclusion(both), *compare.bars(both), *lines])


def cell(result: RunResult) -> GridRun:
    return GridRun(result.spec, result)


PLACES: dict[str, Callable[[RunResult], str]] = {
    "headline": lambda result: Report(result).headline,
    "last line": lambda result: Report(result).summary,
    "report of the terminal": lambda result: terminal.in_full(Report(result)),
    "history of the terminal": lambda result: terminal.history_table([result]),
    "sweep's line": lambda result: sweep_command.cell_text(cell(result)),
    "sweep's table": lambda result: sweep_command.cells_table([cell(result)]),
    "sweep's value": lambda result: cell(result).value,
    "heat map": lambda result: sweep_tab.map_text(cell(result))[0],
    "Markdown": lambda result: plain(markdown.of_run(Report(result))),
    "Markdown of a sweep": lambda result: markdown.of_cells([(result.spec, result, cell(result).value)]),
    "headline of the page": lambda result: headline(Report(result)),
    "script": lambda result: script(Report(result)),
    "history": lambda result: " ".join(getattr(cell, "text", cell) for cell in history_tab.row_of(result).values()),
    "compare": compare_tab,
    "guide": lambda result: " ".join(details.guide(Report(result)).sentences),
    "trace chart": lambda result: json.dumps(charts.trace(result).to_dict(), default=str, ensure_ascii=False),
    "race": lambda result: race.picture(Report(result).race),
}
DRAWN = {"trace chart", "race", "heat map"}
MEDIANS = ("report of the terminal", "Markdown")
"""Places that also show the median times of calls, named as medians."""
LATENCIES = (*MEDIANS, "headline", "sweep's table", "Markdown of a sweep", "headline of the page", "compare")


def text_of(place: str, result: RunResult) -> str:
    return html.unescape(PLACES[place](result)).replace("\N{NO-BREAK SPACE}", " ")


def spellings(result: RunResult) -> set[str]:
    """Returns all ways to write the speed-up, its inverse, and the speed-up of a whole request."""
    eager, compiled = result.request_seconds
    written = set()
    for ratio in (result.speedup.ratio, eager / compiled):
        for value in (ratio, 1 / ratio):
            written |= {fmt.ratio(value), f"{value:.2f}×", f"{value:.3g}×", f"{value:.3f}×", f"{value:.2f} ± "}
    return {spelling for spelling in written if "." in spelling}


def stated(text: str, ratios: Iterable[str]) -> list[str]:
    return [ratio for ratio in ratios if re.search(rf"(?<![\d.]){re.escape(ratio)}", text)]


@each_kind
def test_a_sample_has_its_verdict(kind: str) -> None:
    result = RESULTS[kind]
    assert Report(result).kind == kind
    if kind != "same":
        medians = result.eager.median_seconds / result.compiled.median_seconds
        assert abs(medians / result.speedup.ratio - 1) > 0.02


@pytest.mark.parametrize("place", ["report of the terminal", "Markdown", "headline of the page", "compare"])
def test_compiling_pays_alike_everywhere(place: str) -> None:
    text = re.sub(r"\s", " ", text_of(place, RESULTS["faster"]))
    assert re.sub(r"\s", " ", Report(RESULTS["faster"]).pays) in text


@pytest.mark.parametrize(
    ("kind", "words"),
    [("same", "o difference"), ("unsure", "oo noisy to tell"), ("void", "recompiled while timed")],
    ids=["same", "unsure", "void"],
)
@pytest.mark.parametrize("place", PLACES)
def test_a_ratio_that_is_not_known_is_stated_nowhere(place: str, kind: str, words: str) -> None:
    result = RESULTS[kind]
    text = text_of(place, result)
    assert stated(text, spellings(result)) == []
    paid = result.break_even("cold")
    assert paid.calls is None or f"{fmt.group_thousands(paid.calls)} calls" not in text
    assert place in DRAWN or words in re.sub(r"<[^>]*>", "", text).replace("  ", " ")


@pytest.mark.parametrize("kind", ["faster", "slower"])
@pytest.mark.parametrize("place", sorted(PLACES.keys() - DRAWN))
def test_a_known_ratio_is_stated_everywhere(place: str, kind: str) -> None:
    speedup = RESULTS[kind].speedup
    opposite = 1 / speedup.ratio, 1 / speedup.high, 1 / speedup.low
    short = {fmt.estimate(speedup.ratio, speedup.low, speedup.high), fmt.estimate(*opposite)}
    assert stated(text_of(place, RESULTS[kind]), spellings(RESULTS[kind]) | short)


@pytest.mark.parametrize("place", LATENCIES)
@each_kind
def test_the_latencies_have_the_right_quotient(kind: str, place: str) -> None:
    result = RESULTS[kind]
    text = text_of(place, result)
    for variant, side in (("eager", result.eager), ("compiled", result.compiled)):
        latency, median = fmt.latency(result.latencies[variant]), fmt.latency(side.median_seconds)
        assert latency in text
        assert latency == median or (median in text) is (place in MEDIANS)


@each_kind
def test_the_quotient_of_the_latencies_is_the_speed_up(kind: str) -> None:
    whole = RESULTS[kind]
    fewer = dataclasses.replace(whole.eager, wall_seconds=whole.eager.wall_seconds[:-13])
    as_published = dataclasses.replace(whole.spec, protocol="as published")
    for changes in [{}, {"spec": as_published}, {"eager": fewer}]:
        result = dataclasses.replace(whole, **changes)
        eager, compiled = result.latencies.values()
        assert eager / compiled == pytest.approx(result.speedup.ratio, rel=1e-9)
        assert result.request_seconds[0] - result.request_seconds[1] == pytest.approx(eager - compiled)


@each_kind
def test_figures_for_other_programs_agree(kind: str) -> None:
    result = RESULTS[kind]
    data = to_json(result)
    assert data["eager"]["images_per_second"] == pytest.approx(1000 * result.spec.batch_size / data["eager_ms"])
    assert (data["end_to_end_speedup"] is None) is (kind in ("unsure", "void"))
    flat = data | {"speedup": data["speedup"]["ratio"], "verdict": data["speedup"]["verdict"]}
    for row in (flat, export.row(result), table_row(cell(result))):
        assert row["eager_ms"] / row["compiled_ms"] == pytest.approx(row["speedup"])
        assert row["verdict"] == ("unsure" if kind == "void" else kind)
        assert (row["break_even_calls"] is None) is (kind != "faster")


@pytest.mark.parametrize("kind", NUMBERS)
def test_progress_states_a_ratio_only_if_it_is_known(kind: str) -> None:
    result = RESULTS[kind]
    seconds = {f"{variant}_seconds": latency for variant, latency in result.latencies.items()}
    timing = Progress("time", 0.7, 3.0, speedup=result.speedup, **seconds)
    for text in (terminal.progress_text(timing), re.sub(r"<[^>]*>", " ", progress_strip(timing, result.spec))):
        assert all(fmt.latency(latency) in text for latency in result.latencies.values())
    text = progress_strip(dataclasses.replace(timing, speedup=Interval(2.0, 0.2, 900.0)), result.spec)
    assert "oo early to tell" in text and "2.00×" not in text and "44900" not in text


# ---- what the interval rests on

ALONE = run("faster")
ONE = dataclasses.replace(ALONE, spread=Spread("assumed", 0.03))
SECOND = dataclasses.replace(ONE, id="second", earlier=ALONE.as_processes())
THIRD = dataclasses.replace(ALONE, id="third", earlier=SECOND.as_processes())
SEEN = dataclasses.replace(THIRD, spread=Spread("this machine", 0.03, 4.0))
BASES: dict[str, RunResult] = {
    "from 1 process, including about 3.0 % between processes": ONE,
    "from 2 processes, including their differences (mostly assumed)": SECOND,
    "from 3 processes, including their differences": SEEN,
    "within one process: a rerun may lie outside": ALONE,
}


def test_runs_outweigh_an_assumed_spread_by_their_number() -> None:
    for freedom, assumed in ((None, True), (3.0, True), (2.0, False)):  # two runs were before it
        result = dataclasses.replace(THIRD, spread=Spread("assumed", 0.03, freedom))
        assert result.is_spread_assumed == assumed and ("(mostly assumed)" in Report(result).basis) == assumed


@pytest.mark.parametrize("basis", BASES)
def test_every_place_says_what_its_interval_rests_on(basis: str) -> None:
    result = BASES[basis]
    for place in ("last line", "report of the terminal", "Markdown", "headline of the page", "compare"):
        assert basis in text_of(place, result), place
    sections = [markdown.of_section(section) for fold in details.tree(Report(result)).values() for section in fold]
    page = "".join([text_of("headline of the page", result), *sections])
    assert plain(html.unescape(page)).replace("\N{NO-BREAK SPACE}", " ").count(basis) == 1


def processes(result: RunResult) -> list[Fact]:
    return [fact for fact in details.calls(Report(result)).facts if fact.name.startswith("Process ")]


def test_each_process_stands_with_its_interval() -> None:
    ids = [re.search(r"run (\w+)", fact.why)[1] for fact in processes(THIRD)]
    assert ids == [ALONE.id.split("-")[0], "second", "third"]
    assert processes(ALONE) == []  # the answer itself says it
    _, low, high = map(float, re.findall(r"\d\.\d\d", processes(ONE)[0].value))
    assert ONE.speedup.low < low <= high < ONE.speedup.high
