"""What a waiting worker says of its machine, with a made-up NVML."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from demo.backend import machine_probe

CARDS = {"Tesla T4": (7, 5), "Tesla V100": (7, 0), "NVIDIA A100-SXM4-40GB": (8, 0)}


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    for asked in (machine_probe.first_gpu, machine_probe.host):
        asked.cache_clear()
    yield
    for asked in (machine_probe.first_gpu, machine_probe.host):
        asked.cache_clear()


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with all of `CARDS`."""
    names = list(CARDS)
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        NVMLError_DriverNotLoaded=RuntimeError,
        nvmlDeviceGetHandleByIndex=lambda place: names[place],
        nvmlDeviceGetName=lambda name: name,
        nvmlDeviceGetMemoryInfo=lambda name: SimpleNamespace(total=16_000_000_000),
        nvmlDeviceGetCudaComputeCapability=lambda name: CARDS[name],
        nvmlSystemGetDriverVersion=lambda: "580.95",
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(torch.cuda, "pynvml", nvml, raising=False)
    monkeypatch.setattr(torch.cuda, "_HAS_PYNVML", True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def test_the_gpu_is_the_first_visible_one(cards: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0")
    found = machine_probe.host()
    assert (found.gpu, found.gpu_memory_bytes, found.driver) == ("NVIDIA A100-SXM4-40GB", 16_000_000_000, "580.95")
    assert (found.compute_capability, found.gpu_problem) == ("8.0", None)


def test_a_gpu_without_nvml_is_a_gpu_for_sweeps_and_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "_HAS_PYNVML", False)
    found = machine_probe.host()
    assert (found.gpu, found.gpu_memory_bytes, found.driver, found.gpu_problem) == ("NVIDIA GPU", None, None, None)


@pytest.mark.parametrize(
    ("card", "cuda", "built", "index"),
    [
        (0, "13.0", ["sm_75", "sm_80", "sm_90a"], None),
        (0, "13.0", [], None),  # the build does not say
        (1, "13.0", ["sm_75", "sm_80"], "cu126"),
        (2, "12.6", ["sm_89", "compute_90"], "cu130"),
        (0, None, None, "cu130"),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_left_alone_and_told_with_the_command_that_mends_it(
    card: int,
    cuda: str | None,
    built: list[str] | None,
    index: str | None,
    cards: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", str(card))
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda is not None)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: built or [])
    found = machine_probe.host()
    if index is None:
        assert found.gpu == list(CARDS)[card] and found.gpu_problem is None
    else:
        assert found.gpu is None and f"/{index}` installs one that can" in found.gpu_problem
        assert f"cannot use the {list(CARDS)[card]}" in found.gpu_problem


def test_a_gpu_that_is_hidden_on_purpose_is_no_problem(cards: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (machine_probe.host().gpu, machine_probe.gpu_problem()) == (None, None)


def test_a_toolkit_without_headers_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the images of CUDA's runtime."""
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert machine_probe.cuda_toolkit() is None
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cuda.h").touch()
    assert machine_probe.cuda_toolkit() == str(tmp_path)


def test_a_container_has_the_memory_that_its_group_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_probe, "CGROUP_MEMORY", tmp_path / "memory.max")
    whole = machine_probe.machine_memory()
    for text, found in [("1000000\n", 1_000_000), ("max\n", whole), (f"{2**60}\n", whole)]:
        machine_probe.CGROUP_MEMORY.write_text(text)
        assert machine_probe.machine_memory() == found
