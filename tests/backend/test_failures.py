"""Tests of what a failed run says, and which options it advises to change."""

import dataclasses
import errno
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from support.samples import ENVIRONMENT
from torch._dynamo.exc import Unsupported, UserError, UserErrorType
from torch._inductor.exc import InductorError

from demo.backend import failures, profiling
from demo.backend.compilation import CompileLog
from demo.core import catalog
from demo.core.caveat import Caveat
from demo.core.measurement import Compilation, GraphBreak
from demo.core.options import OWN_MODEL, RunSpec
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
    explained_status, failure = explained(error, phase, catalog.make_spec("shapes-vit", **options).on("cpu"))
    assert (explained_status, failure.stage, failure.change) == (status, phase, change)
    for name, value in change.items():
        named = f"{name} {options[name]}" if options.get(name) not in (None, True) else name.replace("_", " ")
        assert str(value) in failure.remedy or named in failure.remedy


@pytest.mark.parametrize(
    ("device", "free", "own", "named"),
    [
        pytest.param("cuda", 2e9, 8e9, "Other processes held 69.0 GB of it.", id="others hold most of it"),
        pytest.param("cuda", 1e9, 75e9, "", id="its own"),
        pytest.param("cuda", None, 0, "", id="CUDA no longer answers"),
        pytest.param("cpu", 2e9, 8e9, "", id="a CPU's run"),
    ],
)
def test_who_else_holds_a_gpus_memory_is_said(device: str, free: float | None, own: float, named: str, monkeypatch):
    def info() -> tuple[float, float]:
        if free is None:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return free, 80e9

    monkeypatch.setattr(torch.cuda, "mem_get_info", info)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: own)
    _, failure = explained(MEMORY, "warm up", catalog.make_spec("shapes-vit", batch_size=64, device=device))
    assert failure.message.endswith(named) and bool(named) == ("Other processes" in failure.message)


def test_a_slow_format_is_no_remedy_for_too_little_memory(monkeypatch) -> None:
    monkeypatch.setattr(profiling, "float32_advantage", lambda dtype: 70.0)
    _, failure = explained(ALLOCATOR, "warm up", catalog.make_spec("shapes-vit").on("cpu"))
    assert (failure.remedy, failure.change) == ("Try a smaller model.", {})


@pytest.mark.parametrize("error", [NO_ROOM, SafetensorError("incomplete metadata")], ids=["no room", "damaged"])
def test_a_checkpoint_that_may_load_later_is_no_refusal(error: Exception) -> None:
    """transformers raises an error of its own. The error that a retry may cure is its cause."""
    library_error = OSError("Can't load the model")
    library_error.__cause__ = error
    refusal = failures.load_refusal(HUB, library_error)
    assert isinstance(refusal, failures.CannotLoad)
    assert f"could not be loaded: {error}." in refusal.failure.message
    assert "Download or write it again where there is room" in refusal.failure.remedy


@pytest.mark.parametrize("error", [MEMORY, MemoryError()])
def test_memory_that_runs_out_is_not_the_checkpoints_fault(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, failures.loading_errors_as_bad_input(HUB):
        raise error
    assert raised.value is error


def test_a_machine_that_cannot_build_is_named_as_the_cause() -> None:
    error = ImportError("/tmp/a/cab.main.so: undefined symbol: gone")
    _, failure = explained(error, "compile", catalog.make_spec("shapes-vit", mode="max-autotune", device="cpu"))
    assert "undefined symbol" in failure.message and "cache may be damaged: delete" in failure.remedy
    assert "mode" not in failure.remedy and failure.change == {} and "/" not in failure.message


UNTRACED = Unsupported("Attempted to wrap RNN, GRU, or LSTM", case_name="x")
BROKEN = Unsupported("Data-dependent branching", case_name="x")
KERNEL = InductorError(RuntimeError("CppCompileError: C++ compile error"), None)
EXPORT = UserError(UserErrorType.DYNAMIC_CONTROL_FLOW, "Could not guard on data-dependent expression", case_name=None)


@pytest.mark.parametrize(
    ("error", "options", "change"),
    [
        (BROKEN, {"fullgraph": True}, {"fullgraph": False}),
        (BROKEN, {"fullgraph": True, "mode": "lite", "dtype": "bfloat16"}, {"fullgraph": False}),
        (UNTRACED, {"fullgraph": True}, {}),
        (KERNEL, {"fullgraph": True}, {}),
        (KERNEL, {"fullgraph": True, "mode": "lite"}, {"mode": "default"}),
        (EXPORT, {"compiler": "aot"}, {"compiler": "jit"}),
        (RuntimeError("no kernel"), {"dtype": "bfloat16"}, {}),
        (RuntimeError("no kernel for BFloat16"), {"dtype": "bfloat16"}, {"dtype": "float32"}),
    ],
)
def test_a_failed_compile_names_only_options_that_can_be_its_cause(error, options: dict, change: dict) -> None:
    _, failure = explained(error, "compile", catalog.make_spec("shapes-vit", device="cpu", **options))
    assert failure.change == change
    assert bool(change) == ("may work" in failure.remedy) and failure.remedy.startswith("Eager works and was timed.")


def test_layers_that_dynamo_leaves_out_have_their_own_switch() -> None:
    _, failure = explained(UNTRACED, "compile", catalog.make_spec("shapes-vit", fullgraph=True))
    assert "allow_rnn = True" in failure.remedy


MIXED = [
    "mat1 and mat2 must have the same dtype, but got Double and Float",
    "expected m1 and m2 to have the same dtype, but got: float != double",
    "Input type (double) and bias type (float) should be the same",
    "expected scalar type Float but found Double",
    "mixed dtype (CPU): expect parameter to have scalar type of Float",
]


@pytest.mark.parametrize("message", MIXED)
@pytest.mark.parametrize(
    ("given", "remedy", "change"),
    [
        ("bfloat16", "Choose --dtype bfloat16.", {"dtype": "bfloat16"}),
        ("float64", "Make these float32, or register them as buffers", {}),
    ],
)
def test_a_model_that_mixes_formats_only_here_is_told_why(given: str, remedy: str, change: dict, message: str) -> None:
    spec = RunSpec("mine.py:build", OWN_MODEL)
    caveats = (Caveat("given_dtype", {"given": given, "dtype": "float32"}),)
    _, failure = failures.explain(RuntimeError(message), "warm up", RunResult("one", "", "ok", spec, caveats=caveats))
    assert "This run gave weights and inputs the format float32" in failure.remedy and remedy in failure.remedy
    assert failure.change == change
    for other in (("size mismatch", caveats), (message, ())):
        _, failure = failures.explain(
            RuntimeError(other[0]), "warm up", RunResult("one", "", "ok", spec, caveats=other[1])
        )
        assert failure.remedy.startswith("The module must run eagerly")


@pytest.mark.parametrize(
    "caveat",
    [
        Caveat("other_processor", {"named": "NewImageProcessor", "used": "ViTImageProcessor"}),
        Caveat("default_processor", {"used": "ViTImageProcessor"}),
    ],
    ids=lambda caveat: caveat.key,
)
def test_a_model_that_refuses_a_picture_of_another_processor_is_told_why(caveat: Caveat) -> None:
    error = RuntimeError("The size of tensor a (197) must match the size of tensor b (50)")
    result = RunResult("one", "", "ok", RunSpec("owner/name", "object-detection"), caveats=(caveat,))
    remedy = failures.explain(error, "warm up", result)[1].remedy
    assert "A ViTImageProcessor " in remedy and "this is why: choose another checkpoint." in remedy
    assert "this is why" not in failures.explain(error, "compile", result)[1].remedy
    assert "this is why" not in failures.explain(error, "warm up", replace(result, caveats=()))[1].remedy


def test_a_picture_of_another_size_than_the_models_is_told_why() -> None:
    error = ValueError("Input image size (64*64) doesn't match model (32*32).")
    result = RunResult("one", "", "ok", RunSpec("owner/name", "image-classification"))
    assert "correct the size in one of them" in failures.explain(error, "warm up", result)[1].remedy


NOTHING = Compilation(1.0, "cold", graphs=0)


@pytest.mark.parametrize("place", ["fallbacks", "graph_breaks"])
def test_a_model_that_dynamo_leaves_to_eager_gets_the_remedy_of_the_cause(place: str) -> None:
    left = GraphBreak("Attempted to wrap RNN, GRU, or LSTM", "mine.py:7 in forward")
    compilation = replace(NOTHING, **{place: (left,)})
    failure = failures.nothing_done([Caveat("no_graph")], compilation, torch.nn.ReLU())
    assert "allow_rnn = True" in failure.remedy
    assert failure.message.endswith("mine.py:7 in forward: Attempted to wrap RNN, GRU, or LSTM.")
    with torch._dynamo.config.patch(suppress_errors=True):
        hidden = failures.nothing_done([Caveat("no_graph")], compilation, torch.nn.ReLU()).message
    assert hidden.endswith("LSTM; suppress_errors of torch._dynamo made eager calls of this error.")


def test_layers_that_torch_ao_quantized_have_their_remedy() -> None:
    model = torch.nn.Sequential(torch.ao.nn.quantized.dynamic.Linear(2, 2))
    assert "quantize_ of torchao" in failures.nothing_done([Caveat("no_graph")], NOTHING, model).remedy


def test_a_scripted_part_is_named_as_the_reason_why_nothing_is_compiled() -> None:
    class Mixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = torch.jit.script(torch.nn.ReLU())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part(x).sin()

    log = CompileLog()
    torch.compile(Mixed(), backend="eager")(torch.ones(2))
    failure = failures.nothing_done(
        [Caveat("no_graph")], replace(NOTHING, graph_breaks=log.graph_breaks), torch.nn.ReLU()
    )
    assert failure.remedy == "Build this part without torch.jit: dynamo does not trace TorchScript."
    assert failures.nothing_done([Caveat("no_graph")], NOTHING, torch.nn.ReLU()).remedy == ""
    with torch.compiler.set_stance("force_eager"):  # as a forward may do
        assert failures.nothing_done([Caveat("no_graph")], NOTHING, torch.nn.ReLU()).remedy.startswith(
            "torch.compiler.set_stance("
        )


@pytest.mark.parametrize(("asked", "batch_size", "helps"), [(4e12, 1, False), (4e12, 256, True), (40e9, 1, True)])
def test_no_smaller_format_is_named_for_a_tensor_that_could_never_fit(
    asked: float, batch_size: int, helps: bool, monkeypatch
) -> None:
    monkeypatch.setattr(profiling, "float32_advantage", lambda dtype: 0.5)
    error = RuntimeError(f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {asked:.0f} bytes.")
    spec = dataclasses.replace(catalog.make_spec("shapes-vit").on("cpu"), batch_size=batch_size)
    result = RunResult("one", "", "ok", spec, environment=dataclasses.replace(ENVIRONMENT, memory_bytes=24 * 2**30))
    _, failure = failures.explain(error, "warm up", result)
    assert (bool(failure.remedy), "One tensor asked for" in failure.message) == (helps, not helps)


def test_a_mode_that_ran_out_of_memory_while_it_compiled_is_named() -> None:
    spec = catalog.make_spec("shapes-vit", mode="max-autotune").on("cuda")
    assert "while compiling in mode max-autotune." in explained(MEMORY, "compile", spec)[1].message
    assert "in mode" not in explained(MEMORY, "load", spec)[1].message


TORCHSCRIPT = """The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
  File "mine.py", line 3, in forward
RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x5 and 8x8)
"""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            RuntimeError(TORCHSCRIPT),
            "RuntimeError: RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x5 and 8x8)",
        ),
        (RuntimeError("\n\n  real message\nmore"), "RuntimeError: real message"),
        (SyntaxError("null bytes"), "SyntaxError: null bytes (mine.py)"),
        (ValueError(), "ValueError"),
    ],
)
def test_the_line_that_says_what_failed_is_shown(error: Exception, says: str) -> None:
    assert failures.with_line(error, Path("mine.py")) == says
