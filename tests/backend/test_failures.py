"""What a run says of its failure, and which settings it offers as the way out."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from demo.backend import failures
from demo.core import catalog
from demo.core.result import RunResult


@pytest.mark.parametrize(
    ("phase", "error", "asked", "change"),
    [
        ("time", torch.OutOfMemoryError("no room"), {"batch_size": 64}, {"batch_size": 16, "dtype": "bfloat16"}),
        ("time", torch.OutOfMemoryError("no room"), {"batch_size": 2}, {"batch_size": 1, "dtype": "bfloat16"}),
        ("time", torch.OutOfMemoryError("no room"), {"dtype": "float16"}, {}),
        ("load", RuntimeError("DefaultCPUAllocator: can't allocate memory"), {}, {"dtype": "bfloat16"}),
        ("compile", RuntimeError("a break"), {"fullgraph": True, "mode": "max-autotune"}, {"fullgraph": False}),
        ("compile", RuntimeError("no kernel"), {"mode": "max-autotune"}, {"mode": "default"}),
        ("compile", RuntimeError("no kernel"), {}, {}),
        ("compile", OSError(28, "No space left on device"), {"mode": "max-autotune"}, {}),
        ("warm up", ValueError("Input image size (48*48)"), {"dtype": "float32"}, {}),
        ("warm up", ValueError("Input image size (48*48)"), {"dtype": "float16"}, {"dtype": "float32"}),
        ("check", RuntimeError("no processor"), {"dtype": "float16"}, {}),
    ],
)
def test_a_remedy_hands_over_the_settings_that_it_names(
    phase: str, error: Exception, asked: dict[str, Any], change: dict[str, Any]
) -> None:
    spec = catalog.make_spec("shapes-vit", **asked).on("cpu")
    status, failure = failures.explain(error, phase, RunResult("one", "", "ok", spec))
    memory = isinstance(error, torch.OutOfMemoryError) or "memory" in str(error)
    expected = "out_of_memory" if memory else "compile_failed" if phase == "compile" else "failed"
    assert (status, failure.change) == (expected, change)
    assert all(str(value) in failure.remedy or name == "fullgraph" for name, value in change.items() if name != "mode")


def test_a_model_that_fails_in_float32_is_not_told_to_be_run_in_float32() -> None:
    spec = catalog.make_spec("shapes-vit", dtype="float32").on("cpu")
    _, failure = failures.explain(ValueError("a size"), "warm up", RunResult("one", "", "ok", spec))
    assert "preprocessor_config.json" in failure.remedy and "float32" not in failure.remedy
