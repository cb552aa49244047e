"""The queue of runs."""

from __future__ import annotations

import pytest

from demo.core.errors import BadInput
from demo.ui.jobs.queue import RunQueue


def test_a_full_line_says_so_at_once() -> None:
    line = RunQueue(longest=1)
    with line.join(), pytest.raises(BadInput, match="Try again in a few minutes"):
        line.join()
    assert line.join().wait(0.0) == 0
