"""The queue of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.core.errors import BadInput
from demo.ui.jobs.queue import RunQueue

ROOT = Path(__file__).resolve().parents[3]
VIT = "google/vit-base-patch16-224"


def test_a_full_line_says_so_at_once() -> None:
    line = RunQueue(longest=1)
    with line.join(), pytest.raises(BadInput, match="Try again in a few minutes"):
        line.join()
    assert line.join().wait(0.0) == 0
