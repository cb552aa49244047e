"""Tests of a run as a program: its content and length, that no text from outside is executed, and that it runs."""

import ast
import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import Any

import pytest
import torch
from support.samples import ENVIRONMENT, failed_result, info_of, ok_result

from demo.backend.tasks import text_generation
from demo.cli.main import main
from demo.core import catalog
from demo.core.options import OWN_MODEL, TEXT_GENERATION, BadInput, RunSpec
from demo.core.outputs import ImageInfo
from demo.core.result import RunResult
from demo.present.report import Report
from demo.present.script import OWN_MODEL_BLOCK, change, needs_folder, script
from demo.store.history import History

ROOT = Path(__file__).resolve().parents[2]
SCENE = ROOT / "assets" / "examples" / "shapes-scene-1.png"
HOSTILE = "'''\"\"\"\n$then ${mode} $\nimport os; os.abort() \\' \u202e{0} %s \ud800"
EVERYTHING = {
    "channels_last": True, "threads": 2, "dtype": "tf32", "mode": "max-autotune",
    "device": "cuda", "batch_size": 16, "freezing": True,
}  # fmt: skip
LAYERS = {**EVERYTHING, "dtype": "bfloat16", "scope": "layers"}
PACKAGED = {"compiler": "aot", "fullgraph": True, "freezing": True, "threads": 2}


def spec_of(name: str, task: str = "image-classification", **options: Any) -> RunSpec:
    checkpoint = catalog.find(name)
    task = checkpoint.task if checkpoint else task
    if task == TEXT_GENERATION:
        options = {"prompt": "It's a", **options}
    text = ("a cat", "a remote control") if checkpoint and checkpoint.takes_text else ()
    return RunSpec(name, task, **({"device": "cpu", "text": text} | options))


SPECS = [
    spec_of("shapes-vit"),
    spec_of("shapes-rtdetr", **PACKAGED),
    spec_of("shapes-gemma", dtype="bfloat16", threads=2),
    spec_of("google/vit-base-patch16-224", weights="random", **LAYERS),
    spec_of("google/owlvit-base-patch32", **LAYERS),
    spec_of("facebook/detr-resnet-50", **EVERYTHING),
    spec_of("facebook/mask2former-swin-tiny-coco-panoptic", protocol="as published"),
    spec_of("someone/model", "object-detection", text=("a dog",)),
    spec_of("someone/model", "image-segmentation", weights="random", freezing=True),
    spec_of("someone/model", TEXT_GENERATION, prompt="\u56fe\u7247" * 50 + "\n'It's a \"word\"'"),
    RunSpec("/home/me/mine.py:build", OWN_MODEL, device="cpu", **PACKAGED),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.checkpoint}-{spec.weights}")
def test_a_program_is_short_and_complete(spec: RunSpec) -> None:
    text, of_scene = script(Report(ok_result(spec=spec))), script(Report(ok_result(spec=spec, image=info_of(SCENE))))
    assert of_scene.count("\n") <= 60 and "start it in its folder" in of_scene
    nodes = list(ast.walk(ast.parse(text)))
    imported = {name.name for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for name in node.names}
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    modules = {"torch", "transformers", "Image", "os", "copy", "runpy", "statistics", "time"}
    assert used & modules <= imported <= used and "demo" not in imported
    if spec.compiler != "aot" and spec.scope == "model":
        assert text.index("run(model)  # eager first") < text.index("torch.compile(")
    assert "/home/me" not in text
    assert needs_folder(ok_result(spec=spec)) is ("assets/" in text) is ("start it in its folder" in text)


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        (
            spec_of("facebook/detr-resnet-50", **{**EVERYTHING, "dtype": "bfloat16"}),
            [
                'source, files = "facebook/detr-resnet-50", {"trust_remote_code": False, "revision": "no_timm"}',
                'AutoConfig.from_pretrained("assets/configs/facebook--detr-resnet-50"',
                '= "cuda", torch.bfloat16, False, torch.channels_last, 16',
                'torch.compile(model, mode="max-autotune")',
                "torch._inductor.config.freezing = True",
                "torch.set_num_threads(2)",
                "AutoModelForObjectDetection",
                "torch.cuda.synchronize()",
            ],
        ),
        (spec_of("shapes-vit", device="cuda", dtype="tf32"), ['= "cuda", torch.float32, True, ']),
        (spec_of("microsoft/conditional-detr-resnet-50"), ["key_mapping={", "use_safetensors=True"]),
        (spec_of("microsoft/resnet-50", weights="random"), ['source, files = "assets/configs/microsoft--resnet-50"']),
        (spec_of("shapes-vit", **PACKAGED), ["AOTI_RUNTIME_CHECK_INPUTS"]),
        (spec_of("shapes-vit"), ["torch.set_num_threads(1)"]),
        (spec_of("someone/model", "object-detection", text=("a dog",)), ["AutoModelForZeroShotObjectDetection"]),
    ],
    ids=["everything", "tf32", "key mapping", "random", "package", "the threads that were used", "text queries"],
)
def test_a_program_has_the_settings_of_its_run(spec: RunSpec, lines: list[str]) -> None:
    text = script(Report(ok_result(spec=spec, environment=dataclasses.replace(ENVIRONMENT, threads=1))))
    assert [line for line in lines if line not in text] == []


def test_the_change_in_ones_own_code_has_few_lines() -> None:
    assert change(SPECS[0]) == "model = torch.compile(model)"
    chosen = change(spec_of("shapes-vit", mode="lite", dynamic="on"))
    switch, compile_line = chosen.split("\n")
    assert compile_line == 'model = torch.compile(model, mode="lite", dynamic=True)'
    assert switch.startswith("torch.fx.experimental._config.use_duck_shape = False")
    assert "in eager" in change(spec_of("shapes-gemma", prompt="a"))
    assert change(spec_of("shapes-vit", scope="layers")).endswith("\n    layer.compile()")
    packaged = change(spec_of("shapes-vit", **PACKAGED))
    assert "export(model, (), kwargs=inputs)" in packaged and "\nmodel = torch._inductor.aoti_load" in packaged


# ---- texts from outside


def taken_apart(program: str) -> tuple[str, set[Any]]:
    """Returns a program's code without its texts and numbers, and the set of these."""
    tree = ast.parse(program)
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    values = {node.value for node in constants}
    for node in constants:
        node.value = None
    return ast.dump(tree), values


QUERIES = RunSpec(HOSTILE, "object-detection", device="cpu", text=(HOSTILE, HOSTILE * 3))
PROMPT = spec_of("a/b", TEXT_GENERATION, prompt=HOSTILE.encode(errors="ignore").decode())
OWN = RunSpec(f"mine.py:{HOSTILE}", OWN_MODEL, device="cpu")


@pytest.mark.parametrize(
    ("spec", "text", "plain"),
    [
        (QUERIES, HOSTILE, dataclasses.replace(QUERIES, checkpoint="a/b", text=("x", "y"))),
        (PROMPT, PROMPT.prompt, dataclasses.replace(PROMPT, prompt="x")),
        (OWN, HOSTILE, dataclasses.replace(OWN, checkpoint="mine.py:build")),
    ],
    ids=["queries", "prompt", "own model"],
)
def test_a_text_from_outside_stays_a_literal(spec: RunSpec, text: str, plain: RunSpec) -> None:
    environment = dataclasses.replace(ENVIRONMENT, device_name=HOSTILE, torch=HOSTILE)
    image = ImageInfo(HOSTILE, 10, 10, "00", "")
    program = script(Report(ok_result(spec=spec, environment=environment, image=image, id=HOSTILE)))
    code, values = taken_apart(program)
    assert all(line.isprintable() for line in program.split("\n")) and text in values
    assert code == taken_apart(script(Report(ok_result(spec=plain))))[0]


# ---- runs without a script


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (spec_of("shapes-vit", dynamic="on"), "does not apply the option dynamic"),
        (RunSpec("/tmp/gone.locked/Net.py:in_memory", OWN_MODEL), "came from a program's memory"),
        (spec_of("google/owlvit-base-patch32", weights="random"), "needs trained weights"),
        (spec_of("shapes-gemma", weights="random"), "needs trained weights"),
    ],
    ids=["an option", "a module in memory", "texts", "a prompt"],
)
def test_a_run_that_no_program_repeats_is_refused(spec: RunSpec, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        script(Report(ok_result(spec=spec)))


def test_the_command_prints_the_script_of_a_failed_run_for_a_report(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("WORTH_COMPILING_DATA", str(tmp_path))
    History().append(failed_result())
    assert main(["script", failed_result().id]) == 0
    printed = capsys.readouterr().out
    assert printed == script(Report(failed_result())) and "out_of_memory" in printed


# ---- scripts that run


def lines_of(result: RunResult, folder: Path, before: str = "") -> list[str]:
    """Returns the lines that the result's script prints, started in `folder` with a short timing.

    `before`: code to run first.
    """
    program = before + script(Report(result)).replace("min_run_time=0.25", "min_run_time=0.01")
    command = [sys.executable, "-I", "-c", program]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


NOT_COMPILED = "import torch; torch.compile = lambda model: model\n"


def test_a_script_says_how_far_the_outputs_lie_apart() -> None:
    """The script runs in mode lite, which compiles quickest."""
    spec = spec_of("shapes-vit", batch_size=2, mode="lite")
    first, *both, ratio, outputs = lines_of(ok_result(spec=spec, image=info_of(SCENE)), ROOT)
    assert first.startswith("First compiled call") and ratio.startswith("ratio ") and "2.00×" in ratio
    assert [line.split()[0] for line in both] == ["eager", "compiled"]
    assert all("ms a call, the middle half" in line for line in both)
    assert float(re.fullmatch(r"The outputs lie (\S+) apart at most\.", outputs)[1]) < 1e-3


def test_a_script_writes_the_text_that_the_run_writes() -> None:
    spec = spec_of("shapes-gemma", prompt="The picture shows", tokens=8)
    workload = text_generation.load(spec, torch.device("cpu"))
    with torch.no_grad():
        predictions = workload.predictions(workload.outputs(workload.model))
    assert len(set(predictions.token_ids)) > 3
    lines = lines_of(ok_result(spec=spec), ROOT, NOT_COMPILED)
    assert lines[-2:] == [f"eager {predictions.text!r}", f"compiled {predictions.text!r}"]


def test_a_script_runs_a_model_of_ones_own_beside_it(tmp_path) -> None:
    lines = ["import torch", "def build():", "    return torch.nn.Linear(3, 2), torch.ones(5, 3)"]
    (tmp_path / "mine.py").write_text("\n".join(lines))
    spec = RunSpec(f"{tmp_path}/mine.py:build", OWN_MODEL, device="cpu")
    assert "The outputs lie 0 apart" in lines_of(ok_result(spec=spec), tmp_path, NOT_COMPILED)[-1]


@pytest.mark.parametrize("inputs", ["[x, x]", "(x, x)", "{'left': x, 'right': x}", "UserDict(left=x, right=x)"])
def test_a_script_gives_a_model_of_ones_own_its_inputs_as_a_run_does(inputs: str, tmp_path) -> None:
    lines = ["import torch", "from collections import UserDict", "x = torch.ones(2)", "class Sum(torch.nn.Module):"]
    lines += ["    def forward(self, left, right):", "        return left + right"]
    (tmp_path / "mine.py").write_text("\n".join([*lines, "def build():", f"    return Sum(), {inputs}"]))
    code = Template(OWN_MODEL_BLOCK).substitute(run="run_path", file=repr(f"{tmp_path}/mine.py"), function="'build'")
    names: dict[str, Any] = {
        "torch": torch, "DEVICE": "cpu", "DTYPE": torch.float32, "LAYOUT": torch.contiguous_format
    }  # fmt: skip
    exec(code, names)
    assert names["model"](*names["arguments"], **names["inputs"]).tolist() == [2.0, 2.0]
