"""What is derived from the times of one variant."""

import dataclasses

import pytest
from support.samples import measurement

from demo.core.measurement import Profile


def test_launching_is_the_wall_time_without_the_work_and_never_negative():
    """Of the two clocks of the work the lesser counts: more launches than the driver queues leave gaps between the
    events, which are no work."""
    wall = measurement(0.002).median_seconds
    assert measurement(0.002).launch_seconds is None
    for events, busy, work in (
        (0.0005, None, 0.0005),
        (1.0, None, wall),
        (0.0015, 0.0004, 0.0004),
        (0.0015, 0.0019, 0.0015),
    ):
        profile = Profile(1200, busy, ())
        side = dataclasses.replace(measurement(0.002), device_seconds=(events,) * 3, profile=profile)
        assert side.launch_seconds == pytest.approx(wall - work)
