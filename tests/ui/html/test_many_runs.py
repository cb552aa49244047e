"""The heat map of a sweep."""

import dataclasses
import re

from samples import failed_result, measurement, ok_result

from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.spec import RunSpec
from demo.sweep.grid import Cell, Grid
from demo.ui.html import many_runs


def compiled_in(seconds: float, spec: RunSpec) -> Cell:
    return Cell(spec, ok_result(spec=spec, compiled=measurement(seconds)))


def test_the_colour_is_that_of_the_faster_one_and_stands_beside_a_sign() -> None:
    specs = Grid(("shapes-vit",), (1, 2, 4)).specs()
    cells = [compiled_in(seconds, spec) for seconds, spec in zip((0.001, 0.004, 0.002), specs, strict=True)]
    drawn = many_runs.heatmap(cells, ENGLISH)
    assert drawn.count('class="fast" data-place="0"') == drawn.count("▲ 2.00×") == 1
    assert drawn.count('class="slow" data-place="1"') == drawn.count("▼ 0.50×") == 1
    assert 'class="same" data-place="2"' in drawn


def test_the_words_in_a_cell_are_the_visitors() -> None:
    spec = ok_result().spec
    result = ok_result(spec=spec)
    assert result.compilation is not None
    void = dataclasses.replace(result, compilation=dataclasses.replace(result.compilation, recompiles_while_timing=1))
    failed = failed_result(status="compile_failed")
    cells = [Cell(spec, void), Cell(spec, failed), Cell(spec, refused="No such model.")]
    assert cells[0].value.startswith("void: recompiled while timed")
    for language in LANGUAGES.values():
        for cell, key in zip(cells, ("heat_unsure", "status_compile_failed", "heat_refused"), strict=True):
            drawn = many_runs.heatmap([cell], language)
            assert f"<b>{language.html(key)}</b>" in drawn


def test_each_mode_and_number_format_has_a_facet_of_its_own() -> None:
    specs = Grid(("shapes-vit", "shapes-rtdetr"), (1,), ("default", "lite"), ("float32", "bfloat16")).specs()
    drawn = many_runs.heatmap([Cell(spec) for spec in specs], ENGLISH, running=0, share=0.4)
    assert drawn.count("<caption>") == 4
    assert drawn.count('class="now"') == 1 and "40 %" in drawn
    assert drawn.count('class="next"') == 7


def test_a_loss_has_as_much_colour_as_a_win_of_the_same_size() -> None:
    specs = Grid(("shapes-vit",), (1, 2, 4)).specs()
    win, loss, more = (compiled_in(at, spec) for at, spec in zip((0.001, 0.004, 0.006), specs, strict=True))
    drawn = many_runs.heatmap([win, loss, more], ENGLISH)
    found = re.findall(r'class="(\w+)" data-place="(\d)" style="--strength:(\d+)%', drawn)
    assert found == [("fast", "0", "63"), ("slow", "1", "63"), ("slow", "2", "90")], found
