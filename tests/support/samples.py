"""Results made by hand, as a worker would send them, for tests that need no model."""

import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

from demo.core.machine import Environment, GpuSample, HostInfo, HostSample
from demo.core.measurement import (
    BackToBack,
    Compilation,
    CompileCost,
    CudaGraphs,
    GraphBreak,
    Kernel,
    Measurement,
    Pair,
    Profile,
    Roofline,
)
from demo.core.options import MODES, TEXT_GENERATION, RunSpec
from demo.core.outputs import Box, EndToEnd, ImageInfo, Label, Parity, Predictions, Segment
from demo.core.result import FIRST_TOKEN, Failure, RunResult

ENVIRONMENT = Environment(
    torch="2.13.0",
    transformers="5.23.0",
    python="3.11.7",
    platform="Linux-6.1",
    device_name="Example CPU",
    cpu="Example CPU",
    cpu_count=2,
    threads=2,
    memory_bytes=16_000_000_000,
    compiler="g++ 12.2.0",
)
MACHINE = HostInfo(**ENVIRONMENT.facts(), modes=MODES, gpu=None, gpu_problem=None, inductor_cache="")
"""The machine of `ENVIRONMENT`, as a worker reports it before a run."""
LABELS = Predictions(labels=(Label("circle", 0.98), Label("ring", 0.015), Label("star", 0.005)))
BOXES = Predictions(boxes=(Box("circle", 0.97, (10.0, 20.0, 60.5, 80.0)), Box("star", 0.91, (50.0, 5.0, 90.0, 44.0))))
SEGMENTS = Predictions(
    segments=(Segment("circle", None, 0.25, "iVBORw0KGgo="), Segment("sky", 0.99, 0.6, "iVBORw0KGgo="))
)


def info_of(picture: Path) -> ImageInfo:
    """Returns what a result stores about a picture file; its size in pixels and its preview are made up."""
    return ImageInfo(picture.name, 320, 240, hashlib.sha256(picture.read_bytes()).hexdigest(), "/9j/")


def measurement(seconds: float, blocks: int = 12, peak: int | None = 1_000_000) -> Measurement:
    """Returns blocks of 4 calls of about `seconds`. All measurements drift alike: the ratio of two stays the same."""
    times = tuple(seconds * (1 + 0.02 * (block % 3)) for block in range(blocks) for _ in range(4))
    return Measurement(times, None, (seconds * 3, seconds), 4, peak)


def ok_result(**changes: Any) -> RunResult:
    """Returns a classification run on a CPU in which compiled is twice as fast; `changes` replace fields."""
    fields: dict[str, Any] = dict(
        id="20261121T090000-abcdef",
        started_at="2026-11-21T09:00:00Z",
        status="ok",
        spec=RunSpec("shapes-vit", "image-classification", device="cpu"),
        environment=ENVIRONMENT,
        eager=measurement(0.002),
        compiled=measurement(0.001),
        control_times=measurement(0.002),
        compilation=Compilation(5.5, "cold", 1),
        parity=Parity("match", 1e-6, "Outputs are close to within 0.001.", {"top5_agreement": 1.0}),
        predictions={"eager": LABELS, "compiled": LABELS},
        image=ImageInfo("scene.png", 320, 240, "00" * 32, "/9j/"),
        elapsed_seconds=12.5,
    )
    return RunResult(**fields | changes)


def text_result(**changes: Any) -> RunResult:
    """Returns a run of a text model on a CPU: a token takes 2 ms eager, 1 ms compiled, the first token 8 and 5 ms."""
    ours = Predictions(text=" a red star.", pieces=(" a", " red", " star", "."), token_ids=(5, 6, 7, 8))
    fields: dict[str, Any] = dict(
        spec=RunSpec("shapes-gemma", TEXT_GENERATION, device="cpu", prompt="The picture shows", tokens=4),
        further={FIRST_TOKEN: Pair(measurement(0.008), measurement(0.005), measurement(0.008))},
        prompt_tokens=3,
        parity=Parity("match", 1e-6, "Outputs are close to within 0.001.", {"same_tokens": 1.0}),
        predictions={"eager": ours, "compiled": ours},
        image=None,
    )
    return ok_result(**fields | changes)


def failed_result(**changes: Any) -> RunResult:
    fields: dict[str, Any] = dict(
        id="20261121T090100-fedcba",
        started_at="2026-11-21T09:01:00Z",
        status="out_of_memory",
        spec=RunSpec("google/owlvit-base-patch32", "object-detection", batch_size=256, text=("a cat",)),
        failure=Failure("compile", "Batch size 256 ran out of memory on a T4 (15 GB) while compiling.", "Try 64."),
        environment=ENVIRONMENT,
    )
    return RunResult(**fields | changes)


GPU = dataclasses.replace(
    ENVIRONMENT,
    device_name="Tesla T4",
    memory_bytes=15_800_000_000,
    driver="580.95",
    cuda="13.0",
    compute_capability="7.5",
    triton="3.7.0",
)


def on_gpu(seconds: float, device_seconds: float, peak: int, rate: float) -> Measurement:
    """Returns times of a GPU: `seconds` a call, `device_seconds` of GPU work in a call, and `peak` bytes of memory.

    `rate` is the calls per second if the calls are launched without waiting for the result of each.
    """
    return dataclasses.replace(
        measurement(seconds, peak=peak),
        device_seconds=(device_seconds,) * 20,
        peak_reserved_bytes=round(peak * 1.2),
        back_to_back=BackToBack(200, 200 / rate, 9 * 200 / rate),
        profile=Profile(
            round(seconds * 3e4),
            device_seconds,
            (
                Kernel("ampere_sgemm_128x64_tn", 48, device_seconds * 0.6, 0.6),
                Kernel("triton_red_fused_native_layer_norm_3", 25, device_seconds * 0.1, 0.1),
            ),
        ),
    )


def full_result(**changes: Any) -> RunResult:
    """Returns a run on a GPU with nearly every field filled: two graphs, a graph break, cold and warm compile cost."""
    states = tuple(HostSample(at, 0.02, GpuSample(1_350e6 + 30e6 * at, 1_590e6, (), 0)) for at in (0.0, 1.0, 2.0))
    fields: dict[str, Any] = dict(
        id="20261121T093000-0f0f0f",
        spec=RunSpec("google/vit-base-patch16-224", "image-classification", 4, "reduce-overhead", device="cuda"),
        environment=GPU,
        eager=on_gpu(0.0120, 0.0050, 620_000_000, 150),
        compiled=on_gpu(0.0060, 0.0048, 540_000_000, 190),
        control_times=measurement(0.0120),
        compilation=Compilation(
            first_call_seconds=31.2,
            cache="cold",
            graphs=2,
            graph_breaks=(GraphBreak("call to print", "modeling_vit.py:321 in forward"),),
            cuda_graphs=CudaGraphs("used"),
            cold=CompileCost(31.2, {"dynamo": 4.1, "aot_autograd": 3.2, "inductor": 21.9}),
            warm=CompileCost(3.4, {"dynamo": 2.2, "aot_autograd": 0.6, "inductor": 0.1}, "20261121T093100-0f0f10"),
            recompiles=(GraphBreak("a size changed: expected 1, got 4", "modeling_vit.py:88 in forward"),),
        ),
        end_to_end=EndToEnd(0.0015, 0.0004, 0.0002),
        machine_states=states,
        timing_seconds=3.6,
        elapsed_seconds=48.0,
        roofline=Roofline(int(1.4e11), 360_000_000, 5.0e13, 2.4e12),
    )
    return ok_result(**fields | changes)


def plain(markdown: str) -> str:
    """Returns the text of Markdown without its markup, on one line."""
    row = re.compile(r"^\|.*\|$", re.MULTILINE)
    text = row.sub(lambda row: re.sub(r"(?<!\\)\|| -+:?(?= \|)", " ", row[0]), markdown)
    text = re.sub(r"(?<!\\)(\*\*|\[|\]\([^)]*\))", "", text)
    text = re.sub(r"^(#+|-) ", "", text, flags=re.MULTILINE)
    return re.sub(r"[ \n]+", " ", re.sub(r"\\(?=[^a-zA-Z0-9\s])", "", text)).strip()


def launching(share: float, device: str = "cuda", **changes: Any) -> RunResult:
    """Returns a run on a device that is idle for this share of an eager call, while kernels are launched."""
    calls = measurement(0.002)
    eager = dataclasses.replace(calls, device_seconds=(calls.median_seconds * (1 - share),))
    return ok_result(spec=dataclasses.replace(ok_result().spec, device=device, **changes), eager=eager)
