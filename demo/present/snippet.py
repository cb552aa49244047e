"""A short program for somebody's own code: loads the run's model, compiles it with the run's settings and calls it."""

from __future__ import annotations

from pathlib import Path

from demo.core import catalog
from demo.core.catalog import Checkpoint
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL, TEXT_GENERATION, RunSpec
from demo.present import script_pieces as pieces
from demo.present.script import (
    compile_arguments,
    device,
    dtype,
    literal,
    load_lines,
    load_text_lines,
    memory_format,
    picture,
    prompt_line,
    prompt_token_lines,
    settings_lines,
    source_of,
    uses,
    zero_shot,
)


def snippet(result: RunResult) -> str:
    """A short program that loads the run's model, compiles it with the run's settings and calls it once.

    A bundled checkpoint is named by its folder, so the program is started in the project's; a picture of the user's own
    is replaced by a grey one. It does not decode what a vision model answers.
    """
    spec = result.spec
    checkpoint, text = catalog.find(spec.checkpoint), spec.task == TEXT_GENERATION
    head = f"DEVICE, DTYPE, BATCH_SIZE = {literal(device(spec))}, {dtype(spec)}, {spec.batch_size}"
    if spec.task == OWN_MODEL:
        lines, call = _own_lines(spec), "model(*arguments, **inputs)"
    elif text:
        lines = [prompt_line(spec), load_text_lines(spec, checkpoint), prompt_token_lines(result, checkpoint).strip()]
        call = ""
    else:
        lines, call = [load_lines(spec, checkpoint), *_picture_lines(result, checkpoint)], "model(**inputs)"
    lines.append(f"model = model.to(DEVICE{memory_format(spec)}).eval()")
    lines[:0] = settings_lines(result)
    before, after = [], [f"outputs = {call}"]
    if text:
        before, after = ((piece.strip() % spec.tokens).split("\n") for piece in (pieces.LAY_OUT, pieces.WRITE))
    elif result.compilation is not None and result.compilation.compiled_first is not None:
        before = [f"{call}  # once in eager before compiling: else it becomes other graphs"]
    lines += ["with torch.no_grad():", *(f"    {line}" for line in [*before, *_compiling(spec), *after])]
    if text:
        pretrained = spec.weights == "pretrained"
        lines.append(f"print({'tokenizer.decode(written, skip_special_tokens=True)' if pretrained else 'written'})")
    if spec.cached and result.compilation is not None and "warm" in result.compilation.known_costs:
        lines.append("# The next start is as quick as told if the folder TORCHINDUCTOR_CACHE_DIR is kept.")
    body = "\n".join(lines).replace("= options.checkpoint,", f"= {literal(source_of(spec))},", 1)
    imports = [name for name in (*pieces.IMPORTS, "import runpy", "import transformers") if uses(name, [body])]
    imports += ["from PIL import Image"] if spec.sees_picture else []
    return "\n".join(["import torch", *imports, "", head, body])


def _own_lines(spec: RunSpec) -> list[str]:
    file, _, function = spec.checkpoint.rpartition(":")
    return [
        f"model, inputs = runpy.run_path({literal(Path(file).name)})[{literal(function)}]()",
        "place = lambda one: one.to(DEVICE, DTYPE if one.dtype == torch.float32 else None)",
        "inputs = torch.utils._pytree.tree_map_only(torch.Tensor, place, inputs)",
        "arguments = () if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple) else (inputs,)",
        "inputs, model = inputs if isinstance(inputs, dict) else {}, model.to(DTYPE)",
    ]


def _picture_lines(result: RunResult, checkpoint: Checkpoint | None) -> list[str]:
    spec, size = result.spec, (result.image.width, result.image.height) if result.image else (640, 480)
    known = picture(result)
    opened = f'Image.open({literal(known)}).convert("RGB")' if known else f'Image.new("RGB", {size}, "grey")'
    lines = [
        f"picture = {opened}" + ("" if known else '  # yours: Image.open("...").convert("RGB")'),
        'inputs = processor(images=[picture], return_tensors="pt")',
        'inputs = {name: value for name, value in inputs.items() if "pixel" in name}',
    ]
    if zero_shot(spec, checkpoint):
        tokens = pieces.MADE_UP_TOKENS if spec.weights == "random" else pieces.TOKENS
        lines += [f"TEXT = {literal(list(spec.text))}", tokens.strip()]
    return [
        *lines,
        "inputs = {name: torch.cat([value] * BATCH_SIZE).to(DEVICE) for name, value in inputs.items()}",
        f'inputs["pixel_values"] = inputs["pixel_values"].to(DTYPE{memory_format(spec)})',
    ]


def _compiling(spec: RunSpec) -> list[str]:
    """The lines that make `model` the compiled one, within no_grad()."""
    if spec.compiler == "jit" and spec.scope == "layers":
        return (pieces.SELECT_LAYERS.strip("\n") % ("model", compile_arguments(spec))).split("\n")
    if spec.compiler == "jit":
        return [f"model = torch.compile(model, {compile_arguments(spec)})"]
    shapes = f", dynamic_shapes={pieces.ANY_SIZE.replace('batch', 'inputs')}" if spec.dynamic == "on" else ""
    options = f"torch._inductor.list_mode_options({literal(spec.mode)})"
    if spec.dynamic == "on":
        options += ' | {"aot_inductor.check_lowerbound": False}'  # else the check of inputs refuses a batch of 1
    given = "arguments" if spec.task == OWN_MODEL else "()"
    return [
        f"program = torch.export.export(model, {given}, kwargs=inputs{shapes})",
        f"configs = {options}",
        'torch._inductor.aoti_compile_and_package(program, package_path="model.pt2", inductor_configs=configs)',
        'os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"  # else it answers inputs of other sizes with wrong numbers',
        'model = torch._inductor.aoti_load_package("model.pt2")  # here, or in another process',
    ]
