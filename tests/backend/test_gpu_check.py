"""The checks of `doctor --gpu`, on a made-up GPU and without one."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.fake_cuda import FakeCuda

from demo.backend import gpu_check, machine_probe


def test_without_a_gpu_there_is_nothing_to_check(monkeypatch, capsys) -> None:
    monkeypatch.setattr(machine_probe, "usable", lambda: False)
    assert gpu_check.main() == 0
    assert "no GPU that torch can use" in capsys.readouterr().out


def test_a_check_that_fails_does_not_end_the_others(monkeypatch, capsys) -> None:
    def broken() -> str:
        raise RuntimeError("CUDA error")

    monkeypatch.setattr(machine_probe, "usable", lambda: True)
    monkeypatch.setattr(gpu_check, "CHECKS", (broken, lambda: "Too slow.", lambda: ""))
    assert gpu_check.main() == 1
    told = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in told] == ["It failed: CUDA error", "Too slow.", "as expected"]


def card(name: str = "NVIDIA H100 80GB HBM3", bits: int = 5120, kilohertz: int = 2_619_000, **more: Any) -> Any:
    """Properties as torch gives them: an H100 moves 3.35 TB a second."""
    facts = {"name": name, "memory_bus_width": bits, "memory_clock_rate": kilohertz, "major": 9, "is_integrated": 0}
    return SimpleNamespace(**{**facts, **more})


@pytest.fixture
def fake(monkeypatch) -> FakeCuda:
    """With an H100 that reaches nine tenths of its memory's rate."""
    fake = FakeCuda(monkeypatch)
    fake.memory_moves(monkeypatch, 3.0e12)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card())
    monkeypatch.setattr(gpu_check.profiling, "matrix_rate", lambda device, dtype: {torch.float16: 2.0}.get(dtype, 1.0))
    return fake


def test_a_sound_gpu_is_as_expected(fake: FakeCuda) -> None:
    assert [check() for check in (gpu_check.clocks, gpu_check.rates, gpu_check.peak)] == ["", "", ""]


def test_a_clock_that_counts_more_than_the_gpus_work_is_told(fake: FakeCuda) -> None:
    fake.WAIT = 1.0  # type: ignore[misc]
    assert "wall time" in gpu_check.clocks()


@pytest.mark.parametrize("copied", [1.0e12, 6.0e12], ids=["too slow", "faster than its memory"])
def test_a_copy_rate_that_the_memory_does_not_have_is_told(copied: float, fake: FakeCuda, monkeypatch) -> None:
    fake.memory_moves(monkeypatch, copied)
    assert "the memory of the NVIDIA H100 80GB HBM3 3352 GB." in gpu_check.rates()


@pytest.mark.parametrize(
    ("copied", "given"),
    [
        pytest.param(1.8e12, card("NVIDIA H100 PCIe", 5120, 1_593_000), id="H100 PCIe"),
        pytest.param(7.2e12, card("NVIDIA B200", 8192, 3_996_000), id="B200"),
        pytest.param(2.4e11, card("Tesla T4", 256, 5_001_000), id="T4"),
        pytest.param(3.2e11, card("NVIDIA L4", 192, 6_251_000), id="L4, its cache keeps a part"),
        pytest.param(2.0e11, card("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 5120, 1_215_000), id="a slice of an A100"),
        pytest.param(2.5e11, card("NVIDIA GB10", 256, 0), id="no clock of the memory"),
        pytest.param(2.5e11, card("Orin", 256, 10, is_integrated=1), id="the processor's memory"),
    ],
)
def test_no_sound_card_is_called_too_slow_or_too_fast(copied: float, given: Any, fake: FakeCuda, monkeypatch) -> None:
    fake.memory_moves(monkeypatch, copied)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: given)
    assert gpu_check.rates() == ""


def test_an_earlier_cuda_graph_is_no_part_of_the_peak(fake: FakeCuda) -> None:
    fake.pools = [{"segment_pool_id": (1, 0), "total_size": 36 * 10**6, "allocated_size": 0}]
    assert gpu_check.peak() == ""


def test_a_peak_that_no_allocator_tells_is_said(fake: FakeCuda, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_allocator_backend", lambda: "cudaMallocAsync")
    assert "not measured" in gpu_check.peak()
