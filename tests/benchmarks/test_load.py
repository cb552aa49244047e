"""Tests with a short form of `benchmarks.load`: what must hold at any speed of the machine."""

import sys

import pytest

from benchmarks import load

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def test_every_visitor_of_a_crowd_gets_a_result() -> None:
    with load.served(queue=3) as server:
        server.run()
        before = server.descriptors()
        answers, served_at_last, pages = load.crowd(server, visitors=12)
        assert set(answers) == {"result", "full"}
        assert answers.count("result") >= 3
        assert served_at_last == 12
        assert pages
        assert server.history.count() == 13
        assert load.final_count(server.descriptors, before) <= before
        assert load.final_count(server.processes, load.PROCESSES) <= load.PROCESSES
        assert load.final_count(server.temporary_files, 1) == 1
