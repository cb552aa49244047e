"""What is derived from the times of one variant."""

import dataclasses

import pytest
from support.samples import measurement

from demo.core.measurement import Profile


@pytest.mark.parametrize(
    ("events", "busy", "work"),
    [(0.0005, None, 0.0005), (1.0, None, 0.002), (0.0015, 0.0004, 0.0004), (0.0015, 0.0019, 0.0015)],
    ids=["events", "never negative", "kernels", "the lesser of both"],
)
def test_launching_is_the_wall_time_without_the_work(events: float, busy: float | None, work: float) -> None:
    """More launches than the driver queues leave gaps between the events, which are no work."""
    calls = dataclasses.replace(measurement(0.002), wall_seconds=(0.002,) * 4)
    side = dataclasses.replace(calls, device_seconds=(events,) * 3, profile=Profile(1200, busy, ()))
    assert side.launch_seconds == pytest.approx(0.002 - work)


def test_nothing_is_launched_on_a_cpu() -> None:
    assert measurement(0.002).launch_seconds is None
