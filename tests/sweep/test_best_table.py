"""Tests of the table of a search for the best way to compile: its figures, its ranks and its winner."""

import dataclasses
import math
import random
import re
import statistics
from typing import Any

import pytest
from support.samples import LABELS, MACHINE, measurement, ok_result

from demo.core import catalog
from demo.core.comparison import Spread
from demo.core.machine import HostSample
from demo.core.measurement import Compilation, CompileCost, InstructionProbe, StartUp
from demo.core.outputs import Label, Parity, Predictions
from demo.core.result import Failure, RunResult
from demo.core.stats import Difference, Measured
from demo.sweep import best_words
from demo.sweep.best_table import WAYS, BestTable, Way, WayResult, best_table, first_answers, ways

SPEC = catalog.make_spec("shapes-vit")
ALL = ways(SPEC, MACHINE, other_formats=True)
EAGER_SECONDS = 0.010
DOG = Predictions(labels=(Label("dog", 0.9),))


def way(name: str) -> Way:
    return next(candidate for candidate in ALL if candidate.name == name)


def run(name: str, seconds: float, eager: float = EAGER_SECONDS, **changes: Any) -> RunResult:
    """Returns a run of the way `name`, whose compiled call takes `seconds`, from one process with a known spread."""
    result = ok_result(id=name, spec=way(name).spec, eager=measurement(eager), compiled=measurement(seconds))
    result = dataclasses.replace(
        result, control_times=measurement(eager), start_up=StartUp(4.0, 1.0), spread=Spread("assumed", 0.01, None)
    )
    return dataclasses.replace(result, **changes)


def table(refused: dict[str, str] | None = None, **runs: float | RunResult) -> BestTable:
    """Returns the search's table of `runs`: for each way's name, the seconds of its compiled call, or a result."""
    results = {name: answer if isinstance(answer, RunResult) else run(name, answer) for name, answer in runs.items()}
    return best_table(ALL, results, refused or {})


def row(ranking: BestTable, name: str) -> WayResult:
    return next(entry for entry in ranking.rows if entry.way.name == name)


def costs(cold: float, warm: float | None, run: float = 0.5) -> Compilation:
    parts = {"backend compile": cold - run, "first run": run}
    later = warm and CompileCost(warm, {"dynamo": warm - run, "first run": run})
    return Compilation(cold, "cold", 1, cold=CompileCost(cold, parts), warm=later or None)


def test_a_row_has_what_was_measured_in_its_own_runs() -> None:
    """Eager was slower in the process that ran freezing. The speed-up of freezing is over this eager."""
    runs = {"default": run("default", 0.008), "freezing": run("freezing", 0.006, eager=0.012)}
    ranking = table(**runs)
    for name, result in runs.items():
        assert row(ranking, name).seconds == result.latencies["compiled"]
    assert row(ranking, "freezing").speedup.ratio == pytest.approx(2.0, rel=0.01)
    assert (row(ranking, "eager").seconds, row(ranking, "eager").speedup.ratio) == (pytest.approx(0.011, rel=0.05), 1.0)


def test_every_interval_allows_for_the_number_of_ways() -> None:
    alone, many = table(default=0.008), table(default=0.008, freezing=0.006, lite=0.007, package=0.009)
    assert row(many, "default").speedup.half_width > 1.2 * row(alone, "default").speedup.half_width


def test_a_way_that_changes_eager_is_compared_with_plain_eager() -> None:
    half = run("bfloat16", 0.004, eager=0.008)
    drifting = {name: run(name, 0.009, eager=eager) for name, eager in (("default", 0.009), ("freezing", 0.011))}
    third = run("lite", 0.009, eager=0.010)
    ranking = table(**drifting, lite=third, bfloat16=half)
    speedup = row(ranking, "bfloat16").speedup
    assert speedup.ratio == pytest.approx((0.009 * 0.010 * 0.011) ** (1 / 3) / 0.004, rel=0.01)
    # Three processes of plain eager and one of the way: Student's t with two degrees of freedom is 4.303.
    between = statistics.stdev(math.log(seconds) for seconds in (0.009, 0.010, 0.011)) * (1 / 3 + 1) ** 0.5 * 4.303
    own = half.own_figures["call"].within
    half_width = math.hypot(between, math.log(own.high / own.low) / 2) * 2.498 / 1.960  # of four questions
    assert math.log(speedup.high / speedup.low) / 2 == pytest.approx(half_width, rel=0.02)
    assert row(table(default=0.009, bfloat16=half), "bfloat16").speedup is None  # one process is no spread


def test_ways_that_are_not_known_to_differ_share_a_rank() -> None:
    ranking = table(default=0.0080, freezing=0.0050, lite=0.0051)
    assert [entry.way.name for entry in ranking.rows][:4] == ["freezing", "lite", "default", "eager"]
    assert [entry.rank for entry in ranking.rows][:5] == [1, 1, 3, 4, None]
    assert ranking.winner.way.name == "freezing" and [entry.way.name for entry in ranking.equals] == ["lite"]


def test_of_equal_ways_the_simplest_wins_and_the_answer_says_so() -> None:
    ranking = table(default=0.0051, freezing=0.0050)
    assert ranking.winner.way.name == "default" and [entry.way.name for entry in ranking.equals] == ["freezing"]
    first, second = best_words.conclusion(ranking)[:2]
    assert first.startswith("Default mode: 1.9") and "freezing" in second and "simplest within 5" in second
    nothing = table(default=0.0100, freezing=0.0150)
    assert nothing.winner.way.name == "eager"
    assert "Nothing is known to be better than eager" in best_words.conclusion(nothing)[0]


def test_the_answer_names_the_probe_that_its_break_even_leaves_out() -> None:
    cost = dataclasses.replace(costs(9.0, 1.0), probe=InstructionProbe(loaded_seconds=1.3))
    pays = best_words.conclusion(table(default=run("default", 0.005, compilation=cost)))[1]
    assert pays.startswith("Pays after") and pays.endswith("instruction probe, 1.3 s in each process.")


WIDE = Spread("assumed", 0.6, None)


def test_a_way_that_is_not_known_to_beat_eager_ranks_behind_it() -> None:
    """On a busy machine freezing, 1.6 (0.62 to 4.09), once won against default mode, 1.3 (1.21 to 1.43)."""
    ranking = table(default=0.0077, freezing=run("freezing", 0.0062, spread=WIDE))
    ranks = [(entry.way.name, entry.rank) for entry in ranking.rows]
    assert ranks[:3] == [("default", 1), ("eager", 2), ("freezing", 3)]
    assert ranking.winner.way.name == "default" and ranking.equals == () and row(ranking, "freezing").may_win
    alone = table(freezing=run("freezing", 0.0062, spread=WIDE))
    assert [(entry.way.name, entry.rank) for entry in alone.rows][:2] == [("eager", 1), ("freezing", 2)]


@pytest.mark.parametrize("seed", range(40))
def test_only_eager_or_what_is_known_to_beat_it_has_rank_1(seed: int) -> None:
    draw = random.Random(seed)
    busy = tuple(HostSample(float(at), 0.9, None, 0.1) for at in range(5))
    ranking = table(
        **{
            way.name: run(
                way.name,
                EAGER_SECONDS / math.exp(draw.gauss(0.1, 0.4)),
                spread=Spread("assumed", draw.choice((0.01, 0.05, 0.3)), None),
                machine_states=draw.choice(((), (), busy)),
            )
            for way in draw.sample(ALL[1:], draw.randint(1, 8))
            if not way.changes_eager and not way.refused
        }
    )
    for entry in ranking.rows:
        if entry.rank == 1 and entry.way.name != "eager":
            assert entry.speedup.verdict == "faster" and entry.speedup.low > 1
    assert ranking.winner is None or (ranking.winner == ranking.rows[0] and ranking.winner.rank == 1)


def test_of_ways_that_cannot_be_told_apart_the_surest_stands_first() -> None:
    wide = {"freezing": run("freezing", 0.0056, spread=Spread("assumed", 0.13, None))}
    ranking = table(**wide, lite=0.0065, package=0.0066)
    assert [entry.way.name for entry in ranking.rows[:3]] == ["lite", "package", "freezing"]
    assert {entry.rank for entry in ranking.rows[:3]} == {1} and ranking.winner == ranking.rows[0]
    assert row(ranking, "freezing").speedup.ratio > row(ranking, "lite").speedup.ratio


def test_the_interval_is_widened_once_for_each_way() -> None:
    """The case: speed-up 3.0 (2.9 to 3.1), a noise floor of 1 %, taken cores, nine ways that are compared.

    Bonferroni's quantile for nine is 2.773 instead of 1.960: the wider side of the interval becomes 1.415 times
    log(3.0 / 2.9), which is 0.048 and more than the floor's 0.010. Then both ends move out by 1.75:
    3 * exp(-0.048) / 1.75 is 1.63, and 3 * exp(0.048) * 1.75 is 5.51.
    """
    comparison = Measured(3.0, 2.9, 3.1, floor=0.01, taken=True).judge(questions=9)
    assert (comparison.verdict, round(comparison.low, 2), round(comparison.high, 2)) == ("faster", 1.63, 5.51)
    taken = run("freezing", EAGER_SECONDS / 3, machine_states=(HostSample(1.0, 0.9, None, 0.1),) * 2)
    others = {name: 0.009 for name in ("default", "layers", "lite", "package", "max-autotune-no-cudagraphs")}
    judged = row(table(freezing=taken, **others), "freezing").speedup
    assert judged == taken.speedup.pooled.judge(questions=6)


def test_a_wide_interval_does_not_win() -> None:
    ranking = table(default=0.0100, freezing=run("freezing", 0.0040, spread=WIDE))
    assert row(ranking, "eager").rank == 1 and ranking.winner.way.name == "eager"
    sentences = best_words.conclusion(ranking)
    assert "known to be better than eager" in sentences[0]
    assert re.search(r"freezing: 0\.\d+ to [\d.]+×, perhaps no gain", sentences[1])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"status": "crashed", "failure": Failure("time", "It crashed.", "Try again.")}, "crashed"),
        ({"parity": Parity("differ", 0.5, "Outputs differ by 0.5.", {})}, "is not known to agree with its own"),
        ({"parity": None}, "was not compared"),
        ({"predictions": {"eager": LABELS, "compiled": DOG}}, "sees dog"),
    ],
)
def test_a_way_that_fails_or_does_not_agree_is_a_row_and_never_wins(changes: dict[str, Any], why: str) -> None:
    ranking = table(default=0.008, freezing=run("freezing", 0.001, **changes))
    assert ranking.winner.way.name == "default"
    assert row(ranking, "freezing").rank is None and why in row(ranking, "freezing").out
    assert best_words.cells(row(ranking, "freezing"))["agreement"] == row(ranking, "freezing").out


def test_a_refused_way_says_why_and_one_not_tried_has_no_rank() -> None:
    ranking = table(refused={"package": "There is no toolkit."}, default=0.008)
    assert row(ranking, "package").out == "There is no toolkit."
    assert row(ranking, "lite").rank is None and not row(ranking, "lite").out
    assert best_words.cells(row(ranking, "lite"))["agreement"] == "not tried yet"


@pytest.mark.parametrize(("seconds", "rank"), [(0.0065, 1), (0.004, 2)], ids=["a little faster", "twice as fast"])
def test_a_way_timed_while_cores_were_taken_must_lead_by_far(seconds: float, rank: int) -> None:
    busy = tuple(HostSample(float(at), 0.9, None, 0.1) for at in range(5))
    ranking = table(default=run("default", 0.008), freezing=run("freezing", seconds, machine_states=busy))
    assert row(ranking, "default").rank == rank and ranking.disturbed
    assert any("Other programs" in line for line in best_words.conclusion(ranking))


def test_a_first_answer_is_the_start_of_its_process_and_its_first_call() -> None:
    warm = first_answers(run("default", 0.008, compilation=costs(20.0, 3.0)), 4.0)["warm"]
    assert warm == {"import": 4.0, "load": 1.0, "compile": 2.5, "first run": 0.5}
    nothing = first_answers(run("default", 0.008, compilation=costs(20.0, None)), 4.0)
    assert sum(nothing["cold"].values()) == 25.0 and "warm" not in nothing
    assert first_answers(run("default", 0.008, start_up=None), 4.0) == {}


PARTLY = Compilation(4.5, "cold", 1, partly=True)


@pytest.mark.parametrize(
    ("name", "device", "compilation", "states"),
    [
        pytest.param("freezing", "cpu", costs(20.0, None), {"cold", "warm"}, id="no cache keeps a frozen graph"),
        pytest.param("freezing", "cuda", costs(20.0, None), {"cold"}, id="on a GPU the cache keeps it"),
        pytest.param("default", "cpu", PARTLY, set(), id="over a cache of another model"),
        pytest.param("freezing", "cpu", PARTLY, {"warm"}, id="frozen over a cache of another model"),
        pytest.param("package", "cpu", costs(20.0, None), {"cold"}, id="the next process loads the package"),
    ],
)
def test_a_first_answer_is_known_only_if_a_run_tells(name, device, compilation, states) -> None:
    result = run(name, 0.008, compilation=compilation)
    assert set(first_answers(dataclasses.replace(result, spec=result.spec.on(device)), 4.0)) == states


def test_every_first_answer_waits_for_the_gpus_libraries() -> None:
    """Eager's first answer includes their loading, too, although its first call comes after it."""
    ranking = table(default=run("default", 0.008, start_up=StartUp(4.0, 1.0, 2.0), compilation=costs(20.0, 3.0)))
    assert row(ranking, "eager").first_answer("warm") == pytest.approx(4.0 + 1.0 + 2.0 + 3 * EAGER_SECONDS)
    assert row(ranking, "default").first_answer("warm") == pytest.approx(4.0 + 1.0 + 2.0 + 3.0)


def test_the_answer_has_its_figures_and_the_json_names_each_stored_run() -> None:
    ranking = table(
        default=run("default", 0.0060, compilation=costs(20.0, 2.0)),
        freezing=run("freezing", 0.0040, compilation=costs(30.0, None)),
    )
    sentences = best_words.conclusion(ranking)
    assert "2.5×" in sentences[0] and "35 s" in sentences[0] and "{" not in " ".join(sentences)
    data = best_words.as_json(ranking)
    assert data["winner"] == "freezing" and data["rows"][0]["id"] == "freezing" and data["rows"][0]["rank"] == 1
    assert data["rows"][0]["settings"] == WAYS["freezing"] and data["rows"][0]["processes"] == 1


def test_a_latency_stands_beside_eagers_of_the_same_run() -> None:
    ranking = table(default=run("default", 0.008), freezing=run("freezing", 0.006, eager=0.012))
    assert best_words.cells(row(ranking, "freezing"))["seconds"] == "12.2 ms → 6.12 ms"
    alone = table(default=0.008, freezing=0.009, lite=0.009, bfloat16=run("bfloat16", 0.004, eager=0.008))
    assert best_words.cells(row(alone, "bfloat16"))["seconds"] == "4.08 ms"


def test_disturbed_runs_alone_have_a_table_but_no_winner_that_eager_could_beat() -> None:
    busy = (HostSample(1.0, 0.9, None, 0.1),) * 2
    slow, fast = (run(name, at, machine_states=busy) for name, at in (("default", 0.008), ("freezing", 0.004)))
    assert table(default=slow).winner.way.name == "eager"
    ranking = table(default=slow, freezing=fast)
    assert ranking.winner.way.name == "freezing" and "factor of 1.75" in best_words.conclusion(ranking)[-1]


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        ([("lite", False), ("package", False)], "The time was up; not tried: mode lite, a package"),
        ([("freezing", True)], "The time was up; to be timed again: freezing"),
        ([("lite", False), ("freezing", True)], "The time was up; not tried: mode lite; to be timed again: freezing"),
    ],
)
def test_what_a_search_left_out_is_one_sentence(steps: list[tuple[str, bool]], sentence: str) -> None:
    assert best_words.missing("The time was up", [(way(name), tried) for name, tried in steps]) == sentence


def test_a_way_that_was_timed_and_is_out_says_why_there_is_no_answer() -> None:
    """The way has a speed-up, so the reason given is not that nothing could be compared."""
    unknown = dataclasses.replace(ok_result(), parity=Parity("not comparable", None, "Eager is off by half."))
    (sentence,) = best_words.conclusion(table(default=unknown))
    assert sentence.startswith("There is no answer yet: default mode") and "could be compared" not in sentence


@pytest.mark.parametrize(
    ("ends", "text"),
    [((1.5, 1.8), "1.6× (1.50 to 1.80×)"), ((1.2, 13.0), "1.2 to 13×")],
    ids=["known", "known as a range only"],
)
def test_a_way_that_is_hardly_known_stands_as_its_range(ends: tuple[float, float], text: str) -> None:
    speedup = Difference(math.sqrt(ends[0] * ends[1]), *ends, "faster")
    assert best_words.cells(WayResult(way("freezing"), speedup=speedup))["speedup"] == text
