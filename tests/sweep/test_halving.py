"""Successive halving with made-up times."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from demo.sweep.halving import successive_halving

Rung = tuple[str, float]


def searched(
    times: dict[str, float], names: str, budgets: tuple[float, ...], late: dict[str, list[str]] | None = None
) -> tuple[list[Rung], tuple[str, ...]]:
    """The rungs as they were asked for (names, budget), and the candidates of the last one."""

    def measure(names: tuple[str, ...], budget: float) -> Generator[Rung, None, dict[str, float]]:
        yield "".join(names), budget
        return {name: times[name] for name in names if name in times}

    def joining(fastest: Sequence[str]) -> list[str]:
        return (late or {}).get("".join(fastest), [])

    rungs: list[Rung] = []
    search = successive_halving(list(names), budgets, measure, joining)
    while True:
        try:
            rungs.append(next(search))
        except StopIteration as stopped:
            return rungs, stopped.value


def test_the_fastest_third_goes_on_with_the_next_budget_and_the_fastest_of_the_last_rung_is_first() -> None:
    times = {name: float(place) for place, name in enumerate("hdbgcaefi")}
    rungs, last = searched(times, "abcdefghi", (0.5, 1.5))
    assert rungs == [("abcdefghi", 0.5), ("hdb", 1.5)]
    assert last == ("h", "d", "b")


def test_what_joins_late_is_measured_in_the_last_rung_and_may_win() -> None:
    rungs, last = searched({"a": 3.0, "b": 2.0, "c": 4.0, "B": 1.0}, "abc", (1.0, 2.0), late={"b": ["B"]})
    assert rungs == [("abc", 1.0), ("bB", 2.0)]
    assert last == ("B", "b")


def test_what_has_no_time_is_out_however_few_are_left() -> None:
    assert searched({"c": 3.0}, "abcdefghi", (1.0, 2.0)) == ([("abcdefghi", 1.0)], ("c",))
    assert searched({}, "abc", (1.0, 2.0)) == ([("abc", 1.0)], ())
