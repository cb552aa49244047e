"""The real worker around a tiny model with the fault that the FAULT variable names. Started by the tests' runner."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Any

import torch
from transformers.modeling_outputs import ImageClassifierOutput

from demo.backend import models, timing
from demo.backend.__main__ import main
from demo.core.spec import RunSpec

FAULT = os.environ["FAULT"]


class Tiny(torch.nn.Module):
    """A classifier of five labels that compiles in a second or two."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.head = torch.nn.Linear(3, 5)
        self.calls = 0

    def forward(self, pixel_values: torch.Tensor) -> ImageClassifierOutput:
        means = pixel_values.mean((2, 3))
        if FAULT == "differs":
            means = means + (1.0 if torch.compiler.is_compiling() else 0.0)
        return ImageClassifierOutput(logits=self.head(means).relu())


class Wrapped(Tiny):
    def forward(self, pixel_values: torch.Tensor) -> ImageClassifierOutput:
        fault(self)
        return super().forward(pixel_values)


@torch._dynamo.disable
def fault(model: Tiny) -> None:
    model.calls += 1
    if FAULT == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if FAULT == "hangs with the interpreter's lock":
        print("child", 0, file=open(os.environ["CHILD_FILE"], "w"), flush=True)
        ctypes.PyDLL(None).sleep(600)
    if FAULT == "forward hangs":
        time.sleep(600)


class Recompiles(Tiny):
    """Its forward branches on a plain number that changes while it is being timed."""

    def forward(self, pixel_values: torch.Tensor) -> ImageClassifierOutput:
        return ImageClassifierOutput(logits=self.head(pixel_values.mean((2, 3))) * self.calls)


def load(spec: RunSpec, device: torch.device) -> models.Loaded:
    loaded = real_load(spec, device)
    torch.manual_seed(0)
    kind = {"": Tiny, "compile hangs": Tiny, "differs": Tiny, "recompiles": Recompiles}.get(FAULT, Wrapped)
    loaded.model = kind(loaded.model.config).eval()
    MODELS.append(loaded.model)
    return loaded


def interleaved(eager: Any, compiled: Any, clock: Any, plan: Any, half: int, on_block_end: Any, third: Any) -> Any:
    def change(samples: Any) -> None:
        MODELS[0].calls += 1
        on_block_end(samples)

    return real_interleaved(eager, compiled, clock, plan, half, change, third)


def sleep(*args: Any, **kwargs: Any) -> Any:
    time.sleep(600)


MODELS: list[Tiny] = []
real_load, models.load = models.load, load
real_interleaved = timing.time_interleaved
if FAULT == "recompiles":
    timing.time_interleaved = interleaved

if __name__ == "__main__":
    if FAULT == "compile hangs":
        import torch._inductor.compile_fx

        torch._inductor.compile_fx.compile_fx = sleep
    main()
