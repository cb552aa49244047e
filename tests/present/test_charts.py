import dataclasses
import json
import re
from pathlib import Path

import pytest
from support.samples import ENVIRONMENT

from demo.core.measurement import Measurement
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present import pictures
from demo.present.charts import by_batch, durations, trace
from demo.present.figure import TEXT
from demo.present.pictures import COMPILED, EAGER
from demo.store import published
from demo.store.published import PublishedRow

GPU = dataclasses.replace(ENVIRONMENT, device_name="Tesla T4")


def measured(*seconds: float) -> Measurement:
    return Measurement(seconds, None, (1.0,), 2)


def result(eager: Measurement | None, compiled: Measurement | None, **other: object) -> RunResult:
    given = {"status": "ok", "spec": RunSpec("shapes-vit", "image-classification"), "environment": GPU}
    return RunResult("1", "2026-11-21T09:00:00Z", eager=eager, compiled=compiled, **{**given, **other})


def texts(figure) -> list[str]:
    return [re.sub(r"</?(b|span)\b[^>]*>", "", note.text) for note in figure.layout.annotations]


def test_every_call_of_both_variants_is_a_dot_in_order() -> None:
    figure = trace(result(measured(0.03, 0.02, 0.025), measured(0.011, 0.012)))
    assert [list(part.x) for part in figure.data] == [[1, 2, 3], [1, 2]]
    assert figure.data[0].y == pytest.approx([30, 20, 25]) and figure.data[1].y == pytest.approx([11, 12])
    assert [part.marker.color for part in figure.data] == [EAGER, COMPILED]


def test_names_from_outside_are_text_and_not_markup() -> None:
    table = [dataclasses.replace(published.guide_rows()[0], gpu="<a href=x>y</a>", model="<b>m</b>")]
    for figure in (durations(table), by_batch(table)):
        assert "<a href" not in figure.to_json() and "<b>m" not in figure.to_json()
    spec = RunSpec("<a href='javascript:1'>x</a>\n<b>", "image-classification")
    source = texts(trace(result(measured(0.02), measured(0.01), spec=spec)))[-1]
    assert "<a" not in source and "&lt;a href" in source and "\n" not in source


def test_the_page_recolours_the_colours_that_the_figures_have() -> None:
    css = (Path(__file__).parents[2] / "demo" / "ui" / "look" / "figures.css").read_text()
    for colour in (COMPILED, TEXT):
        assert f"fill: rgb{pictures.rgb(colour)}" in css
    assert f'tspan[style*="{COMPILED}"]' in css


def test_every_figure_is_strict_json_and_told_in_words_with_neither_tags_nor_signs() -> None:
    both = result(measured(0.02, 0.03, 0.02), measured(0.01, 0.01, 0.5))
    figure = trace(both)
    json.loads(figure.to_json(), parse_constant=lambda name: pytest.fail(name))
    said = figure.layout.meta["aloud"]
    title = re.sub("<.*?>", "", figure.layout.title.text)
    assert said.startswith(title) and len(said) > len(title)
    assert not re.search("[<>●◆━┄]", said)


def guide_rows(gpu: str, batch_size: int) -> list[PublishedRow]:
    return published.select(published.guide_rows(), "release", gpu, batch_size)


@pytest.mark.parametrize(("gpu", "batch_size", "scale"), [("A100", 1, 1e3), ("T4", 16, 1)], ids=["ms", "s"])
def test_the_durations_are_the_tables(gpu: str, batch_size: int, scale: float) -> None:
    table = guide_rows(gpu, batch_size)
    figure = durations(table)
    (bars,) = figure.data
    assert bars.x[::2] == pytest.approx([(row.eager_seconds or 0) * scale for row in table])
    assert bars.x[1::2] == pytest.approx([(row.compiled_seconds or 0) * scale for row in table])
    assert [name.removesuffix(" †") for name in figure.layout.yaxis.ticktext[::2]] == [row.model for row in table]


def test_the_lines_are_the_tables_geometric_means() -> None:
    figure = by_batch(published.select(published.guide_rows(), "release"))
    means = {line.name.split()[0]: dict(zip(line.x, line.y, strict=True)) for line in figure.data}
    assert means["A100"] == pytest.approx({1: 1.449, 4: 1.287, 16: 1.222}, abs=0.0005)
    assert means["V100"] == pytest.approx({1: 1.599, 4: 1.221, 16: 1.190}, abs=0.0005)
    assert means["T4"] == pytest.approx({1: 1.203, 4: 1.132, 16: 1.157}, abs=0.0005)


def test_out_of_memory_stands_in_words_where_a_bar_would() -> None:
    table = guide_rows("T4", 16)
    place = [row.model for row in table].index("DETR")
    figure = durations(table)
    assert figure.data[0].x[2 * place : 2 * place + 2] == (0, 0)
    assert texts(figure).count("out of memory") == 2
