"""Tests that need a real GPU. None takes a fixture, so that `tools/gpu_evidence.py` can call them without pytest."""

import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch

from demo.backend import compilation, gpu_check, machine_probe, profiling, timing, torch_settings, workload
from demo.backend.monitor import Observer
from demo.core import catalog, refusals
from demo.core.measurement import CudaGraphs
from demo.core.options import RunSpec
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.runs.ongoing import NO_FILES, Files
from demo.runs.runner import Runner

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
FULL_SIZE = "google/vit-base-patch16-224"
GPU = torch.device("cuda")
SPARED_BYTES = 2_000_000_000
"""Bytes that the out-of-memory test leaves free: enough for a CUDA context, too few for a batch of 256."""
CONTEXT_BYTES = 300_000_000
"""Bytes by which free memory may differ after another process has ended."""


def spec_of(checkpoint: str = "shapes-vit", **options: Any) -> RunSpec:
    entry = catalog.find(checkpoint)
    weights = "pretrained" if entry is not None and entry.bundled else "random"
    return catalog.make_spec(checkpoint, **{"device": "cuda", "weights": weights, "max_seconds": 1.0, **options})


def run(spec: RunSpec, files: Files = NO_FILES) -> RunResult:
    *_, result = Runner(None).run(spec, SCENE, files=files)
    assert isinstance(result, RunResult)
    return result


def free_bytes() -> int:
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


def test_the_checks_of_doctor_find_nothing() -> None:
    with torch.no_grad():
        for check in gpu_check.CHECKS:
            compilation.reset_compiler()
            assert check() == ""


def test_out_of_memory_is_a_result_and_the_next_run_works() -> None:
    torch.cuda.empty_cache()
    hold = torch.empty(max(0, free_bytes() - SPARED_BYTES), dtype=torch.uint8, device=GPU)
    huge = run(spec_of(FULL_SIZE, batch_size=256))
    assert huge.status == "out_of_memory"
    assert "256" in huge.failure.message
    del hold
    torch.cuda.empty_cache()
    assert run(spec_of()).status == "ok"


def test_events_leave_out_the_gaps_between_short_kernels() -> None:
    small, clock = torch.randn(64, 64, device=GPU), timing.Clock(GPU)

    def call() -> None:
        for _ in range(200):
            torch.relu(small)

    clock.time(call)
    wall = statistics.median(clock.time(call) for _ in range(7))
    assert statistics.median(profiling.device_times(call, wall)) < 0.9 * wall


def test_cancelling_frees_the_memory() -> None:
    before, cancel = free_bytes(), threading.Event()
    lowest = before
    for event in Runner(None).run(spec_of(FULL_SIZE, batch_size=64), SCENE, cancel):
        if isinstance(event, Progress) and event.phase in ("compile", "time"):
            lowest = min(lowest, free_bytes())
            cancel.set()
    assert event.status == "cancelled"
    assert lowest < before - 1.5 * CONTEXT_BYTES  # the weights alone are more than one
    for _ in range(100):  # the driver takes a dead process's memory back in its own time
        if free_bytes() > before - CONTEXT_BYTES:
            return
        time.sleep(0.1)
    raise AssertionError(f"{before - free_bytes()} bytes are still taken")


def relative_error(spec: RunSpec) -> float:
    """Returns the error of a matrix product in the spec's number format, as a share of the product in float64."""
    torch_settings.apply(spec)
    torch.manual_seed(0)
    left, right = (torch.randn(1024, 1024, device=GPU, dtype=torch.float64) for _ in range(2))
    dtype = workload.dtype_of(spec)
    product = (left.to(dtype) @ right.to(dtype)).double()
    exact = left.to(dtype).double() @ right.to(dtype).double()
    return float((product - exact).norm() / exact.norm())


def test_number_formats_have_their_precision() -> None:
    new = torch.cuda.get_device_capability() >= refusals.AMPERE
    assert not new or relative_error(spec_of(dtype="tf32")) > 1e-4
    assert relative_error(spec_of()) < 1e-5
    for dtype in ("float16", "bfloat16") if new else ("float16",):
        result = run(spec_of(dtype=dtype, profile="off"))
        assert (result.status, result.environment.settings["weights"]) == ("ok", dtype)
    float16, bfloat16 = (relative_error(spec_of(dtype=dtype)) for dtype in ("float16", "bfloat16"))
    assert 1e-5 < float16 < bfloat16 < 1e-2


def test_the_gpus_clock_is_sampled() -> None:
    observer = Observer(GPU)
    observer.sample()
    gpu = observer.samples[0].gpu
    if machine_probe.driver_version() is None:
        assert gpu is None  # without NVML nothing is known and nothing fails
    else:
        assert gpu is not None and (gpu.sm_clock_hz is None or 1e8 < gpu.sm_clock_hz < 5e9)


def test_cuda_graphs_leave_the_gpu_less_idle() -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json.gz"
        result = run(spec_of(mode="reduce-overhead"), Files(trace=trace))
        if any("profiler" in warning for warning in result.warnings):
            assert result.status == "ok"  # CUPTI is not permitted here: a warning, never the end of a run
            return
        assert trace.stat().st_size > 0
    # Not fewer kernels than eager: without TF32 cuDNN and cuBLAS may add some to each compiled product.
    assert result.eager.profile.kernels >= 1 and result.compiled.profile.kernels >= 1
    assert result.compiled.busy_share > result.eager.busy_share
    assert 0 < result.roofline_share(result.compiled) < 1.5


def test_a_roofline_of_half_numbers_is_above_that_of_float32() -> None:
    torch_settings.apply(spec_of())
    if torch.cuda.get_device_capability() >= (7, 0):
        assert profiling.matrix_rate(GPU, torch.float16) > 1.5 * profiling.matrix_rate(GPU, torch.float32)


def test_a_compile_on_the_gpu_agrees_with_eager() -> None:
    for checkpoint in catalog.BUNDLED_VISION:
        result = run(spec_of(checkpoint.id, profile="off"))
        assert result.status == "ok", result.failure
        assert (result.compilation.graphs, result.compilation.graph_breaks) == (1, ())
        assert result.parity.verdict == "match"
        assert result.spec.device == "cuda"


def test_a_text_model_writes_the_same_with_cuda_graphs() -> None:
    result = run(spec_of("shapes-gemma", prompt=catalog.PROMPT, mode="reduce-overhead", profile="off"))
    assert result.status == "ok", result.failure
    assert result.compilation.cuda_graphs.state == "used" and result.compilation.recompiles_while_timing == 0
    assert result.predictions["eager"].text == result.predictions["compiled"].text != ""
    assert result.parity.verdict == "match"


def test_the_memory_of_a_cuda_graph_is_not_eagers() -> None:
    plain, graphs = (run(spec_of(batch_size=8, mode=mode)) for mode in ("default", "reduce-overhead"))
    assert graphs.compilation.cuda_graphs == CudaGraphs("used")
    assert graphs.compiled.peak_memory_bytes > 0.5 * plain.compiled.peak_memory_bytes
    assert 0.8 < graphs.eager.peak_memory_bytes / plain.eager.peak_memory_bytes < 1.25
