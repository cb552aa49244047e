"""What a failed run says, and which other settings it offers."""

import errno

import pytest
import torch
from safetensors import SafetensorError

from demo.backend import failures, profiling
from demo.core import catalog
from demo.core.options import RunSpec
from demo.core.result import Failure, RunResult

HUB = "microsoft/resnet-50"
MEMORY = torch.OutOfMemoryError("no room")
ALLOCATOR = RuntimeError("DefaultCPUAllocator: can't allocate memory")
NO_ROOM = OSError(errno.ENOSPC, "No space left on device")


def explained(error: Exception, phase: str, spec: RunSpec) -> tuple[str, Failure]:
    return failures.explain(error, phase, RunResult("one", "", "ok", spec))


@pytest.mark.parametrize(
    ("status", "phase", "error", "options", "change"),
    [
        ("out_of_memory", "time", MEMORY, {"batch_size": 64}, {"batch_size": 16}),
        ("out_of_memory", "time", MEMORY, {"mode": "max-autotune"}, {"mode": "default", "dtype": "bfloat16"}),
        ("out_of_memory", "load", ALLOCATOR, {"mode": "max-autotune"}, {"dtype": "bfloat16"}),
        ("compile_failed", "compile", RuntimeError(), {"fullgraph": True}, {"fullgraph": False}),
        ("compile_failed", "compile", RuntimeError(), {"mode": "lite"}, {"mode": "default"}),
        ("failed", "time", RuntimeError(), {"freezing": True}, {"freezing": False}),
        ("compile_failed", "compile", NO_ROOM, {"mode": "max-autotune"}, {}),
        ("failed", "warm up", RuntimeError("no 'Half'"), {"dtype": "float16"}, {"dtype": "float32"}),
        ("failed", "warm up", RuntimeError(), {}, {}),
    ],
)
def test_a_remedy_comes_with_the_settings_it_names(
    status: str, phase: str, error: Exception, options: dict, change: dict, monkeypatch
) -> None:
    monkeypatch.setattr(profiling, "float32_advantage", lambda dtype: 0.5)
    found, failure = explained(error, phase, catalog.make_spec("shapes-vit", **options).on("cpu"))
    assert (found, failure.stage, failure.change) == (status, phase, change)
    for name, value in change.items():
        named = f"{name} {options[name]}" if options.get(name) not in (None, True) else name.replace("_", " ")
        assert str(value) in failure.remedy or named in failure.remedy


def test_a_slow_format_is_no_remedy_for_too_little_memory(monkeypatch) -> None:
    monkeypatch.setattr(profiling, "float32_advantage", lambda dtype: 70.0)
    _, failure = explained(ALLOCATOR, "warm up", catalog.make_spec("shapes-vit").on("cpu"))
    assert (failure.remedy, failure.change) == ("Try a smaller model.", {})


@pytest.mark.parametrize("error", [NO_ROOM, SafetensorError("incomplete metadata")], ids=["no room", "damaged"])
def test_a_checkpoint_that_may_load_later_is_no_refusal(error: Exception) -> None:
    """transformers raises an error of its own, with this one as its cause."""
    library_error = OSError("Can't load the model")
    library_error.__cause__ = error
    found = failures.load_refusal(HUB, library_error)
    assert isinstance(found, failures.CannotLoad)
    assert f"could not be loaded: {error}." in found.failure.message
    assert "Download or write it again where there is room" in found.failure.remedy


@pytest.mark.parametrize("error", [MEMORY, MemoryError()])
def test_memory_that_runs_out_is_not_the_checkpoints_fault(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, failures.in_sentences(HUB):
        raise error
    assert raised.value is error


@pytest.mark.parametrize(
    ("error", "message", "remedy"),
    [
        (ImportError("/tmp/a/cab.main.so: undefined symbol: gone"), "undefined symbol", "cache may be damaged: delete"),
        (RuntimeError("Failed to find C compiler. Please specify via CC"), "C compiler", "build-essential"),
        (RuntimeError("g++: fatal error: Killed signal terminated program cc1plus"), "Killed signal", "free memory"),
        (RuntimeError("cc1plus: fatal error: a.s: No space left on device"), "No space left", "folders with room"),
        (OSError("/tmp/me/ab/cab.so: failed to map segment from shared object"), "cab.so: failed", "TORCHINDUCTOR"),
    ],
    ids=["damaged cache", "compiler", "killed compiler", "full disk", "noexec"],
)
def test_a_machine_that_cannot_build_is_named_as_the_cause(error: Exception, message: str, remedy: str) -> None:
    _, failure = explained(error, "compile", catalog.make_spec("shapes-vit", mode="max-autotune", device="cpu"))
    assert message in failure.message and remedy in failure.remedy
    assert "mode" not in failure.remedy and failure.change == {} and "/" not in failure.message
