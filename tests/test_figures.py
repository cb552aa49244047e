"""One story in figures: no place contradicts another, and a ratio that is not known is stated nowhere."""

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
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.core.result_json import to_json
from demo.core.spec import RunSpec
from demo.core.stats import Interval
from demo.present import charts, details, guide_comparison, markdown, race, verdict
from demo.present.script import script
from demo.store import export
from demo.sweep.grid import Cell, record
from demo.ui.tabs import compare, history_tab, sweep_tab, tables
from demo.ui.tabs.headline import headline
from demo.ui.tabs.live_strip import strip

NUMBERS = {"faster": (1.45, 0.05), "slower": (0.7, 0.05), "same": (1.004, 0.008), "unsure": (1.37, 0.9)}
"""The speed-up about which the blocks of each verdict lie, and how far they lie apart (in logarithms)."""


def disturbed(ratio: float, spread: float) -> tuple[Measurement, Measurement]:
    """Two variants on a machine that slows down: their medians have another quotient than their blocks have."""
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
    """A run of a checkpoint that the guide has, with the verdict `kind`, or void."""
    eager, compiled = disturbed(*NUMBERS["faster" if kind == "void" else kind])
    compilation = Compilation(31.2, "cold", 1, recompiles_while_timing=int(kind == "void"))
    spec = RunSpec("google/vit-base-patch16-224", "image-classification", device="cuda")
    made = {"spec": spec, "eager": eager, "compiled": compiled, "compilation": compilation}
    return full_result(**made, control_times=None, predictions=None, roofline=None)


RESULTS = {kind: run(kind) for kind in ("faster", "slower", "same", "unsure", "void")}


def timing(result: RunResult) -> Progress:
    eager, compiled = result.latencies.values()
    seconds = {"eager_seconds": eager, "compiled_seconds": compiled}
    return Progress("time", 0.7, 3.0, speedup=result.speedup, **seconds)


def cell(result: RunResult) -> Cell:
    return Cell(result.spec, result)


def figure(drawn: object) -> str:
    return json.dumps(drawn.to_dict(), default=str, ensure_ascii=False) if drawn is not None else ""  # type: ignore[attr-defined]


def compared(both: list[RunResult]) -> str:
    bars = [bar.name for bar in compare.bars(both)]
    return "\n".join([compare.answer(both), *bars, *map(" ".join, compare.rows(both))])


PLACES: dict[str, Callable[[RunResult], str]] = {
    "headline": verdict.headline,
    "last line": verdict.in_one_line,
    "report of the terminal": terminal.report,
    "history of the terminal": lambda result: terminal.history_table([result]),
    "sweep's line": lambda result: sweep_command.cell_text(cell(result)),
    "sweep's table": lambda result: sweep_command.table([cell(result)]),
    "sweep's value": lambda result: cell(result).value,
    "heat map": lambda result: sweep_tab.map_text(cell(result))[0],
    "Markdown": lambda result: plain(markdown.of_run(result)),
    "Markdown of a sweep": lambda result: markdown.of_cells([(result.spec, result, cell(result).value)]),
    "headline of the page": headline,
    "script": script,
    "history": lambda result: " ".join(tables.cell(one).text for one in history_tab.row_of(result)),
    "compare": lambda result: compared([result, result]),
    "guide": lambda result: " ".join(guide_comparison.compare_with_guide(result)),
    "trace chart": lambda result: figure(charts.trace(result)),
    "race": race.of_result,
}
TELLING = set(PLACES) - {"trace chart", "race", "heat map"}
"""Where a reader looks for the answer."""


def ratios_of(result: RunResult) -> set[str]:
    """Every spelling of the speed-up, of its opposite and of a whole request's that a place might write."""
    eager, compiled = result.request_seconds
    found = set()
    for ratio in (result.speedup.ratio, eager / compiled):
        for value in (ratio, 1 / ratio):
            found |= {fmt.ratio(value), f"{value:.2f}×", f"{value:.3g}×", f"{value:.3f}×", f"{value:.2f} ± "}
    return {spelling for spelling in found if "." in spelling}


def stated(text: str, spellings: Iterable[str]) -> list[str]:
    return [one for one in spellings if re.search(rf"(?<![\d.]){re.escape(one)}", text)]


def test_the_samples_have_their_verdicts() -> None:
    for kind in RESULTS:
        result = RESULTS[kind]
        assert verdict.outcome(result) == kind
        if kind != "same":
            medians = result.eager.median_seconds / result.compiled.median_seconds
            assert abs(medians / result.speedup.ratio - 1) > 0.02


@pytest.mark.parametrize("place", ["report of the terminal", "Markdown", "headline of the page", "compare"])
def test_when_compiling_pays_is_told_alike_everywhere(place: str) -> None:
    text = re.sub(r"\s", " ", html.unescape(PLACES[place](RESULTS["faster"])))
    assert re.sub(r"\s", " ", verdict.worth(RESULTS["faster"])) in text


def test_a_ratio_that_is_not_known_is_stated_nowhere() -> None:
    words_of_it = {"same": "o difference", "unsure": "oo noisy to tell", "void": "recompiled while timed"}
    for place in PLACES:
        for kind in words_of_it:
            result = RESULTS[kind]
            text = html.unescape(PLACES[place](result))
            assert stated(text, ratios_of(result)) == []
            paid = result.break_even(31.2)
            assert paid is not None and (paid.calls is None or f"{fmt.grouped(paid.calls)} calls" not in text)
            if place in TELLING:
                assert words_of_it[kind] in re.sub(r"<[^>]*>", "", text).replace("  ", " ")


def test_a_ratio_that_is_known_is_told_everywhere() -> None:
    for kind in ["faster", "slower"]:
        known = RESULTS[kind].speedup
        opposite = 1 / known.ratio, 1 / known.high, 1 / known.low
        short = {fmt.estimate(known.ratio, known.low, known.high), fmt.estimate(*opposite)}
        for place in TELLING:
            assert stated(html.unescape(PLACES[place](RESULTS[kind])), ratios_of(RESULTS[kind]) | short), place


SHOWS_LATENCIES = set(PLACES) - {"last line", "sweep's value", "script", "history of the terminal", "guide"}
SHOWS_LATENCIES -= {
    "heat map",
    "history",
    "sweep's line",
}  # the history has them with a decimal more, and the unit above
OWN_NAMES = {"report of the terminal", "Markdown"}
"""Where the medians stand too, as medians."""


def test_the_latencies_shown_have_the_right_quotient() -> None:
    for place in sorted(SHOWS_LATENCIES - {"trace chart", "race"}):
        for kind in RESULTS:
            result = RESULTS[kind]
            text = html.unescape(PLACES[place](result)).replace("\N{NO-BREAK SPACE}", " ")
            for variant, side in (("eager", result.eager), ("compiled", result.compiled)):
                shown, median = fmt.latency(result.latencies[variant]), fmt.latency(side.median_seconds)
                assert shown in text
                assert shown == median or (median in text) is (place in OWN_NAMES)


def test_the_quotient_of_the_latencies_is_the_speed_up() -> None:
    for known in RESULTS.values():
        fewer = dataclasses.replace(known.eager, wall_seconds=known.eager.wall_seconds[:-13])
        as_published = dataclasses.replace(known.spec, protocol="as published")
        for changes in [{}, {"spec": as_published}, {"eager": fewer}]:
            result = dataclasses.replace(known, **changes)
            eager, compiled = result.latencies.values()
            assert eager / compiled == pytest.approx(result.speedup.ratio, rel=1e-9)
            assert result.request_seconds[0] - result.request_seconds[1] == pytest.approx(eager - compiled)


def test_figures_for_other_programs_agree() -> None:
    for kind in RESULTS:
        for form in ["JSON", "export", "sweep's export"]:
            result = RESULTS[kind]
            data = to_json(result)
            assert data["eager"]["images_per_second"] == pytest.approx(1000 * result.spec.batch_size / data["eager_ms"])
            flat = data | {"speedup": data["speedup"]["ratio"], "verdict": data["speedup"]["verdict"]}
            row = {"JSON": flat, "export": export.row(result), "sweep's export": record(cell(result))}[form]
            assert row["eager_ms"] / row["compiled_ms"] == pytest.approx(row["speedup"])
            assert row["verdict"] == ("unsure" if kind == "void" else kind)
            assert (row["break_even_calls"] is None) is (kind != "faster")
            if form == "JSON":
                assert (row["end_to_end_speedup"] is None) is (kind in ("unsure", "void"))


# While it runs


def test_progress_tells_a_ratio_only_if_it_is_known() -> None:
    for kind in ["faster", "slower", "same", "unsure"]:
        result = RESULTS[kind]
        said = terminal.progress_text(timing(result))
        page = re.sub(r"<[^>]*>", " ", strip(timing(result), result.spec))
        for text in (said, page):
            assert all(fmt.latency(seconds) in text for seconds in result.latencies.values())
        vague = dataclasses.replace(timing(result), speedup=Interval(2.0, 0.2, 900.0))
        text = strip(vague, result.spec)
        assert "oo early to tell" in text and "2.00×" not in text and "44900" not in text


# What the interval rests on

FULL = run("faster")
SECOND = dataclasses.replace(FULL, id="second", spread=Spread("assumed", 0.03), earlier=FULL.as_processes())
ONE = dataclasses.replace(FULL, spread=Spread("assumed", 0.03))
THIRD = dataclasses.replace(FULL, id="third", earlier=SECOND.as_processes())
RESTS: dict[str, RunResult] = {
    "from 1 process; that others differ by about 3.0 % is counted in": ONE,
    "from 2 processes, how they differ counted in": SECOND,
    "from 3 processes, how they differ counted in": THIRD,
    "within one process: a rerun may lie outside": FULL,
}
STATING = ("last line", "report of the terminal", "Markdown", "headline of the page", "compare")


def test_every_place_says_what_its_interval_rests_on() -> None:
    for rests in RESTS:
        for place in STATING:
            text = html.unescape(PLACES[place](RESTS[rests])).replace("\N{NO-BREAK SPACE}", " ")
            assert rests in text, place
        sections = [part for fold in details.tree(RESTS[rests]).values() for part in fold.values()]
        page = PLACES["headline of the page"](RESTS[rests]) + "".join(map(markdown.section, sections))
        assert plain(html.unescape(page)).replace("\N{NO-BREAK SPACE}", " ").count(rests) == 1  # said once on the page


def test_each_process_stands_with_its_run_and_one_alone_with_its_own_interval() -> None:
    def processes(result: RunResult) -> list[details.Row]:
        part = details.calls(result)
        return [row for row in part.rows if row[0].startswith("Process ")]

    _, low, high = re.findall(r"\d\.\d\d", processes(ONE)[0][1])
    assert ONE.speedup.low < float(low) <= float(high) < ONE.speedup.high
    told = [("Process 1", FULL.id), ("Process 2", "second"), ("Process 3", "third")]
    assert [name for name, _, _ in processes(THIRD)] == [name for name, _ in told]
    assert all(f"run {id}" in row[2] for (_, id), row in zip(told, processes(THIRD), strict=True))
    assert processes(FULL) == []  # the answer itself says it
