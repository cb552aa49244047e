"""A run as a stand-alone Python program: the lines that load, compile and call its model, or these and a timing.

Both are the file `script_template.py`, filled in: its `# {%` lines are statements of Jinja, `fill("...")` stands for a
value. Text of users and of the Hub appears in a program only as a literal of `repr`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2

from demo.core import catalog, scenes
from demo.core.catalog import Checkpoint
from demo.core.errors import BadInput
from demo.core.key_mappings import KEY_MAPPINGS
from demo.core.languages import ENGLISH
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, OWN_MODEL, TEXT_GENERATION, RunSpec
from demo.present import sentences

KINDS = {
    "image-classification": ("AutoModelForImageClassification",),
    "object-detection": ("AutoModelForObjectDetection", "AutoModelForZeroShotObjectDetection"),
    "image-segmentation": ("AutoModelForSemanticSegmentation", "AutoModelForUniversalSegmentation"),
    TEXT_GENERATION: ("AutoModelForCausalLM",),
}
"""Classes for a checkpoint of which only the task is given: the first that supports its config is taken."""


class Code(str):
    """Text that stands in a program as it is; every other value becomes its literal."""


def literal(value: Any) -> str:
    """`repr` as ruff formats it: with double quotes, unless the text has one."""
    if isinstance(value, Code):
        return value
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(key)}: {literal(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    block_start_string="# {%",
    trim_blocks=True,
    lstrip_blocks=True,
    variable_start_string='fill("',
    variable_end_string='")',
    finalize=literal,
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
)


def script(result: RunResult) -> str:
    """The program that times the model of `result` again, in turns, and prints medians, their ratio and the outputs.

    It has no interval and no noise floor, times whole answers of a text model, and takes a grey picture for one of the
    user's own. A folder of this project is named relative to the project's root. With random weights the tokens of a
    text are drawn at random. A failed run has a script too: it fails the same way, for a report.

    Raises BadInput where the two variants did not fit in memory together, and for an option that a script does not
    apply.
    """
    if not result.interleaved and result.spec.protocol == "interleaved":
        raise BadInput(
            "Eager and compiled did not fit in memory together and were timed one after the other, which no script "
            "does. Choose a run with a smaller batch."
        )
    for name in result.spec.departures():
        if not (OPTIONS[name].in_script or OPTIONS[name].timing):
            raise BadInput(f"A script does not apply the option {name}, so none repeats this run.")
    return _program(result, timed=True)


def snippet(result: RunResult) -> str:
    """The program that loads the model of `result`, compiles it with the run's settings and calls it once."""
    return _program(result, timed=False)


def loading_lines(package: Path) -> str:
    """The lines that load a package which a run has kept, for a process without this project.

    They refuse a package of other versions or another machine. `model` is then called with the run's inputs by name.
    """
    return _TEMPLATES.get_template("package_template.py").render(package=str(package)).strip()


def needs_folder(spec: RunSpec) -> bool:
    """Whether weights or config come with this project, so that the program is started in its folder."""
    checkpoint = catalog.find(spec.checkpoint)
    shipped = spec.weights == "random" or spec.checkpoint in KEY_MAPPINGS
    return checkpoint is not None and (checkpoint.bundled or shipped)


def device(spec: RunSpec) -> str:
    """The device's name for torch. The spec of a run that failed early still says 'auto'."""
    return spec.device.replace("auto", "cpu")


def _program(result: RunResult, timed: bool) -> str:
    spec, checkpoint = result.spec, catalog.find(result.spec.checkpoint)
    facts = _settings(result, timed) | _model(spec, checkpoint) | _calls(spec) | _compiling(result)
    if spec.task == TEXT_GENERATION:
        facts |= _prompt(result)
    elif spec.task != OWN_MODEL:
        facts |= _picture(result, checkpoint)
    return _TEMPLATES.get_template("script_template.py").render(spec=spec, timed=timed, **facts).strip() + "\n"


def _settings(result: RunResult, timed: bool) -> dict[str, Any]:
    """What is set before a model is loaded, and what the run's own answer was."""
    spec, machine = result.spec, result.environment
    spinning = machine.settings.get("spinning", "") if machine else ""
    answer = sentences.speedup_in_full(result, ENGLISH) or result.status
    where = f" on {machine.device_name}, torch {machine.torch}" if machine else ""
    return {
        "device": device(spec),
        "dtype": Code(f"torch.{'float32' if spec.dtype == 'tf32' else spec.dtype}"),
        "half": spec.dtype in ("float16", "bfloat16"),
        "waiting": re.findall(r"(OMP_WAIT_POLICY|GOMP_SPINCOUNT)=(\w+)", spinning) if timed else [],
        "gave_way": machine.threads if machine is not None and machine.gave_way else None,
        "then": f"{answer}{where}, run {result.id}",
        "own": spec.task == OWN_MODEL,
        "text": spec.task == TEXT_GENERATION,
        "random": spec.weights == "random",
    }


def _model(spec: RunSpec, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """How the model is loaded, as `demo.backend.models` does."""
    random = spec.weights == "random"
    place = "DEVICE, memory_format=torch.channels_last" if spec.channels_last else "DEVICE"
    if spec.task == OWN_MODEL:
        file, _, function = spec.checkpoint.rpartition(":")
        return {
            "file": Path(file).name,
            "function": function,
            "place": Code(place),
            "kinds": None,
            "nulls": False,
            "zero_shot": False,
        }
    source, options = spec.checkpoint, dict[str, Any]()
    files: dict[str, Any] = {"trust_remote_code": False}  # left out, transformers would ask
    folder = catalog.config_folder(checkpoint).relative_to(catalog.ASSETS.parent).as_posix() if checkpoint else ""
    shipped = checkpoint is not None and (checkpoint.bundled or random)
    if shipped:
        source = folder
    elif not catalog.is_folder(source):
        files |= {"revision": (checkpoint.revision if checkpoint else None) or "main"}
    keys = None if random else KEY_MAPPINGS.get(spec.checkpoint)
    # transformers 5 refuses null in a field of a type, which 4 wrote: into the DETRs' revision without timm, as well.
    # The config of a text model is left to transformers: null often means something there.
    nulls = spec.sees_picture and not (shipped or keys) and (checkpoint is None or checkpoint.revision is not None)
    kinds = (checkpoint.auto_class,) if checkpoint else KINDS[spec.task]
    if random or nulls or keys:
        options["config"] = Code("config")
    if not random:
        options = {"dtype": Code("DTYPE")} | options | ({"key_mapping": Code("keys")} if keys else {})
        options |= {} if checkpoint and "revision" in files and checkpoint.revision else {"use_safetensors": True}
    if spec.attention != "auto":
        options["attn_implementation"] = spec.attention
    return {
        "source": source,
        "files": files,
        "needs_folder": needs_folder(spec),
        "config": folder if keys else Code("source") if random else None,
        "keys": keys,
        "nulls": nulls,
        "kinds": Code(f"({', '.join(f'transformers.{kind}' for kind in kinds)})") if kinds[1:] else None,
        "kind": Code(kinds[0]),
        "arguments": Code(", ".join(f"{name}={literal(value)}" for name, value in options.items())),
        "place": Code(place),
        # A detector that is not in the catalogue is zero-shot if the run has text queries.
        "zero_shot": checkpoint.takes_text if checkpoint else spec.task == "object-detection" and bool(spec.text),
        "reads_text": bool(spec.text) or spec.task == TEXT_GENERATION,
    }


def _prompt(result: RunResult) -> dict[str, Any]:
    """With random weights the prompt has as many tokens as the run's, or one a word where the run did not get there."""
    words = len(result.spec.prompt.split())
    return {
        "prompt_tokens": result.generation.prompt_tokens if result.generation else words,
        "decoded": None if result.spec.weights == "random" else "text",
    }


def _picture(result: RunResult, checkpoint: Checkpoint | None) -> dict[str, Any]:
    """The run's picture where it ships with the project, and how outputs are decoded, as `demo.backend.predictions`."""
    spec, image = result.spec, result.image
    scene = scenes.find_scene(image.sha256) if image else None
    decoded = {"image-classification": "labels", "object-detection": "boxes"}.get(spec.task)
    if decoded is None:
        seen = {found.segmentation for found in (result.predictions or {}).values()} - {None}
        decoded = checkpoint.segmentation if checkpoint else next(iter(seen), None)
        decoded = decoded or catalog.segmentation_in(spec.checkpoint.replace("\\", "/").split("/")[-1]) or "semantic"
    return {
        "picture": scene.relative_to(catalog.ASSETS.parent).as_posix() if scene else None,
        "size": (image.width, image.height) if image else (640, 480),
        "queries": list(spec.text),
        "converted": Code("DTYPE, memory_format=torch.channels_last" if spec.channels_last else "DTYPE"),
        "threshold": 0.1 if (checkpoint.takes_text if checkpoint else spec.text) else 0.55,
        "decoded": None if spec.weights == "random" else decoded,
        "decoder": Code(f"post_process_{decoded}_segmentation"),
    }


def _calls(spec: RunSpec) -> dict[str, Any]:
    """One call of the model, as code."""
    arguments = "*arguments, **inputs" if spec.task == OWN_MODEL else "**inputs"
    return {
        **{
            name: Code(f"write({called})" if spec.task == TEXT_GENERATION else f"{called}({arguments})")
            for name, called in (("eager", "model"), ("compiled", "compiled"))
        },
        "decoded": None,
    }


def _compiling(result: RunResult) -> dict[str, Any]:
    """How the model is compiled, as `demo.backend.compile_model` does."""
    spec, compilation = result.spec, result.compilation
    dynamic = "" if spec.dynamic == "auto" else f", dynamic={spec.dynamic == 'on'}"
    options = f"torch._inductor.list_mode_options({literal(spec.mode)})"
    exported = f"{'arguments' if spec.task == OWN_MODEL else '()'}, kwargs=inputs"
    if spec.dynamic == "on":
        options += ' | {"aot_inductor.check_lowerbound": False}'  # else the check of inputs refuses a batch of 1
        exported += ", dynamic_shapes=shapes"
    return {
        "aot": spec.compiler == "aot",
        "layers": spec.compiler == "jit" and spec.scope == "layers",
        "compile_arguments": Code(f"mode={literal(spec.mode)}, fullgraph={spec.fullgraph}{dynamic}"),
        "package_options": Code(options),
        "exported": Code(exported),
        "compiled_first": compilation is not None and compilation.compiled_first is not None,
        "warm": spec.cached and compilation is not None and "warm" in compilation.known_costs,
    }
