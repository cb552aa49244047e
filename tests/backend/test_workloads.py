"""How torch is told to compute, and what it says it does."""

from collections.abc import Iterator

import pytest
import torch
from own_workload import SCENE

from demo.backend import workload, workloads
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
    workloads.apply(asked)
    assert workload.dtype_of(asked) == torch.float32
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("high", True)
    workloads.apply(spec())
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("highest", False)


def test_freezing_is_set_for_the_whole_process_and_named_only_where_it_is(monkeypatch) -> None:
    monkeypatch.setattr(torch._inductor.config, "freezing", False)
    model = torch.nn.Linear(2, 2)
    model.config = None
    for freezing in (True, False):
        workloads.apply(spec(freezing=freezing))
        assert torch._inductor.config.freezing is freezing
        in_force = workloads.in_force(model, {"pixel_values": torch.ones(1, 3, 2, 2)})
        assert in_force.get("freezing") == ("on" if freezing else None)


def test_threads_are_set_and_auto_ones_are_those_that_have_a_free_core() -> None:
    for asked, device, free, threads in [
        (None, "cpu", 1, 1),
        (None, "cpu", 2, 2),
        (None, "cpu", 8, 2),  # torch's own number is never raised
        (None, "cpu", None, 2),
        (2, "cpu", 1, 2),
        (None, "cuda", 1, 2),
    ]:
        torch.set_num_threads(2)
        workloads.apply(spec(threads=asked and 1))
        assert torch.get_num_threads() == (1 if asked else 2)
        torch.set_num_threads(2)
        assert workloads.give_way(spec(threads=asked), torch.device(device), free) == (threads < 2)
        assert torch.get_num_threads() == threads


def test_how_threads_wait_is_read_from_the_environment(monkeypatch) -> None:
    for variables, told in [
        ({"OMP_WAIT_POLICY": "", "GOMP_SPINCOUNT": ""}, "OpenMP's default"),
        ({"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "5"}, "OMP_WAIT_POLICY=PASSIVE, GOMP_SPINCOUNT=5"),
    ]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert workloads.spinning() == told


def test_what_is_in_force_is_read_back_from_the_model() -> None:
    for channels_last in [False, True]:
        for attention in ["eager", "sdpa"]:
            asked = spec(channels_last=channels_last, attention=attention, dtype="bfloat16", batch_size=2)
            loaded = workloads.load(asked, SCENE)
            assert workloads.in_force(loaded.model, loaded.batch) == {
                "attention": attention,
                "memory format": "channels last" if channels_last else "contiguous",
                "weights": "bfloat16",
                "matrix products": f"float32 precision {torch.get_float32_matmul_precision()}",
                "spinning": workloads.spinning(),
            }


def test_an_attention_that_the_model_lacks_is_refused_with_the_way_out() -> None:
    with pytest.raises(BadInput, match="Choose auto or eager"):
        workloads.load(catalog.make_spec("shapes-rtdetr", attention="sdpa", device="cpu"), SCENE)
