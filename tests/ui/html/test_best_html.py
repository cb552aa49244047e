"""The charts of a search for the best way."""

import dataclasses
import threading
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from fake_runner import SCENE, SearchRunner, measured

from demo.core import catalog
from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.spec import BadInput, RunSpec
from demo.store.history import History
from demo.sweep.best_table import BestTable, Goal
from demo.sweep.best_way import Search
from demo.ui.html import best_html


@pytest.fixture
def search(tmp_path: Path) -> Search:
    """A search that has ended; layer by layer was refused."""

    def answer(spec: RunSpec) -> object:
        return BadInput("No layers.") if spec.scope == "layers" else measured(spec)

    runner = SearchRunner(History(tmp_path / "history.sqlite3"), answer)
    found = Search(catalog.make_spec("shapes-vit"), runner.machine, [], SCENE)
    for _ in found.run(runner, threading.Event()):
        pass
    return found


def lines(figure: go.Figure) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.mode == "lines"]


def test_each_line_is_the_start_and_the_calls_and_the_winner_s_crosses_its_rival_s_at_the_point(search: Search) -> None:
    table = search.table()
    figure = best_html.crossover(table, ENGLISH)
    shown = [row for row in table.rows if row.rank is not None]
    assert len(lines(figure)) == len(shown) == len(search.ways) - 1  # not what was refused
    # Freezing: 20 s and 3 s before it, 2 ms a call. Eager answers first, after 3.012 s, and takes 4 ms a call.
    winner = next(trace for trace in lines(figure) if trace.line.width == 4)
    rival = next(trace for trace in lines(figure) if trace.line.color == best_html.EAGER)
    assert np.allclose(winner.y, 23.0 + 0.00204 * np.array(winner.x), rtol=0.02)
    (point,) = (trace for trace in figure.data if trace.mode == "markers")
    assert table.crossover is not None and point.x[0] == table.crossover.calls
    for trace in (winner, rival):
        assert np.interp(point.x[0], trace.x, trace.y) == pytest.approx(point.y[0], rel=0.02)
    assert "with its interval" in figure.layout.meta["aloud"]


def test_without_a_crossover_there_is_no_point_and_no_word_of_it(search: Search) -> None:
    figure = best_html.crossover(search.table(Goal("soonest")), ENGLISH)
    assert [trace for trace in figure.data if trace.mode == "markers"] == []
    assert "with its interval" not in figure.layout.meta["aloud"]


def test_a_bar_s_parts_add_up_to_the_first_answer_of_its_way(search: Search) -> None:
    table = search.table()
    figure = best_html.ladder(table, ENGLISH)
    rows = [row for row in table.rows if not row.out]
    whole = np.sum([trace.x for trace in figure.data], axis=0)
    assert whole.tolist() == pytest.approx([row.first_answer("next") for row in rows])
    freezing = [row.way.name for row in rows].index("freezing")
    assert [round(trace.x[freezing], 2) for trace in figure.data] == [2.0, 1.0, 19.95, 0.05]
    texts = [note.text for note in figure.layout.annotations]
    assert "23 s" in texts and "A package" in texts


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
def test_both_charts_are_told_in_words_and_nothing_is_drawn_of_nothing(search: Search, language: object) -> None:
    for draw in (best_html.crossover, best_html.ladder):
        figure = draw(search.table(), language)  # type: ignore[arg-type]
        assert "max-autotune-no-cudagraphs" in figure.layout.meta["aloud"]
        empty = dataclasses.replace(search.table(), rows=(), winner=None, crossover=None)
        assert isinstance(empty, BestTable) and draw(empty, language) is None  # type: ignore[arg-type]
