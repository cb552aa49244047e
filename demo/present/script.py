"""A run as a stand-alone Python script that repeats it by the same protocol.

It needs torch and transformers alone, and pillow where the model sees a picture.

The script is put together from pieces: settings, the protocol, then what belongs to the checkpoint and its task. Text
of users and of the Hub appears in it only as literals of `repr`. Its statistics are those of `demo.core.stats`, without
numpy.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from demo.core import catalog, scenes
from demo.core.catalog import Checkpoint
from demo.core.errors import BadInput
from demo.core.key_mappings import KEY_MAPPINGS
from demo.core.languages import ENGLISH
from demo.core.result import RunResult
from demo.core.spec import CUDA_GRAPH_MODES, OPTIONS, OWN_MODEL, PUBLISHED_CALLS, TEXT_GENERATION, RunSpec
from demo.present import script_pieces as pieces
from demo.present import sentences

MAX_COLUMNS = 120
KINDS = {
    "image-classification": ("AutoModelForImageClassification",),
    "object-detection": ("AutoModelForObjectDetection", "AutoModelForZeroShotObjectDetection"),
    "image-segmentation": ("AutoModelForSemanticSegmentation", "AutoModelForUniversalSegmentation"),
}
"""Classes for a checkpoint of which only the task is given: the first that supports its config is taken."""
CAUSAL = "transformers.AutoModelForCausalLM"
PUBLISHED_PROMPTS = 30
"""Calls that read a prompt, for which the guide has no recipe: one may take as long as many steps."""


def script(result: RunResult) -> str:
    """The script that repeats `result`, formatted: at most 120 lines, 130 for layers, freezing or a package, 140 for
    text generation.

    The weights of a bundled checkpoint are named by their folder relative to the project's root, a model of the Hub by
    its id and revision; `--checkpoint` and `--image` name others. With random weights the architecture stands in the
    script itself, and so does a config that this project ships in place of the published one. A failed run has a
    script too: it fails the same way, for a report. Raises BadInput where the two variants were timed one after the
    other because they did not fit in memory together, and for an option that a script does not apply.
    """
    if not result.interleaved and result.spec.protocol == "interleaved":
        raise BadInput(
            "Eager and compiled did not fit in memory together and were timed one after the other, which no script "
            "does. Choose a run with a smaller batch."
        )
    spec = result.spec
    if spec.task == OWN_MODEL:
        raise BadInput("A run of a model of your own has no script: its model stands in your own file.")
    for name in spec.departures():
        if not (OPTIONS[name].in_script or OPTIONS[name].timing):
            raise BadInput(f"A script does not apply the option {name}, so none repeats this run.")
    checkpoint = catalog.find(spec.checkpoint)
    template = f"{pieces.HEAD.strip()}\n{(pieces.PICTURE if spec.sees_picture else pieces.TEXT).strip()}\n"
    gaps = {
        "PIL": "from PIL import Image, ImageOps" if spec.sees_picture else "",
        "NEEDS": "torch, transformers and pillow" if spec.sees_picture else "torch and transformers",
        "OPTION": pieces.CHECKPOINT if checkpoint is None or spec.weights == "pretrained" else "",
        "ASKIMAGE": pieces.IMAGE if spec.sees_picture else "",
        "MISSING": pieces.MISSING if needs_folder(spec) else "",
        "WAITING": _waiting(result),
        "CALL": _timed("call", spec),
        "PROTOCOL": _protocol(spec),
        "LOAD": load_lines(spec, checkpoint) if spec.sees_picture else load_text_lines(spec, checkpoint),
        "BATCH": _batch(result, checkpoint),
        "ORDER": _order(result),
        "LEAST": ", least=6" if spec.mode in CUDA_GRAPH_MODES and device(spec) == "cuda" else "",
        "COMPILE": _compile(spec),
        "PACKAGES": pieces.PACKAGES if spec.compiler == "aot" else "",
        "GRAPHS": "1" if spec.compiler == "aot" else 'counters["stats"]["unique_graphs"]',
        "BUILT": pieces.BUILT if spec.compiler == "aot" else "",
        "FORMAT": memory_format(spec),
        "PARTS": _parts(spec),
        "MEASURE": _measure(spec),
        "SEE": _see(result, checkpoint),
    }
    gaps["IMPORTS"] = "\n".join(name for name in pieces.IMPORTS if uses(name, (template, *gaps.values())))
    gaps["SETTINGS"] = _settings(result, checkpoint)  # no code: a prompt may end in "random."
    # One pass: text inside a piece is never taken for the name of another piece.
    return re.sub(r"#([A-Z]+)#(\n?)", lambda gap: _filled(gaps[gap[1]], gap[2]), template)


def loading_lines(package: Path) -> str:
    """The lines that load a package which a run has kept, for a process without this project.

    They refuse a package of other versions or another machine. `model` is then called with the run's inputs by name.
    """
    return (pieces.LOAD_PACKAGE % literal(str(package))).strip("\n")


def _filled(piece: str, end: str) -> str:
    return piece.strip("\n") + end if piece else ""


def uses(name: str, texts: Iterable[str]) -> bool:
    module = name.split()[-1]
    return any(re.search(rf"\b{module}[.(]", text) for text in texts)


def literal(value: Any) -> str:
    """`repr` as ruff formats it: with double quotes, unless the text has one."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(key)}: {literal(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text


def picture(result: RunResult) -> str | None:
    """The path of the run's picture where it is one that ships with the project; None for any other."""
    scene = scenes.find_scene(result.image.sha256) if result.image else None
    return _in_project(scene) if scene else None


def _in_project(path: Path) -> str:
    return path.relative_to(catalog.ASSETS.parent).as_posix()


def device(spec: RunSpec) -> str:
    """The spec of a run that failed early still says 'auto'."""
    return spec.device.replace("auto", "cpu")


def dtype(spec: RunSpec) -> str:
    """The type of weights and inputs, as code."""
    return f"torch.{'float32' if spec.dtype == 'tf32' else spec.dtype}"


def memory_format(spec: RunSpec) -> str:
    """A further argument of `Module.to` and `Tensor.to`, as code; '' for the default."""
    return ", memory_format=torch.channels_last" if spec.channels_last else ""


def compile_arguments(spec: RunSpec) -> str:
    """The arguments of torch.compile behind the model, as code."""
    dynamic = "" if spec.dynamic == "auto" else f", dynamic={spec.dynamic == 'on'}"
    return f"mode={literal(spec.mode)}, fullgraph={spec.fullgraph}{dynamic}"


def _settings(result: RunResult, checkpoint: Checkpoint | None) -> str:
    spec = result.spec
    names, values = ["DEVICE", "DTYPE", "BATCH_SIZE"], [literal(device(spec)), dtype(spec), spec.batch_size]
    if spec.iterations:
        names, values = [*names, "ITERATIONS"], [*values, spec.iterations]
    elif spec.protocol == "interleaved":
        names, values = [*names, "PRECISION", "MAX_SECONDS"], [*values, spec.precision, spec.most_seconds]
    if spec.task == TEXT_GENERATION:
        names, values = [*names, "TOKENS"], [*values, spec.tokens]
    lines = [
        f"THEN = {literal(_then(result))}",
        _image(result) if spec.sees_picture else prompt_line(spec),
        f"{', '.join(names)} = {', '.join(map(str, values))}",
    ]
    if checkpoint is None or spec.weights == "pretrained":
        lines.insert(1, f"CHECKPOINT = {literal(source_of(spec))}")
    if spec.text:
        listed = f"TEXT = {literal(list(spec.text))}"
        lines.append(listed if len(listed) <= MAX_COLUMNS else f"TEXT = json.loads({literal(json.dumps(spec.text))})")
    return "\n".join(lines)


def _image(result: RunResult) -> str:
    size = (result.image.width, result.image.height) if result.image else (640, 480)
    return f"IMAGE, IMAGE_SIZE = {literal(picture(result) or '')}, {size}"


def prompt_line(spec: RunSpec) -> str:
    line = f"PROMPT = {literal(spec.prompt)}"
    # The formatter may put a long text on a line of its own, and chooses other quotes where it saves a backslash.
    plain = len(line) <= MAX_COLUMNS and line.isascii() and "\\" not in line
    return line if plain else f"{line}  # fmt: skip"


def _then(result: RunResult) -> str:
    machine = result.environment
    answer = sentences.speedup_in_full(result, ENGLISH) or result.status
    where = f" on {machine.device_name}, torch {machine.torch}" if machine else ""
    return f"{answer}{where}, run {result.id}"


def needs_folder(spec: RunSpec) -> bool:
    """Whether the weights come only with this project, so that elsewhere the script needs --checkpoint."""
    checkpoint = catalog.find(spec.checkpoint)
    return checkpoint is not None and checkpoint.bundled and spec.weights == "pretrained"


def source_of(spec: RunSpec) -> str:
    checkpoint = catalog.find(spec.checkpoint)
    return _in_project(catalog.config_folder(checkpoint)) if checkpoint and needs_folder(spec) else spec.checkpoint


def _order(result: RunResult) -> str:
    """A comment that says why eager is called first, where that changes what is captured."""
    first = result.compilation.compiled_first if result.compilation else None
    if first is None:
        return ""
    graphs, breaks = (
        sentences.count(first.graphs, "graph", ENGLISH),
        sentences.count(len(first.graph_breaks), "break", ENGLISH),
    )
    return f"    # Call the model once in eager before compiling: compiled first, it becomes {graphs}, {breaks}."


def load_lines(spec: RunSpec, checkpoint: Checkpoint | None) -> str:
    """The code that loads processor and model, as `demo.backend.models` does."""
    kind = f"transformers.{checkpoint.auto_class}" if checkpoint else "kind"
    if checkpoint is not None and spec.weights == "random":
        known = [_own_processor(checkpoint), _own_config(checkpoint, labels=False)]
        return "\n".join([_architecture_of(checkpoint), *known, *_random(spec, kind)])
    files, weights = _files(spec, checkpoint)
    keys = KEY_MAPPINGS.get(spec.checkpoint)
    lines = [
        f"source, files = options.checkpoint, {literal(files)}",
        'processor = transformers.AutoImageProcessor.from_pretrained(source, backend="pil", **files)',
    ]
    if zero_shot(spec, checkpoint) and spec.weights == "pretrained":
        lines.append(pieces.TOKENIZER.strip())
    # transformers 5 refuses null in a field of a type, which 4 wrote: into the DETRs' revision without timm, as well.
    of_any_release = keys is None and (checkpoint is None or checkpoint.revision is not None)
    if of_any_release:
        lines += [
            "entries = json.dumps(transformers.PreTrainedConfig.get_config_dict(source, **files)[0])",
            "entries = json.loads(entries, object_hook=lambda part: {n: v for n, v in part.items() if v is not None})",
            "config = transformers.AutoConfig.for_model(**entries)",
        ]
    if checkpoint is None:
        kinds = ", ".join(f"transformers.{name}" for name in KINDS[spec.task])
        lines += [f"kinds = [{kinds}]", "kind = next(kind for kind in kinds if type(config) in kind._model_mapping)"]
    elif keys:
        lines += [_own_config(checkpoint), f"keys = {literal(keys)}  # fmt: skip"]
    if spec.weights == "random":
        return "\n".join(lines + _random(spec, kind))
    more = ("config=config, " if of_any_release or keys else "") + ("key_mapping=keys, " if keys else "")
    return "\n".join(lines + _pretrained(spec, kind, more, weights))


def load_text_lines(spec: RunSpec, checkpoint: Checkpoint | None) -> str:
    """The same for a causal language model, with a tokenizer where its weights are not random.

    Its config is left to transformers: null often means something there, such as no sliding window.
    """
    if checkpoint is not None and spec.weights == "random":
        return "\n".join([_architecture_of(checkpoint), _own_config(checkpoint), *_random(spec, CAUSAL)])
    files, weights = _files(spec, checkpoint)
    source = f"source, files = options.checkpoint, {literal(files)}"
    if spec.weights == "random":
        config = "config = transformers.AutoConfig.from_pretrained(source, **files)"
        return "\n".join([source, config, *_random(spec, CAUSAL)])
    return "\n".join([source, pieces.TOKENIZER.strip(), *_pretrained(spec, CAUSAL, "", weights)])


def _files(spec: RunSpec, checkpoint: Checkpoint | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of `from_pretrained`: for every file, and further ones for weights."""
    files: dict[str, Any] = {"trust_remote_code": False}  # left out, transformers would ask on the terminal
    named = source_of(spec)
    if named == spec.checkpoint and not catalog.is_folder(named):
        files["revision"] = (checkpoint.revision if checkpoint else None) or "main"
    return files, {} if checkpoint and "revision" in files else {"use_safetensors": True}


def _architecture_of(checkpoint: Checkpoint) -> str:
    return f"# The architecture of {checkpoint.id}, with random weights: nothing is fetched."


def _random(spec: RunSpec, kind: str) -> list[str]:
    arguments = "".join(f", {name}={literal(value)}" for name, value in _attention(spec).items())
    return ["torch.manual_seed(0)", f"model = {kind}.from_config(config{arguments}).to(DTYPE)"]


def _pretrained(spec: RunSpec, kind: str, more: str, weights: dict[str, Any]) -> list[str]:
    more += "".join(f"{name}={literal(value)}, " for name, value in (weights | _attention(spec)).items())
    call = f"from_pretrained(source, dtype=DTYPE, {more}**files)"
    if len(line := f"model = {kind}.{call}") <= MAX_COLUMNS:
        return [line]
    return [f"kind = {kind}", f"model = kind.{call}"]


def _attention(spec: RunSpec) -> dict[str, Any]:
    return {} if spec.attention == "auto" else {"attn_implementation": spec.attention}


def _own_config(checkpoint: Checkpoint, labels: bool = True) -> str:
    """The config that this project ships for a checkpoint, as code; without its labels only their number."""
    config = json.loads((catalog.config_folder(checkpoint) / "config.json").read_bytes())
    if not labels and "id2label" in config:
        config["num_labels"] = len(config.pop("id2label"))
        config.pop("label2id", None)
    return f"config = transformers.AutoConfig.for_model(**{literal(config)})  # fmt: skip"


def _own_processor(checkpoint: Checkpoint) -> str:
    settings = json.loads((catalog.config_folder(checkpoint) / "preprocessor_config.json").read_bytes())
    name = settings.pop("image_processor_type")
    return f"processor = transformers.{name}Pil(**{literal(settings)})  # fmt: skip"


def _waiting(result: RunResult) -> str:
    """The code that bounds how long waiting threads spin, as the run's environment did. OpenMP reads it on its start.

    Without it another program on one core may slow a call tenfold, and the two variants not alike.
    """
    told = result.environment.settings.get("spinning", "") if result.environment else ""
    found = re.findall(r"(OMP_WAIT_POLICY|GOMP_SPINCOUNT)=(\w+)", told)
    lines = [f"os.environ.setdefault({literal(name)}, {literal(value)})" for name, value in found]
    return "\n".join(f"{line}  # before torch: how long waiting threads spin, as in the run" for line in lines)


def _protocol(spec: RunSpec) -> str:
    if spec.protocol == "as published":
        return pieces.PUBLISHED
    return f"{pieces.INTERLEAVED.rstrip()}\n\n\n{(pieces.COUNTED if spec.iterations else pieces.UNTIL_KNOWN).lstrip()}"


def _compile(spec: RunSpec) -> str:
    """The code that compiles, as `demo.backend.ways` does."""
    if spec.compiler == "aot":
        shapes = pieces.ANY_SIZE if spec.dynamic == "on" else None
        return pieces.BUILD % (f"torch._inductor.list_mode_options({literal(spec.mode)})", shapes)
    if spec.scope == "layers":
        return pieces.COMPILE_LAYERS % ("compiled", compile_arguments(spec))
    return pieces.COMPILE % compile_arguments(spec)


def _measure(spec: RunSpec) -> str:
    text = spec.task == TEXT_GENERATION
    if spec.protocol == "as published":
        measure = pieces.MEASURE_PUBLISHED % (_timed("calls[name]", spec), "count" if text else PUBLISHED_CALLS)
    else:
        asked = f"{spec.iterations // 12}, " if spec.iterations else ""
        most = ", most" if text and not spec.iterations else ""
        measure = pieces.MEASURE % (asked, most, _timed("calls[v]", spec))
    return textwrap.indent(measure, "    ") if text else measure


def _parts(spec: RunSpec) -> str:
    """What is timed of a text model, in the order in which its first call compiles it."""
    if spec.protocol == "as published":
        return f'part, call, count in (("prefill", prefill, {PUBLISHED_PROMPTS}), ("decode", step, {PUBLISHED_CALLS}))'
    if spec.iterations:
        return 'part, call in (("prefill", prefill), ("decode", step))'
    return 'part, call, most in (("prefill", prefill, [MAX_SECONDS / 2]), ("decode", step, [MAX_SECONDS]))'


def _timed(call: str, spec: RunSpec) -> str:
    """The timed expression: on a GPU a call with a synchronisation after it."""
    return f"lambda: ({call}(), torch.cuda.synchronize())" if device(spec) == "cuda" else call


def zero_shot(spec: RunSpec, checkpoint: Checkpoint | None) -> bool:
    """A detector that is not in the catalogue is zero-shot if the run has text queries."""
    return checkpoint.takes_text if checkpoint else spec.task == "object-detection" and bool(spec.text)


def settings_lines(result: RunResult) -> list[str]:
    """The settings of torch, a line each."""
    spec, known = result.spec, result.environment
    lines = []
    if spec.threads:
        lines.append(f"torch.set_num_threads({spec.threads})")
    elif known is not None and known.gave_way:
        lines.append(f"torch.set_num_threads({known.threads})  # as in the run: other programs kept cores busy")
    if spec.freezing:
        lines.append("torch._inductor.config.freezing = True")
    if spec.dynamic == "on" and spec.compiler == "jit":
        lines.append("torch.fx.experimental._config.use_duck_shape = False")
    if spec.dtype == "tf32":
        lines.append('torch.set_float32_matmul_precision("high")')
    elif device(spec) == "cuda":
        lines.append("torch.backends.cudnn.allow_tf32 = False")
    return lines


def _batch(result: RunResult, checkpoint: Checkpoint | None) -> str:
    """The code for the run's other options, a few lines each."""
    spec, lines = result.spec, settings_lines(result)
    if zero_shot(spec, checkpoint):
        lines.append(pieces.MADE_UP_TOKENS if spec.weights == "random" else pieces.TOKENS)
    if spec.task == TEXT_GENERATION:
        lines.append(prompt_token_lines(result, checkpoint))
    if spec.task == "image-segmentation" and spec.weights == "pretrained":
        lines.append(pieces.TARGET)
    return "\n".join(line.strip("\n") for line in lines)


def prompt_token_lines(result: RunResult, checkpoint: Checkpoint | None) -> str:
    """The code that makes tokens of the prompt.

    With random weights they are made up: as many as in the run, which used a bundled checkpoint's tokenizer.
    """
    if result.spec.weights == "pretrained":
        return pieces.PROMPT_TOKENS
    if result.generation is None or checkpoint is None or not checkpoint.bundled:
        return pieces.MADE_UP_PROMPT % "words"
    number = result.generation.prompt_tokens
    return pieces.MADE_UP_PROMPT % f"(words * {number})[:{number}]"


def _see(result: RunResult, checkpoint: Checkpoint | None) -> str:
    """The code that decodes predictions, with the thresholds of `demo.backend.predictions`."""
    spec = result.spec
    if spec.weights == "random":
        return ""
    if spec.task == TEXT_GENERATION:
        return pieces.WRITTEN
    if spec.task == "image-classification":
        return pieces.LABELS
    found = pieces.DECODED_IN_FLOAT32.rstrip() if spec.dtype in ("float16", "bfloat16") else ""
    if spec.task == "object-detection":
        if zero_shot(spec, checkpoint):
            return found + pieces.BOXES.replace("0.55", "0.1").replace('names.get(at, f"LABEL_{at}")', "TEXT[at]")
        return found + pieces.BOXES
    decoded = {seen.segmentation for seen in (result.predictions or {}).values()} - {None}
    kind = checkpoint.segmentation if checkpoint else next(iter(decoded), None)
    kind = kind or catalog.segmentation_in(spec.checkpoint.replace("\\", "/").split("/")[-1]) or "semantic"
    return found + (pieces.SEMANTIC if kind == "semantic" else pieces.INSTANCES.replace("#KIND#", kind))
