"""What a run says of its failure, and which settings it offers as the way out."""

import errno
import json
import os
import re

import pytest
import torch
from safetensors import SafetensorError
from torch._inductor.exc import CppCompileError

from demo.backend import failures
from demo.core import catalog
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL, RunSpec

HUB = "microsoft/resnet-50"


MEMORY, SIZE = torch.OutOfMemoryError("no room"), ValueError("Input image size (48*48)")


def test_a_remedy_hands_over_the_settings_that_it_names() -> None:
    for phase, error, asked, change in [
        ("time", MEMORY, {"batch_size": 64}, {"batch_size": 16, "dtype": "bfloat16"}),
        ("time", MEMORY, {"batch_size": 2}, {"batch_size": 1, "dtype": "bfloat16"}),
        ("time", MEMORY, {"dtype": "float16"}, {}),
        ("load", RuntimeError("DefaultCPUAllocator: can't allocate memory"), {}, {"dtype": "bfloat16"}),
        ("compile", RuntimeError(), {"fullgraph": True, "mode": "lite"}, {"fullgraph": False, "mode": "default"}),
        ("compile", RuntimeError(), {"mode": "max-autotune"}, {"mode": "default"}),
        ("compile", RuntimeError(), {"freezing": True, "dynamic": "on"}, {"freezing": False, "dynamic": "auto"}),
        ("compile", RuntimeError(), {"compiler": "aot", "freezing": True}, {"compiler": "jit", "freezing": False}),
        ("compile", RuntimeError(), {"scope": "layers"}, {"scope": "model"}),
        ("compile", RuntimeError(), {"graph_break": True, "cache": "empty"}, {"graph_break": False}),
        ("time", RuntimeError(), {"freezing": True}, {"freezing": False}),
        ("compile", RuntimeError(), {}, {}),
        ("compile", OSError(28, "No space left on device"), {"mode": "max-autotune"}, {}),
        ("warm up", SIZE, {"dtype": "float32"}, {}),
        ("warm up", SIZE, {"dtype": "float16"}, {}),
        ("warm up", RuntimeError("\"nms\" not implemented for 'Half'"), {"dtype": "float16"}, {"dtype": "float32"}),
        ("check", RuntimeError("no processor"), {"dtype": "float16"}, {}),
    ]:
        spec = catalog.make_spec("shapes-vit", **asked).on("cpu")
        status, failure = failures.explain(error, phase, RunResult("one", "", "ok", spec))
        memory = isinstance(error, torch.OutOfMemoryError) or "memory" in str(error)
        expected = "out_of_memory" if memory else "compile_failed" if phase == "compile" else "failed"
        assert (status, failure.change) == (expected, change)
        assert ("torch.export or AOTInductor failed" in failure.message) == ("compiler" in asked)
        for name, value in change.items():
            named = f"{name} {asked[name]}" if asked.get(name) not in (None, True) else name.replace("_", " ")
            assert str(value) in failure.remedy or named in failure.remedy


@pytest.mark.parametrize(
    ("checkpoint", "error", "message", "remedy"),
    [
        (HUB, OSError(errno.ENOSPC, "full"), f"The Hugging Face cache cannot take {HUB}: No space left", "HF_HOME"),
        (HUB, PermissionError(errno.EACCES, "no"), "cannot take", "Make room and allow writing there"),
        (HUB, SafetensorError("incomplete metadata"), "is damaged and cannot be read.", "Download or write"),
        (HUB, json.JSONDecodeError("no end", "{", 1), "is damaged and cannot be read.", "Download or write"),
        ("shapes-vit", PermissionError(errno.EACCES, "Permission denied"), "shapes-vit could not", "folder assets"),
        ("shapes-vit", SafetensorError("incomplete metadata"), "A file of shapes-vit is damaged", "folder assets"),
    ],
)
def test_a_checkpoint_that_may_load_later_or_elsewhere_is_a_failure_and_no_refusal(
    checkpoint: str, error: Exception, message: str, remedy: str
) -> None:
    """As transformers tells it: an error of its own, from that one."""
    told = OSError("Can't load the model")
    told.__cause__ = error
    found = failures.load_refusal(checkpoint, told)
    assert isinstance(found, failures.CannotLoad)
    assert message in found.failure.message and remedy in found.failure.remedy


@pytest.mark.parametrize("error", [MEMORY, MemoryError()])
def test_memory_that_runs_out_while_loading_is_not_the_checkpoint_s_fault(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, failures.in_sentences(HUB):
        raise error
    assert raised.value is error


def test_an_own_model_whose_inputs_are_of_another_format_is_told_of_the_dtype() -> None:
    spec = RunSpec("/somewhere/mine.py:build", OWN_MODEL, device="cpu")
    error = RuntimeError("mat1 and mat2 must have the same dtype, but got Half and Float")
    _, failure = failures.explain(error, "warm up", RunResult("one", "", "ok", spec))
    assert "weights of float32" in failure.remedy and "--dtype" in failure.remedy


def test_a_remedy_is_for_what_was_asked_and_for_what_failed() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for asked, error, phase, message, remedy in [
        # A failure of SegFormer inside inductor, which takes minutes, has these words by a stand-in.
        ({"freezing": True, "dynamic": "on", "precision": 0.02}, RuntimeError("no size hint"), "compile", "size hint",
         ["Eager works and was timed. Without freezing or dynamic on it may work."]),
        ({}, full, "compile", "No space left on device", ["TORCHINDUCTOR_CACHE_DIR", "TMPDIR"]),
        ({"dtype": "float32"}, ValueError("a size"), "warm up", "a size", ["preprocessor_config.json"]),
    ]:  # fmt: skip
        result = RunResult("one", "", "ok", catalog.make_spec("shapes-segformer", **asked).on("cpu"))
        _, failure = failures.explain(error, phase, result)
        assert failure.stage == phase and message in failure.message and all(one in failure.remedy for one in remedy)
        assert "float32" not in failure.remedy  # where it is what failed


NO_HEADER = CppCompileError(
    ["g++", "/tmp/worth-compiling-x1/torchinductor_me/ab/cab.cpp"],
    "cab.cpp:2:10: fatal error: Python.h: No such file or directory\n    2 | #include <Python.h>\n",
)


@pytest.mark.parametrize(
    ("error", "message", "remedy"),
    [
        (NO_HEADER, "fatal error: Python.h: No such file or directory.", "-dev; Fedora"),
        (CppCompileError(["g++"], "ld: cannot find -lgomp: No such file\n"), "cannot find -lgomp", "LIBRARY_PATH"),
        (CppCompileError(["g++"], "g++: fatal error: cannot execute 'cc1plus'\n"), "'cc1plus'", "build-essential"),
        (OSError("/tmp/me/ab/cab.so: failed to map segment from shared object"), "cab.so: failed", "TORCHINDUCTOR"),
        (ImportError("/usr/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found"), "GLIBCXX", "set CXX|Set CXX"),
        (RuntimeError("Failed to find C compiler. Please specify via CC"), "C compiler", "build-essential"),
    ],
    ids=["header", "library", "compiler", "noexec", "libstdc++", "Triton's compiler"],
)
@pytest.mark.parametrize("checkpoint", ["shapes-vit", "/somewhere/mine.py:build"])
def test_a_failure_of_the_machine_is_told_with_its_cause_and_no_other_mode(
    error: Exception, message: str, remedy: str, checkpoint: str
) -> None:
    task = OWN_MODEL if ".py:" in checkpoint else "image-classification"
    spec = RunSpec(checkpoint, task, mode="max-autotune", device="cpu")
    _, failure = failures.explain(error, "compile", RunResult("one", "", "ok", spec))
    assert message in failure.message and re.search(remedy, failure.remedy)
    assert "mode" not in failure.remedy and failure.change == {} and "/" not in failure.message
