"""A run as a stand-alone script: what it holds, that it is short and formatted, and that it repeats the run."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import hashlib
import io
import json
import math
import os
import random
import re
import statistics
import string
import subprocess
import sys
import tokenize
import zlib
from argparse import ArgumentParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps
from samples import ENVIRONMENT, SEGMENTS, failed_result, measurement, ok_result
from transformers.utils import ModelOutput

from demo.backend import predictions, text_subject
from demo.backend.models import Loaded
from demo.cli.main import main
from demo.core import catalog, images
from demo.core.errors import BadInput
from demo.core.measurement import CompiledFirst, Generation, GraphBreak
from demo.core.outputs import ImageInfo
from demo.core.result import RunResult
from demo.core.spec import DTYPES, MODES, TEXT_GENERATION, RunSpec
from demo.present import script
from demo.store.history import History

ROOT = Path(__file__).resolve().parents[2]
SCENE = ROOT / "assets" / "examples" / "shapes-scene-1.png"
EVERYTHING = {
    "channels_last": True, "threads": 2, "dtype": "tf32", "attention": "sdpa", "graph_break": True,
    "mode": "max-autotune", "device": "cuda", "batch_size": 16, "freezing": True, "dynamic": "off",
}  # fmt: skip
LAYERS = {key: value for key, value in EVERYTHING.items() if key != "graph_break"} | {"scope": "layers"}
PACKAGED = {"compiler": "aot", "fullgraph": True, "freezing": True, "dynamic": "on", "threads": 2}
VARIED: tuple[dict[str, Any], ...] = (
    {},
    {"protocol": "as published"},
    {"iterations": 30},
    EVERYTHING,
    LAYERS,
    PACKAGED,
)
PROMPTS = ("One at random.", f"{'long and ' * 12}long", "\u56fe\u7247" * 50 + "\n'It's a \"word\"'")
HOSTILE = "'''\"\"\"\n#LOAD##IMAGE#\nimport os; os.abort() \\' \u202e{0} %s \ud800"


PICTURES_ONLY = ("channels_last", "compiler", "scope")
"""What text generation refuses."""
WITH_CONFIG = [one for one in catalog.CHECKPOINTS if (catalog.config_folder(one) / "config.json").is_file()]
"""Those whose architecture can stand in a script."""


def spec_of(checkpoint: Any, **asked: Any) -> RunSpec:
    text = ("a cat", "a remote control") if checkpoint.takes_text else ()
    if checkpoint.task == TEXT_GENERATION:
        asked = {"prompt": "It's a", **{key: value for key, value in asked.items() if key not in PICTURES_ONLY}}
    return RunSpec(checkpoint.id, checkpoint.task, text=text, **({"device": "cpu"} | asked))


def every_spec() -> list[RunSpec]:
    """Each checkpoint, each task with each way to run it, and both kinds of weights with each of these.

    The specs are taken greedily: the next is the one with the most pairs that none before it has.
    """
    known = [
        (number, spec_of(checkpoint, weights=weights, **asked))
        for checkpoint in catalog.CHECKPOINTS
        for weights in (("pretrained", "random") if checkpoint in WITH_CONFIG else ("pretrained",))
        for number, asked in enumerate(VARIED)
    ]
    pairs = {
        spec: {spec.checkpoint, (spec.task, number), (spec.weights, number), (spec.weights, spec.task)}
        for number, spec in known
    }
    chosen: list[RunSpec] = []
    missing = set().union(*pairs.values())
    while missing:
        chosen.append(max(pairs, key=lambda spec: len(pairs[spec] & missing)))
        missing -= pairs[chosen[-1]]
    typed_in = [
        RunSpec("someone/model", task, device="cpu", **asked)
        for task, asked in zip(("image-classification", "object-detection", "image-segmentation"), VARIED, strict=False)
    ]
    texts = [
        RunSpec("someone/model", TEXT_GENERATION, device="cpu", prompt=prompt, weights=weights, **asked)
        for weights, asked, prompt in zip(("pretrained", "random", "pretrained"), VARIED, PROMPTS, strict=False)
    ]
    return [*chosen, *typed_in, *texts]


SPECS = every_spec()


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
    texts = {script.script(ok_result(spec=spec)) for spec in SPECS}
    files = {text: folder / f"{number}.py" for number, text in enumerate(texts)}
    for text, file in files.items():
        file.write_text(text, encoding="utf-8")
    formatter = [sys.executable, "-m", "ruff", "format", "--quiet", "--line-length", "120", str(folder)]
    subprocess.run(formatter, check=True, timeout=60)
    return {text: file.read_text(encoding="utf-8") for text, file in files.items()}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.checkpoint}-{spec.weights}-{spec.protocol}")
def test_a_script_is_short_and_formatted(spec: RunSpec, formatted: dict[str, str]) -> None:
    text = script.script(ok_result(spec=spec))
    bound = 120 if spec.cached and spec.scope == "model" else 130
    assert text.count("\n") <= (140 if spec.task == TEXT_GENERATION else bound)
    assert formatted[text] == text


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.checkpoint}-{spec.weights}-{spec.protocol}")
def test_a_script_imports_what_it_needs_and_nothing_of_the_project(spec: RunSpec) -> None:
    tree = ast.parse(script.script(ok_result(spec=spec)))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    needed = {"torch", "transformers", "PIL"} if spec.sees_picture else {"torch", "transformers"}
    assert imported - set(sys.stdlib_module_names) == needed
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert imported - needed <= used


@pytest.mark.parametrize(
    ("machine", "asked", "line"),
    [
        ({"threads": 1, "free_cores": 1}, None, "torch.set_num_threads(1)  # as in the run: other programs"),
        ({"threads": 2, "free_cores": 2}, None, None),
        ({"threads": 1, "free_cores": None}, None, None),
        ({"threads": 1, "free_cores": 2}, 1, "torch.set_num_threads(1)\n"),
    ],
)
def test_a_script_has_the_threads_that_a_busy_machine_left_its_run(
    machine: dict[str, Any], asked: int | None, line: str | None
) -> None:
    spec = dataclasses.replace(ok_result().spec, threads=asked)
    text = script.script(ok_result(spec=spec, environment=dataclasses.replace(ENVIRONMENT, **machine)))
    assert (line in text) if line else "set_num_threads" not in text


def test_a_script_waits_as_its_run_did_and_says_so_before_torch_starts() -> None:
    machine = dataclasses.replace(ENVIRONMENT, settings={"spinning": "OMP_WAIT_POLICY=PASSIVE, GOMP_SPINCOUNT=3000"})
    text = script.script(ok_result(environment=machine)).split("\nimport torch\n")[0]
    for name, value in (("OMP_WAIT_POLICY", "PASSIVE"), ("GOMP_SPINCOUNT", "3000")):
        assert f'os.environ.setdefault("{name}", "{value}")' in text
    assert "environ" not in script.script(ok_result())


def test_what_was_asked_stands_in_the_settings() -> None:
    found = catalog.find("facebook/detr-resnet-50")
    text = script.script(ok_result(spec=spec_of(found, **(EVERYTHING | {"dtype": "bfloat16", "precision": 0.05}))))
    held = settings_of(text)
    assert (held["CHECKPOINT"], held["DEVICE"], held["BATCH_SIZE"]) == ("facebook/detr-resnet-50", "cuda", 16)
    assert (held["PRECISION"], held["DTYPE"]) == (0.05, "torch.bfloat16")
    for part in (
        '"revision": "no_timm"',
        'torch.compile(model, mode="max-autotune", fullgraph=False, dynamic=False)',
        "torch._inductor.config.freezing = True",
        "memory_format=torch.channels_last",
        'attn_implementation="sdpa"',
        "torch.set_num_threads(2)",
        "AutoModelForObjectDetection",
    ):
        assert part in text


def test_a_script_says_why_eager_comes_first_where_that_decides_what_is_compiled() -> None:
    first = CompiledFirst(2, (GraphBreak("a lock", ""),), "a lock")
    text = script.script(ok_result(compilation=dataclasses.replace(ok_result().compilation, compiled_first=first)))
    advice = "# Call the model once in eager before compiling: compiled first, it becomes 2 graphs, 1 break.\n"
    warm = text[text.index(advice) :].split("\n")[1]
    assert warm.index("eager") < warm.index("compiled") and text.count("\n") <= 120
    assert "compiled first" not in script.script(ok_result())


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


@pytest.mark.parametrize(
    ("checkpoint", "kind"), [("facebook/detr-resnet-50", "detr"), ("a/table", "table-transformer")]
)
def test_a_script_loads_a_config_that_holds_null_for_what_is_off(checkpoint: str, kind: str, tmp_path: Path) -> None:
    text = script.script(ok_result(spec=RunSpec(checkpoint, "object-detection", device="cpu")))
    config = {"model_type": kind, "use_timm_backbone": False, "backbone": None, "dilation": None}
    backbone = {"model_type": "resnet", "downsample_in_bottleneck": None}
    (tmp_path / "config.json").write_text(json.dumps(config | {"backbone_config": backbone}))
    names: dict[str, Any] = {"json": json, "transformers": transformers, "source": str(tmp_path), "files": {}}
    exec("\n".join(line for line in text.splitlines() if line.startswith(("entries =", "config ="))), names)
    assert names["config"].dilation is False and "config=config" in text


def test_a_script_decodes_segments_as_the_run_did() -> None:
    seen = {"eager": dataclasses.replace(SEGMENTS, segmentation="instance")}
    spec = RunSpec("someone/model", "image-segmentation", device="cpu")
    assert "post_process_instance_segmentation" in script.script(ok_result(spec=spec, predictions=seen))
    assert "post_process_semantic_segmentation" in script.script(ok_result(spec=spec))
    named = dataclasses.replace(spec, checkpoint="someone/coco-panoptic")
    assert "post_process_panoptic_segmentation" in script.script(ok_result(spec=named, predictions=None))


def test_a_bundled_checkpoint_and_picture_are_named_by_their_place_in_the_project() -> None:
    image = ImageInfo("anything.png", 320, 240, hashlib.sha256(SCENE.read_bytes()).hexdigest(), "/9j/")
    held = settings_of(script.script(ok_result(image=image)))
    assert held["CHECKPOINT"] == "assets/checkpoints/shapes-vit"
    assert held["IMAGE"] == "assets/examples/shapes-scene-1.png"
    assert (ROOT / held["CHECKPOINT"]).is_dir() and (ROOT / held["IMAGE"]).is_file()


@pytest.mark.parametrize("checkpoint", WITH_CONFIG, ids=lambda checkpoint: checkpoint.id)
def test_with_random_weights_the_architecture_stands_in_the_script_and_no_folder_is_named(checkpoint: Any) -> None:
    text = script.script(ok_result(spec=spec_of(checkpoint, weights="random")))
    assert "assets/" not in text and "--checkpoint" not in text and "from_pretrained" not in text
    held: dict[str, Any] = {"transformers": transformers}
    pictured = checkpoint.task != TEXT_GENERATION
    for name in ("processor", "config") if pictured else ("config",):
        exec(next(line for line in text.splitlines() if line.startswith(f"{name} = ")), held)
    folder = catalog.config_folder(checkpoint)
    shipped = transformers.AutoConfig.from_pretrained(folder)
    assert held["config"].num_labels == shipped.num_labels
    for config in (held["config"], shipped):
        config.id2label, config._name_or_path = dict.fromkeys(range(config.num_labels), ""), ""
        config.label2id = {}
    assert held["config"].to_dict() == shipped.to_dict()
    if pictured:
        processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
        assert held["processor"].to_dict() == processor.to_dict()


def test_only_the_weights_of_a_bundled_checkpoint_lie_in_a_folder_of_the_project() -> None:
    for spec in SPECS:
        text = script.script(ok_result(spec=spec))
        assert script.needs_folder(spec) is ("assets/" in text) is ("os.path.isdir" in text), spec


def test_a_picture_of_somebodys_own_is_not_named() -> None:
    assert settings_of(script.script(ok_result()))["IMAGE"] == ""


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


def test_a_prompt_stays_a_literal() -> None:
    prompt = HOSTILE.encode(errors="ignore").decode()
    spec = RunSpec("a/b", TEXT_GENERATION, device="cpu", prompt=prompt)
    text = script.script(ok_result(spec=spec))
    assert settings_of(text)["PROMPT"] == prompt
    assert names_of(text) == names_of(script.script(ok_result(spec=dataclasses.replace(spec, prompt="x"))))


def test_a_script_for_random_weights_makes_up_the_tokens_that_the_run_made_up() -> None:
    spec = RunSpec("a/b", TEXT_GENERATION, device="cpu", weights="random", prompt="It's 2 cats,\nor a dog?")
    held = prompt_tokens(script.script(ok_result(spec=spec)))
    assert torch.equal(held, text_subject._made_up(spec.prompt, 300)) and held.shape == (1, 11)


def test_with_random_weights_a_bundled_checkpoints_prompt_has_as_many_tokens_as_its_tokenizer_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gemma"}')
    monkeypatch.setattr(catalog, "config_folder", lambda _: tmp_path)
    spec = RunSpec("shapes-gemma", TEXT_GENERATION, device="cpu", weights="random", prompt="one two")
    for tokens in (2, 7):
        known = ok_result(spec=spec, generation=Generation(tokens, tokens + 64, 1000))
        assert prompt_tokens(script.script(known)).shape == (1, tokens)


def prompt_tokens(text: str) -> torch.Tensor:
    """Those that a script makes up for a model that knows 300."""
    config = SimpleNamespace(get_text_config=lambda decoder: SimpleNamespace(vocab_size=300))
    held: dict[str, Any] = {"torch": torch, "re": re, "zlib": zlib, "PROMPT": settings_of(text)["PROMPT"]}
    held["model"] = SimpleNamespace(config=config)
    exec(parts_of(text, {"words", "ids"}), held)
    tokens: torch.Tensor = held["ids"]
    return tokens


@settings(max_examples=200)
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


# ---- what the script reads and says, beside what the run does


def parts_of(text: str, names: set[str]) -> Any:
    """A script's code from where one of these names is first given a value to where one last is, to be executed."""
    tree = ast.parse(text)
    stored = [
        {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        for node in tree.body
    ]
    places = [place for place, found in enumerate(stored) if found & names]
    tree.body = tree.body[places[0] : places[-1] + 1]
    return compile(tree, "script", "exec")


PICTURE = parts_of(script.script(ok_result()), {"picture"})


def read_by_the_script(file: Path) -> Image.Image:
    held: dict[str, Any] = {"Image": Image, "ImageOps": ImageOps, "contextlib": contextlib, "parser": ArgumentParser()}
    held["options"] = SimpleNamespace(image=str(file))
    exec(PICTURE, held)
    picture: Image.Image = held["picture"]
    return picture


DEEP = {
    "16-bit": Image.fromarray((np.arange(24 * 32).reshape(24, 32) * 85).astype(np.uint16)),
    "32-bit": Image.fromarray((np.arange(24 * 32).reshape(24, 32) * 7919).astype(np.int32)),
    "float": Image.fromarray(np.linspace(0, 1, 24 * 32, dtype=np.float32).reshape(24, 32)),
}
COLOURS = Image.fromarray(np.random.default_rng(1).integers(0, 256, (24, 32, 4), np.uint8), "RGBA")
PALETTE = COLOURS.convert("RGB").quantize(16)
PICTURES: dict[str, tuple[Image.Image, str, dict[str, Any]]] = {
    "one bit": (COLOURS.convert("1"), "PNG", {}),
    "grey": (COLOURS.convert("L"), "PNG", {}),
    "grey with a transparent value": (COLOURS.convert("L"), "PNG", {"transparency": 7}),
    "grey and alpha": (COLOURS.convert("LA"), "PNG", {}),
    "colour": (COLOURS.convert("RGB"), "PNG", {}),
    "transparent colour": (COLOURS.convert("RGB"), "PNG", {"transparency": COLOURS.convert("RGB").getpixel((3, 3))}),
    "half transparent": (COLOURS, "PNG", {}),
    "palette": (PALETTE, "PNG", {}),
    "palette with a transparent entry": (PALETTE, "GIF", {"transparency": 3}),
    "palette with alphas": (PALETTE, "PNG", {"transparency": bytes(range(0, 256, 16))}),
    "CMYK": (COLOURS.convert("RGB").convert("CMYK"), "JPEG", {}),
    "CMYK TIFF": (COLOURS.convert("RGB").convert("CMYK"), "TIFF", {}),
    "Lab": (Image.frombytes("LAB", (32, 24), COLOURS.convert("RGB").tobytes()), "TIFF", {}),
    "YCbCr": (COLOURS.convert("RGB").convert("YCbCr"), "JPEG", {}),
    "animation": (PALETTE, "GIF", {"save_all": True, "append_images": [COLOURS.convert("L")]}),
    "damaged EXIF": (COLOURS, "PNG", {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\x09"}),
    **{
        f"turned {turn}": (COLOURS.convert("RGB"), "JPEG", {"exif": exif})
        for turn in range(10)
        for exif in [Image.Exif()]
        if not exif.update({0x0112: turn})
    },
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_script_reads_a_picture_as_the_run_does(name: str, tmp_path: Path) -> None:
    picture, kind, how = PICTURES[name]
    file = tmp_path / "picture"
    picture.save(file, kind, **how)
    ours, its = images.decode(file), read_by_the_script(file)
    assert (its.mode, its.size) == ("RGB", ours.size)
    assert np.array_equal(np.asarray(its), np.asarray(ours))


@pytest.mark.parametrize("depth", DEEP)
def test_the_script_refuses_a_picture_of_more_than_8_bits_a_channel(
    depth: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    DEEP[depth].save(tmp_path / "picture", "TIFF")
    with pytest.raises(SystemExit):
        read_by_the_script(tmp_path / "picture")
    assert "Save it with 8 bits a channel" in capsys.readouterr().err


class Decoders:
    """What a processor makes of any output: a map of the whole field, padding included; boxes past the edge.

    Of a rounded box or map it would make another, so it takes none in half precision.
    """

    def post_process_semantic_segmentation(self, outputs: Any, target_sizes: Any) -> list[torch.Tensor]:
        assert outputs.logits.dtype is torch.float32
        high, wide = target_sizes[0]
        found = torch.zeros(high, wide, dtype=torch.long)
        found[:, wide // 3 :] = 1
        found[: high // 2, : wide // 4] = 5  # a label without a name
        found[0, :3] = 2  # too small
        found[:, -wide // 6 :] = 3  # in the padding, some of it
        return [found] * len(target_sizes)

    def post_process_panoptic_segmentation(self, outputs: Any, target_sizes: Any) -> list[dict[str, Any]]:
        found = self.post_process_semantic_segmentation(outputs, target_sizes)[0]
        parts = [{"id": at, "label_id": at, "score": 0.5 + at / 10} for at in (0, 1, 2, 3, 5)]
        return [{"segmentation": found, "segments_info": parts}] * len(target_sizes)

    def post_process_object_detection(self, outputs: Any, threshold: float, target_sizes: Any) -> list[dict[str, Any]]:
        assert outputs.logits.dtype is torch.float32
        scores = torch.linspace(0, 1, 240)[torch.linspace(0, 1, 240) > threshold]
        edges = torch.tensor([-5.0, 3.0, 900.0, 700.0]).repeat(len(scores), 1)
        return [{"scores": scores, "labels": torch.arange(len(scores)) % 2, "boxes": edges}] * len(target_sizes)


@pytest.mark.parametrize("size", [(320, 240), (1280, 400), (640, 481)], ids=str)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    "checkpoint",
    [
        "shapes-segformer",
        "facebook/maskformer-swin-base-ade",
        "facebook/mask2former-swin-tiny-coco-panoptic",
        "shapes-rtdetr",
        "google/owlvit-base-patch32",
    ],
)
def test_the_script_lists_the_boxes_and_segments_that_the_run_shows(
    checkpoint: str, padded: bool, size: tuple[int, int]
) -> None:
    known = catalog.find(checkpoint)
    spec, picture = spec_of(known, batch_size=2, dtype="bfloat16"), Image.new("RGB", size)
    inputs = {"pixel_values": torch.zeros(1, 3, 64, 96)}
    if padded:
        inputs["pixel_mask"] = torch.zeros(1, 64, 96, dtype=torch.long)
        inputs["pixel_mask"][:, :60, :90] = 1
    names, text = {0: "sky", 1: "tree", 2: "speck", 3: "edge"}, script.script(ok_result(spec=spec))
    model = SimpleNamespace(config=SimpleNamespace(id2label=names))
    outputs = {name: ModelOutput(logits=torch.ones(1, dtype=torch.bfloat16)) for name in ("eager", "compiled")}
    held: dict[str, Any] = {"torch": torch, "statistics": statistics, "answer": {}, "TEXT": list(spec.text)}
    held |= {"processor": Decoders(), "picture": picture, "inputs": inputs, "BATCH_SIZE": 2, "names": names}
    held |= {"outputs": outputs, "times": {name: [1.0] for name in outputs}}
    if known.segmentation:
        exec(parts_of(text.split("\nfor name in ")[0], {"wide", "sizes"}), held)
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if isinstance(node, ast.For)]
    exec(compile(tree, "script", "exec"), held)
    loaded = Loaded(model, Decoders(), None, known, [])
    found = predictions.find(loaded, outputs["eager"], inputs, picture, spec.text)
    (its,) = (value for name, value in held["answer"]["eager"].items() if name in ("boxes", "segments"))
    assert [part["label"] for part in its] == [part.label for part in found] != []
    if known.task == "object-detection":
        assert [(part["score"], tuple(part["box"])) for part in its] == [(part.score, part.box) for part in found]
        assert len(its) == 100
    else:
        assert [part["area"] for part in its] == pytest.approx([part.area for part in found], abs=1e-9)
        assert [part.get("score") for part in its] == [part.score for part in found]


# ---- the script, run

FIELDS = {"ratio", "low", "high"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    """A run of the app, with the real worker: a number of calls, and a graph break."""
    command = [sys.executable, "-m", "demo", "run", "--checkpoint", "shapes-vit", "--image", str(SCENE), "--json"]
    asked = ["--batch-size", "2", "--iterations", "30", "--graph-break"]
    environment = {**os.environ, "WORTH_COMPILING_DATA": str(tmp_path_factory.mktemp("data"))}
    done = subprocess.run([*command, *asked], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return RunResult.from_json(json.loads(done.stdout))


SHAPES = ("--image", str(SCENE), "--checkpoint", str(ROOT / "assets" / "checkpoints" / "shapes-vit"))


def _executed(result: RunResult, folder: Path, *options: str, **environment: str) -> dict[str, Any]:
    """The script's answer, run in a folder where nothing of the project can be imported."""
    file = folder / "run.py"
    file.write_text(script.script(result), encoding="utf-8")
    command = [sys.executable, "-I", str(file), *options]
    missing = subprocess.run([sys.executable, "-I", "-c", "import demo"], cwd=folder, capture_output=True, timeout=60)
    assert missing.returncode != 0
    environment = {**os.environ, **environment}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _sees_the_same(answer: dict[str, Any], run: RunResult) -> bool:
    """Whether both variants of the script give the run's labels, with the run's scores."""
    for variant in ("eager", "compiled"):
        seen, known = answer[variant]["labels"], run.predictions[variant].labels
        if [label["label"] for label in seen] != [label.label for label in known]:
            return False
        if [label["score"] for label in seen] != pytest.approx([label.score for label in known], abs=1e-4):
            return False
    return True


def test_a_script_keeps_to_the_number_of_calls_and_times_the_model_without_the_added_breaks(
    run: RunResult, tmp_path: Path
) -> None:
    assert (run.compilation.graphs, run.compilation.graph_breaks) == (1, ())
    (told,) = (warning for warning in run.warnings if "graph break was added in" in warning)
    assert "reported none" not in told
    assert len(run.with_break.wall_seconds) == len(run.compiled.wall_seconds)
    assert run.break_cost.low <= run.break_cost.ratio <= run.break_cost.high
    answer = _executed(run, tmp_path, *SHAPES)
    # 30 are asked for, and both round up to whole blocks, of 4 calls at most: how many, the speed of the moment says.
    for calls in (len(answer["compiled"]["wall_seconds"]), len(run.compiled.wall_seconds)):
        assert 30 <= calls < 34
    assert answer["compilation"]["graphs"] == run.compilation.graphs
    # The same model at the same batch. A busy machine was seen to take 30 times as long; a wrong unit would be 1000.
    assert 1 / 300 < answer["eager"]["median_ms"] / 1e3 / run.eager.median_seconds < 300
    assert _sees_the_same(answer, run)


def test_a_script_times_until_the_speed_up_is_known(run: RunResult, tmp_path: Path) -> None:
    """The same run without its two options: timed until the interval is narrow enough, or the time is up."""
    spec = dataclasses.replace(run.spec, iterations=None, graph_break=False, most_seconds=0.5)
    answer = _executed(dataclasses.replace(run, spec=spec), tmp_path, *SHAPES)
    assert answer["verdict"] in ("faster", "same", "slower", "unsure")
    assert answer["picture"] == str(SCENE)
    assert set(answer["speedup"]) == set(answer["control"]) == FIELDS
    assert answer["speedup"]["low"] <= answer["speedup"]["ratio"] <= answer["speedup"]["high"]
    assert answer["speedup"]["ratio"] == pytest.approx(
        answer["eager"]["median_ms"] / answer["compiled"]["median_ms"], rel=0.5
    )
    assert len(answer["eager"]["wall_seconds"]) == len(answer["compiled"]["wall_seconds"]) >= 10
    assert answer["compilation"]["graphs"] == 1
    assert answer["recompiles_while_timing"] == 0
    assert _sees_the_same(answer, run)


def test_a_script_writes_the_text_that_the_run_writes(tmp_path: Path) -> None:
    """With full and with sliding attention; torch.compile is switched off, which spares half a minute."""
    vocabulary = {letter: place for place, letter in enumerate(string.ascii_letters)}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(tmp_path)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"num_key_value_heads": 1, "head_dim": 8, "sliding_window": 64, "vocab_size": len(vocabulary)}
    config = transformers.Gemma2Config(initializer_range=0.5, tie_word_embeddings=False, **sizes)
    torch.manual_seed(0)
    transformers.Gemma2ForCausalLM(config).save_pretrained(tmp_path)
    spec = RunSpec(str(tmp_path), TEXT_GENERATION, 2, device="cpu", prompt="a b c", tokens=20, iterations=12)
    subject = text_subject.load(spec, torch.device("cpu"))
    with torch.no_grad():
        known = subject.predictions(subject.outputs(subject.model))
    assert len(set(known.token_ids)) > 5
    answer = _executed(ok_result(spec=spec), tmp_path, TORCH_COMPILE_DISABLE="1")
    assert answer["eager"]["text"] == answer["compiled"]["text"] == known.text
    assert (answer["first_other_token"], answer["recompiles_while_timing"]) == (None, 0)
    first = answer["compilation"]
    assert first["first_call_seconds"] == first["parts"]["prefill"] + first["parts"]["decode"]
    for timed in (answer, answer["prefill"]):
        assert set(timed["speedup"]) == set(timed["control"]) == FIELDS
        assert len(timed["eager"]["wall_seconds"]) == len(timed["compiled"]["wall_seconds"]) == 12
    rate = answer["eager"]["tokens_per_second"]
    assert rate == pytest.approx(2 / statistics.median(answer["eager"]["wall_seconds"]))


def test_a_script_away_from_its_checkpoint_says_where_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Executed here, which spares a start of torch: it ends before it loads anything."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["run.py"])
    with pytest.raises(SystemExit) as ended:
        exec(compile(script.script(ok_result()), "run.py", "exec"), {"__name__": "__main__"})
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert "assets/checkpoints/shapes-vit" in error and "--checkpoint" in error
