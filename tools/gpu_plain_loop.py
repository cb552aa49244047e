"""Checks this project's times of a call on a GPU: times ViT or ResNet-50 with torch and transformers only, in a minute.

    python3 -m tools.gpu_plain_loop vit
    python3 -m tools.gpu_plain_loop resnet --tf32

A line for each way to run the model has three times of a call:

- Each call waits for its result: the median, and the 5th to the 95th percentile.
- Calls back to back: the mean, and how much of it the CPU needs to launch the kernels.
- The GPU alone, by CUDA events. A kernel that sleeps comes first, so that all launches are done when the clock starts.

The lines: eager, eager in a CUDA graph (the same kernels without launches by the CPU), two modes of torch.compile, and
eager again after each mode. On a CPU, the CUDA graph and the GPU's time are left out.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
import transformers

Call = Callable[[], object]
CALLS, DEVICE_CALLS, WARMUP_CALLS = 200, 20, 20
SLEEP_CYCLES = 40_000_000
"""About 20 ms: longer than launching a model's kernels takes."""


def model_of(name: str, device: str) -> torch.nn.Module:
    """Returns ViT-Base or ResNet-50 (transformers' default config), with random weights made on the device."""
    with torch.device(device):
        if name == "vit":
            return transformers.ViTForImageClassification(transformers.ViTConfig()).eval()
        return transformers.ResNetForImageClassification(transformers.ResNetConfig()).eval()


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:6.2f} ms"


def waited(call: Call, wait: Call) -> str:
    """Times single calls, each until its result is there. Returns the median and the middle 90 % as text."""
    times = []
    for _ in range(CALLS):
        wait()
        started = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - started)
    ends = statistics.quantiles(times, n=20)
    return f"{milliseconds(statistics.median(times))} ({milliseconds(ends[0])} to {milliseconds(ends[-1])})"


def back_to_back(call: Call, wait: Call) -> str:
    wait()
    started = time.perf_counter()
    for _ in range(CALLS):
        call()
    host = time.perf_counter() - started
    wait()
    whole = time.perf_counter() - started
    return f"back to back {milliseconds(whole / CALLS)}, of it the host {milliseconds(host / CALLS)}"


def on_gpu(call: Call) -> str:
    times = []
    for _ in range(DEVICE_CALLS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda._sleep(SLEEP_CYCLES)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return f"GPU {milliseconds(statistics.median(times))}"


def in_cuda_graph(call: Call) -> Call:
    """Returns a function that replays the kernels of `call` as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def main() -> int:
    parser = argparse.ArgumentParser(description="Times a model with torch and transformers only.")
    parser.add_argument("model", choices=("vit", "resnet"))
    parser.add_argument("--tf32", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = options.tf32
    model = model_of(options.model, device)
    pixels = torch.randn(1, 3, 224, 224, device=device)
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{options.model}, {'tf32' if options.tf32 else 'float32'}, torch {torch.__version__}, {name}", flush=True)

    def show(label: str, call: Call) -> None:
        for _ in range(WARMUP_CALLS):
            call()
        parts = [waited(call, wait), back_to_back(call, wait), on_gpu(call) if device == "cuda" else ""]
        print(f"{label:<28} {'  '.join(parts)}", flush=True)

    def eager() -> object:
        return model(pixel_values=pixels)

    with torch.no_grad():
        show("eager, nothing compiled", eager)
        if device == "cuda":
            show("eager in a CUDA graph", in_cuda_graph(eager))
        for mode in ("default", "reduce-overhead"):
            torch._dynamo.reset()
            compiled = torch.compile(model, mode=mode)
            started = time.perf_counter()
            compiled(pixel_values=pixels)
            wait()
            print(f"first call in mode {mode}: {time.perf_counter() - started:.1f} s", flush=True)
            show(mode, lambda compiled=compiled: compiled(pixel_values=pixels))  # type: ignore[misc]
            show(f"eager, after {mode}", eager)
    return 0


if __name__ == "__main__":
    sys.exit(main())
