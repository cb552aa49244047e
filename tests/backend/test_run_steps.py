"""Tests of a run in this process instead of a worker: its result, and what is kept if one of its steps fails."""

import contextlib
import dataclasses
import io
import json
import subprocess
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from support import own_workload
from support.own_workload import SCENE
from support.samples import ok_result
from torch._inductor.triton_bundler import TritonBundler
from transformers.modeling_outputs import ImageClassifierOutput

from demo.backend import (
    caveats,
    compile_cache,
    compile_model,
    first_call,
    messages,
    models,
    parity,
    profiling,
    run_steps,
    timing,
    torch_settings,
)
from demo.backend.failures import CannotLoad
from demo.backend.messages import Events, WorkerJob
from demo.backend.monitor import Observer
from demo.backend.run_steps import Run
from demo.core import catalog, codec, cores
from demo.core.caveat import Caveat
from demo.core.machine import HostSample
from demo.core.measurement import Compilation, CompileCost
from demo.core.options import PUBLISHED_CALLS, BadInput, RunSpec
from demo.core.progress import PHASES
from demo.core.quality import quality
from demo.core.result import RunResult

LOAD, COMPILED, ELSEWHERE = models.load_model, compile_model.apply_compile, first_call.measure_elsewhere
SPEC = catalog.make_spec("shapes-vit", device="cpu", iterations=10)
COST = CompileCost(5.0, {})


def result_of(stream: io.StringIO | None = None, files: dict[str, str] | None = None, **options: Any) -> RunResult:
    spec = catalog.make_spec("shapes-vit", **{"device": "cpu", "iterations": 10, **options})
    return own_workload.result_of(spec, stream=stream, id="made-up", started_at="2026-11-21T09:00:00Z", **files or {})


def sent_by(stream: io.StringIO, event: str) -> list[dict[str, Any]]:
    """Returns the contents of all messages with this event.

    With a cold cache there is a provisional result among them.
    """
    messages_sent = map(json.loads, stream.getvalue().splitlines())
    return [message[event] for message in messages_sent if message["event"] == event]


def is_whole(result: RunResult) -> bool:
    """Returns whether the result has all figures and predictions of eager and compiled, and their outputs match."""
    return (
        (result.status, result.failure) == ("ok", None)
        and all(side.back_to_back and side.peak_memory_bytes for side in (result.eager, result.compiled))
        and set(result.predictions) == {"eager", "compiled"}
        and result.parity.verdict == "match"
        and result.end_to_end is not None
        and result.compilation.graphs == 1
    )


class Tiny(torch.nn.Module):
    """A tiny classifier with the bundled one's labels. Its outputs change with the number `step`."""

    compiled_differs = False

    def __init__(self, config: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.config, self.step = config, 0
        self.head = torch.nn.Linear(3, config.num_labels, dtype=dtype)

    def forward(self, pixel_values: torch.Tensor) -> ImageClassifierOutput:
        otherwise = self.step + (self.compiled_differs and torch.compiler.is_compiling())
        return ImageClassifierOutput(logits=self.head(pixel_values.mean((2, 3)) + otherwise))


@pytest.fixture(autouse=True)
def loaded(monkeypatch) -> list[Tiny]:
    """Makes runs use tiny models, without inductor. Returns the list of the models that were loaded so far."""
    tiny_models: list[Tiny] = []

    def load(*args: Any) -> models.LoadedModel:
        loaded_model = LOAD(*args)
        tiny_models.append(Tiny(loaded_model.model.config, loaded_model.model.dtype).eval())
        return dataclasses.replace(loaded_model, model=tiny_models[-1])

    monkeypatch.setattr(models, "load_model", load)
    monkeypatch.setattr(compile_model, "apply_compile", own_workload.without_inductor)
    return tiny_models


def test_a_run_in_which_nothing_fails_is_whole() -> None:
    whole = result_of()
    assert is_whole(whole)
    assert whole.speedup.control is not None
    assert (whole.id, whole.started_at) == ("made-up", "2026-11-21T09:00:00Z")
    assert whole.environment.settings["weights"] == "float32"
    assert whole.roofline is None


def test_a_gpus_libraries_are_loaded_before_eagers_first_call(monkeypatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(torch_settings, "load_gpu_libraries", lambda spec, device: order.append("libraries") or 0.5)
    monkeypatch.setattr(Tiny, "forward", Mock(side_effect=RuntimeError("the first call")))
    run = Run(
        WorkerJob(catalog.make_spec("shapes-vit", device="cpu"), str(SCENE)), Events(io.StringIO()), import_seconds=3.0
    )
    assert run.execute().failure is not None
    start = run.result.start_up
    assert order == ["libraries"] and (start.import_seconds, start.gpu_seconds) == (3.0, 0.5)


def test_a_gpu_too_small_for_the_mode_is_said_of_the_run(monkeypatch) -> None:
    small = Caveat("small_gpu", {"mode": "max-autotune", "count": 40})
    monkeypatch.setattr(caveats, "of_device", lambda spec, device: [small])
    assert small in result_of().caveats


@pytest.mark.parametrize(("cached", "partly"), [("KERNEL", True), ("ANOTHER", False)])
def test_a_gpus_kernels_that_a_run_finds_make_its_start_partly(cached: str, partly: bool, monkeypatch) -> None:
    def compile_with_kernel(*arguments: Any) -> Any:
        compiled = own_workload.without_inductor(*arguments)

        def call(**batch: Any) -> Any:
            TritonBundler.put("KERNEL", 0)  # as inductor does for each kernel, found or built
            return compiled(**batch)

        return call

    monkeypatch.setattr(compile_cache, "remove_unfinished", lambda folder: ({cached}, 0))
    monkeypatch.setattr(compile_model, "apply_compile", compile_with_kernel)
    assert result_of().compilation.partly is partly


@pytest.mark.parametrize(
    ("package", "before"),
    [(None, ["libraries", "call", "compile"]), (Path("model.pt2"), ["libraries", "load"])],
    ids=["from the cache", "from a package"],
)
def test_a_first_call_comes_after_what_is_no_part_of_it(
    package: Path | None, before: list[str], loaded: list[Tiny], monkeypatch
) -> None:
    """An eager call comes first: without it some models would give other graphs than those in the cache."""
    order: list[str] = []
    forward = Tiny.forward
    monkeypatch.setattr(Tiny, "forward", lambda self, **batch: order.append("call") or forward(self, **batch))
    monkeypatch.setattr(torch_settings, "load_gpu_libraries", lambda spec, device: order.append("libraries"))
    monkeypatch.setattr(compile_model, "apply_compile", lambda model, _: order.append("compile") or model)
    monkeypatch.setattr(compile_model, "load_package", lambda _: order.append("load") or loaded[-1])
    first_call.measure_first_call(catalog.make_spec("shapes-vit", device="cpu"), SCENE, package)
    assert order == [*before, "call"]


@pytest.mark.parametrize(("device", "refused"), [("cpu", False), ("cuda", True)])
def test_frozen_graphs_that_are_not_in_the_cache_are_no_warm_call_on_a_gpu(
    device: str, refused: bool, monkeypatch
) -> None:
    answer = json.dumps([{"first_call_seconds": 9.0, "parts": {}}, "off"])
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0, stdout=answer))
    spec = catalog.make_spec("shapes-vit", device=device, freezing=True)
    with pytest.raises(RuntimeError, match="did not find") if refused else contextlib.nullcontext():
        assert ELSEWHERE(spec, None, None).first_call_seconds == 9.0


def test_a_failure_outside_the_timing_loses_only_its_own_figures(monkeypatch) -> None:
    monkeypatch.setattr(profiling, "back_to_back", Mock(side_effect=ValueError("no throughput")))
    monkeypatch.setattr(profiling, "profiles", Mock(side_effect=RuntimeError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")))
    monkeypatch.setattr(parity, "compare_outputs", Mock(side_effect=ValueError("no parity")))
    result = result_of(profile="on")
    assert (result.status, result.failure) == ("ok", None)
    assert result.speedup is not None and result.compilation.graphs == 1
    assert result.eager.peak_memory_bytes is None and result.parity is None
    assert set(result.predictions) == {"eager", "compiled"}
    warnings = " ".join(result.warnings)
    assert "no throughput" in warnings and "no parity" in warnings
    assert "The profiler gave nothing: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES." in warnings
    assert result.roofline.operations > 0


@pytest.mark.parametrize("at_warm_up", [False, True], ids=["in turns", "at eager's second warm-up"])
def test_models_that_do_not_fit_together_are_timed_apart(at_warm_up: bool, monkeypatch) -> None:
    """The result then has no noise floor, and is marked rough."""
    full = Mock(side_effect=torch.OutOfMemoryError("made up"))
    warm_ups = iter([timing.warm_up, timing.warm_up, full if at_warm_up else timing.warm_up])
    monkeypatch.setattr(timing, "warm_up", lambda *args, **more: next(warm_ups)(*args, **more))
    monkeypatch.setattr(timing, "time_interleaved", full)
    monkeypatch.setattr(timing, "REPORT_SECONDS", 0.0)
    stops = iter([0.0, 20.0])  # the process is stopped in the second call of compiled

    def pause(observer: Observer) -> float:
        observer.paused_seconds += (stopped := next(stops, 0.0))
        return stopped

    monkeypatch.setattr(Observer, "pause", pause)
    result = result_of()
    assert is_whole(result) and full.call_count == 1
    assert {"paused", "separate"} <= {caveat.key for caveat in result.caveats}
    assert not result.interleaved and result.speedup.control is None
    assert quality(result).mark == "rough"


def test_a_model_that_does_not_fit_alone_is_out_of_memory(monkeypatch) -> None:
    for step in ("time_interleaved", "time_alone"):
        monkeypatch.setattr(timing, step, Mock(side_effect=torch.OutOfMemoryError("made up")))
    assert result_of().status == "out_of_memory"


def test_nothing_of_compiled_is_left_when_eager_is_timed_alone(monkeypatch) -> None:
    """A package frees its weights on the GPU only if no reference to it is left."""
    references, alive, real = [], [], timing.time_alone

    class Compiled:
        def __init__(self, model: Any) -> None:
            self.model = model
            references.append(weakref.ref(self))

        def __call__(self, **batch: Any) -> Any:
            return self.model(**batch)

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("made up")  # a new one: a kept one holds the frames that it went through

    monkeypatch.setattr(compile_model, "apply_compile", lambda *args: Compiled(own_workload.without_inductor(*args)))
    monkeypatch.setattr(timing, "time_interleaved", full)
    monkeypatch.setattr(timing, "time_alone", lambda *args: alive.append(references[0]() is not None) or real(*args))
    assert result_of().status == "ok"
    assert alive == [True, False]


def test_the_guides_recipe_reports_its_progress(monkeypatch) -> None:
    assert PUBLISHED_CALLS == 300
    calls = 30  # a tenth of them: the test waits for each
    stops = iter([0.0, 0.0, 20.0, *[0.0] * (2 * calls - 2)])  # the process is stopped once, in the third call of eager
    monkeypatch.setattr(Observer, "pause", lambda observer: next(stops))
    monkeypatch.setattr(run_steps, "PUBLISHED_CALLS", calls)
    monkeypatch.setattr(timing, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(messages, "MIN_SECONDS_BETWEEN", 0.0)
    stream = io.StringIO()
    result = result_of(stream=stream, protocol="as published", iterations=None)
    sent = sent_by(stream, "progress")
    phases = list(dict.fromkeys(progress["phase"] for progress in sent))
    assert phases == list(PHASES[1:])  # in "start" there is no worker yet
    shares = [progress["fraction"] for progress in sent]
    assert shares == sorted(shares)
    shares = [progress["fraction"] for progress in sent if progress["phase"] == "time"]
    assert shares[1] < 0.535 and shares[-1] == pytest.approx(0.85)
    assert len(result.eager.wall_seconds) == len(result.compiled.wall_seconds) == calls
    assert list(stops) == []  # one call was timed again
    assert result.speedup.ratio == pytest.approx(result.eager.mean_seconds / result.compiled.mean_seconds)
    assert result.speedup.control is None
    assert "published" in [caveat.key for caveat in result.caveats]


@pytest.mark.parametrize(
    ("options", "taken", "free", "compiles"),
    [
        ({}, [], [1], 2),
        ({}, [1], [3, 3], 1),
        ({}, [1], [3, 1], 2),
        ({}, [1, 1, 1], [3, 3, 3], 1),
        ({}, [1, 1, 1], [3, 2], 2),
        ({"protocol": "as published", "iterations": None}, [1], [3, 1], 2),
        ({"threads": 3}, [1], [1], 1),
    ],
    ids=[
        "taken right before the timing",
        "taken for a moment",
        "taken for good",
        "taken again and again",
        "once at most",
        "as published",
        "asked for, so obeyed",
    ],
)
def test_a_core_taken_costs_a_wait_before_it_costs_a_thread(
    options: dict[str, Any], taken: list[int], free: list[int], compiles: int, monkeypatch
) -> None:
    """`taken`: the cores that the timing finds free in its blocks. `free`: what is found before each timing."""
    torch.set_num_threads(3)
    monkeypatch.setattr(cores, "usable_cores", lambda: 3)
    looks = iter([3, *free])  # the first look is the one before the warm-up
    in_blocks = iter(taken)
    monkeypatch.setattr(cores, "free_cores", lambda *_: next(looks))
    monkeypatch.setattr(cores, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(Observer, "free_cores", lambda self: next(in_blocks, None))
    monkeypatch.setattr(timing, "REPORT_SECONDS", 0.0)
    stream = io.StringIO()
    result = result_of(stream=stream, **options)
    assert is_whole(result)
    threads = free[-1]
    assert result.environment.threads == torch.get_num_threads() == (options.get("threads") or threads)
    again = [progress for progress in sent_by(stream, "progress") if progress["code"] == "fewer_threads"]
    assert len(again) == [caveat.key for caveat in result.caveats].count("timed_again") == compiles - 1
    assert all(progress["remaining_seconds"] > result.compilation.first_call_seconds for progress in again)
    assert (result.compilation.recompiles, result.compilation.recompiles_while_timing) == ((), 0)
    assert result.compilation.first_call_seconds == result.compiled.warmup_seconds[0]


@pytest.mark.parametrize(("options", "threads"), [({}, 1), ({"threads": 2}, 2)])
def test_a_core_busy_from_the_start_gets_no_thread(options: dict, threads: int, monkeypatch, tmp_path) -> None:
    torch.set_num_threads(2)
    monkeypatch.setattr(cores, "free_cores", lambda *_: 1)
    monkeypatch.setattr("demo.backend.machine_probe.usable_cores", lambda: 2)
    elsewhere: list[RunSpec] = []
    monkeypatch.setattr(first_call, "measure_elsewhere", lambda spec, *_: elsewhere.append(spec))
    result = result_of(files={"cache_folder": str(tmp_path)}, **options)
    assert [spec.threads for spec in elsewhere] == [threads]  # else the cache would not fit
    assert (result.environment.threads, result.environment.free_cores) == (threads, 1)
    assert ("busy_cores" in [caveat.key for caveat in result.caveats]) == (threads == 1)


@pytest.mark.parametrize(
    ("refuse_fewer_threads", "free", "threads", "used"),
    [(True, 1, 1, 1), (False, 2, 1, 1), (False, 1, 2, 1), (True, None, 2, 2), (True, 1, 2, None)],
    ids=["repeat", "search", "search that gives way", "unknown", "a repeat that cannot have them"],
)
def test_a_job_has_the_threads_of_the_runs_that_it_joins(
    refuse_fewer_threads: bool, free: int | None, threads: int, used: int | None, monkeypatch
) -> None:
    torch.set_num_threads(3 - threads)
    monkeypatch.setattr(cores, "free_cores", lambda *_: free)
    run = Run(
        WorkerJob(SPEC, str(SCENE), threads=threads, refuse_fewer_threads=refuse_fewer_threads), Events(io.StringIO())
    )
    refusal = pytest.raises(BadInput, match=r"timed with 2 threads; free cores now: 1\.")
    with contextlib.nullcontext() if used else refusal:
        run.load()
        assert run.result.environment.threads == used


@pytest.mark.parametrize(
    ("fields", "job", "measured"),
    [
        ({"cold": COST}, {}, True),
        ({"partly": True}, {}, True),
        ({"cold": COST}, {"kept_packages": "folder"}, False),
        ({"cache": "warm", "warm": COST}, {}, False),
        ({"cache": "off"}, {}, False),
        ({"cache": "off"}, {"cache_folder": "folder"}, True),
    ],
    ids=["cold", "partly cold", "in a search", "warm", "in no cache", "empty cache"],
)
def test_the_later_start_is_measured_if_this_one_compiled(
    fields: dict[str, Any], job: dict[str, Any], measured: bool, monkeypatch
) -> None:
    stream = io.StringIO()
    run = Run(WorkerJob(SPEC, **job), Events(stream))
    run.workload = SimpleNamespace(device=torch.device("cpu"))  # type: ignore[assignment]
    cold = {"first_call_seconds": 5.0, "cache": "cold", "graphs": 1}
    run.result = ok_result(compilation=Compilation(**cold | fields))
    sent: list[Any] = []

    def elsewhere(*_: Any) -> CompileCost:
        sent.extend(provisional["result"] for provisional in sent_by(stream, "provisional"))
        return CompileCost(0.5, {})

    monkeypatch.setattr(first_call, "measure_elsewhere", elsewhere)
    before = run.result_so_far()
    run.compile_again()
    assert [codec.from_plain(RunResult, answer) for answer in sent] == [before] * measured
    assert (run.result.compilation.warm == CompileCost(0.5, {})) is measured


@pytest.mark.parametrize(("free", "keys"), [(2.0, ["busy_cores"]), (0.2, [])], ids=["quiet", "taken"])
def test_cores_busy_before_the_timing_are_no_caveat_if_threads_lacked_cores_in_it(free: float, keys: list[str]) -> None:
    """The caveat "1 of 2 is busy, 1 thread" would contradict a timing in which fewer cores than threads were free."""
    run = Run(WorkerJob(SPEC), Events(io.StringIO()))
    run.caveats = [Caveat("busy_cores", {"busy": 1, "cores": 2, "threads": 1})]
    run.result = ok_result(machine_states=(HostSample(1.0, None, None, free),))
    assert [caveat.key for caveat in run.result_so_far().caveats] == keys


def test_random_weights_have_no_predictions() -> None:
    result = result_of(weights="random")
    assert (result.status, result.predictions, result.compilation.graphs) == ("ok", None, 1)
    assert "random_weights" in [caveat.key for caveat in result.caveats]


def test_a_recompile_while_timing_makes_the_figures_void(loaded: list[Tiny], monkeypatch) -> None:
    interleaved = timing.time_interleaved

    def changing(eager: Any, compiled: Any, clock: Any, plan: Any, half: int, on_block_end: Any) -> Any:
        def change(samples: Any) -> None:
            loaded[0].step += 1
            on_block_end(samples)

        return interleaved(eager, compiled, clock, plan, half, change)

    monkeypatch.setattr(timing, "time_interleaved", changing)
    result = result_of()
    assert result.status == "failed" and "void" in result.failure.message
    assert result.compilation.recompiles_while_timing > 0
    assert result.speedup.verdict == "unsure"

    monkeypatch.setattr(caveats, "of_calls", lambda *_: [Caveat("same_tensor", {"variant": "eager"})])
    assert "Nothing was computed" in result_of().failure.message  # which matters more


def test_a_compiled_model_that_answers_otherwise_is_found_out(monkeypatch) -> None:
    monkeypatch.setattr(Tiny, "compiled_differs", True)
    result = result_of()
    assert result.status == "ok"
    assert result.parity.verdict == "differ" and result.parity.max_abs_error > 0.01
    assert result.predictions["eager"] != result.predictions["compiled"]


def test_a_failed_compile_keeps_eagers_figures(monkeypatch) -> None:
    monkeypatch.setattr(compile_model, "apply_compile", COMPILED)
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", Mock(side_effect=RuntimeError("no such kernel")))
    result = result_of()
    assert (result.status, result.failure.stage) == ("compile_failed", "compile")
    assert "no such kernel" in result.failure.message and result.failure.remedy
    assert result.eager.median_seconds > 0 and result.compiled is None and result.predictions["eager"].labels


def test_a_failed_timing_keeps_the_figures_of_the_compile(monkeypatch) -> None:
    monkeypatch.setattr(timing, "time_interleaved", Mock(side_effect=RuntimeError("made up")))
    result = result_of()
    assert (result.status, result.failure.stage) == ("failed", "time")
    assert result.compilation.graphs == 1 and result.compilation.first_call_seconds > 0


def test_a_failure_keeps_what_is_known_of_the_run(monkeypatch) -> None:
    monkeypatch.setattr(timing, "warm_up", Mock(side_effect=ValueError("made up")))
    result = result_of()
    assert (result.status, result.failure.stage) == ("failed", "warm up")
    assert "made up" in result.failure.message and result.failure.remedy == ""  # no cause is recognised
    assert result.spec.device == "cpu" and result.image is not None and result.environment is not None
    assert result.eager is None and result.failure.change == {}


@pytest.mark.parametrize("error", [CannotLoad("No answer.", "Again."), torch.OutOfMemoryError("made up")], ids=type)
def test_a_model_that_cannot_be_loaded_keeps_its_picture(error: Exception, monkeypatch) -> None:
    """By the picture, a sweep recognises the stored failure."""
    monkeypatch.setattr(models, "load_model", Mock(side_effect=error))
    result = result_of()
    assert result.failure.stage == "load"
    assert result.image.name == SCENE.name and result.image.sha256


@pytest.fixture
def packages(loaded: list[Tiny], monkeypatch) -> dict[str, list[Path | None]]:
    """Simulates packages. Returns the lists of those that were built, and of those that a further process loaded."""
    files: dict[str, list[Path | None]] = {"built": [], "loaded elsewhere": []}

    def build(workload: Any, path: Path, folder: Path) -> dict[str, float]:
        files["built"].append(path)
        path.write_bytes(bytes(5000))
        return {"export": 0.5, "build": 9.0}

    def elsewhere(spec: Any, image: Path, package: Path | None) -> CompileCost:
        files["loaded elsewhere"].append(package)
        return CompileCost(0.03, {"load": 0.01})

    monkeypatch.setattr(compile_model, "build_package", build)
    monkeypatch.setattr(compile_model, "load_package", lambda path: loaded[-1])
    monkeypatch.setattr(first_call, "measure_elsewhere", elsewhere)
    return files


def package_run(threads: int | None = None, **files: Path) -> RunResult:
    return result_of(compiler="aot", threads=threads, files={name: str(path) for name, path in files.items()})


def test_a_package_is_loaded_once_more_elsewhere(packages: dict[str, list[Path | None]], tmp_path) -> None:
    result = package_run(cache_folder=tmp_path / "cache", package=tmp_path / "mine.pt2")
    assert is_whole(result)
    compilation = result.compilation
    assert list(compilation.cold.parts) == ["export", "build", "load", "first run"]
    assert compilation.first_call_seconds == result.compiled.warmup_seconds[0]
    seconds = sum(compilation.cold.parts.values())
    assert compilation.first_call_seconds == pytest.approx(seconds) == pytest.approx(10, abs=0.5)
    assert (compilation.package_bytes, compilation.warm.parts["load"]) == (5000, 0.01)
    assert packages["built"] == packages["loaded elsewhere"] == [tmp_path / "mine.pt2"]


def test_a_kept_package_is_built_once_for_a_number_of_threads(packages: Any, tmp_path) -> None:
    first, second = (package_run(1, kept_packages=tmp_path).compilation for _ in range(2))
    assert (first.cache, first.warm, second.cache, second.cold) == ("cold", None, "warm", None)
    assert list(second.warm.parts) == ["load", "first run"] and second.first_call_seconds < 1
    package_run(2, kept_packages=tmp_path)
    assert len(packages["built"]) == 2 and packages["loaded elsewhere"] == []
