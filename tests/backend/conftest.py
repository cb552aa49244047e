"""Restores, after each test of this folder, the torch options and environment variables that a run sets."""

import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest
import torch

from demo.backend import first_call
from demo.core.measurement import CompileCost


@pytest.fixture(autouse=True)
def process_as_before(monkeypatch) -> Iterator[None]:
    """Restores the torch options and environment variables that a test's run has set.

    The first call of a further process is not timed but made up: importing torch there would take longer than the test.
    """
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    tf32 = torch.backends.cudnn.allow_tf32
    monkeypatch.setattr(first_call, "measure_elsewhere", lambda *_: CompileCost(0.5, {}))
    with patch.dict(os.environ), torch._inductor.config.patch(freezing=False):
        yield
    torch.set_num_threads(threads)  # more threads than free cores make a test slow
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = tf32
