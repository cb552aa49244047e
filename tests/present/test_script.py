"""A run as a stand-alone script: what it holds, that it is short and formatted, and that it repeats the run."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import io
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import ENVIRONMENT, failed_result, measurement, ok_result

from demo.cli.run import main
from demo.core import catalog
from demo.core.result import DTYPES, MODES, BadInput, ImageInfo, RunResult, RunSpec
from demo.present import script
from demo.store.history import History

ROOT = Path(__file__).resolve().parents[2]
SCENE = ROOT / "assets" / "examples" / "shapes-scene-1.png"
EVERYTHING = {
    "channels_last": True, "threads": 2, "dtype": "tf32", "attention": "sdpa", "graph_break": True,
    "mode": "max-autotune", "fullgraph": True, "device": "cuda", "batch_size": 16,
}  # fmt: skip
VARIED: tuple[dict[str, Any], ...] = ({}, {"protocol": "as published"}, {"iterations": 30}, EVERYTHING)
HOSTILE = "'''\"\"\"\n#LOAD##IMAGE#\nimport os; os.abort() \\' \u202e{0} %s \ud800"


def spec_of(checkpoint: Any, **asked: Any) -> RunSpec:
    text = ("a cat", "a remote control") if checkpoint.takes_text else ()
    return RunSpec(checkpoint.id, checkpoint.task, text=text, **({"device": "cpu"} | asked))


def every_spec() -> list[RunSpec]:
    known = [
        spec_of(checkpoint, weights=weights, **asked)
        for checkpoint in catalog.CHECKPOINTS
        for weights in ("pretrained", "random")
        for asked in VARIED
    ]
    typed_in = [
        RunSpec("someone/model", task, device="cpu", **asked)
        for task in ("image-classification", "object-detection", "image-segmentation")
        for asked in VARIED[:3]
    ]
    return [*known, *typed_in]


def settings_of(text: str) -> dict[str, Any]:
    """The values of a script's upper-case names, those that are literals."""
    found = {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign):
            continue
        target = node.targets[0]
        pairs = (
            zip(target.elts, node.value.elts, strict=True)
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            else [(target, node.value)]
        )
        for name, value in pairs:
            if isinstance(name, ast.Name) and name.id.isupper():
                try:
                    found[name.id] = ast.literal_eval(value)
                except ValueError:
                    found[name.id] = ast.unparse(value)
    return found


@pytest.fixture(scope="module")
def formatted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every script as the formatter would write it: in one go, which spares its start for each."""
    folder = tmp_path_factory.mktemp("scripts")
    texts = {script.script(ok_result(spec=spec)) for spec in every_spec()}
    files = {text: folder / f"{number}.py" for number, text in enumerate(texts)}
    for text, file in files.items():
        file.write_text(text, encoding="utf-8")
    formatter = [sys.executable, "-m", "ruff", "format", "--quiet", "--line-length", "120", str(folder)]
    subprocess.run(formatter, check=True, timeout=60)
    return {text: file.read_text(encoding="utf-8") for text, file in files.items()}


@pytest.mark.parametrize("spec", every_spec(), ids=lambda spec: f"{spec.checkpoint}-{spec.weights}-{spec.protocol}")
def test_a_script_is_short_and_formatted(spec: RunSpec, formatted: dict[str, str]) -> None:
    text = script.script(ok_result(spec=spec))
    assert text.count("\n") <= 120
    assert formatted[text] == text


@pytest.mark.parametrize("spec", every_spec(), ids=lambda spec: f"{spec.checkpoint}-{spec.weights}-{spec.protocol}")
def test_a_script_imports_what_it_needs_and_nothing_of_the_project(spec: RunSpec) -> None:
    tree = ast.parse(script.script(ok_result(spec=spec)))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert imported - set(sys.stdlib_module_names) == {"torch", "transformers", "PIL"}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert imported - {"torch", "transformers", "PIL"} <= used


def test_what_was_asked_stands_in_the_settings() -> None:
    found = catalog.find("facebook/detr-resnet-50")
    text = script.script(ok_result(spec=spec_of(found, **(EVERYTHING | {"dtype": "bfloat16", "precision": 0.05}))))
    held = settings_of(text)
    assert (held["CHECKPOINT"], held["DEVICE"], held["BATCH_SIZE"]) == ("facebook/detr-resnet-50", "cuda", 16)
    assert (held["PRECISION"], held["DTYPE"]) == (0.05, "torch.bfloat16")
    for part in (
        '"revision": "no_timm"',
        'mode="max-autotune", fullgraph=True',
        "memory_format=torch.channels_last",
        'attn_implementation="sdpa"',
        "torch.set_num_threads(2)",
        "torch._dynamo.graph_break()",
        "AutoModelForObjectDetection",
    ):
        assert part in text


def test_tf32_is_float32_whose_products_may_use_it_and_float32_on_a_gpu_uses_none() -> None:
    found = catalog.find("facebook/detr-resnet-50")
    texts = {dtype: script.script(ok_result(spec=spec_of(found, device="cuda", dtype=dtype))) for dtype in DTYPES[:2]}
    assert [settings_of(text)["DTYPE"] for text in texts.values()] == ["torch.float32"] * 2
    allowed = 'torch.set_float32_matmul_precision("high")', "torch.backends.cudnn.allow_tf32 = False"
    assert [[part in text for part in allowed] for text in texts.values()] == [[False, True], [True, False]]


@pytest.mark.parametrize("mode", MODES)
def test_a_cuda_graph_gets_the_warm_up_calls_that_it_needs_to_be_recorded(mode: str) -> None:
    found = catalog.find("shapes-vit")
    for device in ("cpu", "cuda"):
        text = script.script(ok_result(spec=spec_of(found, device=device, mode=mode)))
        graphs = device == "cuda" and mode in ("reduce-overhead", "max-autotune")
        assert ("least=6)" in text) is graphs


def test_a_bundled_checkpoint_and_picture_are_named_by_their_place_in_the_project() -> None:
    image = ImageInfo("anything.png", 320, 240, hashlib.sha256(SCENE.read_bytes()).hexdigest(), "/9j/")
    held = settings_of(script.script(ok_result(image=image)))
    assert held["CHECKPOINT"] == "assets/checkpoints/shapes-vit"
    assert held["IMAGE"] == "assets/examples/shapes-scene-1.png"
    assert (ROOT / held["CHECKPOINT"]).is_dir() and (ROOT / held["IMAGE"]).is_file()


def test_a_picture_of_somebodys_own_is_not_named() -> None:
    assert settings_of(script.script(ok_result()))["IMAGE"] is None


def test_a_script_says_in_its_answer_that_the_picture_was_a_grey_one() -> None:
    text = script.script(ok_result())
    assert (
        'print(json.dumps(answer | {"recompiles_while_timing": recompiles, "picture": options.image or "grey"}))'
        in text
    )


def test_text_from_outside_stays_a_literal() -> None:
    spec = RunSpec(HOSTILE, "object-detection", device="cpu", text=(HOSTILE, HOSTILE * 3))
    environment = dataclasses.replace(ENVIRONMENT, device_name=HOSTILE, torch=HOSTILE)
    image = ImageInfo(HOSTILE, 10, 10, "00", "")
    text = script.script(ok_result(spec=spec, environment=environment, image=image, id=HOSTILE))
    assert text.isprintable() or all(line.isprintable() for line in text.split("\n"))
    held = settings_of(text)
    assert held["CHECKPOINT"] == HOSTILE
    assert "abort" not in {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    plain = script.script(ok_result(spec=dataclasses.replace(spec, checkpoint="a/b", text=("x", "y"))))
    assert names_of(text) == names_of(plain) | {"loads"}  # queries that are too long for one line


def names_of(text: str) -> set[str]:
    """Every name, keyword and attribute that a script's code uses, its texts left out."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


@settings(max_examples=200, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_a_literal_reads_back_as_what_it_was(value: Any) -> None:
    text = script.literal(value)
    assert ast.literal_eval(text) == value
    assert "\n" not in text


def test_long_queries_read_back_as_they_were() -> None:
    queries = tuple(f"query number {number} with some words" for number in range(30))
    spec = RunSpec("google/owlvit-base-patch32", "object-detection", device="cpu", text=queries)
    line = next(line for line in script.script(ok_result(spec=spec)).splitlines() if line.startswith("TEXT ="))
    held: dict[str, Any] = {"json": json}
    exec(line, held)
    assert tuple(held["TEXT"]) == queries


def test_a_failed_run_has_a_script_for_a_report() -> None:
    text = script.script(failed_result())
    assert "out_of_memory" in settings_of(text)["THEN"]


def test_variants_that_did_not_fit_together_are_refused_with_a_sentence() -> None:
    with pytest.raises(BadInput, match="one after the other"):
        script.script(ok_result(interleaved=False))


def test_the_command_prints_the_script_of_a_stored_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORTH_COMPILING_DATA", str(tmp_path))
    History().append(ok_result())
    assert main(["script", ok_result().id]) == 0
    assert capsys.readouterr().out == script.script(ok_result())
    assert main(["script", "nobody"]) == 2
    assert "'nobody'" in capsys.readouterr().err


# ---- the protocol's arithmetic, on times made up


def judged(result: RunResult) -> tuple[dict[str, float], dict[str, float], str]:
    """What the script's own functions make of a run's times."""
    text = script.script(result)
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in ("ratio", "judge")]

    sides = {"eager": result.eager, "compiled": result.compiled, "control": result.control_times}
    held: dict[str, Any] = {
        "math": math,
        "random": random,
        "statistics": statistics,
        "half": result.eager.calls_per_block // 2,
        "times": {name: list(side.wall_seconds) for name, side in sides.items() if side},
    }
    exec(compile(tree, "script", "exec"), held)
    return held["judge"]()


@pytest.mark.parametrize("compiled", [0.001, 0.00199, 0.004])
@pytest.mark.parametrize("protocol", ["interleaved", "as published"])
def test_the_scripts_arithmetic_is_the_runs(compiled: float, protocol: str) -> None:
    spec = dataclasses.replace(ok_result().spec, protocol=protocol)
    result = ok_result(spec=spec, compiled=wandering(compiled, 1), eager=wandering(0.002, 2))
    result = dataclasses.replace(result, control_times=wandering(0.002, 3, 39) if protocol == "interleaved" else None)
    speedup, control, verdict = judged(result)
    assert verdict == result.speedup.verdict
    assert speedup["ratio"] == pytest.approx(result.speedup.ratio, rel=1e-9)
    width = result.speedup.high - result.speedup.low
    assert speedup["low"] == pytest.approx(result.speedup.low, abs=0.1 * width)
    assert speedup["high"] == pytest.approx(result.speedup.high, abs=0.1 * width)
    if protocol == "interleaved":
        assert control["ratio"] == pytest.approx(result.control.ratio, rel=1e-9)


def wandering(seconds: float, seed: int, blocks: int = 40) -> Any:
    """Blocks of 4 calls, spread by some hundredths."""
    rng = random.Random(seed)
    times = tuple(seconds * rng.uniform(0.97, 1.03) for _ in range(4 * blocks))
    return dataclasses.replace(measurement(seconds), wall_seconds=times)


# ---- the script, run

FIELDS = {"ratio", "low", "high"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run of the app, with the real worker."""
    return _app_run(tmp_path_factory.mktemp("run"), "--batch-size", "2")


def _app_run(folder: Path, *asked: str) -> RunResult:
    command = [sys.executable, "-m", "demo", "run", "--checkpoint", "shapes-vit", "--image", str(SCENE), "--json"]
    environment = {**os.environ, "WORTH_COMPILING_DATA": str(folder)}
    done = subprocess.run([*command, *asked], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return RunResult.from_json(json.loads(done.stdout))


def _executed(result: RunResult, folder: Path) -> dict[str, Any]:
    """The script's answer, run in a folder where nothing of the project can be imported."""
    file = folder / "run.py"
    file.write_text(script.script(result), encoding="utf-8")
    checkpoint = ROOT / "assets" / "checkpoints" / "shapes-vit"
    command = [sys.executable, "-I", str(file), "--image", str(SCENE), "--checkpoint", str(checkpoint)]
    missing = subprocess.run([sys.executable, "-I", "-c", "import demo"], cwd=folder, capture_output=True, timeout=60)
    assert missing.returncode != 0
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_script_repeats_the_run_that_it_was_made_of(run: RunResult, tmp_path: Path) -> None:
    answer = _executed(run, tmp_path)
    assert answer["verdict"] in ("faster", "same", "slower", "unsure")
    assert answer["picture"] == str(SCENE)
    assert set(answer["speedup"]) == set(answer["control"]) == FIELDS
    assert answer["speedup"]["low"] <= answer["speedup"]["ratio"] <= answer["speedup"]["high"]
    # The same model at the same batch. A busy machine was seen to take 30 times as long; a wrong unit would be 1000.
    assert 1 / 300 < answer["eager"]["median_ms"] / 1e3 / run.eager.median_seconds < 300
    assert answer["speedup"]["ratio"] == pytest.approx(
        answer["eager"]["median_ms"] / answer["compiled"]["median_ms"], rel=0.5
    )
    assert len(answer["eager"]["wall_seconds"]) == len(answer["compiled"]["wall_seconds"]) >= 10
    assert answer["compilation"]["graphs"] == run.compilation.graphs == 1
    assert answer["recompiles_while_timing"] == 0
    for variant in ("eager", "compiled"):
        seen, known = answer[variant]["labels"], run.predictions[variant].labels
        assert [label["label"] for label in seen] == [label.label for label in known]
        assert [label["score"] for label in seen] == pytest.approx([label.score for label in known], abs=1e-4)


def test_a_script_keeps_to_the_number_of_calls_and_breaks_the_graph_where_the_run_did(tmp_path: Path) -> None:
    run = _app_run(tmp_path / "data", "--iterations", "30", "--graph-break")
    assert run.compilation.graphs > 1
    assert any("graph break" in warning for warning in run.warnings)
    (tmp_path / "script").mkdir()
    answer = _executed(run, tmp_path / "script")
    # 30 are asked for, and both round up to whole blocks, of 4 calls at most: how many, the speed of the moment says.
    for calls in (len(answer["compiled"]["wall_seconds"]), len(run.compiled.wall_seconds)):
        assert 30 <= calls < 34
    assert answer["compilation"]["graphs"] == run.compilation.graphs
