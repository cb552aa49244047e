"""Tests of what is read about a compile, on small models that break the graph, recompile, fall back or fail."""

import dataclasses
import logging
import logging.config
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._inductor.utils import fresh_cache

from demo.backend import compilation, compile_cache, instruction_probe
from demo.core.measurement import Compilation, CudaGraphs
from demo.core.options import RunSpec

SPEC = RunSpec("shapes-vit", "image-classification")


class Broken(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = super().forward(x)
        torch._dynamo.graph_break()
        return super().forward(x)


class Counting(torch.nn.Linear):
    """A layer that dynamo compiles again at every call, because its guard on the number `calls` fails."""

    def __init__(self) -> None:
        super().__init__(4, 4)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x) * self.calls


def whole() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())


def compiled(model: torch.nn.Module, calls: int = 2, backend: Any = "eager", **options: Any) -> Compilation:
    """Compiles and calls the model. Returns what was recorded.

    The default backend is dynamo's 'eager', without inductor.
    """
    torch._dynamo.reset()
    log = compilation.CompileLog()
    run: Any = torch.compile(model.eval(), backend=backend, **options)
    with torch.no_grad():
        for call in range(calls):
            run(torch.ones(2, 4))
            if call == 0:
                log.first_call_ended()
    return log.compilation(SPEC, torch.device("cpu"), 100.0)


def test_the_steps_of_a_compile_are_reported() -> None:
    steps: list[str] = []
    with fresh_cache(), compilation.report_steps(steps.append):
        compiled(whole(), backend="inductor")
    assert list(dict.fromkeys(steps)) == ["dynamo", "aot_autograd", "inductor", "backend compile"]


def test_a_break_has_its_reason() -> None:
    summary = compiled(Broken(4, 4))
    (graph_break,) = summary.graph_breaks
    assert summary.graphs == 2 and "graph_break()" in graph_break.reason
    assert graph_break.hints == ("Remove the `torch._dynamo.graph_break()` call.",) and graph_break.number == "GB0025"
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "graph_break()" in text)
    assert graph_break.location == f"{Path(__file__).name}:{line}"
    assert summary.fallbacks == ()


@pytest.mark.parametrize("how", ["logging.disable", "dictConfig"])
def test_breaks_are_counted_if_a_users_file_disables_logging(how: str) -> None:
    compiled(whole())  # makes the loggers
    loggers = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    before = [one.disabled for one in loggers]
    try:
        if how == "dictConfig":
            logging.config.dictConfig({"version": 1})
        else:
            logging.disable(logging.CRITICAL)
        assert len(compiled(Broken(4, 4)).graph_breaks) == 1
    finally:
        logging.disable(logging.NOTSET)
        for one, disabled in zip(loggers, before, strict=True):
            one.disabled = disabled


def test_too_many_recompiles_fall_back_to_eager() -> None:
    summary = compiled(Counting(), calls=10)
    assert len(summary.recompiles) == summary.graphs - 1 >= 7  # dynamo takes 8 graphs of a function
    assert len(compiled(Counting(), calls=3).recompiles) == 2
    first, (fallback,) = summary.recompiles[0], summary.fallbacks
    assert first.reason == "the guard self.calls == 0 failed"
    assert first.location.startswith("test_compilation.py:") and first.location.endswith(" in forward")
    places = {place.location for place in (*summary.recompiles, fallback)}
    assert places == {first.location}  # of the fallback at the limit, too
    assert "recompile" in fallback.reason.lower()  # in words that differ between torch's releases


def test_an_error_that_was_made_an_eager_call_has_its_words() -> None:
    """With `suppress_errors` dynamo runs the call in eager. Its message has the error's words in the second line."""

    def lost(graph: Any, inputs: Any) -> Any:
        raise ValueError("no kernel for it")

    with torch._dynamo.config.patch(suppress_errors=True):
        (one,) = compiled(whole(), backend=lost).fallbacks
    assert one.reason == "ValueError: no kernel for it"


@pytest.fixture
def empty_cache(tmp_path, monkeypatch) -> None:
    """Gives the test an empty compile cache, as in a process that has not looked for its vector instructions yet."""
    monkeypatch.setattr(torch._dynamo.callback_handler, "start_callbacks", [])
    monkeypatch.setattr(torch._dynamo.callback_handler, "clear", lambda: None)  # by a reset, as after each run
    compile_cache.use_empty_cache(tmp_path)
    instruction_probe.separate_instructions()


def compiled_for(instructions: str, monkeypatch, calls: int = 2) -> Compilation:
    """Compiles a small model as on a processor with these vector instructions, and returns what was recorded."""
    monkeypatch.setattr(instruction_probe, "vector_instructions", lambda: instructions)
    with torch.compiler.config.patch(cache_key_tag=""):
        return compiled(whole(), calls, "inductor")


@pytest.mark.usefixtures("empty_cache")
def test_an_empty_cache_is_cold_and_then_warm(monkeypatch) -> None:
    first, second = (compiled_for("avx512", monkeypatch) for _ in range(2))
    assert (first.cache, second.cache) == ("cold", "warm") and first.warm is second.cold is None
    steps = {"dynamo", "aot_autograd", "inductor", "backend compile", "first run"}
    for summary, cost in ((first, first.cold), (second, second.warm)):
        assert (summary.graphs, summary.graph_breaks, summary.recompiles, summary.fallbacks) == (1, (), (), ())
        assert set(cost.parts) == steps and sum(cost.parts.values()) == pytest.approx(100.0)


@pytest.mark.usefixtures("empty_cache")
def test_a_model_that_takes_a_gradient_in_its_forward_compiles() -> None:
    """The backward graph is compiled during the forward, when dynamo also looks at each Python function that runs.

    Torch holds a lock while it calls `tag_cache`, the callback of `separate_instructions`. To compile this callback,
    dynamo would need the same lock, and wait for it for ever.
    """

    def force(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            return torch.autograd.grad(x.tanh().sum(), x)[0]

    def call() -> None:
        answers.append(torch.compile(force, backend="aot_eager")(torch.zeros(3)))

    answers: list[torch.Tensor] = []
    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    caller.join(120)
    assert [answer.tolist() for answer in answers] == [[1.0, 1.0, 1.0]]


@pytest.mark.usefixtures("empty_cache")
def test_a_graph_for_other_instructions_is_not_found(monkeypatch) -> None:
    """Cached code for AVX-512 that ran under AVX2 once gave NaN: each kernel computed half of its numbers."""
    runs = [compiled_for(instructions, monkeypatch, 1) for instructions in ("avx512", "avx2", "avx512")]
    assert [run.cache for run in runs] == ["cold", "cold", "warm"]


def test_the_parts_of_a_first_call_add_up(monkeypatch) -> None:
    seconds = {"dynamo_cumulative": 40, "aot_autograd_cumulative": 36, "inductor_cumulative": 30, "triton": 20}
    metrics = SimpleNamespace(**{f"{name}_compile_time_us": value * 1e6 for name, value in seconds.items()})
    log = compilation.CompileLog()
    monkeypatch.setattr(compilation, "get_compilation_metrics", lambda: [metrics])
    log.first_call_ended()
    parts = {"dynamo": 4.0, "aot_autograd": 6.0, "inductor": 10.0, "backend compile": 20.0, "first run": 5.0}
    assert log.cost(45.0).parts == parts


@pytest.mark.parametrize(
    ("recorded", "skips", "use"),
    [
        (True, 0, CudaGraphs("used", "kernels outside of them were not counted")),
        (True, 1, CudaGraphs("used in part", "graphs that inductor left out: 1, inductor gave no reason")),
        (False, 0, CudaGraphs("skipped", "inductor recorded none and gave no reason")),
        (False, 1, CudaGraphs("skipped", "inductor gave no reason")),
    ],
)
def test_cuda_graphs_are_used_or_skipped(recorded: bool, skips: int, use: CudaGraphs, monkeypatch) -> None:
    log = compilation.CompileLog()
    monkeypatch.setattr(compilation, "cuda_graph_recordings", lambda: 2 * recorded)
    compilation.counters["inductor"]["cudagraph_skips"] = skips
    spec = dataclasses.replace(SPEC, mode="reduce-overhead")
    assert log.compilation(spec, torch.device("cuda"), 1.0).cuda_graphs == use


def test_recordings_of_cuda_graphs_are_counted_down_their_trees(monkeypatch) -> None:
    node = SimpleNamespace(children={})
    root = SimpleNamespace(children={"second": [node], "first": [node], "never": []})
    manager = SimpleNamespace(roots={"first": [root, root]})
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch._inductor.cudagraph_trees, "get_manager", lambda *_, **__: manager)
    assert compilation.cuda_graph_recordings() == 6


KEY = "c" + 51 * "a"
LIBRARY, PROBE = f"{KEY}.main.so", f"{KEY}.so"


@pytest.mark.parametrize(
    ("misses", "cached", "partly"),
    [
        (1, set(), False),
        (1, {"cbbb.main.so", PROBE, "OTHER", "triton_poi_fused_0.cubin"}, False),
        (1, {LIBRARY}, True),
        (1, {"KERNEL", "triton_poi_fused_0.cubin"}, True),
        (0, {LIBRARY, "KERNEL"}, False),
        (0, {PROBE}, True),
    ],
    ids=["empty", "of another model", "a library", "a kernel of a GPU", "all of it", "graph without its library"],
)
def test_a_first_call_with_part_of_the_cache_is_not_cold(misses, cached, partly, monkeypatch):
    monkeypatch.setattr(compilation.CppPythonBindingsCodeCache, "cache", {KEY: None})
    log = compilation.CompileLog(cached)
    with log.record_gpu_kernels():
        compilation.TritonBundler.put("KERNEL", 0)
    compilation.counters["inductor"].update(fxgraph_cache_hit=1 - misses, fxgraph_cache_miss=misses)
    compilation.counters["stats"]["unique_graphs"] = 1
    summary = log.compilation(SPEC, torch.device("cpu"), 3.0)
    assert summary.partly is partly
    cost = summary.cold or summary.warm
    assert cost is None if partly else cost.first_call_seconds == 3.0
    assert log.cache == ("cold" if misses else "warm")


@pytest.mark.parametrize(
    ("freezing", "hits", "cache", "states"),
    [(False, 0, "off", []), (True, 0, "off", ["cold"]), (True, 1, "warm", ["warm"])],
    ids=["not frozen", "without a cache", "from a GPU's cache"],
)
def test_a_frozen_graph_without_a_cache_counts_as_cold(
    freezing: bool, hits: int, cache: str, states: list[str]
) -> None:
    log = compilation.CompileLog()
    compilation.counters["inductor"]["fxgraph_cache_hit"] = hits
    summary = log.compilation(dataclasses.replace(SPEC, freezing=freezing), torch.device("cpu"), 3.0)
    assert summary.cache == cache
    costs = {"cold": summary.cold, "warm": summary.warm}
    assert {name: cost.first_call_seconds for name, cost in costs.items() if cost} == dict.fromkeys(states, 3.0)
