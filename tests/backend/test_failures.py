"""What a run says of its failure, and which settings it offers as the way out."""

from __future__ import annotations

import errno
import os

import torch

from demo.backend import failures
from demo.core import catalog
from demo.core.result import RunResult


def test_a_remedy_hands_over_the_settings_that_it_names() -> None:
    for phase, error, asked, change in [
        ("time", torch.OutOfMemoryError("no room"), {"batch_size": 64}, {"batch_size": 16, "dtype": "bfloat16"}),
        ("time", torch.OutOfMemoryError("no room"), {"batch_size": 2}, {"batch_size": 1, "dtype": "bfloat16"}),
        ("time", torch.OutOfMemoryError("no room"), {"dtype": "float16"}, {}),
        ("load", RuntimeError("DefaultCPUAllocator: can't allocate memory"), {}, {"dtype": "bfloat16"}),
        (
            "compile",
            RuntimeError("a break"),
            {"fullgraph": True, "mode": "lite"},
            {"fullgraph": False, "mode": "default"},
        ),
        ("compile", RuntimeError("no kernel"), {"mode": "max-autotune"}, {"mode": "default"}),
        (
            "compile",
            RuntimeError("no size"),
            {"freezing": True, "dynamic": "on"},
            {"freezing": False, "dynamic": "auto"},
        ),
        (
            "compile",
            RuntimeError("no graph"),
            {"compiler": "aot", "freezing": True},
            {"compiler": "jit", "freezing": False},
        ),
        ("compile", RuntimeError("no layer"), {"scope": "layers"}, {"scope": "model"}),
        ("compile", RuntimeError("no break"), {"graph_break": True, "cache": "empty"}, {"graph_break": False}),
        ("time", RuntimeError("no kernel"), {"freezing": True}, {"freezing": False}),
        ("compile", RuntimeError("no kernel"), {}, {}),
        ("compile", OSError(28, "No space left on device"), {"mode": "max-autotune"}, {}),
        ("warm up", ValueError("Input image size (48*48)"), {"dtype": "float32"}, {}),
        ("warm up", ValueError("Input image size (48*48)"), {"dtype": "float16"}, {"dtype": "float32"}),
        ("check", RuntimeError("no processor"), {"dtype": "float16"}, {}),
    ]:
        spec = catalog.make_spec("shapes-vit", **asked).on("cpu")
        status, failure = failures.explain(error, phase, RunResult("one", "", "ok", spec))
        memory = isinstance(error, torch.OutOfMemoryError) or "memory" in str(error)
        expected = "out_of_memory" if memory else "compile_failed" if phase == "compile" else "failed"
        assert (status, failure.change) == (expected, change)
        for name, value in change.items():
            named = f"{name} {asked[name]}" if asked.get(name) not in (None, True) else name.replace("_", " ")
            assert str(value) in failure.remedy or named in failure.remedy


def test_only_what_was_asked_for_is_said_to_be_left_out() -> None:
    """A failure of SegFormer inside inductor, which takes minutes, has these words by a stand-in."""
    spec = catalog.make_spec("shapes-segformer", freezing=True, dynamic="on", precision=0.02).on("cpu")
    _, failure = failures.explain(RuntimeError("inductor: no size hint"), "compile", RunResult("one", "", "ok", spec))
    assert failure.remedy == "Eager works and was timed. Without freezing or dynamic on it may work."


def test_a_full_disk_under_the_compile_cache_is_told_with_the_variables_that_move_it() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    result = RunResult("one", "", "ok", catalog.make_spec("shapes-vit").on("cpu"))
    status, failure = failures.explain(full, "compile", result)
    assert (status, failure.phase) == ("compile_failed", "compile")
    assert "No space left on device" in failure.message
    assert "TORCHINDUCTOR_CACHE_DIR" in failure.remedy and "TMPDIR" in failure.remedy


def test_a_model_that_fails_in_float32_is_not_told_to_be_run_in_float32() -> None:
    spec = catalog.make_spec("shapes-vit", dtype="float32").on("cpu")
    _, failure = failures.explain(ValueError("a size"), "warm up", RunResult("one", "", "ok", spec))
    assert "preprocessor_config.json" in failure.remedy and "float32" not in failure.remedy
