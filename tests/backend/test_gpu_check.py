"""The checks of `doctor --gpu`, on a made-up GPU and without one."""

import torch
from fake_cuda import FakeCuda

from demo.backend import gpu_check, machine_probe


def test_without_a_gpu_there_is_nothing_to_check(monkeypatch, capsys) -> None:
    monkeypatch.setattr(machine_probe, "usable", lambda: False)
    assert gpu_check.main() == 0
    assert "no GPU that torch can use" in capsys.readouterr().out


def test_what_is_not_as_expected_is_told_and_the_other_checks_go_on(monkeypatch, capsys) -> None:
    def broken() -> str:
        raise RuntimeError("CUDA error")

    monkeypatch.setattr(machine_probe, "usable", lambda: True)
    monkeypatch.setattr(gpu_check, "CHECKS", (broken, lambda: "Too slow.", lambda: ""))
    assert gpu_check.main() == 1
    told = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=1)[1] for line in told] == ["It failed: CUDA error", "Too slow.", "as expected"]


def test_clocks_rates_and_the_peak_of_a_sound_gpu_are_as_expected(monkeypatch) -> None:
    fake = FakeCuda(monkeypatch)
    fake.memory_moves(monkeypatch, 3.2e12)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: fake.allocated)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(gpu_check.profiling, "matrix_rate", lambda device, dtype: {torch.float16: 2.0}.get(dtype, 1.0))
    assert [check() for check in (gpu_check.clocks, gpu_check.rates, gpu_check.peak)] == ["", "", ""]
    fake.memory_moves(monkeypatch, 1e12)
    assert "Copies move" in gpu_check.rates()
    fake.WAIT = 1.0  # type: ignore[misc]
    assert "wall time" in gpu_check.clocks()
