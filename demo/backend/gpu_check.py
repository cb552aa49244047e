"""`doctor --gpu`: checks in three ways, without a download, that this program measures correctly on a GPU.

Each check returns a sentence about a problem; '' if there is none. `tests/gpu` checks whole models. On an NVIDIA H200
(torch 2.11, driver 580) all three checks passed, in 28 s.
"""

import statistics
import sys
import warnings
from collections.abc import Callable

import torch

from ..core import catalog, format as fmt
from . import compilation, compile_model, error_text, machine_probe, profiling, timing

GPU = torch.device("cuda")
PEAK_BYTES = 256 * 2**20


def clocks() -> str:
    """Returns a problem if CUDA events and the wall clock disagree on the time of long copies; '' if they agree."""
    source = torch.ones(2**27, device=GPU)
    target = torch.empty_like(source)

    def copies() -> None:
        for _ in range(20):
            target.copy_(source)

    clock = timing.Clock(GPU)
    clock.time(copies)
    wall = statistics.median(clock.time(copies) for _ in range(7))
    ratio = statistics.median(profiling.device_times(copies, wall)) / wall
    return "" if 0.95 < ratio < 1.05 else f"CUDA events tell {ratio:.2f} times the wall time of long copies."


def replays() -> str:
    """Returns a problem if no CUDA graph is used, or if its replay changes the clone of its earlier output; else ''."""
    spec = catalog.make_spec(catalog.DEFAULT, mode="reduce-overhead")
    model, log = torch.nn.Linear(64, 64).to(GPU), compilation.CompileLog()
    compiled: Callable[[torch.Tensor], torch.Tensor] = compile_model.apply_compile(model, spec)
    first, second = torch.randn(2, 8, 64, device=GPU)
    for _ in range(4):
        compiled(first)
    clone = compilation.clone_outputs(compiled(first))
    compiled(second)
    graphs = log.compilation(spec, GPU, 1.0).cuda_graphs
    if graphs.state != "used":
        return f"CUDA graphs were {graphs.state}: {graphs.reason}."
    kept = torch.allclose(clone, model(first), atol=1e-3)
    return "" if kept else "The clone of a CUDA graph's output changed with the next replay."


def peak() -> str:
    """Returns a problem unless the measured peak rises by about `PEAK_BYTES` if these are allocated; '' if it does."""
    before, _ = profiling.peak_memory(lambda: None, GPU)
    after, _ = profiling.peak_memory(lambda: torch.empty(PEAK_BYTES, dtype=torch.uint8, device=GPU), GPU)
    if before is None or after is None:
        return "The memory of a call is measured with torch's native allocator only."
    measured = abs(after - before - PEAK_BYTES) < 0.05 * PEAK_BYTES
    growth, allocated = fmt.size(after - before), fmt.size(PEAK_BYTES)
    return "" if measured else f"A call that takes {allocated} shows {growth}."


CHECKS: tuple[Callable[[], str], ...] = (clocks, replays, peak)


def main() -> int:
    """Runs the checks and prints a line for each. Returns the exit code: 1 if one finds a problem, else 0.

    Without a GPU that torch can use there is nothing to check: it prints why, and returns 0.
    """
    if not machine_probe.usable():
        print(f"Nothing to check: {machine_probe.gpu_problem() or 'this machine has no GPU that torch can use'}.")
        return 0
    good = True
    warnings.simplefilter("ignore")  # torch warns about TF32, which is off on purpose
    with torch.no_grad():
        for check in CHECKS:
            try:
                compilation.reset_compiler()  # frees the CUDA graphs of the check before
                problem = check()
            except Exception as error:
                problem = f"It failed: {error_text.first_line(error)}"
            good &= not problem
            print(f"{check.__name__:<10}{problem or 'as expected'}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
