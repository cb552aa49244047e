"""Tests of the checks of `doctor --gpu`, with a simulated GPU and without any."""

import pytest
from support.fake_cuda import FakeCuda

from demo.backend import gpu_check, machine_probe


def test_without_a_gpu_there_is_nothing_to_check(monkeypatch, capsys) -> None:
    monkeypatch.setattr(machine_probe, "usable", lambda: False)
    assert gpu_check.main() == 0
    assert "no GPU that torch can use" in capsys.readouterr().out


def test_a_failed_check_does_not_stop_the_others(monkeypatch, capsys) -> None:
    def broken() -> str:
        raise RuntimeError("CUDA error")

    monkeypatch.setattr(machine_probe, "usable", lambda: True)
    monkeypatch.setattr(gpu_check, "CHECKS", (broken, lambda: "Too slow.", lambda: ""))
    assert gpu_check.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines] == ["It failed: CUDA error", "Too slow.", "as expected"]


def test_a_clock_that_counts_more_than_the_gpus_work_is_found(monkeypatch) -> None:
    fake = FakeCuda(monkeypatch)
    fake.memory_moves(monkeypatch, 3.0e12)
    assert gpu_check.clocks() == ""
    fake.WAIT = 1.0  # type: ignore[misc]
    assert "wall time" in gpu_check.clocks()


def test_memory_that_is_not_measured_is_found(monkeypatch) -> None:
    taken = iter([(2e8, None), (3e8, None)])
    monkeypatch.setattr(gpu_check.profiling, "peak_memory", lambda *_: next(taken))
    assert gpu_check.peak() == "A call that takes 268 MB shows 100 MB."


@pytest.mark.parametrize("earlier_bytes", [0, 36 * 10**6])
def test_an_earlier_cuda_graph_is_no_part_of_the_peak(earlier_bytes: int, monkeypatch) -> None:
    fake = FakeCuda(monkeypatch)
    fake.memory_moves(monkeypatch, 3.0e12)
    fake.pools = [{"segment_pool_id": (1, 0), "total_size": earlier_bytes, "allocated_size": 0}]
    assert gpu_check.peak() == ""
