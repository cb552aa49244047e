"""Tests of the options that a run sets in torch, and of the settings that are read back."""

import dataclasses
import math
import os
from unittest.mock import Mock

import pytest
import torch
from support.own_workload import SCENE

from demo.backend import models, tasks, torch_settings, workload
from demo.core import catalog, cgroup, cores
from demo.core.options import BadInput, RunSpec


def spec(**options: object) -> RunSpec:
    return catalog.make_spec("shapes-segformer", **{"device": "cpu", **options})


@pytest.mark.parametrize(("dtype", "precision"), [("tf32", "high"), ("float32", "highest")])
def test_tf32_is_float32_in_memory_and_allowed_in_products(dtype: str, precision: str) -> None:
    torch_settings.apply(spec(dtype=dtype))
    assert workload.dtype_of(spec(dtype=dtype)) == torch.float32
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == (precision, dtype == "tf32")


@pytest.mark.parametrize("freezing", [True, False])
def test_freezing_is_set_for_the_whole_process(freezing: bool) -> None:
    torch_settings.apply(spec(freezing=freezing))
    assert torch._inductor.config.freezing is freezing
    assert ("freezing" in torch_settings.in_force(torch.nn.Linear(2, 2), {"x": torch.ones(2)})) is freezing


@pytest.mark.parametrize(
    ("quota", "asked", "threads"), [(math.inf, None, 2), (1.5, None, 1), (1.5, 2, 2), (math.inf, 1, 1)]
)
def test_threads_are_those_asked_for_else_at_most_the_usable_cores(
    quota: float, asked: int | None, threads: int, monkeypatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(cgroup, "cpu_quota", lambda: quota)
    torch.set_num_threads(2)
    torch_settings.apply(spec(threads=asked))
    assert torch.get_num_threads() == threads
    torch.set_num_threads(1)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_what_is_in_force_is_read_back_from_the_model(channels_last: bool, attention: str, monkeypatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setenv("GOMP_SPINCOUNT", "3000")
    options = {"channels_last": channels_last, "attention": attention, "dtype": "bfloat16", "batch_size": 2}
    loaded = tasks.load(spec(**options), SCENE)
    with torch.compiler.config.patch(cache_key_tag="avx2"):
        in_force = torch_settings.in_force(loaded.model, loaded.batch)
    assert in_force | {"variables": ""} == {
        "variables": "",  # of this test's process
        "attention": attention,
        "memory format": "channels last" if channels_last else "contiguous",
        "weights": "bfloat16",
        "matrix products": f"float32 precision {torch.get_float32_matmul_precision()}",
        "spinning": "OMP_WAIT_POLICY=passive, GOMP_SPINCOUNT=3000",
        "instructions": f"{torch.backends.cpu.get_cpu_capability()}, compiled for avx2",
    }


SET = {
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4",
    "PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync",
    "NVIDIA_TF32_OVERRIDE": "0",
}
MOVES_NONE = {
    "TORCHINDUCTOR_CACHE_DIR": "/home/me/cache",
    "TORCHINDUCTOR_REDIS_URL": "redis://me:secret@host",
    "CUDA_HOME": "/usr/local/cuda",
    "CUDA_VISIBLE_DEVICES": "0",
    "TORCH_LOGS": "graph_breaks",
    "HF_TOKEN": "hf_secret",
    "TORCH_AUTH": "secret",
    "CUDA_PASSPHRASE": "secret",
    "OMP_PASS": "secret",
    "MKL_LICENSE_FILE": "27000@host",
    "GOMP_SPINCOUNT": cores.SPIN_COUNT,
    "NUMBER_OMP_THREADS": "2",
}


def test_variables_that_move_speed_stand_with_the_result(monkeypatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in (SET | MOVES_NONE).items():
        monkeypatch.setenv(name, value)
    variables = torch_settings.in_force(torch.nn.Linear(2, 2), {"x": torch.ones(2)})["variables"]
    assert variables == ", ".join(f"{name}={value.rpartition('/')[2]}" for name, value in sorted(SET.items()))
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    monkeypatch.setenv("TRITON_HOST", "redis://me:hunter2@host")
    monkeypatch.setenv("TORCH_X", "4f8a1c2e9b7d4f8a1c2e9b7d")
    assert "GOMP_SPINCOUNT=7, " in torch_settings.speed_variables()
    assert "TORCH_X=…, TRITON_HOST=redis://host" in torch_settings.speed_variables()
    known = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX_FP16", "PYTORCH_ALLOC_CONF": "roundup_power2_divisions:4"}
    for name, value in known.items():
        monkeypatch.setenv(name, value)
        assert f"{name}={value}" in torch_settings.speed_variables()


def test_a_sparse_input_has_no_memory_format() -> None:
    rows = torch.eye(2).to_sparse_csr()  # which raises if it is asked for one
    assert torch_settings.in_force(torch.nn.Linear(2, 2), {"x": rows})["memory format"] == "contiguous"


def test_the_attention_in_force_is_that_of_every_part() -> None:
    """The backbone of this model uses another attention than the rest of the model."""
    spec = catalog.make_spec("facebook/mask2former-swin-tiny-coco-panoptic", weights="random", device="cpu")
    with torch.device("meta"):
        model = models.load_model(spec, torch.device("meta")).model
    assert torch_settings.in_force(model, {"pixel_values": torch.ones(1, 3, 2, 2)})["attention"] == "eager, sdpa"


@pytest.mark.parametrize(("dtype", "torch_dtype"), [("bfloat16", torch.bfloat16), ("tf32", torch.float32)])
def test_a_gpus_libraries_are_loaded_in_the_runs_format(dtype: str, torch_dtype: torch.dtype, monkeypatch) -> None:
    torch_ones, called = torch.ones, Mock()
    monkeypatch.setattr(torch, "ones", lambda *size, device, dtype: torch_ones(*size, dtype=dtype))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)
    for name in ("linear", "conv2d", "scaled_dot_product_attention"):
        monkeypatch.setattr(torch.nn.functional, name, getattr(called, name))
    gpu_spec = dataclasses.replace(spec(), device="cuda", dtype=dtype)
    assert torch_settings.load_gpu_libraries(gpu_spec, torch.device("cuda")) > 0
    assert [call.args[0].dtype for call in called.mock_calls] == [torch_dtype] * 3


def test_an_attention_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(BadInput, match="Choose auto or eager"):
        tasks.load(catalog.make_spec("shapes-rtdetr", attention="sdpa", device="cpu"), SCENE)
