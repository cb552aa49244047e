"""What is derived from the times of one variant."""

from __future__ import annotations

import dataclasses

import pytest
from samples import measurement

from demo.core.measurement import Compilation, Profile


def test_launching_is_the_wall_time_without_the_work_and_never_negative():
    assert dataclasses.replace(measurement(0.002), device_seconds=(0.0005,) * 3).launch_seconds == pytest.approx(
        measurement(0.002).median_seconds - 0.0005
    )
    assert dataclasses.replace(measurement(0.002), device_seconds=(1.0,)).launch_seconds == 0.0
    assert measurement(0.002).launch_seconds is None


def test_the_profilers_kernel_times_are_the_work_where_they_are_less_than_the_clocks() -> None:
    """More launches than the driver queues leave gaps between the events, which are no work."""
    side = dataclasses.replace(measurement(0.002), device_seconds=(0.0015,) * 3)
    for busy, work in ((0.0004, 0.0004), (0.0019, 0.0015), (None, 0.0015)):
        profiled = dataclasses.replace(side, profile=Profile(1200, busy, ()))
        assert profiled.launch_seconds == pytest.approx(side.median_seconds - work)


def test_why_cuda_graphs_were_skipped_is_read_from_what_is_stored() -> None:
    for stored, reason in [
        ("used", None),
        ("not asked", None),
        ("skipped: mutated inputs", "mutated inputs"),
        ("a newer word", None),
    ]:
        assert Compilation(1.0, "cold", 1, cudagraphs=stored).cudagraphs_skipped == reason
