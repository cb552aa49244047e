"""Who compiles beside others on a GPU, with a made-up one."""

from pathlib import Path

import pytest
import torch
from filelock import Timeout
from torch._inductor.runtime import benchmarking
from torch.utils._filelock import FileLock

from tools import gpu_turns


def test_what_inductor_times_is_timed_while_no_other_process_uses_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    seen = []

    def busy() -> bool:
        try:
            with FileLock(tmp_path / "gpu_turns.lock", timeout=0):
                return False
        except Timeout:
            return True

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: seen.append(busy()))
    timed = type(benchmarking.benchmarker)
    monkeypatch.setattr(timed, "benchmark_gpu", lambda self, call: seen.append(busy()))
    with gpu_turns.taken(torch.device("cuda")):
        gpu_turns.alone(lambda: benchmarking.benchmarker.benchmark_gpu(None))()
    assert seen.pop()
    assert seen == [True, True] and not busy()
    with gpu_turns.taken(torch.device("cpu")):
        benchmarking.benchmarker.benchmark_gpu(None)
    assert seen == [True, True, False]
