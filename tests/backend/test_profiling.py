"""The passes after the timing, on a made-up GPU, and what is read from a profiler's trace; and how it is told."""

import gzip
import io
import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from support.fake_cuda import FakeCuda
from support.own_workload import workload_of
from support.samples import measurement

from demo.backend import profiling
from demo.backend.messages import Events, Job
from demo.backend.monitor import Observer
from demo.backend.run_steps import Run
from demo.backend.tasks.own_model import OwnModel
from demo.backend.workload import Variants
from demo.core.measurement import Compilation, Kernel
from demo.core.spec import RunSpec

CPU, GPU = torch.device("cpu"), torch.device("cuda")
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
LINE = 7


def span(category: str, name: str, start: float, length: float, thread: int = LINE) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "tid": thread}


def gpu_trace() -> list[dict[str, Any]]:
    """Three calls of eager in 3 ms: 2 kernels and a copy each, two of them at once; and work outside of the marks."""
    events = [
        {"ph": "M", "name": "process_name"},
        span("user_annotation", "worth compiling: eager", 1000, 3000),
        span("kernel", "before", 500, 100),
        span("kernel", "after", 4500, 100),
        span("gpu_user_annotation", "worth compiling: eager", 1000, 3000, 99),
        span("cpu_op", "aten::mm", 1000, 900),
    ]
    for call in range(3):
        start = 1000 + 1000 * call
        events += [
            span("kernel", "gemm", start, 200, 1),
            span("kernel", "add", start + 150, 100, 2),
            span("gpu_memcpy", "Memcpy DtoD", start + 400, 50, 1),
        ]
    return events


def test_overlaps_keep_the_gpu_busy_once() -> None:
    found = profiling.summary(gpu_trace(), "eager", "cuda")
    assert (found.kernels, found.busy_seconds) == (2, pytest.approx(300e-6))  # copies are no kernels
    assert [kernel.name for kernel in found.longest] == ["gemm", "add", "Memcpy DtoD"]
    assert found.longest[0] == Kernel("gemm", 1, pytest.approx(200e-6), pytest.approx(200 / 350))


def test_a_trace_without_the_gpus_work_is_refused() -> None:
    with pytest.raises(RuntimeError, match="CUPTI"):
        profiling.summary([event for event in gpu_trace() if event.get("cat") == "user_annotation"], "eager", "cuda")


def test_a_trace_of_a_real_gpu_is_summed_up(monkeypatch) -> None:
    """The AlexNet's call has a memset, and kernels of two streams that overlap; the call before it lies in the file."""
    events = json.loads(gzip.decompress((FIXTURES / "trace_alexnet_a100.json.gz").read_bytes()))["traceEvents"]
    monkeypatch.setattr(profiling, "MARK", "")
    monkeypatch.setattr(profiling, "CALLS", 1)
    profile = profiling.summary(events, "[param|pytorch.model.alex_net|0|0|0|measure|forward]", "cuda")
    assert (profile.kernels, profile.busy_seconds) == (39, pytest.approx(5.282e-3, rel=1e-3))
    first = profile.longest[0]
    assert (first.name, first.launches) == ("ampere_sgemm_32x32_sliced1x4_tn", 3)
    assert (first.seconds, first.share) == pytest.approx((1.302e-3, 0.2449), rel=1e-3)


def test_on_a_cpu_an_operator_counts_without_the_ones_it_calls() -> None:
    events = [
        span("user_annotation", "worth compiling: eager", 0, 300),
        span("cpu_op", "aten::linear", 0, 100),
        span("cpu_op", "aten::addmm", 10, 80),
        span("cpu_op", "aten::relu", 100, 20),
        span("cpu_op", "elsewhere", 100, 20, LINE + 1),
    ]
    seen = profiling.summary(events, "eager", "cpu")
    assert (seen.kernels, seen.busy_seconds) == (pytest.approx(2 / profiling.CALLS), None)
    own_times = {kernel.name: round(kernel.seconds * 3e6) for kernel in seen.longest}
    assert own_times == {"aten::addmm": 80, "aten::linear": 20, "aten::relu": 20}


class Small(torch.nn.Module):
    """Looks up rows of a large table and multiplies them; one weight is never read."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(1000, 8)
        self.linear = torch.nn.Linear(8, 4, bias=False)
        self.unused = torch.nn.Linear(500, 500)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.linear(self.table(ids))}


def test_the_least_bytes_are_those_that_a_call_touches() -> None:
    ids = torch.arange(6)
    with torch.no_grad():
        operations, least_bytes = profiling.demand(workload_of(Small(), ids=ids))
    rows, weights, inputs, outputs = 6 * 8 * 4, 8 * 4 * 4, 6 * 8, 6 * 4 * 4
    assert least_bytes == rows + weights + inputs + outputs
    assert operations == 2 * 6 * 8 * 4


def test_a_profile_on_a_cpu_leaves_a_trace_that_can_be_opened(tmp_path) -> None:
    left = torch.randn(64, 64)
    calls = {"eager": lambda: left @ left, "compiled": lambda: torch.relu(left)}
    found = profiling.profiles(calls, CPU, tmp_path / "trace.json.gz")
    assert found["eager"].longest[0].name in ("aten::mm", "aten::matmul")
    assert {kernel.name for kernel in found["compiled"].longest} >= {"aten::relu"}
    assert "aten::relu" not in {kernel.name for kernel in found["eager"].longest}
    with gzip.open(tmp_path / "trace.json.gz") as trace:
        assert any(event.get("name") == "aten::relu" for event in json.load(trace)["traceEvents"])


def test_a_run_on_a_cpu_is_profiled_only_when_asked() -> None:
    for asked, device, wanted in [("auto", "cpu", 0), ("auto", "cuda", 1), ("on", "cpu", 1), ("off", "cuda", 0)]:
        spec = RunSpec("shapes-vit", "image-classification", profile=asked)
        assert profiling.should_profile(spec, torch.device(device)) == wanted


@pytest.fixture
def fake(monkeypatch) -> FakeCuda:
    return FakeCuda(monkeypatch)


def test_the_pass_on_the_devices_clock_is_short_for_a_slow_model(fake: FakeCuda) -> None:
    for seconds, calls in [(0.001, 20), (0.02, 20), (0.05, 8), (0.1, 4), (0.2, 3), (5.0, 3)]:
        assert len(profiling.device_times(lambda: fake.run(0.0), seconds)) == calls
        assert len(profiling.device_times(lambda: fake.run(0.0), seconds, 7)) == min(7, calls)


def test_events_count_the_work_and_not_the_launches(fake: FakeCuda) -> None:
    def call() -> None:
        for _ in range(100):
            fake.run(1e-6)

    times = profiling.device_times(call, 100 * (fake.LAUNCH + 1e-6))
    assert times == pytest.approx([100e-6] * profiling.DEVICE_CALLS)


def test_calls_back_to_back_wait_once(fake: FakeCuda) -> None:
    found = profiling.back_to_back(lambda: fake.run(1e-3), GPU, 1e-3, lambda: None)
    assert found.calls == 1000 and found.seconds == pytest.approx(1.0, rel=1e-4)


def test_the_copy_rate_is_not_that_of_launches(fake: FakeCuda, monkeypatch) -> None:
    """An H100 copies 3.35 TB a second: 256 MiB there and back in 0.16 ms, of which 10 us are launch and wait."""
    rate = 3.35e12
    fake.memory_moves(monkeypatch, rate)
    assert profiling.copy_rate(GPU) == pytest.approx(rate, rel=0.005)


def test_the_pools_of_cuda_graphs_count_as_in_use(fake: FakeCuda) -> None:
    fake.allocated = 700
    fake.pools = [
        {"segment_pool_id": (1, 0), "total_size": 300, "allocated_size": 20},
        {"segment_pool_id": (1, 0), "total_size": 100, "allocated_size": 0},
    ]
    assert profiling.peak_memory(lambda: fake.run(0.0, 50), GPU) == (750 - 20 + 400, 850)


def made_up_run(fake: FakeCuda, model: torch.nn.Module, **asked: Any) -> Run:
    """A run on the made-up GPU, up to its warm-up."""
    spec = RunSpec("shapes-vit", "image-classification", device="cuda", **asked)
    run = Run(Job(spec, "none.png"), Events(io.StringIO()))
    run.workload, run.observer = OwnModel(spec, GPU, model, {"x": torch.ones(1)}), Observer(GPU)
    return run


class Working(torch.nn.Module):
    """A call takes 50 bytes of the made-up GPU; its weights take 400."""

    def __init__(self, fake: FakeCuda) -> None:
        super().__init__()
        self.fake, self.weights = fake, torch.nn.Parameter(torch.ones(100))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.fake.run(1e-3, 50)
        return x


def test_an_allocator_that_is_silent_costs_one_figure_only(fake: FakeCuda, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "cudaMallocAsync")
    monkeypatch.setattr(torch.cuda, "memory_snapshot", Mock(side_effect=RuntimeError("not meaningful")))
    run = made_up_run(fake, Working(fake))
    found = examined(run, run.warm_up_eager())
    assert found["eager"].peak_memory_bytes is None and found["eager"].device_seconds
    assert any("torch's native one" in str(caveat) for caveat in run.caveats)


def examined(run: Run, eager: Any) -> dict[str, Any]:
    """What the passes after the timing measure of both variants."""
    run.variants = Variants(eager, eager, [])
    run.keep(eager=measurement(1e-3), compiled=measurement(1e-3))
    for name in ("eager", "compiled"):
        run.examine(name)
    return {"eager": run.result.eager, "compiled": run.result.compiled}


def test_a_package_has_its_own_weights_and_not_eagers(fake: FakeCuda) -> None:
    run = made_up_run(fake, Working(fake), compiler="aot")
    fake.allocated = 400
    eager = run.warm_up_eager()
    run.package, fake.allocated = Path("model.pt2"), 400 + 400
    found = examined(run, eager)
    assert found["eager"].peak_memory_bytes == found["compiled"].peak_memory_bytes == 450
    assert found["compiled"].peak_reserved_bytes == 550


@pytest.mark.parametrize("cudagraphs", ["used", "used in part: 2 of 3 graphs: a reason"])
def test_eager_s_memory_holds_nothing_of_what_the_compile_left(cudagraphs: str, fake: FakeCuda) -> None:
    """Freezing leaves folded copies of the weights, and CUDA graphs their pools, also where only some were recorded."""
    run = made_up_run(fake, Working(fake), freezing=True)
    fake.allocated = 1000
    eager = run.warm_up_eager()
    fake.allocated += 1020
    fake.pools = [{"segment_pool_id": (1, 0), "total_size": 300, "allocated_size": 20}]
    run.keep(compilation=Compilation(1.0, "cold", 1, cudagraphs=cudagraphs))
    found = examined(run, eager)
    assert found["eager"].peak_memory_bytes == 1050 and found["eager"].peak_reserved_bytes == 1150
    assert found["compiled"].peak_memory_bytes == 2070 - 20 + 300
