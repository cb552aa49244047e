"""The charts of several runs, from plain values."""

import numpy as np
import plotly.graph_objects as go
import pytest

from demo.core.stats import Interval
from demo.present.comparison_charts import HeatCell, RunInterval, WayLine, crossover, heatmap, intervals, ladder
from demo.present.pictures import EAGER

WAYS = [
    WayLine("Freezing", "winner", 23.0, 0.002),
    WayLine("Eager", "eager", 3.0, 0.004),
    WayLine("Mode lite", "other", 8.0, 0.004),
]
PARTS = {"import": 2.0, "weights": 1.0, "compile": 19.5, "first call": 0.5}
HOSTILE = "<a href=x>y</a>"


def lines(figure: go.Figure) -> list[go.Scatter]:
    return [trace for trace in figure.data if trace.mode == "lines"]


def test_a_line_is_the_start_and_the_calls() -> None:
    figure = crossover(WAYS, [])
    winner = next(trace for trace in lines(figure) if trace.line.width == 4)
    eager = next(trace for trace in lines(figure) if trace.line.color == EAGER)
    assert np.allclose(winner.y, 23.0 + 0.002 * np.array(winner.x))
    assert np.allclose(eager.y, 3.0 + 0.004 * np.array(eager.x))


def test_a_bar_s_parts_add_up_to_the_first_answer() -> None:
    figure = ladder({"Freezing": PARTS, "Eager": dict.fromkeys(PARTS, 1.0)}, [])
    assert np.sum([trace.x for trace in figure.data], axis=0).tolist() == pytest.approx([23.0, 4.0])
    assert "23 s" in [note.text for note in figure.layout.annotations]


@pytest.mark.parametrize("ratio, slower", [(2.0, 0.5), (1.2, 1 / 1.2), (9.0, 1 / 9.0)])
def test_a_loss_is_coloured_as_strongly_as_a_win(ratio: float, slower: float) -> None:
    cells = [HeatCell("a", "m", column, "", one) for column, one in (("1", ratio), ("2", slower), ("3", None))]
    (win, loss, none) = heatmap(cells).data[0].z[1]
    assert win == pytest.approx(-loss) and win > none == 0


def test_each_group_of_a_heat_map_has_its_rows_and_no_cell_that_is_not_asked_for() -> None:
    cells = [HeatCell(group, "m", column, column, 2.0) for group, column in (("a", "1"), ("a", "2"), ("b", "1"))]
    figure = heatmap(cells)
    assert [[cell is not None for cell in row] for row in figure.data[0].z] == [
        [False, False],
        [True, True],
        [False, False],
        [True, False],
    ]


def test_a_point_states_no_ratio_where_the_verdict_is_open() -> None:
    runs = [RunInterval("A", Interval(2.0, 1.9, 2.1)), RunInterval("B", Interval(1.0, 0.8, 1.3), decided=False)]
    (points_of,) = intervals([*runs, RunInterval("C", None)]).data
    assert list(points_of.marker.opacity) == [1.0, 0.0]
    assert points_of.x[1] + points_of.error_x.array[1] == pytest.approx(1.3)
    assert points_of.x[1] - points_of.error_x.arrayminus[1] == pytest.approx(0.8)


@pytest.mark.parametrize("draw", [intervals, heatmap, lambda ways: crossover(ways, []), lambda ways: ladder({}, [])])
def test_nothing_is_drawn_of_nothing(draw) -> None:
    assert draw([]) is None


def test_names_from_outside_are_text_and_not_markup() -> None:
    figure = heatmap([HeatCell("a", HOSTILE, "1", HOSTILE)])
    assert "<a href" not in figure.to_json()
