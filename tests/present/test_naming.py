"""What the settings of a run are called."""

import dataclasses

import pytest
from support.samples import ok_result

from demo.core.spec import OWN_MODEL, RunSpec
from demo.present import naming


@pytest.mark.parametrize(
    ("changes", "threads"),
    [({}, 1), ({"threads": 2}, 1), ({"device": "cuda"}, 0)],
    ids=["the run's own choice", "asked for", "on a GPU"],
)
def test_the_threads_of_a_cpu_stand_once_in_a_run_s_line(changes: dict[str, object], threads: int) -> None:
    result = ok_result(spec=dataclasses.replace(ok_result().spec, **changes))
    assert naming.run_line(result).count("2 threads") == threads


def test_no_batch_is_named_of_a_model_of_ones_own() -> None:
    assert "batch" not in naming.settings(RunSpec("/home/me/mine.py:build", OWN_MODEL, device="cpu"))
