"""What a run says of its failure, and which settings it offers as the way out."""

import errno

import pytest
import torch
from safetensors import SafetensorError
from torch._inductor.exc import CppCompileError

from demo.backend import failures
from demo.core import catalog
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL, RunSpec

HUB = "microsoft/resnet-50"


MEMORY = torch.OutOfMemoryError("no room")


@pytest.mark.parametrize(
    ("phase", "error", "asked", "change"),
    [
        ("time", MEMORY, {"batch_size": 64}, {"batch_size": 16}),
        ("load", RuntimeError("DefaultCPUAllocator: can't allocate memory"), {}, {"dtype": "bfloat16"}),
        ("compile", RuntimeError(), {"fullgraph": True, "mode": "lite"}, {"fullgraph": False, "mode": "default"}),
        ("time", RuntimeError(), {"freezing": True}, {"freezing": False}),
        ("compile", OSError(errno.ENOSPC, "No space left on device"), {"mode": "max-autotune"}, {}),
        ("warm up", RuntimeError("\"nms\" not implemented for 'Half'"), {"dtype": "float16"}, {"dtype": "float32"}),
        ("warm up", RuntimeError(), {}, {}),
    ],
    ids=repr,
)
def test_a_remedy_hands_over_the_settings_it_names(phase: str, error: Exception, asked: dict, change: dict) -> None:
    spec = catalog.make_spec("shapes-vit", **asked).on("cpu")
    status, failure = failures.explain(error, phase, RunResult("one", "", "ok", spec))
    memory = isinstance(error, torch.OutOfMemoryError) or "memory" in str(error)
    expected = "out_of_memory" if memory else "compile_failed" if phase == "compile" else "failed"
    assert (status, failure.stage, failure.change) == (expected, phase, change)
    for name, value in change.items():
        named = f"{name} {asked[name]}" if asked.get(name) not in (None, True) else name.replace("_", " ")
        assert str(value) in failure.remedy or named in failure.remedy


@pytest.mark.parametrize(
    ("checkpoint", "error", "message", "remedy"),
    [
        (
            HUB,
            OSError(errno.ENOSPC, "No space left"),
            "could not be loaded: [Errno 28] No space left.",
            "where there is",
        ),
        (HUB, SafetensorError("incomplete metadata"), "could not be loaded: incomplete metadata.", "Download or write"),
        ("shapes-vit", PermissionError(errno.EACCES, "Permission denied"), "shapes-vit could not", "folder assets"),
    ],
    ids=["no room", "damaged", "bundled"],
)
def test_a_checkpoint_that_may_load_later_is_no_refusal(checkpoint, error, message, remedy):
    """As transformers tells it: an error of its own, from that one."""
    told = OSError("Can't load the model")
    told.__cause__ = error
    found = failures.load_refusal(checkpoint, told)
    assert isinstance(found, failures.CannotLoad)
    assert message in found.failure.message and remedy in found.failure.remedy


@pytest.mark.parametrize("error", [MEMORY, MemoryError()])
def test_memory_that_runs_out_is_not_the_checkpoint_s_fault(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, failures.in_sentences(HUB):
        raise error
    assert raised.value is error


def test_an_own_model_with_inputs_of_another_format_is_told_so() -> None:
    spec = RunSpec("/somewhere/mine.py:build", OWN_MODEL, device="cpu")
    error = RuntimeError("mat1 and mat2 must have the same dtype, but got Half and Float")
    _, failure = failures.explain(error, "warm up", RunResult("one", "", "ok", spec))
    assert "weights of float32" in failure.remedy and "--dtype" in failure.remedy


NO_HEADER = CppCompileError(
    ["g++", "/tmp/worth-compiling-x1/torchinductor_me/ab/cab.cpp"],
    "cab.cpp:2:10: fatal error: Python.h: No such file or directory\n    2 | #include <Python.h>\n",
)


@pytest.mark.parametrize(
    ("error", "message", "remedy"),
    [
        (NO_HEADER, "fatal error: Python.h: No such file or directory.", "-dev"),
        (ImportError("/tmp/a/cab.main.so: undefined symbol: gone"), "undefined symbol", "cache may be damaged: delete"),
        (RuntimeError("Failed to find C compiler. Please specify via CC"), "C compiler", "build-essential"),
        (OSError("/tmp/me/ab/cab.so: failed to map segment from shared object"), "cab.so: failed", "TORCHINDUCTOR"),
    ],
    ids=["header", "damaged cache", "compiler", "noexec"],
)
def test_a_failure_of_the_machine_is_told_with_its_cause(error, message, remedy):
    spec = RunSpec("shapes-vit", "image-classification", mode="max-autotune", device="cpu")
    _, failure = failures.explain(error, "compile", RunResult("one", "", "ok", spec))
    assert message in failure.message and remedy in failure.remedy
    assert "mode" not in failure.remedy and failure.change == {} and "/" not in failure.message
