"""The passes after the timing, on a made-up GPU."""

import io

import pytest
import torch
from fake_cuda import FakeCuda
from samples import measurement

from demo.backend import memory_and_throughput, profiling
from demo.backend.events import Events, Job
from demo.backend.monitor import Observer
from demo.backend.own_model import OwnModel
from demo.backend.run_steps import Run
from demo.backend.workload import Variant, Variants
from demo.core.measurement import Compilation
from demo.core.spec import RunSpec

GPU = torch.device("cuda")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    return FakeCuda(monkeypatch)


def test_the_pass_on_the_devices_clock_is_short_for_a_slow_model(fake: FakeCuda) -> None:
    for seconds, calls in [(0.001, 20), (0.02, 20), (0.05, 8), (0.1, 4), (0.2, 3), (5.0, 3)]:
        assert len(memory_and_throughput.device_times(lambda: fake.run(0.0), seconds)) == calls
        assert len(memory_and_throughput.device_times(lambda: fake.run(0.0), seconds, 7)) == min(7, calls)


def test_events_count_the_work_and_not_the_launches_that_the_gpu_waits_for(fake: FakeCuda) -> None:
    def call() -> None:
        for _ in range(100):
            fake.run(1e-6)

    times = memory_and_throughput.device_times(call, 100 * (fake.LAUNCH + 1e-6))
    assert times == pytest.approx([100e-6] * memory_and_throughput.DEVICE_CALLS)


def test_calls_back_to_back_wait_once(fake: FakeCuda) -> None:
    found = memory_and_throughput.back_to_back(lambda: fake.run(1e-3), GPU, 1e-3, lambda: None)
    assert found.calls == 1000 and found.seconds == pytest.approx(1.0, rel=1e-4)


def test_the_copy_rate_of_a_fast_gpu_is_not_that_of_its_launches(
    fake: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert memory_and_throughput.peak_memory(lambda: fake.run(0.0, 50), GPU) == (750 - 20 + 400, 850)


@pytest.mark.parametrize("cudagraphs", ["not asked", "used", "in part: 2 of 3 graphs: a reason", "skipped: a reason"])
def test_eager_s_memory_holds_nothing_of_what_the_compile_left(cudagraphs: str, fake: FakeCuda) -> None:
    """Freezing leaves folded copies of the weights, and CUDA graphs their pools, also where only some were recorded."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            fake.run(1e-3, 50)
            return x

    spec = RunSpec("shapes-vit", "image-classification", device="cuda", freezing=True)
    workload = OwnModel(spec, GPU, Model(), {"x": torch.ones(1)})
    run = Run(Job(spec, "none.png"), Events(io.StringIO()))
    fake.allocated = 1000
    eager = run.warm_up_eager(workload)
    fake.allocated += 1020
    fake.pools = [{"segment_pool_id": (1, 0), "total_size": 300, "allocated_size": 20}]
    variants = Variants(eager, Variant(workload.eager, [], workload.model), [], True)
    run.result = run.result.__class__(
        "id", "", "ok", spec, eager=measurement(1e-3), compiled=measurement(1e-3),
        compilation=Compilation(1.0, "cold", 1, cudagraphs=cudagraphs),
    )  # fmt: skip
    for name in ("eager", "compiled"):
        run.examine(name, workload, variants, Observer(GPU))
    assert run.result.eager.peak_memory_bytes == 1050 and run.result.eager.peak_reserved_bytes == 1150
    assert run.result.compiled.peak_memory_bytes == 2070 - 20 + 300
