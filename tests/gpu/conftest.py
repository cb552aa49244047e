"""The tests of this folder need a GPU that torch can use; without one they are skipped, and say so."""

from pathlib import Path

import pytest
import torch

REASON = "needs an NVIDIA GPU that torch can use"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=REASON))
