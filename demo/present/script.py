"""A run as a stand-alone Python script that repeats it by the same protocol, with torch, transformers and pillow alone.

The script is put together from pieces: settings, the protocol, then what belongs to the checkpoint and its task. Text
from outside appears in it as literals of `repr` only. Its statistics are those of `demo.core.stats`, without
numpy.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from demo.core import catalog
from demo.core import format as fmt
from demo.core.result import PUBLISHED_CALLS, BadInput, Checkpoint, RunResult, RunSpec

MOST_COLUMNS = 120
CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")
KINDS = {
    "image-classification": ("AutoModelForImageClassification",),
    "object-detection": ("AutoModelForObjectDetection", "AutoModelForZeroShotObjectDetection"),
    "image-segmentation": ("AutoModelForSemanticSegmentation", "AutoModelForUniversalSegmentation"),
}
"""Classes for a checkpoint of which only the task is known: the first that knows its config is taken."""


def script(result: RunResult) -> str:
    """The script that repeats `result`: at most 120 lines, formatted.

    A bundled checkpoint, and a config that this project ships, is named by its folder relative to the project's root,
    a model of the Hub by its id and revision; `--checkpoint` and `--image` name others. A failed run has a script too:
    it fails the same way, for a report. Raises BadInput where the two variants were timed one after the other because
    they did not fit in memory together.
    """
    if not result.interleaved and result.spec.protocol == "interleaved":
        raise BadInput(
            "Eager and compiled did not fit in memory together and were timed one after the other, which no script "
            "does. Choose a run with a smaller batch."
        )
    spec = result.spec
    known = catalog.find(spec.checkpoint)
    cuda = _device(spec) == "cuda"
    pieces = {
        "SETTINGS": _settings(result, known),
        "WAIT": "    torch.cuda.synchronize()" if cuda else "",
        "PROTOCOL": _protocol(spec),
        "LOAD": _load(spec, known),
        "BATCH": _batch(spec, known),
        "LEAST": ", least=6" if spec.mode in CUDA_GRAPH_MODES and cuda else "",
        "COMPILE": f"mode={literal(spec.mode)}, fullgraph={spec.fullgraph}",
        "FORMAT": ", memory_format=torch.channels_last" if spec.channels_last else "",
        "MEASURE": _measure(spec),
        "SEE": _see(spec, known),
    }
    # In one pass: a piece is never searched for the names of others, whatever text from outside it holds.
    pieces["IMPORTS"] = "\n".join(name for name in _IMPORTS if _uses(name, (_TEMPLATE, *pieces.values())))
    return re.sub(r"#([A-Z]+)#(\n?)", lambda gap: _filled(pieces[gap[1]], gap[2]), _TEMPLATE).strip() + "\n"


def _filled(piece: str, end: str) -> str:
    return piece.strip("\n") + end if piece else ""


def _uses(name: str, pieces: Iterable[str]) -> bool:
    module = name.split()[-1]
    return any(re.search(rf"\b{module}[.(]", piece) for piece in pieces)


def literal(value: Any) -> str:
    """`repr` as a formatter would write it: with double quotes, unless the text holds one."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(key)}: {literal(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text


def picture(result: RunResult) -> str | None:
    """The path of the run's picture where it is one that ships with the project; None for any other."""
    return _examples().get(result.image.sha256) if result.image else None


@cache
def _examples() -> dict[str, str]:
    files = sorted((catalog.ASSETS / "examples").glob("*.png"))
    return {hashlib.sha256(file.read_bytes()).hexdigest(): _in_project(file) for file in files}


def _in_project(path: Path) -> str:
    return path.relative_to(catalog.ASSETS.parent).as_posix()


def _device(spec: RunSpec) -> str:
    """'auto' is left in a run that failed before it knew."""
    return spec.device.replace("auto", "cpu")


def _settings(result: RunResult, known: Checkpoint | None) -> str:
    spec, image = result.spec, result.image
    dtype = "float32" if spec.dtype == "tf32" else spec.dtype
    lines = [
        f"THEN = {literal(_then(result))}",
        f"CHECKPOINT = {literal(_source(spec, known))}",
        f"IMAGE, IMAGE_SIZE = {literal(picture(result))}, {(image.width, image.height) if image else (640, 480)}",
        f"DEVICE, DTYPE, BATCH_SIZE = {literal(_device(spec))}, torch.{dtype}, {spec.batch_size}",
    ]
    if spec.protocol == "interleaved":
        stop = f"ITERATIONS = {spec.iterations}"
        lines.append(stop if spec.iterations else f"PRECISION, MOST_SECONDS = {spec.precision}, {spec.most_seconds}")
    if spec.text:
        listed = f"TEXT = {literal(list(spec.text))}"
        lines.append(listed if len(listed) <= MOST_COLUMNS else f"TEXT = json.loads({literal(json.dumps(spec.text))})")
    return "\n".join(lines)


def _then(result: RunResult) -> str:
    found, machine = result.speedup, result.environment
    answer: str = result.status
    if found is not None:
        answer = f"{fmt.ratio(found.ratio)} ({fmt.ratio_interval(found.low, found.high)}), {found.verdict}"
    where = f" on {machine.device_name}, torch {machine.torch}" if machine else ""
    return f"{answer}{where}, run {result.id}"


def _source(spec: RunSpec, known: Checkpoint | None) -> str:
    if known is not None and (known.bundled or spec.weights == "random"):
        return _in_project(catalog.config_folder(known))
    return spec.checkpoint


def _load(spec: RunSpec, known: Checkpoint | None) -> str:
    """How processor and model are made, under the conditions of `demo.backend.models`."""
    named = _source(spec, known)
    files: dict[str, Any] = {"trust_remote_code": False}  # left out, transformers would ask on the terminal
    if named == spec.checkpoint and not catalog.is_folder(named):
        files["revision"] = (known.revision if known else None) or "main"
    keys = catalog.KEY_MAPPINGS.get(spec.checkpoint) if known and spec.weights == "pretrained" else None
    config = f"{literal(_in_project(catalog.config_folder(known)))}" if known and keys else "source"
    weights = {} if known and "revision" in files else {"use_safetensors": True}
    attention = {} if spec.attention == "auto" else {"attn_implementation": spec.attention}
    lines = [
        f"source, files = options.checkpoint, {literal(files)}",
        'processor = transformers.AutoImageProcessor.from_pretrained(source, backend="pil", **files)',
    ]
    if _zero_shot(spec, known) and spec.weights == "pretrained":
        lines.append("tokenizer = transformers.AutoTokenizer.from_pretrained(source, **files)")
    needed = known is None or keys is not None or spec.weights == "random"
    if needed:
        lines.append(f"config = transformers.AutoConfig.from_pretrained({config}, **files)")
    if known:
        lines.append(f"kind = transformers.{known.auto_class}")
    else:
        kinds = ", ".join(f"transformers.{name}" for name in KINDS[spec.task])
        lines += [f"kinds = [{kinds}]", "kind = next(kind for kind in kinds if type(config) in kind._model_mapping)"]
    if spec.weights == "random":
        lines += ["torch.manual_seed(0)", f"model = kind.from_config(config{_arguments(attention)}).to(DTYPE)"]
    else:
        if keys:
            lines.append(f"keys = {literal(keys)}  # fmt: skip")
        more = ("config=config, " if needed else "") + ("key_mapping=keys, " if keys else "")
        more += "".join(f"{name}={literal(value)}, " for name, value in (weights | attention).items())
        lines.append(f"model = kind.from_pretrained(source, dtype=DTYPE, {more}**files)")
    return "\n".join(lines)


def _arguments(options: dict[str, Any]) -> str:
    return "".join(f", {name}={literal(value)}" for name, value in options.items())


def _protocol(spec: RunSpec) -> str:
    if spec.protocol == "as published":
        return _PUBLISHED
    return f"{_INTERLEAVED.rstrip()}\n\n\n{(_COUNTED if spec.iterations else _UNTIL_KNOWN).lstrip()}"


def _measure(spec: RunSpec) -> str:
    if spec.protocol == "as published":
        return _MEASURE_PUBLISHED % PUBLISHED_CALLS
    return _MEASURE % (f"{max(1, spec.iterations // 12)}, " if spec.iterations else "")


def _zero_shot(spec: RunSpec, known: Checkpoint | None) -> bool:
    """Of a detector that is not in the catalogue it is taken to be one that the queries were meant for."""
    return known.takes_text if known else spec.task == "object-detection" and bool(spec.text)


def _batch(spec: RunSpec, known: Checkpoint | None) -> str:
    """What else the run did to model and inputs, each in a few lines."""
    lines = []
    if spec.threads:
        lines.append(f"torch.set_num_threads({spec.threads})")
    if spec.dtype == "tf32":
        lines.append('torch.set_float32_matmul_precision("high")')
    elif _device(spec) == "cuda":
        lines.append("torch.backends.cudnn.allow_tf32 = False")
    if _zero_shot(spec, known):
        lines.append(_MADE_UP_TOKENS if spec.weights == "random" else _TOKENS)
    if spec.graph_break:
        lines.append(_GRAPH_BREAK)
    return "\n".join(line.strip("\n") for line in lines)


def _see(spec: RunSpec, known: Checkpoint | None) -> str:
    """What the run would draw, as plain data; thresholds are those of `demo.backend.predictions`."""
    if spec.weights == "random":
        return ""
    if spec.task == "image-classification":
        return _LABELS
    if spec.task == "object-detection":
        if _zero_shot(spec, known):
            return _BOXES.replace("0.55", "0.1").replace("names[int(at)]", "TEXT[int(at)]")
        return _BOXES
    panoptic = known.segmentation == "panoptic" if known else "panoptic" in spec.checkpoint.lower()
    return _PANOPTIC if panoptic else _SEMANTIC


_IMPORTS = (
    "import argparse",
    "import gc",
    "import json",
    "import math",
    "import random",
    "import statistics",
    "import time",
    "import zlib",
)

_TEMPLATE = '''
"""Repeats one run of "Worth compiling?" on this machine by the same protocol, and prints the result as JSON."""

#IMPORTS#

import torch
import transformers
from PIL import Image, ImageOps
from torch._dynamo.utils import counters

#SETTINGS#
parser = argparse.ArgumentParser(description="Is torch.compile worth it here? Needs torch, transformers and pillow.")
parser.add_argument("--checkpoint", default=CHECKPOINT, help="a folder, or a Hugging Face id")
parser.add_argument("--image", default=IMAGE, help="the picture to run on; without one a grey picture of the same size")
options = parser.parse_args()


def clock(call):
    start = time.perf_counter()
    call()
#WAIT#
    return time.perf_counter() - start


def warm_up(call, least=3):  # until the last three calls agree within 10 % and compiled nothing; 50 calls, or 2 s
    times, frames = [], [counters["frames"]["total"]]
    while len(times) < 50:
        times.append(clock(call))
        frames.append(counters["frames"]["total"])
        settled = max(times[-3:]) <= 1.1 * min(times[-3:]) or sum(times[1:]) >= 2
        if len(times) >= least and frames[-1] == frames[-4] and settled:
            break
    return times


#PROTOCOL#


#LOAD#
model = model.to(DEVICE#FORMAT#).eval()
picture = Image.open(options.image) if options.image else Image.new("RGB", IMAGE_SIZE, "grey")
picture = ImageOps.exif_transpose(picture).convert("RGBA")
picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
inputs, names = processor(images=[picture], return_tensors="pt"), model.config.id2label or {}
inputs = {name: inputs[name] for name in ("pixel_values", "pixel_mask") if name in inputs}
#BATCH#
batch = {name: value.repeat(BATCH_SIZE, *[1] * (value.dim() - 1)).to(DEVICE) for name, value in inputs.items()}
batch["pixel_values"] = batch["pixel_values"].to(DTYPE#FORMAT#)
compiled = torch.compile(model, #COMPILE#)
calls = {"eager": lambda: model(**batch), "compiled": lambda: compiled(**batch), "control": lambda: model(**batch)}
times = {name: [] for name in calls}
with torch.no_grad():
    warm = {"eager": warm_up(calls["eager"]), "compiled": warm_up(calls["compiled"]#LEAST#)}
#MEASURE#
    recompiles = counters["frames"]["total"] - frames
    outputs = {name: calls[name]() for name in ("eager", "compiled")}
speedup, control, verdict = judge()
answer = {"then": THEN, "verdict": "unsure" if recompiles else verdict, "speedup": speedup, "control": control}
answer["compilation"] = {"first_call_seconds": warm["compiled"][0], "graphs": counters["stats"]["unique_graphs"]}
for name in ("eager", "compiled"):
    answer[name] = {"median_ms": 1e3 * statistics.median(times[name]), "wall_seconds": times[name]}
#SEE#
print(json.dumps(answer | {"recompiles_while_timing": recompiles, "picture": options.image or "grey"}))
'''

_INTERLEAVED = """
def ratio(slow, fast):  # trimmed mean log ratio of paired blocks' medians; Tukey and McLaughlin's 95 % interval
    size, few = 2 * half, {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
    blocks = ([statistics.median(side[at : at + size]) for at in range(0, len(side), size)] for side in (slow, fast))
    logs = sorted(math.log(a / b) for a, b in zip(*blocks))
    cut = len(logs) // 10
    kept = logs[cut : len(logs) - cut]
    free = len(kept) - 1
    t = few.get(free, 1.959964 + 2.372 / free + 2.8225 / free**2 + 2.5558 / free**3)
    error = statistics.stdev(min(max(log, kept[0]), kept[-1]) for log in logs) * math.sqrt(len(logs)) / len(kept)
    middle, width = statistics.fmean(kept), error * t
    return {"ratio": math.exp(middle), "low": math.exp(middle - width), "high": math.exp(middle + width)}


def judge():  # the control is eager against itself: what this machine answers when the truth is 1
    speedup, control = ratio(times["eager"], times["compiled"]), ratio(times["eager"][half:], times["control"])
    margin = 1 + max(0.01, abs(control["low"] - 1), abs(control["high"] - 1))
    verdict = "same" if speedup["high"] <= 1.03 and speedup["low"] >= 1 / 1.03 else "unsure"
    verdict = "faster" if speedup["low"] > 1 and speedup["ratio"] > margin else verdict
    return speedup, control, "slower" if speedup["high"] < 1 and speedup["ratio"] < 1 / margin else verdict
"""

_COUNTED = """


def enough(elapsed):
    return len(times["compiled"]) >= ITERATIONS
"""

_UNTIL_KNOWN = """


def enough(elapsed, most=[MOST_SECONDS]):  # narrow enough, or time is up: twice the time where the verdict is unsure
    calls, shortest = len(times["compiled"]), min(sum(times["eager"]), sum(times["compiled"]))
    if calls < max(10, 6 * half):
        return False
    found, _, verdict = judge()
    if elapsed >= most[-1] and verdict == "unsure" and len(most) == 1:
        most.append(2 * MOST_SECONDS)
    late = calls >= 5_000 or elapsed >= most[-1]
    width = max(found["high"] / found["ratio"] - 1, 1 - found["low"] / found["ratio"])
    return late or (width <= PRECISION and calls >= 12 * half and shortest >= 0.5)
"""

_MEASURE = """
    slowest = max(statistics.median(last[-3:]) for last in (warm_up(calls["eager"]), warm["compiled"]))
    half = max(1, min(20, %sround(0.015 / slowest)))
    gc.disable()
    frames, start = counters["frames"]["total"], time.perf_counter()
    order = (("control", 2 * half), ("eager", half), ("compiled", 2 * half), ("eager", half))
    while not enough(time.perf_counter() - start):
        for name, count in order if times["eager"] else order[1:]:
            times[name] += [clock(calls[name]) for _ in range(count)]
"""

_PUBLISHED = """
def judge(draws=2_500):  # the ratio of the plain means; 95 % bootstrap that takes the calls for independent
    eager, compiled, rng = times["eager"], times["compiled"], random.Random(0)
    means = [[statistics.fmean(rng.choices(side, k=len(side))) for _ in range(draws)] for side in (eager, compiled)]
    ratios = sorted(slow / fast for slow, fast in zip(*means))
    found = {"ratio": statistics.fmean(eager) / statistics.fmean(compiled)}
    found |= {"low": ratios[int(0.025 * draws)], "high": ratios[int(0.975 * draws)]}
    verdict = "same" if found["high"] <= 1.03 and found["low"] >= 1 / 1.03 else "unsure"
    verdict = "faster" if found["low"] > 1 and found["ratio"] > 1.01 else verdict
    return found, None, "slower" if found["high"] < 1 and found["ratio"] < 1 / 1.01 else verdict
"""

_MEASURE_PUBLISHED = """
    gc.disable()
    frames = counters["frames"]["total"]
    for name in ("eager", "compiled"):
        times[name] += [clock(calls[name]) for _ in range(%s)]
"""

_GRAPH_BREAK = """
layers = max((part for part in model.modules() if isinstance(part, torch.nn.ModuleList)), key=len)
layers[len(layers) // 2].register_forward_pre_hook(lambda *_: torch._dynamo.graph_break())
"""

_TOKENS = """
inputs |= tokenizer(TEXT, padding="max_length", truncation=True, max_length=16, return_tensors="pt")
"""

_MADE_UP_TOKENS = """
ids = [[49406, *(zlib.crc32(word.encode()) % 49406 for word in query.split()[:14]), 49407] for query in TEXT]
inputs["input_ids"] = torch.tensor([row + [49407] * (16 - len(row)) for row in ids])
inputs["attention_mask"] = torch.tensor([[1] * len(row) + [0] * (16 - len(row)) for row in ids])
"""

_LABELS = """
    scores = outputs[name].logits[0].float().softmax(-1)
    top = zip(*(found.tolist() for found in scores.topk(min(5, len(scores)))))
    answer[name]["labels"] = [{"label": names.get(at, f"LABEL_{at}"), "score": score} for score, at in top]
"""

_BOXES = """
    sizes = [picture.size[::-1]] * BATCH_SIZE
    found = processor.post_process_object_detection(outputs[name], threshold=0.55, target_sizes=sizes)[0]
    boxes = zip(found["labels"], found["scores"].tolist(), found["boxes"].tolist())
    answer[name]["boxes"] = [{"label": names[int(at)], "score": score, "box": box} for at, score, box in boxes]
"""

_SEMANTIC = """
    sizes = [picture.size[::-1]] * BATCH_SIZE
    found = processor.post_process_semantic_segmentation(outputs[name], target_sizes=sizes)[0]
    areas = {at: float((found == at).float().mean()) for at in found.unique().tolist()}
    answer[name]["segments"] = [{"label": names[at], "area": area} for at, area in areas.items()]
"""

_PANOPTIC = """
    sizes = [picture.size[::-1]] * BATCH_SIZE
    found = processor.post_process_panoptic_segmentation(outputs[name], target_sizes=sizes)[0]["segments_info"]
    answer[name]["segments"] = [{"label": names[part["label_id"]], "score": part["score"]} for part in found]
"""
