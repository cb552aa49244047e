"""Tests a whole run of the bundled language model."""

import pytest
from support.whole_run import assert_all_figures, whole_run

from demo.core.result import RunResult


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> RunResult:
    options = ("--checkpoint", "shapes-gemma", "--tokens", "16", "--batch-size", "2")
    return whole_run(tmp_path_factory.mktemp("run"), *options)


def test_a_run_of_the_language_model_has_all_figures(result: RunResult):
    assert_all_figures(result)


def test_every_bundled_checkpoint_has_a_file_here(request):
    from demo.core import catalog

    sources = "".join(file.read_text("utf-8") for file in request.path.parent.glob("test_*.py"))
    bundled = [checkpoint.id for checkpoint in catalog.CHECKPOINTS if checkpoint.bundled]
    assert bundled and [name for name in bundled if f'"{name}"' not in sources] == []
