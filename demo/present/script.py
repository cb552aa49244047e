"""Writes a stand-alone program that times a run's model again, and the lines to change in a user's own code.

A program is put together from blocks of text, in which `$name` stands for a value. Text from users and from the Hub is
written as a `repr` literal, so that it is never executed.
"""

from pathlib import Path
from string import Template

from ..core import catalog, program
from ..core.options import OPTIONS, OWN_MODEL, TEXT_GENERATION, BadInput, RunSpec
from ..core.program import IN_CHECKOUT, PACKAGE
from ..core.result import RunResult
from ..tasks.registry import BY_NAME
from . import naming
from .report import Report

APPLIED = (
    *("batch_size", "mode", "fullgraph", "dtype", "device", "weights", "text", "channels_last", "threads"),
    *("compiler", "scope", "freezing", "prompt", "tokens"),
)
"""Options that the program of `script` applies. A run with another option gets no program, unless the option changes
only the timing."""
DYNAMIC_ARGUMENT = {"auto": [], "on": ["dynamic=True"], "off": ["dynamic=False"]}
TITLE_BLOCK = '"""Times a model eager and compiled, in turns."""\n'
HEAD_BLOCK = """
import statistics
import time
import torch
from torch.utils import benchmark
DEVICE, DTYPE, TF32, LAYOUT, BATCH_SIZE = $device, torch.$dtype, $tf32, torch.$layout, $batch_size
torch.set_num_threads($threads)
torch.set_float32_matmul_precision("high" if TF32 else "highest")
torch.backends.cudnn.allow_tf32 = TF32
torch._inductor.config.freezing = $freezing
torch.set_grad_enabled(False)
torch.manual_seed(0)"""
EAGER_FIRST_BLOCK = """


run(model)  # eager first: compiled first, a model may become other graphs
start = time.perf_counter()"""
MEASURE_BLOCK = """
run(compiled)
print(f"First compiled call, with all that was compiled for it: {time.perf_counter() - start:.1f} s.")
times = {"eager": [], "compiled": []}
for _ in range(10):
    for name, one in (("eager", model), ("compiled", compiled)):
        timer = benchmark.Timer($call, globals={**globals(), "one": one}, num_threads=torch.get_num_threads())
        times[name] += timer.blocked_autorange(min_run_time=0.25).times  # it calls some times before it counts
for name, seconds in times.items():
    low, middle, high = (1000 * value for value in statistics.quantiles(seconds, n=4))
    print(f"{name:9}{middle:.3g} ms a call, the middle half {low:.3g} to {high:.3g} ms")
ratio = statistics.median(times["eager"]) / statistics.median(times["compiled"])
print(f"ratio    {ratio:.2f}. The run said:", $then)"""
FOLDER_BLOCK = """
import os
if not os.path.isdir("assets"):
    raise SystemExit("It needs files of the project Worth Compiling?: start it in its folder.")"""
INSTALLED_FOLDER_BLOCK = f"""
import importlib.util
import os
os.chdir(os.path.dirname(importlib.util.find_spec("{PACKAGE}").origin))"""
OWN_MODEL_BLOCK = """
import runpy
model, inputs = runpy.$run($file)[$function]()
model = model.to(DEVICE, DTYPE, memory_format=LAYOUT).eval()
inputs = torch.utils._pytree.tree_map_only(
    torch.Tensor,
    lambda one: one.to(DEVICE, DTYPE if one.is_floating_point() else None),
    dict(inputs) if hasattr(inputs, "keys") else inputs,
)
arguments = () if isinstance(inputs, dict) else inputs if isinstance(inputs, (list, tuple)) else (inputs,)
inputs = inputs if isinstance(inputs, dict) else {}"""
MODEL_BLOCK = """
import transformers
source, files = $source, {"trust_remote_code": False, "revision": $revision}
config = transformers.AutoConfig.from_pretrained($config, **files)
model = transformers.$model
model = model.to(DEVICE, memory_format=LAYOUT).eval()"""
PROMPT_BLOCK = """
tokenizer = transformers.AutoTokenizer.from_pretrained(source, **files)
prompt = tokenizer([$prompt] * BATCH_SIZE, return_tensors="pt")["input_ids"].to(DEVICE)
length = prompt.shape[1] + $tokens
cache = transformers.StaticCache(config=model.config, max_cache_len=length)
cache.layers = [transformers.cache_utils.StaticLayer(length) for _ in cache.layers]  # no sliding window counts in it
model(prompt[:, :1], past_key_values=cache, use_cache=True)  # once in eager, which lays the cache out


def run(one):
    cache.reset()  # in place: compiled calls go on using its tensors
    tokens, written = prompt, []
    for _ in range($tokens):
        logits = one(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        tokens = logits[:, -1].argmax(-1, keepdim=True)
        written.append(tokens[0].item())
    return written"""
PICTURE_BLOCK = """
from PIL import Image, ImageOps
processor = transformers.AutoImageProcessor.from_pretrained(source, backend="pil", **files)
picture = $picture  # of yours: Image.open("...")
inputs = processor(images=[ImageOps.exif_transpose(picture).convert("RGB")], return_tensors="pt")
inputs = {name: inputs[name] for name in inputs if "pixel" in name}"""
QUERIES_BLOCK = """
tokenizer = transformers.AutoTokenizer.from_pretrained(source, **files)
inputs |= tokenizer(list($text), padding="max_length", truncation=True, max_length=16, return_tensors="pt")"""
BATCH_BLOCK = """
inputs = {name: torch.cat([value] * BATCH_SIZE).to(DEVICE) for name, value in inputs.items()}
arguments, inputs["pixel_values"] = (), inputs["pixel_values"].to(DTYPE, memory_format=LAYOUT)"""
RUN_BLOCK = """


def run(one):
    return one(*arguments, **inputs)"""
LAYERS_BLOCK = """
import copy
import transformers
compiled = copy.deepcopy(model, {id(one): one for one in (*model.parameters(), *model.buffers())})  # the same weights
layers = [one for one in compiled.modules() if isinstance(one, transformers.GradientCheckpointingLayer)]
model_layers = [one for one in layers if not any(inner in layers for inner in one.modules() if inner is not one)]"""
AOT_BLOCK = """
import os
options = torch._inductor.list_mode_options($mode)
program = torch.export.export(model, $arguments, kwargs=inputs)
torch._inductor.aoti_compile_and_package(program, package_path="model.pt2", inductor_configs=options)
os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"  # else it answers other inputs with wrong numbers
$compiled = torch._inductor.aoti_load_package("model.pt2")  # here, or in another process"""
OUTPUTS_BLOCK = """
outputs = (torch.utils._pytree.tree_leaves(run(one)) for one in (model, compiled))
apart = max(float((x.float() - y.float()).abs().max()) for x, y in zip(*outputs) if torch.is_tensor(x))
print(f"The outputs lie {apart:.2g} apart at most.")"""
TEXTS_BLOCK = """
for name, one in (("eager", model), ("compiled", compiled)):
    print(name, repr(tokenizer.decode(run(one), skip_special_tokens=True)))"""
PACKAGE_BLOCK = """
import importlib
import os
import platform
import torch
import transformers
from torch.export.pt2_archive._package import AOTICompiledModel
loader, package = torch._C._aoti.AOTIModelPackageLoader, $package
built = loader.load_metadata_from_package(package, "model")
here = {"torch": torch.__version__, "transformers": transformers.__version__}
here["processor"] = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
if here != {name: built.get(name) for name in here}:
    raise SystemExit(f"{package} was built for {built}, and this is {here}: build it here.")
importlib.import_module(built["outputs"])  # the class of what the model returns
os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"  # else it answers other inputs with wrong numbers
model = AOTICompiledModel(loader(package, "model", False, 1, -1))"""


def script(report: Report) -> str:
    """Returns a program that times a result's model again, eager and compiled in turns, and compares the outputs.

    Of a text model it prints both texts instead. If the run could not compile, the program shows the same error, for a
    bug report. Raises BadInput if no program can repeat the run (see `script_refusal`).
    """
    result = report.result
    spec, image = result.spec, result.image
    if refused := script_refusal(spec):
        raise BadInput(refused)
    tf32 = spec.dtype == "tf32"
    scene = _scene_of(result)
    size = (image.width, image.height) if image else (640, 480)
    blocks = _blocks(spec, reads_folder=_has_own_config(spec) or scene is not None)
    lines = "".join(blocks).split("\n")
    imports = sorted({line for line in lines if line.startswith(("import ", "from "))})
    answer = [report.ratio_in_full or result.status, *naming.machine_words(result), f"run {result.id}"]
    code = {
        "device": literal(spec.device.replace("auto", "cpu")),  # still 'auto' for a run that failed early
        "dtype": "float32" if tf32 else spec.dtype,
        "tf32": str(tf32),
        "layout": "channels_last" if spec.channels_last else "preserve_format",
        "threads": str(spec.threads or result.threads or "torch.get_num_threads()"),
        "picture": f"Image.open({_path(scene)})" if scene else f'Image.new("RGB", {size}, "grey")',
        "then": literal(", ".join(answer)),
        "call": literal("run(one); torch.cuda.synchronize()" if spec.device == "cuda" else "run(one)"),
    }
    code = {name: literal(value) for name, value in vars(spec).items()} | _model_code(spec) | code
    body = [line for line in lines if line not in imports]
    return Template("\n".join([TITLE_BLOCK, *imports, *body, ""])).substitute(code)


def script_refusal(spec: RunSpec) -> str:
    """Returns why no program can repeat a run with this spec; '' if a program can.

    No program can repeat a model with a text or prompt and random weights, a module that was in a program's memory, or
    an option outside `APPLIED`. Options that change only the timing are no obstacle.
    """
    if spec.task == OWN_MODEL and catalog.own_model_parts(spec.checkpoint)[1] == catalog.IN_MEMORY:
        return "The module came from a program's memory. Measure a function that builds it: then a program repeats it."
    for name in spec.departures():
        if not (name in APPLIED or OPTIONS[name].timing):
            return f"A program does not apply the option {name}, so none repeats this run."
    if (spec.text or spec.prompt) and spec.weights == "random":
        return "A program with a text needs trained weights, so none repeats this run."
    return ""


def _blocks(spec: RunSpec, reads_folder: bool) -> list[str]:
    """Returns the blocks of a run's program in order. `reads_folder`: whether it reads files of this project."""
    blocks = [HEAD_BLOCK]
    if reads_folder:
        blocks.append(FOLDER_BLOCK if IN_CHECKOUT else INSTALLED_FOLDER_BLOCK)
    if spec.task == OWN_MODEL:
        blocks += [OWN_MODEL_BLOCK, RUN_BLOCK]
    elif spec.task == TEXT_GENERATION:
        blocks += [MODEL_BLOCK, PROMPT_BLOCK]
    elif spec.text:
        blocks += [MODEL_BLOCK, PICTURE_BLOCK, QUERIES_BLOCK, BATCH_BLOCK, RUN_BLOCK]
    else:
        blocks += [MODEL_BLOCK, PICTURE_BLOCK, BATCH_BLOCK, RUN_BLOCK]
    blocks.append(EAGER_FIRST_BLOCK)
    if spec.scope == "layers":
        blocks.append(LAYERS_BLOCK)
    blocks += [_compile_lines(spec, "compiled", "arguments"), MEASURE_BLOCK]
    blocks.append(TEXTS_BLOCK if spec.task == TEXT_GENERATION else OUTPUTS_BLOCK)
    return blocks


def _model_code(spec: RunSpec) -> dict[str, str]:
    """Returns the texts that replace the `$name`s in the blocks that load the model, by name.

    The blocks load the model in the same way as `demo.backend.models`.
    """
    if spec.task == OWN_MODEL:
        file, function = catalog.own_model_parts(spec.checkpoint)
        module = catalog.own_model_module(spec.checkpoint)[1]
        run, name = ("run_module", module) if "." in module else ("run_path", file.name)
        return {"run": run, "file": literal(name), "function": literal(function)}
    random, name = spec.weights == "random", literal(spec.checkpoint)
    kind = "AutoModelForZeroShotObjectDetection" if spec.text else BY_NAME[spec.task].auto_classes[0]
    entry = catalog.find(spec.checkpoint) or catalog.Checkpoint(spec.checkpoint, spec.task, "", "", kind)
    config = _path(catalog.config_folder(entry)) if _has_own_config(spec) else name
    weights = f"key_mapping={catalog.KEY_MAPPINGS.get(spec.checkpoint)}, use_safetensors={not entry.revision or None}"
    load = "from_config(" if random else f"from_pretrained(source, {weights}, **files, config="
    return {
        "source": config if random or entry.bundled else name,
        "config": config,
        "revision": literal(entry.revision or "main"),
        "model": f"{entry.auto_class}.{load}config, dtype=DTYPE)",
    }


def needs_folder(result: RunResult) -> bool:
    """Returns whether the program of `script` must be started in this project's folder, because it reads files there.

    False if this project was installed with pip: the program then finds the folder itself.
    """
    return IN_CHECKOUT and (_has_own_config(result.spec) or _scene_of(result) is not None)


def _scene_of(result: RunResult) -> Path | None:
    return catalog.find_scene(result.image.sha256) if result.image else None


def _has_own_config(spec: RunSpec) -> bool:
    """Returns whether the program loads the model's config from this project's files."""
    entry = catalog.find(spec.checkpoint)
    if entry is None:
        return False
    # a config of this project stands in for one that asks for timm, or has nulls in the revision that is used
    own_config = entry.revision is not None or entry.id in catalog.KEY_MAPPINGS
    return entry.bundled or spec.weights == "random" or own_config


def loading_lines(package: Path) -> str:
    """Returns lines of code that load an AOTInductor package as `model`, which takes its inputs by name.

    The code does not need this project.

    The lines raise SystemExit if the package was built with another version of torch or transformers, or on another
    processor.
    """
    return Template(PACKAGE_BLOCK).substitute(package=literal(str(package))).strip()


def change(spec: RunSpec) -> str:
    """Returns the lines to add to a user's own code that has a `model`, such as 'model = torch.compile(model)'.

    Lines that compile ahead of time also use the user's `inputs`, a dict. Lines that compile layer by layer use
    `model_layers`, the repeated layers.
    """
    lines: list[str] = []
    if spec.freezing:
        lines.append("torch._inductor.config.freezing = True  # call the model under torch.no_grad()")
    if spec.dynamic == "on":  # as in demo/backend/torch_settings.py
        lines.append("torch.fx.experimental._config.use_duck_shape = False  # else equal sizes must stay equal")
    if spec.task == TEXT_GENERATION and spec.compiler == "jit":
        lines.append("# Call the model once in eager with its StaticCache before: that lays the cache out.")
    return "\n".join([*lines, _compile_lines(spec, "model", "()").strip()])


def _compile_lines(spec: RunSpec, compiled: str, arguments: str) -> str:
    """Returns the lines of code that compile `model`.

    `compiled`: the name of the compiled model in the code. `arguments`: the positional arguments for torch.export, as
    source code, such as '()'.
    """
    if spec.compiler == "aot":
        return Template(AOT_BLOCK).substitute(mode=literal(spec.mode), arguments=arguments, compiled=compiled)
    options = [f"mode={literal(spec.mode)}"] if spec.mode != "default" else []
    if spec.fullgraph:
        options.append("fullgraph=True")
    options += DYNAMIC_ARGUMENT[spec.dynamic]
    if spec.scope == "layers":
        return f"\nfor layer in model_layers:  # the repeated ones\n    layer.compile({', '.join(options)})"
    return f"\n{compiled} = torch.compile({', '.join(['model', *options])})"


def _path(path: Path) -> str:
    return literal(path.relative_to(program.ASSETS.parent).as_posix())


def literal(value: object) -> str:
    """Returns the `repr` of a value. A text gets double quotes instead of single ones, if possible."""
    text = repr(value)
    return text if '"' in text else text.replace("'", '"')
