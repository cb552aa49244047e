"""Tests of the slider of a search: what each way to compile costs, and which is the best for how many calls."""

from typing import Any

import pytest
from sweep.test_best_table import costs, run, table

from demo.core.comparison import known_best
from demo.core.measurement import Compilation
from demo.present import whole_work
from demo.sweep import best_costs


def ways_of(start: str = "from nothing", **runs: Any) -> Any:
    return best_costs.way_choice(table(**runs)).starts[start]


def test_a_way_that_starts_sooner_is_best_for_few_calls() -> None:
    runs = {
        "layers": run("layers", 0.008, compilation=costs(4.0, 1.0)),
        "default": run("default", 0.004, compilation=costs(90.0, 2.0)),
    }
    ways = ways_of(**runs)
    assert list(ways) == ["eager", "default mode", "layer by layer"]
    kinds = [(part.kind, part.words) for part in whole_work.segments(ways)]
    assert (kinds[0], kinds[-1]) == (("eager", "eager"), ("compiled", "default mode"))
    assert ("compiled", "layer by layer") in kinds


def test_for_very_many_calls_the_best_ways_have_rank_1() -> None:
    runs = {name: run(name, seconds, compilation=costs(9.0, 1.0)) for name, seconds in NEAR.items()}
    ranking, ways = table(**runs), ways_of(**runs)
    first = {row.way.name for row in ranking.rows if row.rank == 1}
    assert {name.removesuffix(" mode").removeprefix("mode ") for name in known_best(ways, 10**12)} == first


NEAR = {"default": 0.008, "freezing": 0.0079, "lite": 0.0095}


@pytest.mark.parametrize(
    "compilation",
    [costs(30.0, None), Compilation(30.0, "cold", 1, partly=True)],
    ids=["from nothing", "with part of the cache"],
)
def test_a_way_whose_code_is_not_cached_takes_as_long_at_each_start(compilation: Compilation) -> None:
    frozen = run("freezing", 0.004, compilation=compilation)
    warm = ways_of("with a kept cache", default=run("default", 0.008, compilation=costs(9.0, 1.0)), freezing=frozen)
    assert warm["freezing"].first.seconds == pytest.approx(30.0)


def test_a_start_that_was_not_measured_is_named() -> None:
    runs = {"default": run("default", 0.008, compilation=costs(9.0, 1.0)), "lite": run("lite", 0.007)}
    choice = best_costs.way_choice(table(**runs))
    assert list(choice.starts["with a kept cache"]) == ["eager", "default mode"]
    assert choice.doubt == "not counted with a kept cache, because no such start was measured: mode lite"
    assert best_costs.sentences(table(**runs), 10)[1].startswith("At 10 calls with a kept cache: default mode costs ")
    assert best_costs.sentences(table(**runs), 10)[-1] == f"{whole_work.fmt.capital(choice.doubt)}."


@pytest.mark.parametrize("runs", [{}, {"default": run("default", 0.008, compilation=None)}], ids=["no run", "no start"])
def test_without_a_known_start_there_is_no_slider(runs: Any) -> None:
    assert best_costs.way_choice(table(**runs)) is None and best_costs.sentences(table(**runs), 10) == []
