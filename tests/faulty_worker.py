"""The real worker around a tiny model, which hangs where the FAULT variable is set. Started by the tests' runner."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch
from transformers.modeling_outputs import ImageClassifierOutput

from demo.backend import models
from demo.backend.__main__ import main
from demo.core.spec import RunSpec

FAULT = os.environ["FAULT"]


class Tiny(torch.nn.Module):
    """A classifier of five labels that compiles in a second or two."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.head = torch.nn.Linear(3, 5)

    def forward(self, pixel_values: torch.Tensor) -> ImageClassifierOutput:
        return ImageClassifierOutput(logits=self.head(pixel_values.mean((2, 3))).relu())


class Hanging(Tiny):
    def forward(self, pixel_values: torch.Tensor) -> ImageClassifierOutput:
        hang()
        return super().forward(pixel_values)


@torch._dynamo.disable
def hang() -> None:
    """Without letting go of the interpreter's lock: no other thread of this process can run."""
    print("child", 0, file=open(os.environ["CHILD_FILE"], "w"), flush=True)
    ctypes.PyDLL(None).sleep(600)


def load(spec: RunSpec, device: torch.device) -> models.Loaded:
    loaded = real_load(spec, device)
    torch.manual_seed(0)
    loaded.model = (Hanging if FAULT else Tiny)(loaded.model.config).eval()
    return loaded


real_load, models.load = models.load, load

if __name__ == "__main__":
    main()
