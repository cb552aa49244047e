"""How torch is told to compute, and what it says it does."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from support.own_workload import SCENE
from torch.utils._python_dispatch import TorchDispatchMode

from demo.backend import models, tasks, torch_settings, workload
from demo.core import catalog
from demo.core.spec import BadInput, RunSpec

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    tf32 = torch.backends.cudnn.allow_tf32
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = tf32


def spec(**changes: object) -> RunSpec:
    return catalog.make_spec("shapes-segformer", **{"device": "cpu", **changes})


def test_tf32_is_float32_in_memory_and_allowed_in_products_only_when_asked() -> None:
    asked = spec(dtype="tf32")
    torch_settings.apply(asked)
    assert workload.dtype_of(asked) == torch.float32
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("high", True)
    torch_settings.apply(spec())
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("highest", False)


def test_freezing_is_set_for_the_whole_process_and_named_only_where_it_is(monkeypatch) -> None:
    monkeypatch.setattr(torch._inductor.config, "freezing", False)
    model = torch.nn.Linear(2, 2)
    model.config = None
    for freezing in (True, False):
        torch_settings.apply(spec(freezing=freezing))
        assert torch._inductor.config.freezing is freezing
        in_force = torch_settings.in_force(model, {"pixel_values": torch.ones(1, 3, 2, 2)})
        assert in_force.get("freezing") == ("on" if freezing else None)


def test_threads_are_set_if_asked_for() -> None:
    torch.set_num_threads(2)
    torch_settings.apply(spec())
    assert torch.get_num_threads() == 2
    torch_settings.apply(spec(threads=1))
    assert torch.get_num_threads() == 1


def test_what_is_in_force_is_read_back_from_the_model() -> None:
    for channels_last in [False, True]:
        for attention in ["eager", "sdpa"]:
            asked = spec(channels_last=channels_last, attention=attention, dtype="bfloat16", batch_size=2)
            loaded = tasks.load(asked, SCENE)
            with torch.compiler.config.patch(cache_key_tag="avx2"):
                in_force = torch_settings.in_force(loaded.model, loaded.batch)
            assert in_force == {
                "attention": attention,
                "memory format": "channels last" if channels_last else "contiguous",
                "weights": "bfloat16",
                "matrix products": f"float32 precision {torch.get_float32_matmul_precision()}",
                "spinning": torch_settings.spinning(),
                "instructions": f"{torch.backends.cpu.get_cpu_capability()}, compiled for avx2",
            }


def test_the_attention_in_force_is_that_of_every_part() -> None:
    """Here the backbone has another one."""
    spec = catalog.make_spec("facebook/mask2former-swin-tiny-coco-panoptic", weights="random", device="cpu")
    with torch.device("meta"):
        model = models.load(spec, torch.device("meta")).model
    assert torch_settings.in_force(model, {"pixel_values": torch.ones(1, 3, 2, 2)})["attention"] == "eager, sdpa"


class Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, torch.dtype]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append((str(func), args[0].dtype if args and isinstance(args[0], torch.Tensor) else torch.int8))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("dtype", "torch_dtype"), [("bfloat16", torch.bfloat16), ("tf32", torch.float32)])
def test_a_gpus_libraries_are_loaded_in_the_runs_format(dtype: str, torch_dtype: torch.dtype, monkeypatch) -> None:
    ones = torch.ones
    monkeypatch.setattr(torch, "ones", lambda *size, device, dtype: ones(*size, dtype=dtype))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)
    asked = dataclasses.replace(spec(), device="cuda", dtype=dtype)
    with Operators() as operators:
        assert torch_settings.load_gpu_libraries(asked, torch.device("cuda")) > 0
    for library in ("mm", "convolution", "attention"):
        assert any(library in name and used == torch_dtype for name, used in operators.seen), library


def test_an_attention_that_the_model_lacks_is_refused_with_the_way_out() -> None:
    with pytest.raises(BadInput, match="Choose auto or eager"):
        tasks.load(catalog.make_spec("shapes-rtdetr", attention="sdpa", device="cpu"), SCENE)
