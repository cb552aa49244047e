"""Skips the tests of this folder, with a reason, if torch can use no GPU."""

import pytest
import torch


@pytest.fixture(autouse=True)
def gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU that torch can use")
