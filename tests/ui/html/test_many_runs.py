"""The heat map of a sweep, and the charts of a search for the best way."""

import dataclasses
import re
import threading

import numpy as np
import plotly.graph_objects as go
import pytest
from fake_runner import SCENE, SearchRunner, measured
from samples import failed_result, measurement, ok_result

from demo.core import catalog
from demo.core.spec import BadInput, RunSpec
from demo.store.history import History
from demo.sweep.best_table import BestTable
from demo.sweep.best_way import Search
from demo.sweep.grid import Cell, Grid
from demo.ui.html import many_runs


def compiled_in(seconds: float, spec: RunSpec) -> Cell:
    return Cell(spec, ok_result(spec=spec, compiled=measurement(seconds)))


def test_the_colour_is_that_of_the_faster_one_beside_a_sign_and_as_strong_for_a_loss_as_for_a_win() -> None:
    specs = Grid(("shapes-vit",), (1, 2, 4, 8)).specs()
    cells = [compiled_in(seconds, spec) for seconds, spec in zip((0.001, 0.004, 0.006, 0.002), specs, strict=True)]
    drawn = many_runs.heatmap(cells)
    assert drawn.count('class="fast" data-place="0"') == drawn.count("▲ 2.00×") == 1
    assert drawn.count('class="slow" data-place="1"') == drawn.count("▼ 0.50×") == 1
    assert 'class="same" data-place="3"' in drawn
    found = re.findall(r'class="(fast|slow)" data-place="(\d)" style="--strength:(\d+)%', drawn)
    assert found == [("fast", "0", "63"), ("slow", "1", "63"), ("slow", "2", "90")], found


def test_the_words_in_a_cell_are_the_visitors() -> None:
    spec = ok_result().spec
    result = ok_result(spec=spec)
    void = dataclasses.replace(result, compilation=dataclasses.replace(result.compilation, recompiles_while_timing=1))
    failed = failed_result(status="compile_failed")
    cells = [Cell(spec, void), Cell(spec, failed), Cell(spec, refused="No such model.")]
    assert cells[0].value.startswith("void: recompiled while timed")
    for cell, words in zip(cells, ("unsure", "Did not compile", "refused"), strict=True):
        assert f"<b>{words}</b>" in many_runs.heatmap([cell])


def test_each_mode_and_number_format_has_a_facet_of_its_own() -> None:
    specs = Grid(("shapes-vit", "shapes-rtdetr"), (1,), ("default", "lite"), ("float32", "bfloat16")).specs()
    drawn = many_runs.heatmap([Cell(spec) for spec in specs], running=0, share=0.4)
    assert drawn.count("<caption>") == 4
    assert drawn.count('class="now"') == 1 and "40 %" in drawn
    assert drawn.count('class="next"') == 7


@pytest.fixture
def search(history: History) -> Search:
    """A search that has ended; layer by layer was refused."""

    def answer(spec: RunSpec) -> object:
        return BadInput("No layers.") if spec.scope == "layers" else measured(spec)

    runner = SearchRunner(history, answer)
    found = Search(catalog.make_spec("shapes-vit"), runner.machine, [], SCENE)
    for _ in found.run(runner, threading.Event()):
        pass
    return found


def lines(figure: go.Figure) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.mode == "lines"]


def test_each_line_is_the_start_and_the_calls_and_the_winner_s_crosses_its_rival_s_at_the_point(search: Search) -> None:
    table = search.table()
    figure = many_runs.crossover(table)
    shown = [row for row in table.rows if row.rank is not None]
    assert len(lines(figure)) == len(shown) == len(search.ways) - 1  # not what was refused
    # Freezing: 20 s and 3 s before it, 2 ms a call. Eager answers first, after 3.012 s, and takes 4 ms a call.
    winner = next(trace for trace in lines(figure) if trace.line.width == 4)
    rival = next(trace for trace in lines(figure) if trace.line.color == many_runs.EAGER)
    assert np.allclose(winner.y, 23.0 + 0.00204 * np.array(winner.x), rtol=0.02)
    (point,) = (trace for trace in figure.data if trace.mode == "markers")
    assert table.crossover is not None and point.x[0] == table.crossover.calls
    for trace in (winner, rival):
        assert np.interp(point.x[0], trace.x, trace.y) == pytest.approx(point.y[0], rel=0.02)
    assert "with its interval" in figure.layout.meta["aloud"]


def test_without_a_crossover_there_is_no_point_and_no_word_of_it(search: Search) -> None:
    table = dataclasses.replace(search.table(), crossover=None)
    figure = many_runs.crossover(table)
    assert [trace for trace in figure.data if trace.mode == "markers"] == []
    assert "with its interval" not in figure.layout.meta["aloud"]


def test_a_bar_s_parts_add_up_to_the_first_answer_of_its_way(search: Search) -> None:
    table = search.table()
    figure = many_runs.ladder(table)
    rows = [row for row in table.rows if not row.out]
    whole = np.sum([trace.x for trace in figure.data], axis=0)
    assert whole.tolist() == pytest.approx([row.first_answer("next") for row in rows])
    freezing = [row.way.name for row in rows].index("freezing")
    assert [round(trace.x[freezing], 2) for trace in figure.data] == [2.0, 1.0, 19.95, 0.05]
    texts = [note.text for note in figure.layout.annotations]
    assert "23 s" in texts and "A package" in texts


def test_both_charts_are_told_in_words_and_nothing_is_drawn_of_nothing(search: Search) -> None:
    for draw in (many_runs.crossover, many_runs.ladder):
        figure = draw(search.table())  # type: ignore[arg-type]
        assert "max-autotune-no-cudagraphs" in figure.layout.meta["aloud"]
        empty = dataclasses.replace(search.table(), rows=(), winner=None, crossover=None)
        assert isinstance(empty, BestTable) and draw(empty) is None  # type: ignore[arg-type]
