"""What torch.compile did, as told of small models that break, recompile, fall back or fail on purpose."""

import dataclasses
import itertools
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor import cpu_vec_isa
from torch._inductor.exc import CppCompileError
from torch.utils._filelock import FileLock

from demo.backend import compilation
from demo.core.measurement import Compilation
from demo.core.spec import RunSpec

SPEC = RunSpec("shapes-vit", "image-classification")


class Whole(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.head(x)) + 1


class Broken(Whole):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.head(x)
        torch._dynamo.graph_break()
        return self.head(x)


class Branching(Whole):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.head(x)
        return x + 1 if x.sum() > 0 else x - 1


class Counting(Whole):
    """Its guard on `calls` fails at every call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.head(x) * self.calls


class BrokenInALoop(Whole):
    """dynamo cannot resume in the middle of a loop: it leaves the whole function to eager."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = self.head(x)
            torch._dynamo.graph_break()
        return x


def compiled(model: torch.nn.Module, calls: int = 2, backend: str = "eager", **options: Any) -> Compilation:
    """By default without inductor: breaks, recompiles and fallbacks are dynamo's."""
    torch._dynamo.reset()
    log = compilation.CompileLog()
    run: Any = torch.compile(model.eval(), backend=backend, **options)
    with torch.no_grad():
        for call in range(calls):
            run(torch.ones(2, 4))
            if call == 0:
                log.first_call_ended()
    return log.compilation(SPEC, torch.device("cpu"), 100.0)


def test_a_break_has_its_reason_and_its_source_line() -> None:
    found = compiled(Broken())
    (one,) = found.graph_breaks
    assert found.graphs == 2 and "graph_break()" in one.reason
    assert one.hints == ("Remove the `torch._dynamo.graph_break()` call.",) and one.number == "GB0025"
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "graph_break()" in text)
    assert one.location == f"{Path(__file__).name}:{line}"
    assert found.fallbacks == ()


def test_a_break_whose_reason_has_several_lines_keeps_the_first_and_every_hint() -> None:
    (one,) = compiled(Branching()).graph_breaks
    assert one.reason.startswith("Data-dependent branching: Detected data-dependent branching (e.g.")
    assert any("torch.cond" in hint for hint in one.hints) and one.number == "GB0170"
    assert not any("\n" in hint or "Hint:" in hint or "debug context" in hint for hint in one.hints)


def test_each_recompile_has_its_guard_and_its_function_and_too_many_are_a_fall_back_to_eager() -> None:
    found = compiled(Counting(), calls=10)
    assert len(found.recompiles) >= 7  # dynamo takes 8 graphs of a function
    assert len(compiled(Counting(), calls=3).recompiles) == 2
    first, (one,) = found.recompiles[0], found.fallbacks
    assert first.reason == "the guard self.calls == 0 failed"
    assert first.location.startswith("test_compilation.py:") and first.location.endswith(" in forward")
    assert "recompile" in one.reason.lower() and one.location.endswith(" in forward")


def test_a_function_that_dynamo_gives_up_is_told_as_a_fall_back() -> None:
    assert compiled(BrokenInALoop()).fallbacks[0].location.startswith("test_compilation.py:")


PROBE_SECONDS = 0.125
"""By a clock of its own: the probe that the tests put in takes no time."""


@pytest.fixture
def slow_probe(monkeypatch) -> None:
    """Each look for the vector instructions tries one program, as the first look of a process does."""
    ticks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: next(ticks) * PROBE_SECONDS)
    known, isa = cpu_vec_isa.valid_vec_isa_list(), cpu_vec_isa.VecAVX2()
    monkeypatch.setattr(compilation, "time", clock)
    monkeypatch.setattr(cpu_vec_isa.VecISA, "check_build", lambda self, code: True)
    monkeypatch.setattr(cpu_vec_isa, "valid_vec_isa_list", lambda: known if isa.check_build("a program") else [])


@pytest.mark.parametrize(
    ("events", "step"),
    [
        (["dynamo", "entire_frame_compile", "backend_compile", "inductor_compile", "code_gen"], "inductor"),
        (["dynamo", "entire_frame_compile", "backend_compile", "AOTAutogradCache.inductor_load"], "aot_autograd"),
        (["dynamo", "entire_frame_compile"], "dynamo"),
        ([], None),
        (None, None),
    ],
)
def test_the_probe_counts_for_the_compile_step_that_waited_for_it_if_any_and_is_put_back(
    events: list[str] | None, step: str | None, monkeypatch, slow_probe: None
) -> None:
    logger = SimpleNamespace() if events is None else SimpleNamespace(get_stack=lambda: events)
    monkeypatch.setattr(torch._dynamo.utils, "get_chromium_event_logger", lambda: logger)
    untimed = cpu_vec_isa.VecISA.check_build
    compilation.InstructionProbe()  # of a first call that raised: nobody stopped it
    probe = compilation.InstructionProbe()
    cpu_vec_isa.pick_vec_isa()
    cpu_vec_isa.pick_vec_isa()
    probe.stop()
    cpu_vec_isa.pick_vec_isa()  # not timed any more
    assert probe.seconds == ({} if step is None else {step: 2 * PROBE_SECONDS})
    assert cpu_vec_isa.VecISA.check_build is untimed


@pytest.mark.usefixtures("slow_probe")
def test_an_empty_cache_is_cold_and_then_warm_and_both_have_their_probe(tmp_path, monkeypatch) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "")  # so that they are put back
    compilation.use_empty_cache(tmp_path)
    first, second = compiled(Whole(), backend="inductor"), compiled(Whole(), backend="inductor")
    assert (first.cache, second.cache) == ("cold", "warm") and first.warm is second.cold is None
    steps = {"dynamo", "aot_autograd", "inductor", "backend compile", "instruction probe", "first run"}
    for found, cost in ((first, first.cold), (second, second.warm)):
        assert (found.graphs, found.graph_breaks, found.recompiles, found.fallbacks) == (1, (), (), ())
        assert (found.kernels, found.extern_kernels) == (1, 1)  # relu and the sum are fused; the matrix product
        assert (found.cache_hits, found.cache_misses) == ((1, 0) if found is second else (0, 1))
        assert cost.parts["instruction probe"] > 0
        assert cost.parts["instruction probe"] % PROBE_SECONDS == 0
        assert set(cost.parts) == steps and sum(cost.parts.values()) == pytest.approx(100.0)


def test_each_part_of_a_first_call_is_without_the_next_and_all_add_up(monkeypatch) -> None:
    names = ("dynamo_cumulative", "aot_autograd_cumulative", "inductor_cumulative", "triton")
    seconds = dict(zip(names, (40, 36, 30, 20), strict=True))
    metrics = SimpleNamespace(**{f"{name}_compile_time_us": value * 1e6 for name, value in seconds.items()})
    log = compilation.CompileLog()
    monkeypatch.setattr(compilation, "get_compilation_metrics", lambda: [metrics])
    monkeypatch.setattr(log, "captured", lambda: (0, ()))
    log.first_call_ended()
    parts = {"dynamo": 4.0, "aot_autograd": 6.0, "inductor": 10.0, "backend compile": 20.0, "first run": 5.0}
    assert log.cost(45.0).parts == parts


def test_a_first_call_is_warm_only_where_every_graph_was_in_the_cache() -> None:
    for hits, misses, cache in [(0, 0, "off"), (2, 0, "warm"), (0, 2, "cold"), (1, 1, "cold")]:
        log = compilation.CompileLog()
        compilation.counters["inductor"].update(fxgraph_cache_hit=hits, fxgraph_cache_miss=misses)
        assert log.cache == cache


def test_full_graph_only_fails_at_a_break() -> None:
    with pytest.raises(Exception, match="graph_break") as caught:
        compiled(Broken(), fullgraph=True)
    assert "\n" not in compilation.first_line(caught.value)


COMMAND = ["g++", "/tmp/worth-compiling-k2/torchinductor_me/ab/cab.cpp", *["-I/home/me/include"] * 30]
OUTPUT = """In file included from /home/me/a.h:1:
/tmp/worth-compiling-k2/torchinductor_me/ab/cab.cpp:2:10: fatal error: omp.h: No such file or directory
cc1plus: error: another one
"""
IN_A_PROCESS = """An exception occurred in a subprocess:

Name=triton_poi_fused_sin_0
Traceback (most recent call last):
  File "/home/me/torch/compile_tasks.py", line 79, in _worker_compile_triton
    raise ValueError("not this one: error: x")
RuntimeError: Failed to find C compiler. Please specify via CC environment variable.
"""
PTXAS = """PTXAS error: Internal Triton PTX codec error
`ptxas` stderr:
ptxas /tmp/tmp1.ptx, line 5; error   : Feature 'x' requires .target sm_90 or higher
Repro command: ptxas -lineinfo /tmp/tmp1.ptx
"""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (CppCompileError(COMMAND, OUTPUT), "fatal error: omp.h: No such file or directory"),
        (CppCompileError(COMMAND, "/usr/bin/ld: cannot find -lx: no\nld returned 1\n"), "cannot find -lx: no"),
        (CppCompileError(COMMAND, "cab.cpp:1: Fehler: omp.h fehlt\n"), "cab.cpp:1: Fehler: omp.h fehlt"),
        (
            CppCompileError(COMMAND, "ld: library not found for -lx\nclang: error: linker\n"),
            "library not found for -lx",
        ),
        (
            RuntimeError(IN_A_PROCESS),
            "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
        ),
        (RuntimeError(PTXAS), "error : Feature 'x' requires .target sm_90 or higher"),
        (ValueError("first\n\nsecond\nthird"), "first second"),
        (ValueError(), "ValueError"),
        (ValueError("word " * 200), "word " * 79 + "…"),
    ],
    ids=["compiler", "linker", "macOS", "another language", "subprocess", "ptxas", "plain", "no text", "long"],
)
def test_an_error_is_told_by_its_cause(error: Exception, says: str) -> None:
    assert compilation.first_line(error) == says


def test_what_a_compiler_of_triton_s_printed_is_the_cause_of_its_failure(capfd) -> None:
    os.write(2, b"/tmp/tmpx/main.c:5:10: fatal error: Python.h: No such file or directory\ncompilation terminated.\n")
    error = subprocess.CalledProcessError(1, ["gcc", "/tmp/tmpx/main.c"])
    assert compilation.first_line(error) == "fatal error: Python.h: No such file or directory"


WITH_CUDA_GRAPHS = """
async_compile = AsyncCompile()
triton_poi_fused_relu_0 = async_compile.triton('triton_poi_fused_relu_0', 'def triton_(): pass')
async_compile.wait(globals())

def partition_0(args):
    with torch.cuda._DeviceGuard(0):
        extern_kernels.mm(arg0_1, arg1_1, out=buf0)
        triton_poi_fused_relu_0.run(buf0, 16, stream=stream0)
    return (buf0, )

class Runner:
    def call(self, args):
        return self.partitions[0](args)
"""
ONE_KERNEL_TUNED = """
@triton.jit
def triton_mm(arg_A, arg_B, out_ptr0): pass

def call(args):
    with torch.cuda._DeviceGuard(0):
        triton_mm.run(*args, stream=stream0)
"""


def test_kernels_are_counted_where_cuda_graphs_split_the_code_and_not_in_what_tuning_tried() -> None:
    plain = WITH_CUDA_GRAPHS
    mixed = plain + "        buf3.copy_(buf2, False)\n        cpp_fused_add_0(buf3)\n"
    assert compilation.kernel_calls([plain, ONE_KERNEL_TUNED]) == (1, 1)
    assert compilation.kernel_calls([ONE_KERNEL_TUNED]) == (None, None)
    assert compilation.calls_outside_graphs([plain, ONE_KERNEL_TUNED]) == (0, 2)
    assert compilation.calls_outside_graphs([mixed, plain]) == (2, 4)


def test_one_skipped_cuda_graph_of_three_is_no_skip_of_all(monkeypatch) -> None:
    spec, gpu = dataclasses.replace(SPEC, mode="reduce-overhead"), torch.device("cuda")
    node = SimpleNamespace(children={})
    root = SimpleNamespace(children={"second": [node], "first": [node], "never": []})
    manager = SimpleNamespace(roots={"first": [root, root]})
    trees: dict[str, Any] = {"manager": manager}
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch._inductor.cudagraph_trees, "get_manager", lambda *_, **__: trees["manager"])
    log = compilation.CompileLog()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert compilation.recorded_graphs() == {"first": 4, "second": 2, "never": 0}

    def told(skips: int) -> Compilation:
        compilation.counters["inductor"]["cudagraph_skips"] = skips
        compilation.counters["stats"]["unique_graphs"] = 3
        return log.compilation(spec, gpu, 1.0)

    assert told(0).cudagraphs == "used"
    assert told(1).cudagraphs_partly == "2 of 3 graphs: inductor gave no reason"
    assert told(1).cudagraphs_used and told(1).cudagraphs_skipped is None
    trees["manager"] = None
    assert told(1).cudagraphs_skipped and told(0).cudagraphs_skipped
    assert not told(1).cudagraphs_used


def test_an_empty_library_that_a_killed_compile_left_is_removed_and_one_in_the_making_stays(tmp_path) -> None:
    (tmp_path / "ab").mkdir()
    (tmp_path / "locks").mkdir()
    left, whole, linked = (tmp_path / "ab" / f"ab{name}.main.so" for name in ("left", "whole", "linked"))
    for file in (left, linked):
        file.touch()
    whole.write_bytes(b"\x7fELF")
    with FileLock(tmp_path / "locks" / "ablinked.lock"):
        compilation.remove_unfinished(tmp_path)
    assert [left.exists(), whole.exists(), linked.exists()] == [False, True, True]
    compilation.remove_unfinished(tmp_path / "no such folder")


def test_a_frozen_graph_which_no_cache_holds_has_its_own_first_call_as_the_cold_one() -> None:
    log = compilation.CompileLog()
    frozen = dataclasses.replace(SPEC, freezing=True)
    told = [log.compilation(spec, torch.device("cpu"), 3.0) for spec in (SPEC, frozen)]
    assert [one.cache for one in told] == ["off", "off"]
    assert told[0].cold is None and told[1].cold.first_call_seconds == 3.0
    compilation.counters["inductor"]["fxgraph_cache_hit"] = 1  # on a GPU frozen graphs are cached, too
    found = log.compilation(frozen, torch.device("cuda"), 3.0)
    assert found.cold is None and found.warm.first_call_seconds == 3.0
