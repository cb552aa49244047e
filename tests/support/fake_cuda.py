"""Replaces `torch.cuda`, for tests without a GPU: a queue of kernels on a simulated clock, and torch's allocator."""

import time
from typing import Any

import pytest
import torch


class FakeCuda:
    """A GPU that runs kernels one after the other. Times are in seconds, memory in bytes, the clock rate is fixed."""

    LAUNCH, WAIT, CYCLES = 4e-6, 6e-6, 1.5e9  # seconds of a launch and of a wait, and clock cycles a second

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = self.busy_until = 100.0
        self.allocated = self.peak = 0
        self.pools: list[dict[str, Any]] = []
        """Segments that `torch.cuda.memory_snapshot()` lists. It always lists one more segment, of the default pool."""
        fake = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                fake.run(0.0)
                self.at = fake.busy_until

            def elapsed_time(self, end: "Event") -> float:
                return (end.at - self.at) * 1e3

        monkeypatch.setattr(time, "perf_counter", lambda: self.now)
        for name, answer in {
            "Event": Event,
            "synchronize": self.synchronize,
            "_sleep": lambda cycles: self.run(cycles / self.CYCLES),
            "empty_cache": lambda: None,
            "reset_peak_memory_stats": lambda: setattr(self, "peak", self.allocated),
            "max_memory_allocated": lambda: self.peak,
            "max_memory_reserved": lambda: self.peak + 100,
            "get_allocator_backend": lambda: "native",
            "memory_snapshot": lambda: [{"segment_pool_id": (0, 0), "total_size": 7, "allocated_size": 7}, *self.pools],
        }.items():
            monkeypatch.setattr(torch.cuda, name, answer)

    def run(self, seconds: float, memory: int = 0) -> None:
        """Launches a kernel that takes `seconds` on the GPU and needs `memory` bytes while it runs."""
        self.now += self.LAUNCH
        self.busy_until = max(self.busy_until, self.now) + seconds
        self.peak = max(self.peak, self.allocated + memory)

    def memory_moves(self, monkeypatch: pytest.MonkeyPatch, rate: float) -> None:
        """Makes copies of new tensors take `rate` bytes a second, each byte counted twice: as read and as written."""
        fake = self

        class Memory:
            def __init__(self, numbers: int, **_: Any) -> None:
                self.numbers = numbers
                fake.peak = max(fake.peak, fake.allocated + numbers)

            def numel(self) -> int:
                return self.numbers

            def element_size(self) -> int:
                return 4

            def copy_(self, source: Any) -> None:
                fake.run(2 * 4 * self.numbers / rate)

        monkeypatch.setattr(torch, "ones", Memory)
        monkeypatch.setattr(torch, "empty", Memory)
        monkeypatch.setattr(torch, "empty_like", lambda source: Memory(source.numbers))

    def synchronize(self) -> None:
        self.now = max(self.now, self.busy_until) + self.WAIT
