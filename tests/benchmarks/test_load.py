"""The benchmarks of load and soak, cut short: what must hold whatever the machine's speed."""

import sys
import tempfile

import pytest

from benchmarks import load, soak

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


def test_every_visitor_of_a_crowd_gets_a_result_or_is_told_to_try_again_and_nothing_is_left_over() -> None:
    with load.served(load.QUICK, queue=3) as server:
        server.run()
        before = server.descriptors()
        answers, served_at_last, pages = load.crowd(server, visitors=12)
        assert set(answers) == {"result", "full"}
        assert answers.count("result") >= 3
        assert served_at_last == 12
        assert pages
        assert server.history.count() == 13
        assert load.settled(server.descriptors, before) <= before
        assert load.settled(server.processes, load.PROCESSES) <= load.PROCESSES
        assert load.settled(server.temporary_files, 1) == 1


def test_every_run_of_a_soak_is_one_row_however_it_ended(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    rows, wrong = soak.soak(runs=30, seed=1, module=soak.QUICK, folder=tmp_path)
    assert wrong == []
    found = {row[0]: row[1] for row in rows}
    assert found["rows in the history"] == "30"
    assert all(int(found[f"fate: {fate}"]) > 0 for fate in soak.FATES)
