"""Tests a whole run of the bundled language model, with an empty compile cache."""

import pytest
from support.whole_run import assert_all_figures, whole_run

from demo.core.result import RunResult


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> RunResult:
    options = ("--tokens", "16", "--batch-size", "2", "--cache", "empty")
    return whole_run(tmp_path_factory.mktemp("run"), "shapes-gemma", *options)


def test_a_run_of_the_language_model_has_all_figures(result: RunResult):
    assert_all_figures(result)


def test_an_empty_cache_measures_a_cold_and_a_warm_first_call(result: RunResult):
    cold, warm = result.compilation.cold, result.compilation.warm
    assert (result.compilation.cache, cold.run_id, warm.run_id) == ("cold", "", "")
    assert cold.parts["inductor"] > warm.parts["inductor"] == warm.parts["backend compile"] == 0
    for cost in (cold, warm):
        assert sum(cost.parts.values()) == pytest.approx(cost.first_call_seconds)


def test_every_bundled_checkpoint_has_a_file_here(request):
    from demo.core import catalog

    sources = "".join(file.read_text("utf-8") for file in request.path.parent.glob("test_*.py"))
    bundled = [checkpoint.id for checkpoint in catalog.CHECKPOINTS if checkpoint.bundled]
    assert bundled and [name for name in bundled if f'"{name}"' not in sources] == []
