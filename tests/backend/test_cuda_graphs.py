"""Tests of all ways to compile with CUDA graphs, on a CPU, with a stand-in for inductor's CUDA graphs.

The stand-in is a backend of dynamo. As with inductor's CUDA graphs, the outputs of earlier calls are lost as soon as
another compiled call begins (torch's own count of these calls says so). A graph raises an error if its input is a lost
output. Other readers of a lost output find NaN or -1, which the comparison of outputs notices. Not covered: what
inductor decides, such as which graphs are skipped.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from support import tiny_text, tiny_vit
from support.own_workload import result_of, workload_of
from torch._dynamo.mutation_guard import GenerationTracker

from demo.backend.effects import tensors
from demo.core import catalog
from demo.core.options import TEXT_GENERATION

OVERWRITTEN = "accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run"
COMPILE = torch.compile


@dataclasses.dataclass
class CudaGraphs:
    generation: int = -1
    replays: int = 0
    outputs: list[torch.Tensor] = dataclasses.field(default_factory=list)
    """The outputs of the present calls, which lie in the memory of the simulated CUDA graphs."""
    lost: list[torch.Tensor] = dataclasses.field(default_factory=list)

    def compile(self, model: Any, backend: Any = None, mode: str = "default", **options: Any) -> Any:
        """Replaces `torch.compile`: by default, models get the simulated CUDA graphs as their backend."""
        return COMPILE(model, backend=backend or self.graph, **options)

    def graph(self, module: torch.fx.GraphModule, example: list[Any]) -> Any:
        def replay(*inputs: Any) -> Any:
            if self.generation != GenerationTracker.generation:
                self.generation = GenerationTracker.generation
                for tensor in self.outputs:
                    tensor.fill_(torch.nan if tensor.is_floating_point() else -1)
                self.lost, self.outputs = self.lost + self.outputs, []
            read = storages(inputs)
            if read & storages(self.lost):
                raise RuntimeError(OVERWRITTEN)
            outputs = module(*inputs)
            self.outputs += [tensor for tensor in tensors(outputs) if not storages([tensor]) & read]
            self.replays += 1
            return outputs

        return replay


def storages(values: Iterable[Any]) -> set[int]:
    return {tensor.untyped_storage()._cdata for tensor in tensors(values)}


@pytest.fixture
def graphs(monkeypatch) -> CudaGraphs:
    torch._dynamo.reset()
    double = CudaGraphs()
    monkeypatch.setattr(torch, "compile", double.compile)
    return double


def test_outputs_that_are_kept_outlive_the_next_call(graphs: CudaGraphs) -> None:
    model, batch = torch.nn.Linear(2, 2), {"input": torch.ones(1, 2)}
    compiled, workload = graphs.compile(model), workload_of(model, **batch)
    with torch.no_grad():
        lost, (kept,) = compiled(**batch), workload.outputs(compiled)
        compiled(**batch)
        assert lost.isnan().all() and kept.isfinite().all()
        with pytest.raises(RuntimeError, match="overwritten"):
            compiled(lost)


@pytest.mark.parametrize(
    ("task", "task_options"),
    [
        ("image-classification", {"protocol": "as published"}),
        (TEXT_GENERATION, {"prompt": "a cat", "tokens": 4, "iterations": 10}),
    ],
)
def test_a_run_reads_no_output_that_was_overwritten(
    task: str, task_options: dict[str, Any], graphs: CudaGraphs, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("demo.backend.run_steps.PUBLISHED_CALLS", 20)
    if task == TEXT_GENERATION:
        model = tiny_text.write(tmp_path / "model", "gemma", num_hidden_layers=1)
    else:
        model = tiny_vit.write(tmp_path / "model")
    options = {"device": "cpu", "mode": "reduce-overhead", **task_options}
    result = result_of(catalog.make_spec(str(model), task, folders=True, **options))
    assert (result.status, result.failure, result.parity.verdict) == ("ok", None, "match") and graphs.replays > 20
    assert not any("Not all could be examined" in warning for warning in result.warnings)
