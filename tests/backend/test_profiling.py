"""Why: what is read from a profiler's trace, what a call asks for at least, and how it is told."""

import dataclasses
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pandas
import pytest
import torch
from own_workload import workload_of
from samples import full_result, measurement, ok_result, on_gpu

from demo.backend import profiling
from demo.backend.events import Events, Job
from demo.backend.own_model import OwnModel
from demo.backend.run_steps import Run
from demo.backend.workload import Variant, Variants
from demo.core import format as fmt
from demo.core.languages import ENGLISH
from demo.core.measurement import Kernel, Measurement, Profile, Roofline
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.present import why_parts

CPU = torch.device("cpu")
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
LINE = 7


def span(category: str, name: str, start: float, length: float, thread: int = LINE) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "tid": thread}


def gpu_trace() -> list[dict[str, Any]]:
    """Three calls of eager in 3 ms: 2 kernels and a copy each, two of them at once; and work outside of the marks."""
    events = [
        {"ph": "M", "name": "process_name"},
        span("user_annotation", "worth compiling: eager", 1000, 3000),
        span("kernel", "before", 500, 100),
        span("kernel", "after", 4500, 100),
        span("gpu_user_annotation", "worth compiling: eager", 1000, 3000, 99),
        span("cpu_op", "aten::mm", 1000, 900),
    ]
    for call in range(3):
        start = 1000 + 1000 * call
        events += [
            span("kernel", "gemm", start, 200, 1),
            span("kernel", "add", start + 150, 100, 2),
            span("gpu_memcpy", "Memcpy DtoD", start + 400, 50, 1),
        ]
    return events


def test_kernels_are_counted_by_the_call_and_what_overlaps_keeps_the_gpu_busy_once() -> None:
    found = profiling.summary(gpu_trace(), "eager", "cuda")
    assert (found.kernels, found.busy_seconds) == (2, pytest.approx(300e-6))  # copies are no kernels
    assert [kernel.name for kernel in found.longest] == ["gemm", "add", "Memcpy DtoD"]
    assert found.longest[0] == Kernel("gemm", 1, pytest.approx(200e-6), pytest.approx(200 / 350))


def test_work_within_other_work_ends_nothing() -> None:
    events = [event for event in gpu_trace() if event.get("cat") not in ("kernel", "gpu_memcpy")]
    events += [
        span("kernel", "long", 1100, 300, 1),
        span("kernel", "within", 1150, 50, 2),
        span("kernel", "last", 1350, 90, 3),
    ]
    assert profiling.summary(events, "eager", "cuda").busy_seconds == pytest.approx(340e-6 / profiling.CALLS)


def test_no_more_than_five_kernels_are_kept_and_their_names_are_cut() -> None:
    many = [span("kernel", f"{number}" * 200, 1000 + number, 10 + number) for number in range(9)]
    longest = profiling.summary([*gpu_trace()[1:2], *many], "eager", "cuda").longest
    assert len(longest) == profiling.MAX_KERNELS
    assert all(len(kernel.name) == profiling.MAX_NAME for kernel in longest)


def test_a_trace_without_the_gpus_work_is_refused_with_the_likely_cause() -> None:
    with pytest.raises(RuntimeError, match="CUPTI"):
        profiling.summary([event for event in gpu_trace() if event.get("cat") == "user_annotation"], "eager", "cuda")


@pytest.mark.parametrize(
    ("trace", "mark", "kernels"),
    [
        ("trace_alexnet_a100.json.gz", "[param|pytorch.model.alex_net|0|0|0|measure|forward]", 39),
        ("trace_triton.json.gz", "ProfilerStep#1", 1),
    ],
)
def test_a_trace_of_a_real_gpu_is_summed_up_as_pandas_does(
    trace: str, mark: str, kernels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The AlexNet's call has a memset, and kernels of two streams that overlap; the call before it lies in the file."""
    events = json.loads(gzip.decompress((FIXTURES / trace).read_bytes()))["traceEvents"]
    monkeypatch.setattr(profiling, "MARK", "")
    monkeypatch.setattr(profiling, "CALLS", 1)
    profile = profiling.summary(events, mark, "cuda")
    seen = pandas.DataFrame(events)
    call = seen[seen.name == mark].iloc[0]
    work = seen[seen.ts.between(call.ts, call.ts + call.dur) & seen.cat.isin(["kernel", "gpu_memset"])].copy()
    work["end"] = work.ts + work.dur
    work = work.sort_values("ts")
    idle = (work.ts - work.end.cummax().shift()).clip(lower=0).sum()
    assert profile.kernels == (work.cat == "kernel").sum() == kernels
    assert profile.busy_seconds == pytest.approx((work.end.max() - work.ts.min() - idle) / 1e6, rel=1e-6)
    by_name = work.groupby("name").dur.agg(["sum", "size"]).nlargest(profiling.MAX_KERNELS, "sum")
    assert [kernel.seconds for kernel in profile.longest] == pytest.approx(list(by_name["sum"] / 1e6))
    assert [kernel.launches for kernel in profile.longest] == list(by_name["size"])
    assert [kernel.share for kernel in profile.longest] == pytest.approx(list(by_name["sum"] / work.dur.sum()))


def test_on_a_cpu_an_operator_counts_without_the_ones_it_calls() -> None:
    events = [
        span("user_annotation", "worth compiling: eager", 0, 300),
        span("cpu_op", "aten::linear", 0, 100),
        span("cpu_op", "aten::addmm", 10, 80),
        span("cpu_op", "aten::relu", 100, 20),
        span("cpu_op", "elsewhere", 100, 20, LINE + 1),
    ]
    seen = profiling.summary(events, "eager", "cpu")
    assert seen.kernels == pytest.approx(2 / profiling.CALLS)
    assert seen.busy_seconds is None
    assert {kernel.name: round(kernel.seconds * 3e6) for kernel in seen.longest} == {
        "aten::addmm": 80,
        "aten::linear": 20,
        "aten::relu": 20,
    }


class Small(torch.nn.Module):
    """Looks up rows of a large table and multiplies them; one weight is never read."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(1000, 8)
        self.linear = torch.nn.Linear(8, 4, bias=False)
        self.unused = torch.nn.Linear(500, 500)

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"logits": self.linear(self.table(ids))}


def test_a_call_asks_for_the_weights_it_reads_its_inputs_and_its_outputs() -> None:
    ids = torch.arange(6)
    with torch.no_grad():
        operations, least_bytes = profiling.demand(workload_of(Small(), ids=ids))
    rows, weights, inputs, outputs = 6 * 8 * 4, 8 * 4 * 4, 6 * 8, 6 * 4 * 4
    assert least_bytes == rows + weights + inputs + outputs
    assert operations == 2 * 6 * 8 * 4


def test_a_profile_on_a_cpu_names_the_operators_and_leaves_a_trace_that_can_be_opened(tmp_path: Path) -> None:
    left = torch.randn(64, 64)
    calls = {"eager": lambda: left @ left, "compiled": lambda: torch.relu(left)}
    found = profiling.profiles(calls, CPU, tmp_path / "trace.json.gz")
    assert found["eager"].longest[0].name in ("aten::mm", "aten::matmul")
    assert {kernel.name for kernel in found["compiled"].longest} >= {"aten::relu"}
    assert "aten::relu" not in {kernel.name for kernel in found["eager"].longest}
    with gzip.open(tmp_path / "trace.json.gz") as trace:
        assert any(event.get("name") == "aten::relu" for event in json.load(trace)["traceEvents"])


def test_a_run_on_a_cpu_is_profiled_only_when_asked() -> None:
    for asked, device, wanted in [
        ("auto", "cpu", False),
        ("auto", "cuda", True),
        ("on", "cpu", True),
        ("off", "cuda", False),
    ]:
        spec = RunSpec("shapes-vit", "image-classification", profile=asked)
        assert profiling.wanted(spec, torch.device(device)) is wanted


def test_a_profiler_that_fails_costs_a_warning_and_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = RunSpec("shapes-vit", "image-classification", device="cpu", profile="on")
    workload = OwnModel(spec, CPU, Small(), {"ids": torch.arange(3)})
    variant = Variant(workload.eager, [], workload.model)
    variants = Variants(variant, variant, [], True)
    run = Run(Job(spec, "none.png"), Events(io.StringIO()))

    def refused(*_: Any) -> Any:
        raise RuntimeError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES")

    monkeypatch.setattr(profiling, "profiles", refused)
    with torch.no_grad():
        run.explain(workload, variants)
    assert run.warnings == ["The profiler gave nothing: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES."]
    assert run.result.status == "ok"
    assert run.result.roofline.operations > 0


# Told


def lines(result: RunResult) -> dict[str, list[str]]:
    part = why_parts.why(result, ENGLISH)
    assert part is not None and part.table is not None
    return {name: values for name, *values in part.table[1]}


def test_kernels_are_told_with_how_busy_the_gpu_is_and_on_a_cpu_operators() -> None:
    told = lines(dataclasses.replace(full_result(), eager=on_gpu(0.012, 0.012, 1, 150)))
    assert told["kernels a call"][0] == "360" and told["GPU busy"][0] == "98 %"
    eager, compiled = (dataclasses.replace(measurement(0.01), profile=Profile(calls, None, ())) for calls in (326, 41))
    told = lines(ok_result(eager=eager, compiled=compiled))
    assert told == {"operators a call, fused ones not counted": ["326", "41"]}


def test_the_share_of_launching_kernels_is_told_of_each_variant() -> None:
    eager, compiled = (
        Measurement((wall,) * 8, (work,) * 3, (1.0,), 4) for wall, work in ((0.01, 0.0042), (0.005, 0.0025))
    )
    assert lines(ok_result(eager=eager, compiled=compiled))["launching kernels"] == ["58 %", "50 %"]


def test_the_roofline_is_the_slower_of_computing_and_reading_and_each_variant_reaches_a_share_of_it() -> None:
    roofline = Roofline(int(1e10), int(4e8), 5e13, 4e12)
    assert roofline.least_seconds == pytest.approx(2e-4)
    assert dataclasses.replace(roofline, least_bytes=int(4e9)).least_seconds == pytest.approx(1e-3)
    result = dataclasses.replace(full_result(), roofline=roofline)
    told = lines(result)["of the roofline's speed"]
    assert told[0] == fmt.percent(2e-4 / result.eager.median_seconds)
