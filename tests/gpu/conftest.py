"""The tests of this folder need a GPU that torch can use; without one they are skipped, and say so."""

import pytest
import torch


@pytest.fixture(autouse=True)
def gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU that torch can use")
