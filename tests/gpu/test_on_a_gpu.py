"""What only a GPU can show. No test takes a fixture, so that `tools/gpu_evidence.py` can call them without pytest."""

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from demo.backend import compilation, compile_model, models, profiling, timing, torch_settings, workload
from demo.backend.monitor import Observer
from demo.core import catalog, refusals
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.runs.outcome import NO_FILES, Files
from demo.runs.runner import Runner

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
FULL_SIZE = "google/vit-base-patch16-224"
GPU = torch.device("cuda")
SPARED_BYTES = 2_000_000_000
"""What the out-of-memory test leaves free: enough for a context, too little for a batch of 256."""
CONTEXT_BYTES = 300_000_000
"""Free memory that another process's end may leave unexplained."""


def spec_of(checkpoint: str = "shapes-vit", **asked: Any) -> RunSpec:
    known = catalog.find(checkpoint)
    weights = "pretrained" if known is not None and known.bundled else "random"
    return catalog.make_spec(checkpoint, **{"device": "cuda", "weights": weights, "max_seconds": 1.0, **asked})


def run(spec: RunSpec, files: Files = NO_FILES) -> RunResult:
    *_, result = Runner(None).run(spec, SCENE, files=files)
    assert isinstance(result, RunResult)
    return result


def free_bytes() -> int:
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


def test_outputs_of_a_cuda_graph_are_kept_as_they_were() -> None:
    spec = spec_of(mode="reduce-overhead")
    torch_settings.apply(spec)
    model = models.load(spec, GPU).model
    first, second = torch.randn(2, 1, 3, 64, 64, device=GPU).unbind()
    with torch.no_grad():
        log = compilation.CompileLog()
        compiled = compile_model.compiled(model, spec)
        for _ in range(4):
            compiled(pixel_values=first)
        kept = compilation.clone_outputs(compiled(pixel_values=first))
        overwriting = compilation.clone_outputs(compiled(pixel_values=second))
        assert log.compilation(spec, GPU, 1.0).cudagraphs == "used"
        assert torch.allclose(kept.logits, model(pixel_values=first).logits, atol=1e-3)
        assert not torch.allclose(kept.logits, overwriting.logits, atol=1e-3)


def test_out_of_memory_is_a_result_and_the_next_run_works() -> None:
    torch.cuda.empty_cache()
    hold = torch.empty(max(0, free_bytes() - SPARED_BYTES), dtype=torch.uint8, device=GPU)
    huge = run(spec_of(FULL_SIZE, batch_size=256))
    assert huge.status == "out_of_memory"
    assert "256" in huge.failure.message
    del hold
    torch.cuda.empty_cache()
    assert run(spec_of()).status == "ok"


def wall_and_device(call: Callable[[], None]) -> tuple[float, float]:
    """Medians of the seconds of a call by both clocks."""
    clock = timing.Clock(GPU)
    clock.time(call)
    wall = statistics.median(clock.time(call) for _ in range(7))
    return wall, statistics.median(profiling.device_times(call, wall, 7))


def test_the_two_clocks_agree_on_long_kernels() -> None:
    """Copies and not matrix products: under those a small card's clock sinks from one call to the next."""
    source, small = torch.ones(2**27, device=GPU), torch.randn(64, 64, device=GPU)
    target = torch.empty_like(source)
    wall, on_device = wall_and_device(lambda: [target.copy_(source) for _ in range(20)])
    assert 0.95 < on_device / wall < 1.05
    wall, on_device = wall_and_device(lambda: [torch.relu(small) for _ in range(200)])
    assert on_device < 0.9 * wall


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
    """Of a matrix product in the spec's number format, against float64."""
    torch_settings.apply(spec)
    torch.manual_seed(0)
    left, right = (torch.randn(1024, 1024, device=GPU, dtype=torch.float64) for _ in range(2))
    dtype = workload.dtype_of(spec)
    found = (left.to(dtype) @ right.to(dtype)).double()
    exact = left.to(dtype).double() @ right.to(dtype).double()
    return float((found - exact).norm() / exact.norm())


def test_number_formats_are_what_they_say() -> None:
    new = torch.cuda.get_device_capability() >= refusals.AMPERE
    assert not new or relative_error(spec_of(dtype="tf32")) > 1e-4
    assert relative_error(spec_of()) < 1e-5
    for dtype in ("float16", "bfloat16") if new else ("float16",):
        result = run(spec_of(dtype=dtype, profile="off"))
        assert (result.status, result.environment.settings["weights"]) == ("ok", dtype)
    float16, bfloat16 = (relative_error(spec_of(dtype=dtype)) for dtype in ("float16", "bfloat16"))
    assert 1e-5 < float16 < bfloat16 < 1e-2


def test_the_gpus_state_is_looked_at_where_the_driver_tells() -> None:
    observer = Observer(GPU)
    observer.sample()
    gpu = observer.samples[0].gpu
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        assert gpu is None  # not installed, or the driver refuses: nothing is known and nothing fails
        return
    assert gpu is not None
    assert gpu.sm_clock_hz is None or 1e8 < gpu.sm_clock_hz < 5e9


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
    assert result.compilation.cudagraphs == "used" and result.compilation.recompiles_while_timing == 0
    assert result.predictions["eager"].text == result.predictions["compiled"].text != ""
    assert result.parity.verdict == "match"


def test_the_memory_of_a_cuda_graph_is_not_eagers() -> None:
    plain, graphs = (run(spec_of(batch_size=8, mode=mode)) for mode in ("default", "reduce-overhead"))
    assert graphs.compilation.cudagraphs == "used"
    assert graphs.compiled.peak_memory_bytes > 0.5 * plain.compiled.peak_memory_bytes
    assert 0.8 < graphs.eager.peak_memory_bytes / plain.eager.peak_memory_bytes < 1.25
