"""Writes a stand-alone program that times the model of a run again, and the lines to change in a user's own code.

Jinja fills in `script_template.py`: a line with `# {%` is a Jinja statement, and `fill("...")` is a value. Text from
users and from the Hub becomes a `repr` literal in the program, so that such text is never executed.
"""

from pathlib import Path
from typing import Any

import jinja2

from demo.core import catalog
from demo.core.catalog import KEY_MAPPINGS, Checkpoint
from demo.core.options import OPTIONS, OWN_MODEL, TEXT_GENERATION, BadInput, RunSpec
from demo.core.result import RunResult
from demo.present import verdict
from demo.tasks.registry import BY_NAME

APPLIED = (
    *("batch_size", "mode", "fullgraph", "dtype", "device", "weights", "text", "channels_last", "threads"),
    *("compiler", "scope", "freezing", "prompt", "tokens"),
)
"""The options that the program applies. A run that sets any other option gets no program, timing options aside."""
DYNAMIC = {"auto": None, "on": True, "off": False}
"""The argument `dynamic` of torch.compile, by the option `dynamic` of a run."""


class Code(str):
    """Text that is put into a program as code, not as a string literal."""


def literal(value: Any) -> str:
    """Returns a value as Python source: `Code` unchanged, anything else as its `repr`, if possible in double quotes."""
    if isinstance(value, Code):
        return value
    text = repr(value)
    return text if '"' in text else text.replace("'", '"')


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    block_start_string="# {%",
    trim_blocks=True,
    lstrip_blocks=True,
    variable_start_string='fill("',
    variable_end_string='")',
    finalize=literal,
    undefined=jinja2.StrictUndefined,
)


def script(result: RunResult) -> str:
    """Returns a program that times the model of `result` again, eager and compiled in turns, and compares the outputs.

    The program of a failed run fails the same way, for a bug report. Raises BadInput for a run with random weights and
    a text or prompt, and for a run that sets an option outside `APPLIED`, except options that only change the timing.
    """
    for name in result.spec.departures():
        if not (name in APPLIED or OPTIONS[name].timing):
            raise BadInput(f"A program does not apply the option {name}, so none repeats this run.")
    if (result.spec.text or result.spec.prompt) and result.spec.weights == "random":
        raise BadInput("A program with a text needs trained weights, so none repeats this run.")
    return _TEMPLATES.get_template("script_template.py").render(**_template_variables(result)).strip() + "\n"


def loading_lines(package: Path) -> str:
    """Returns Python lines that load a run's AOTInductor package as `model`, which takes its inputs by name.

    The lines need nothing of this project. They raise SystemExit if the package was built with another version of torch
    or transformers, or on another processor.
    """
    return _TEMPLATES.get_template("package_template.py").render(package=str(package)).strip()


def change(spec: RunSpec) -> str:
    """Returns the lines to add to a user's own code that has a `model`, such as 'model = torch.compile(model)'."""
    values = {"mode": spec.mode, "fullgraph": spec.fullgraph, "dynamic": DYNAMIC[spec.dynamic]}
    usual = {"mode": "default", "fullgraph": False, "dynamic": None}
    arguments = [f"{name}={literal(value)}" for name, value in values.items() if value != usual[name]]
    lines = ["torch._inductor.config.freezing = True  # call the model under torch.no_grad()"] if spec.freezing else []
    if spec.compiler == "aot":
        lines += [
            "program = torch.export.export(model, (), kwargs=inputs)",
            'torch._inductor.aoti_compile_and_package(program, package_path="model.pt2")',
            'model = torch._inductor.aoti_load_package("model.pt2")  # here, or in another process',
        ]
    elif spec.scope == "layers":
        lines += ["for layer in model_layers:  # the repeated ones", f"    layer.compile({', '.join(arguments)})"]
    else:
        lines.append(f"model = torch.compile({', '.join(['model', *arguments])})")
    return "\n".join(lines)


def needs_folder(spec: RunSpec) -> bool:
    """Returns whether the program of `script` reads files of this project, and so must start in its folder."""
    checkpoint = catalog.find(spec.checkpoint)
    return checkpoint is not None and (checkpoint.bundled or spec.weights == "random" or _has_own_config(checkpoint))


def _has_own_config(checkpoint: Checkpoint | None) -> bool:
    """Returns whether this project brings a config for the checkpoint: transformers cannot load the published one."""
    # the published config asks for timm, or has nulls in the revision that is used
    return checkpoint is not None and (checkpoint.id in KEY_MAPPINGS or checkpoint.revision is not None)


def _template_variables(result: RunResult) -> dict[str, Any]:
    spec, machine, image = result.spec, result.environment, result.image
    scene = catalog.find_scene(image.sha256) if image else None
    answer = verdict.speedup_in_full(result) or result.status
    where = f" on {machine.device_name}, torch {machine.torch}" if machine else ""
    layout = ", memory_format=torch.channels_last" if spec.channels_last else ""
    device = spec.device.replace("auto", "cpu")  # the spec of a run that failed early still says 'auto'
    return {
        "spec": spec,
        "device": device,
        "dtype": Code(f"torch.{'float32' if spec.dtype == 'tf32' else spec.dtype}"),
        "threads": spec.threads or (result.threads if device == "cpu" else None),
        "then": f"{answer}{where}, run {result.id}",
        "own": spec.task == OWN_MODEL,
        "text": spec.task == TEXT_GENERATION,
        "picture": scene.relative_to(catalog.ASSETS.parent).as_posix() if scene else None,
        "size": (image.width, image.height) if image else (640, 480),
        "place": Code(f"DEVICE{layout}"),
        "converted": Code(f"DTYPE{layout}"),
        "call": "run(one); torch.cuda.synchronize()" if device == "cuda" else "run(one)",
        "layers": spec.compiler == "jit" and spec.scope == "layers",
        "project": needs_folder(spec) or scene is not None,
        **_model(spec),
    }


def _model(spec: RunSpec) -> dict[str, Any]:
    """Returns the template's variables for loading the model. The program loads it as `demo.backend.models` does."""
    if spec.task == OWN_MODEL:
        file, function = catalog.own_model_parts(spec.checkpoint)
        return {"file": file.name, "function": function}
    random, checkpoint = spec.weights == "random", catalog.find(spec.checkpoint)
    files: dict[str, Any] = {"trust_remote_code": False}  # left out, transformers would ask
    kind, revision, source, folder = BY_NAME[spec.task].auto_classes[0], None, spec.checkpoint, ""
    if checkpoint is not None:
        kind, revision = checkpoint.auto_class, checkpoint.revision
        folder = catalog.config_folder(checkpoint).relative_to(catalog.ASSETS.parent).as_posix()
    if checkpoint is not None and (checkpoint.bundled or random):
        source = folder
    elif revision:
        files["revision"] = revision
    if spec.text:
        kind = "AutoModelForZeroShotObjectDetection"
    keys = None if random else KEY_MAPPINGS.get(spec.checkpoint)
    config = Code("source") if random else folder if _has_own_config(checkpoint) else None
    arguments = {"config=config": config, "key_mapping=keys": keys, "use_safetensors=True": not revision}
    return {
        "source": source,
        "files": files,
        "config": config,
        "keys": keys,
        "kind": Code(kind),
        "arguments": Code(", ".join(["dtype=DTYPE", *(text for text, wanted in arguments.items() if wanted)])),
    }
