"""Tests of the measurements after the timing, on a simulated GPU, and of reading a profiler's trace."""

import gzip
import io
import json
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from support.fake_cuda import FakeCuda
from support.own_workload import workload_of
from support.samples import measurement

from demo.backend import profiling
from demo.backend.messages import Events, WorkerJob
from demo.backend.monitor import Observer
from demo.backend.run_steps import Run
from demo.backend.tasks.own_model import OwnModel
from demo.backend.workload import Variant, Variants
from demo.core.measurement import Compilation, CudaGraphs, Measurement, Profile
from demo.core.options import RunSpec

CPU, GPU = torch.device("cpu"), torch.device("cuda")
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def test_a_trace_without_the_gpus_work_is_refused() -> None:
    mark = {"ph": "X", "cat": "user_annotation", "name": "worth compiling: eager", "ts": 1000, "dur": 3000, "tid": 7}
    launch = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1000, "dur": 900, "tid": 7}
    with pytest.raises(RuntimeError, match="CUPTI"):
        profiling.profile_of([{"ph": "M", "name": "process_name"}, mark, launch], "eager")


def test_a_trace_of_a_real_gpu_is_summed_up(monkeypatch) -> None:
    """The trace is of AlexNet on an A100, counted as three calls.

    It has a memset, and kernels of two streams that overlap.
    """
    events = json.loads(gzip.decompress((FIXTURES / "trace_alexnet_a100.json.gz").read_bytes()))["traceEvents"]
    events.append({"ph": "X", "cat": "kernel", "name": "of the call before", "ts": 0, "dur": 1e9, "tid": 7})
    monkeypatch.setattr(profiling, "MARK", "")
    profile = profiling.profile_of(events, "[param|pytorch.model.alex_net|0|0|0|measure|forward]")
    assert (profile.kernels, profile.busy_seconds) == (39 / 3, pytest.approx(5.282e-3 / 3, rel=1e-3))
    first = profile.longest[0]
    assert (first.name, first.launches) == ("ampere_sgemm_32x32_sliced1x4_tn", 3 / 3)
    assert (first.seconds, first.share) == pytest.approx((1.302e-3 / 3, 0.2449), rel=1e-3)


COPY = "void at::native::multi_tensor_apply_kernel<UnaryOpFunctor<float>, at::native::Copy<float, float>>(T1, T2)"
ALONE, REPLAYED = {"correlation": 1}, {"correlation": 2}


def profile_of(*kernels: tuple[str, dict[str, int]]) -> Profile:
    """Returns the profile of three calls. `kernels`: (name, arguments) of each kernel, as in a trace of torch 2.13."""
    mark = {"ph": "X", "cat": "user_annotation", "name": "worth compiling: compiled", "ts": 0, "dur": 9e9}
    launches = [("cudaLaunchKernel", ALONE), ("cudaGraphLaunch", REPLAYED)]
    events = [mark, *({"cat": "cuda_runtime", "name": name, "args": args} for name, args in launches)]
    events += [{"cat": "kernel", "name": name, "args": args} for name, args in kernels] * profiling.PROFILED_CALLS
    return profiling.profile_of([{"ph": "X", "ts": 1, "dur": 1} | event for event in events], "compiled")


@pytest.mark.parametrize(
    ("kernels", "state"),
    [
        ([("a", REPLAYED), ("b", REPLAYED)], "used"),
        ([("a", {"correlation": 7, "graph node id": 3})], "used"),
        ([(COPY, ALONE), ("a", REPLAYED)], "used"),
        ([("a", REPLAYED), ("b", ALONE)], "used in part"),
        ([("a", {"correlation": 1, "graph node id": 0})], "used in part"),
        ([("a", {})], "used in part"),
    ],
    ids=["by a replay", "as a graph's node", "inputs copied", "one outside", "no node", "launch unknown"],
)
def test_graphs_are_used_if_all_kernels_are_in_them(kernels: list[tuple[str, dict[str, int]]], state: str) -> None:
    assert CudaGraphs("used", "not counted").with_counts(profile_of(*kernels)).state == state


def test_kernels_outside_of_graphs_are_counted_by_call() -> None:
    reason = CudaGraphs("used").with_counts(profile_of(("a", REPLAYED), ("b", ALONE), ("c", ALONE))).reason
    assert reason == "of 3 kernels a call 2 are launched outside of them"


@pytest.mark.parametrize("graphs", [CudaGraphs("not asked"), CudaGraphs("skipped", "why")])
def test_a_profile_leaves_graphs_that_were_not_used_alone(graphs: CudaGraphs) -> None:
    assert graphs.with_counts(profile_of(("a", ALONE))) == graphs


class Small(torch.nn.Module):
    """A model that looks up rows of a large table and multiplies them. It never reads its weight `unused`."""

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


def test_on_a_cpu_an_operator_counts_without_the_ones_it_calls(tmp_path) -> None:
    """The trace that is written is valid JSON, too."""
    left, layer, file = torch.randn(64, 64), torch.nn.Linear(64, 64), tmp_path / "trace.json.gz"
    profiles = profiling.profiles({"eager": lambda: torch.relu(left), "compiled": lambda: layer(left)}, CPU, file)
    assert (profiles["eager"].kernels, profiles["eager"].busy_seconds) == (1, None)
    times = {kernel.name: kernel.seconds for kernel in profiles["compiled"].longest}
    # with those that it calls, aten::linear would take longer; its own time may be too short for the list
    assert times["aten::addmm"] > times.get("aten::linear", 0.0)
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    assert any(event.get("name") == "aten::addmm" for event in events)


@pytest.mark.parametrize(
    ("option", "device", "profiled"),
    [("auto", CPU, False), ("auto", GPU, True), ("on", CPU, True), ("off", GPU, False)],
)
def test_a_run_on_a_cpu_is_profiled_only_when_asked(option: str, device: torch.device, profiled: bool) -> None:
    spec = RunSpec("shapes-vit", "image-classification", profile=option)
    assert profiling.should_profile(spec, device) is profiled


@pytest.fixture
def fake(monkeypatch) -> FakeCuda:
    return FakeCuda(monkeypatch)


@pytest.mark.parametrize(("seconds", "calls"), [(0.001, 20), (0.05, 8), (5.0, 3)])
def test_a_slow_model_has_fewer_calls_on_the_gpus_clock(seconds: float, calls: int, fake: FakeCuda) -> None:
    assert len(profiling.device_times(lambda: fake.run(0.0), seconds)) == calls


def test_cuda_events_time_the_kernels_without_their_launch(fake: FakeCuda) -> None:
    def call() -> None:
        for _ in range(100):
            fake.run(1e-6)

    times = profiling.device_times(call, 100 * (fake.LAUNCH + 1e-6))
    assert times == pytest.approx([100e-6] * profiling.DEVICE_CALLS)


def test_calls_back_to_back_wait_once(fake: FakeCuda) -> None:
    timed = profiling.back_to_back(lambda: fake.run(1e-3), GPU, 1e-3)
    assert timed.calls == 1000 and timed.seconds == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    ("readings", "energy"),
    [((500.0, 530.5), 30.5), ((None, None), None), ((None, 1.0), None), ((500.0, 500.0), None), ((500.0, 7.0), None)],
)
def test_energy_is_what_the_counter_moved(readings: tuple[float | None, ...], energy: float | None, fake) -> None:
    counter = iter(readings)
    assert profiling.back_to_back(lambda: fake.run(1e-3), GPU, 1e-3, lambda: next(counter)).joules == energy


def test_the_copy_rate_leaves_out_the_launches(fake: FakeCuda, monkeypatch) -> None:
    """At an H100's 3.35 TB a second, 256 MiB are read and written in 0.16 ms. Launching and waiting add some 10 us."""
    rate = 3.35e12
    fake.memory_moves(monkeypatch, rate)
    assert profiling.copy_rate(GPU) == pytest.approx(rate, rel=0.005)


class Working(torch.nn.Module):
    """A model whose call needs 50 bytes on the simulated GPU, and whose weights need 400."""

    def __init__(self, fake: FakeCuda) -> None:
        super().__init__()
        self.fake, self.weights = fake, torch.nn.Parameter(torch.ones(100))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.fake.run(1e-3, 50)
        return x


@pytest.fixture
def run(fake: FakeCuda) -> Run:
    """Returns a run on the simulated GPU, before its warm-up."""
    spec = RunSpec("shapes-vit", "image-classification", device="cuda")
    run = Run(WorkerJob(spec), Events(io.StringIO()))
    run.workload, run.observer = OwnModel(spec, GPU, Working(fake), {"x": torch.ones(1)}), Observer(GPU)
    return run


def examine(run: Run, eager: Variant) -> tuple[Measurement, Measurement]:
    """Returns what is measured of eager and compiled after the timing. Here both are the same model."""
    run.variants = Variants(eager, eager, [])
    run.set_fields(eager=measurement(1e-3), compiled=measurement(1e-3))
    run.examine("eager")
    run.examine("compiled")
    assert run.result.eager is not None and run.result.compiled is not None
    return run.result.eager, run.result.compiled


def test_without_allocator_statistics_only_the_peak_is_missing(run: Run, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "cudaMallocAsync")
    monkeypatch.setattr(torch.cuda, "memory_snapshot", Mock(side_effect=RuntimeError("not meaningful")))
    eager, _ = examine(run, run.warm_up_eager())
    assert eager.peak_memory_bytes is None and eager.device_seconds


def test_a_run_says_which_kernels_its_profile_found_outside_of_cuda_graphs(run: Run, monkeypatch) -> None:
    profile = Profile(9, 1e-3, (), outside_graphs=2)
    monkeypatch.setattr(profiling, "profiles", lambda *_: {"eager": profile, "compiled": profile})
    monkeypatch.setattr(profiling, "roofline", lambda _: None)
    eager = Variant(run.workload.eager, [], run.workload.model)
    run.variants = Variants(eager, eager, [])
    run.set_fields(compilation=Compilation(1.0, "cold", 1, cuda_graphs=CudaGraphs("used", "not counted")))
    run.explain()
    assert run.result.compilation is not None and run.result.compilation.cuda_graphs.state == "used in part"


def test_a_package_has_its_own_weights_and_not_eagers(run: Run, fake: FakeCuda) -> None:
    fake.allocated = 400
    variant = run.warm_up_eager()
    run.package, fake.allocated = Path("model.pt2"), 400 + 400
    eager, package = examine(run, variant)
    assert eager.peak_memory_bytes == package.peak_memory_bytes == 450
    assert package.peak_reserved_bytes == 550


def test_eagers_memory_holds_nothing_of_what_the_compile_left(run: Run, fake: FakeCuda) -> None:
    """Compiling with freezing leaves folded copies of the weights, and CUDA graphs leave their memory pools."""
    fake.allocated = 1000
    variant = run.warm_up_eager()
    fake.allocated += 1020
    fake.pools = [{"segment_pool_id": (1, 0), "total_size": 300, "allocated_size": 20}]
    eager, compiled = examine(run, variant)
    assert (eager.peak_memory_bytes, eager.peak_reserved_bytes) == (1050, 1150)
    assert compiled.peak_memory_bytes == 2070 - 20 + 300
