"""Tests a whole run with an empty compile cache, of a model that compiles in seconds."""

import pytest
from support.whole_run import whole_run

MODEL = """
import torch


def build():
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Softmax(-1)), torch.ones(8, 64)
"""


def test_an_empty_cache_measures_a_cold_and_a_warm_first_call(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MODEL)
    result = whole_run(tmp_path, "--model", f"{file}:build", "--cache", "empty")
    cold, warm = result.compilation.cold, result.compilation.warm
    assert (result.compilation.cache, cold.run_id, warm.run_id) == ("cold", "", "")
    assert cold.parts["inductor"] > warm.parts["inductor"] == warm.parts["backend compile"] == 0
    for cost in (cold, warm):
        assert sum(cost.parts.values()) == pytest.approx(cost.first_call_seconds)
