"""What an engineer takes home: whether it is worth it, and the lines for their own code."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from samples import measurement, ok_result

from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.measurement import Compilation, CompileCost
from demo.core.outputs import Parity
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import Gain
from demo.present import advice
from demo.present.sentences import grouped

COLD, WARM = CompileCost(20.0, {}), CompileCost(2.0, {})


def result(**changes: Any) -> RunResult:
    """Compiled twice as fast as eager, its cold first call 20 s."""
    return ok_result(**{"compilation": Compilation(20.0, "cold", 1, cold=COLD), **changes})


def of(**asked: Any) -> RunResult:
    return result(spec=dataclasses.replace(ok_result().spec, **asked))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Worth it where one process serves more than {cold} images; for fewer, no: each start costs 20 s."),
        (
            {"compilation": Compilation(20.0, "cold", 1, cold=COLD, warm=WARM)},
            "Worth it where one process serves more than {cold} images, or more than {warm} images where the compile "
            "cache is kept: a start costs 20 s, or 2.0 s.",
        ),
        (
            {
                "spec": RunSpec("shapes-vit", "image-classification", device="cpu", compiler="aot"),
                "compilation": Compilation(20.0, "cold", 1, cold=COLD, warm=WARM, package_bytes=5),
            },
            "Worth it where one process serves more than {cold} images, or more than {warm} images where the package "
            "is only loaded: a start costs 20 s, or 2.0 s.",
        ),
        (
            {"compiled": measurement(0.004)},
            "Not worth it here: compiled is no faster, and each start costs 20 s.",
        ),
        (
            {"parity": Parity("differ", 1.0, "too far")},
            "Look at the outputs first: those of compiled differ from eager's.",
        ),
        ({"compilation": None}, ""),
    ],
)
def test_worth_is_said_with_its_condition(changes: dict[str, Any], said: str) -> None:
    one = result(**changes)
    cold, warm = (grouped(one.break_even(cost.first_call_seconds).images or 0) for cost in (COLD, WARM))
    assert advice.worth(one, ENGLISH) == said.format(cold=cold, warm=warm)


@pytest.mark.parametrize("lang", LANGUAGES.values(), ids=LANGUAGES)
def test_a_larger_batch_counts_images_not_calls(lang: Any) -> None:
    for one in (of(batch_size=4), of()):
        assert grouped(one.break_even(20.0).images or 0) in advice.worth(one, lang)


def test_a_start_costs_what_the_kept_cache_leaves_of_it() -> None:
    assert advice.start_seconds(result()) == 20.0
    assert advice.start_seconds(result(compilation=Compilation(20.0, "cold", 1, cold=COLD, warm=WARM))) == 2.0
    assert advice.start_seconds(result(compilation=None)) is None


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        (
            {"device": "cpu"},
            [
                'model = model.to("cpu", torch.float32).eval()',
                'model = torch.compile(model, mode="default", fullgraph=False)',
            ],
        ),
        (
            {"device": "cuda", "dtype": "bfloat16", "channels_last": True, "mode": "max-autotune", "fullgraph": True},
            [
                'model = model.to("cuda", torch.bfloat16, memory_format=torch.channels_last).eval()',
                'model = torch.compile(model, mode="max-autotune", fullgraph=True)',
            ],
        ),
        (
            {"freezing": True, "threads": 2, "dynamic": "on"},
            [
                "torch.set_num_threads(2)",
                "torch._inductor.config.freezing = True  # import torch._inductor.config",
                'model = torch.compile(model, mode="default", fullgraph=False, dynamic=True)',
            ],
        ),
        ({"scope": "layers", "mode": "lite"}, ['    layer.compile(mode="lite", fullgraph=False)']),
        (
            {"compiler": "aot", "mode": "lite", "dynamic": "on"},
            [
                "program = torch.export.export(model, (), kwargs=inputs, dynamic_shapes={name: "
                "dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) for name, value in inputs.items()})"
                "  # in torch.no_grad(), as the calls",
                'configs = torch._inductor.list_mode_options("lite") | {"aot_inductor.check_lowerbound": False}',
                'os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"  # else it answers inputs of other sizes with '
                "wrong numbers",
                'torch._inductor.aoti_compile_and_package(program, package_path="model.pt2", inductor_configs=configs)',
            ],
        ),
    ],
)
def test_the_lines_for_ones_own_code_have_the_measured_settings(asked: dict[str, Any], lines: list[str]) -> None:
    written = advice.code_lines(of(**asked)).split("\n")
    assert [line for line in lines if line not in written] == []
    assert 3 <= len(written) <= 6
    compile("\n".join(written), "lines", "exec")


OTHER = ("microsoft/resnet-50", "shapes-segformer")


def steps(*gains: Gain, **asked: Any) -> list[str]:
    one = dataclasses.replace(of(**{"device": "cpu", **asked}), gains=gains)
    return [step.words for step in advice.next_steps(one, ENGLISH)]


def test_what_gained_most_here_is_tried_next_and_then_what_nobody_tried() -> None:
    known = (
        Gain("freezing", True, 1.4, OTHER),
        Gain("mode", "lite", 1.02, ("shapes-vit",)),
        Gain("compiler", "aot", 1.6, ("shapes-vit",)),
    )
    assert steps(*known) == [
        "“Compiler: aot” made compiled 1.60× as fast here, on this model.",
        "“Freezing: on” made compiled 1.40× as fast here, on microsoft/resnet-50, shapes-segformer.",
    ]


def test_what_lost_or_cannot_be_combined_is_not_offered() -> None:
    assert (
        steps(Gain("freezing", True, 0.8, ("shapes-vit",)), Gain("scope", "layers", 2.0, OTHER), compiler="aot") == []
    )
    assert steps() == [
        f"Nothing is known here of “{way}” with this model." for way in ("Freezing: on", "Compiler: aot")
    ]
    assert all("CUDA" not in said and "reduce-overhead" not in said for said in steps())
    assert any("reduce-overhead" in said for said in steps(device="cuda"))
    assert advice.next_steps(result(compiled=None, gains=()), ENGLISH) == []
    assert advice.next_steps(result(), ENGLISH) == []  # of before gains were kept


def test_a_month_of_traffic_saves_or_costs_as_on_the_page() -> None:
    one = result()  # saves 1 ms a call, and a start costs 20 s
    assert advice.month(one, 100_000, 0, None, ENGLISH) == "Compiling saves 51 min of work a month."
    said = advice.month(one, 0, 6, 2.0, ENGLISH)
    assert said == "Compiling costs 60 min of work more a month. At that price: 2.00."
    assert advice.month(result(compiled=None), 1, 1, None, ENGLISH) == ""
