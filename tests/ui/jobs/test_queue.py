"""The queue of runs."""

import pytest

from demo.core.errors import BadInput
from demo.ui.jobs.queue import RunQueue


def test_a_full_line_says_so_at_once_but_one_that_is_patient_waits_for_a_place() -> None:
    line = RunQueue(longest=1)
    with line.join(patient=True) as patient:
        with line.join():
            with pytest.raises(BadInput, match="Try again in a few minutes"), line.join():
                pass
            assert next(patient) == 1
        assert list(patient) == []
        assert len(line) == 1
    assert len(line) == 0
