"""The passes after the timing, with a made-up device."""

from __future__ import annotations

import pytest
import torch

from demo.backend import memory_and_throughput


def test_the_pass_on_the_devices_clock_is_short_for_a_slow_model():
    for seconds, calls in [(0.001, 20), (0.02, 20), (0.05, 8), (0.1, 4), (0.2, 3), (5.0, 3)]:
        assert memory_and_throughput.device_calls(seconds, memory_and_throughput.DEVICE_CALLS) == calls
        assert memory_and_throughput.device_calls(seconds, 7) == min(7, calls)


def test_the_pools_of_cuda_graphs_count_for_the_variant_that_replays_them(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [
        {"segment_pool_id": (0, 0), "total_size": 1000, "allocated_size": 700},
        {"segment_pool_id": (1, 0), "total_size": 300, "allocated_size": 20},
        {"segment_pool_id": (1, 0), "total_size": 100, "allocated_size": 0},
    ]
    for name, answer in {
        "synchronize": None, "empty_cache": None, "reset_peak_memory_stats": None, "memory_snapshot": parts,
        "max_memory_allocated": 750, "max_memory_reserved": 1400,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda answer=answer: answer)
    device = torch.device("cuda")
    assert memory_and_throughput.peak_memory(lambda: None, device, replays=True) == (750 - 20 + 400, 1400)
    assert memory_and_throughput.peak_memory(lambda: None, device) == (750 - 20, 1400 - 400)
