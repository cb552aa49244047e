import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from support.page_support import HOSTILE
from support.samples import GPU, measurement, ok_result

from demo.core.result import RunResult
from demo.core.stats import Difference
from demo.present import colours
from demo.present.charts import (
    HeatCell,
    WayLine,
    by_batch,
    crossover,
    durations,
    heatmap,
    intervals,
    ladder,
    log_ticks,
    trace,
)
from demo.present.colours import COMPILED, EAGER, TEXT
from demo.store import published
from demo.store.published import PublishedRow

WAYS = [
    WayLine("Freezing", "winner", 23.0, 0.002),
    WayLine("Eager", "eager", 3.0, 0.004),
    WayLine("Mode lite", "other", 8.0, 0.004),
]
PARTS = {"import": 2.0, "weights": 1.0, "compile": 19.5, "first call": 0.5}


def timed(eager: tuple[float, ...], compiled: tuple[float, ...]) -> RunResult:
    sides = (dataclasses.replace(measurement(1.0), wall_seconds=seconds) for seconds in (eager, compiled))
    return ok_result(eager=next(sides), compiled=next(sides), environment=GPU)


def notes(figure: go.Figure) -> list[str]:
    return [re.sub("<.*?>", "", note.text) for note in figure.layout.annotations]


def guide_rows(gpu: str, batch_size: int) -> list[PublishedRow]:
    return published.select(published.guide_rows(), "release", gpu, batch_size)


def test_without_rows_there_is_no_chart() -> None:
    figures = intervals({}), heatmap([]), crossover(WAYS[:1], []), ladder({}, []), durations([]), by_batch([])
    assert {*figures, trace(ok_result(eager=None, compiled=None))} == {None}


def test_names_from_outside_are_text() -> None:
    rows = [dataclasses.replace(published.guide_rows()[0], gpu=HOSTILE, model=HOSTILE)]
    spec = dataclasses.replace(ok_result().spec, checkpoint=HOSTILE)
    cells = [HeatCell("a", HOSTILE, "1", HOSTILE)]
    for figure in (durations(rows), by_batch(rows), heatmap(cells), trace(ok_result(spec=spec))):
        assert "<img" not in figure.to_json()


def test_the_page_recolours_the_colours_of_the_figures() -> None:
    css = (Path(__file__).parents[2] / "demo" / "ui" / "look" / "figures.css").read_text()
    for colour in (COMPILED, TEXT):
        assert f"fill: rgb{colours.rgb(colour)}" in css
    assert f'tspan[style*="{COMPILED}"]' in css


@pytest.mark.parametrize("figure", [trace(timed((0.02, 0.03), (0.01, 0.5))), durations(guide_rows("T4", 16))])
def test_a_figure_is_read_aloud_in_words(figure: go.Figure) -> None:
    json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(name))
    words, title = figure.layout.meta["aloud"], re.sub("<.*?>", "", figure.layout.title.text)
    assert words.startswith(title) and len(words) > len(title)
    assert not re.search("[<>●◆━┄]", words)


def test_every_call_is_a_dot_in_order() -> None:
    figure = trace(timed((0.03, 0.02, 0.025), (0.011, 0.012)))
    assert [list(dots.x) for dots in figure.data] == [[1, 2, 3], [1, 2]]
    assert figure.data[0].y == pytest.approx([30, 20, 25]) and figure.data[1].y == pytest.approx([11, 12])
    assert [dots.marker.color for dots in figure.data] == [EAGER, COMPILED]


@pytest.mark.parametrize(("gpu", "batch_size", "scale"), [("A100", 1, 1e3), ("T4", 16, 1)], ids=["ms", "s"])
def test_the_durations_are_the_tables(gpu: str, batch_size: int, scale: float) -> None:
    rows = guide_rows(gpu, batch_size)
    figure = durations(rows)
    (bars,) = figure.data
    assert bars.x[::2] == pytest.approx([(row.eager_seconds or 0) * scale for row in rows])
    assert bars.x[1::2] == pytest.approx([(row.compiled_seconds or 0) * scale for row in rows])
    assert [name.removesuffix(" †") for name in figure.layout.yaxis.ticktext[::2]] == [row.model for row in rows]
    missing = sum(seconds is None for row in rows for seconds in (row.eager_seconds, row.compiled_seconds))
    assert notes(figure).count("out of memory") == missing


def test_the_lines_are_the_tables_geometric_means() -> None:
    figure = by_batch(published.select(published.guide_rows(), "release"))
    assert [line.name for line in figure.data] == ["A100", "V100", "T4"]
    assert {line.x for line in figure.data} == {(1, 4, 16)}
    means = [[1.449, 1.287, 1.222], [1.599, 1.221, 1.190], [1.203, 1.132, 1.157]]
    assert np.array([line.y for line in figure.data]) == pytest.approx(np.array(means), abs=0.0005)


def test_an_open_verdict_has_an_interval_without_a_point() -> None:
    runs = {"A": Difference(2.0, 1.9, 2.1, "faster"), "B": Difference(1.0, 0.8, 1.3, "unsure"), "C": None}
    (points,) = intervals(runs).data
    assert list(points.marker.opacity) == [1.0, 0.0]
    assert points.x[1] + points.error_x.array[1] == pytest.approx(1.3)
    assert points.x[1] - points.error_x.arrayminus[1] == pytest.approx(0.8)


def test_the_axis_of_intervals_reads_as_ratios() -> None:
    axis = intervals({"A": Difference(0.31, 0.3, 0.33, "slower")}).layout.xaxis
    assert axis.ticktext == ("0.33×", "0.5×", "1×", "2×", "3×")
    assert axis.tickvals == pytest.approx((1 / 3, 1 / 2, 1, 2, 3))


@pytest.mark.parametrize("ratio", [1.2, 2.0, 9.0])
def test_a_loss_is_coloured_as_strongly_as_a_win(ratio: float) -> None:
    speedups = {"1": ratio, "2": 1 / ratio, "3": None}
    cells = [HeatCell("a", "m", column, "", speedup) for column, speedup in speedups.items()]
    win, loss, none = heatmap(cells).data[0].z[1]
    assert win == pytest.approx(-loss) and win > none == 0


def test_each_group_of_a_heat_map_has_its_rows() -> None:
    cells = [HeatCell(group, "m", column, column, 2.0) for group, column in (("a", "1"), ("a", "2"), ("b", "1"))]
    filled = [[cell is not None for cell in row] for row in heatmap(cells).data[0].z]
    assert filled == [[False, False], [True, True], [False, False], [True, False]]


def test_a_line_is_the_start_and_the_calls() -> None:
    ways = {way.name if way.kind != "other" else "the other ways": way for way in WAYS}
    figure = crossover(WAYS, [])
    assert 10 ** figure.layout.yaxis.range[0] < min(way.start for way in WAYS)
    for line in figure.data:
        assert np.allclose(line.y, ways[line.name].start + ways[line.name].seconds * np.array(line.x))


def test_the_parts_of_a_bar_add_up_to_the_first_answer() -> None:
    figure = ladder({"Freezing": PARTS, "Eager": dict.fromkeys(PARTS, 1.0)}, [])
    assert np.sum([bar.x for bar in figure.data], axis=0).tolist() == pytest.approx([23.0, 4.0])
    assert "23 s" in notes(figure)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (3.1, 34.0, [5, 10, 20]),
        (0.9, 9000.0, [1, 10, 100, 1000]),
        (1.45, 1.62, [1.5, 1.6]),
        (4.59, 4.6, [4.6]),
    ],
    ids=["a decade", "many decades", "a part of a decade", "hardly any difference"],
)
def test_ticks_of_a_logarithmic_axis_are_round_numbers(low: float, high: float, ticks: list[float]) -> None:
    """Plotly's own ticks read '3 4 5 … 10 2 3': it leaves out the power of ten."""
    assert log_ticks(low, high) == ticks


def test_words_of_a_caption_stay_apart_at_the_end_of_a_line() -> None:
    figure = trace(ok_result())
    assert figure is not None
    caption = next(annotation.text for annotation in figure.layout.annotations if "One dot a call" in annotation.text)
    assert "<br>" in caption and not re.search(r"\S<br>", caption)
