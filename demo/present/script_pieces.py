"""The texts that `demo.present.script` puts together: `#NAME#` stands for another piece, `%s` for a value.

`HEAD` begins every script; `PICTURE` or `TEXT` goes on from the loaded model.
"""

IMPORTS = (
    "import argparse",
    "import contextlib",
    "import copy",
    "import json",
    "import math",
    "import os",
    "import random",
    "import re",
    "import statistics",
    "import timeit",
    "import zlib",
)

HEAD = '''
"""Repeats one run of "Worth compiling?" on this machine by the same protocol, and prints the result as JSON."""

#IMPORTS#

#WAITING#
import torch
import transformers
#PIL#
from torch._dynamo.utils import counters
#PACKAGES#

#SETTINGS#
parser = argparse.ArgumentParser(description="Is torch.compile worth it here? Needs #NEEDS#.")
#OPTION#
#ASKIMAGE#
options = parser.parse_args()
#MISSING#


def warm_up(call, least=3):  # until the last three calls agree within 10 % and compiled nothing; 50 calls, or 2 s
    times, frames, settled = [], [counters["frames"]["total"]], False
    while len(times) < 50 and not (settled and len(times) >= least and frames[-1] == frames[-4]):
        times += timeit.repeat(#CALL#, number=1, repeat=1)
        frames.append(counters["frames"]["total"])
        settled = max(times[-3:]) <= 1.1 * min(times[-3:]) or sum(times[1:]) >= 2
    return times


#PROTOCOL#


#LOAD#
model = model.to(DEVICE#FORMAT#).eval()
'''

PICTURE = """
picture = Image.open(open(options.image, "rb")) if options.image else Image.new("RGB", IMAGE_SIZE, "grey")
picture.load()
if picture.mode[0] in "IF":
    parser.error("a channel of this picture has more than 8 bits. Save it with 8 bits a channel.")
with contextlib.suppress(Exception):  # turned upright, where its EXIF block can be read and says how
    picture = ImageOps.exif_transpose(picture)
layer = picture.convert("RGBA" if picture.has_transparency_data else "RGB").convert("RGBA")
picture = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
inputs = {name: value for name, value in processor(images=[picture], return_tensors="pt").items() if "pixel" in name}
#BATCH#
batch = {name: value.repeat(BATCH_SIZE, *[1] * (value.dim() - 1)).to(DEVICE) for name, value in inputs.items()}
batch["pixel_values"] = batch["pixel_values"].to(DTYPE#FORMAT#)
#COMPILE#
calls = {"eager": lambda: model(**batch), "compiled": lambda: compiled(**batch), "control": lambda: model(**batch)}
times, names = {name: [] for name in calls}, model.config.id2label or {}
with torch.no_grad():
#ORDER#
    warm = {"eager": warm_up(calls["eager"]), "compiled": warm_up(calls["compiled"]#LEAST#)}
#BUILT#
#MEASURE#
    recompiles = counters["frames"]["total"] - frames
    outputs = {name: calls[name]() for name in ("eager", "compiled")}
speedup, control, verdict = judge()
answer = {"then": THEN, "verdict": "unsure" if recompiles else verdict, "speedup": speedup, "control": control}
answer["compilation"] = {"first_call_seconds": warm["compiled"][0], "graphs": #GRAPHS#}
for name in ("eager", "compiled"):
    answer[name] = {"median_ms": 1e3 * statistics.median(times[name]), "wall_seconds": times[name]}
#SEE#
print(json.dumps(answer | {"recompiles_while_timing": recompiles, "picture": options.image or "grey"}))
"""

TEXT = """
#BATCH#
cache = transformers.StaticCache(config=model.config, max_cache_len=prompt.shape[1] + TOKENS)
# a sliding window holds the whole text, and would count it in a Python number, which a CUDA graph cannot follow
cache.layers = [transformers.cache_utils.StaticLayer(prompt.shape[1] + TOKENS) for _ in cache.layers]
written = []  # the answer so far: at each place a token of every row, [batch, 1]


def rewind(length):  # what the cache holds behind it is hidden by the mask, until it is written anew
    for layer in cache.layers:
        layer.cumulative_length.fill_(length)


def following(one, tokens):  # the likeliest token after these and those in the cache
    logits = one(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
    return logits[:, -1].argmax(-1, keepdim=True)


def prefill(one):  # reads the prompt and writes the first token
    rewind(0)
    written[:] = [following(one, prompt)]


def step(one):  # writes the next token; after the last one of the answer its second again
    if len(written) == TOKENS:
        rewind(prompt.shape[1])
        del written[1:]
    written.append(following(one, written[-1]))


#COMPILE#
found, first_calls, chosen = {}, {}, {}
with torch.no_grad():
    following(model, prompt[:, :1])  # eager lays the cache out: its tensors then stay where they are
#ORDER#
    for #PARTS#:
        calls = {"eager": lambda: call(model), "compiled": lambda: call(compiled), "control": lambda: call(model)}
        times = {name: [] for name in calls}
        warm = {"eager": warm_up(calls["eager"]), "compiled": warm_up(calls["compiled"]#LEAST#)}
#MEASURE#
        recompiles, first_calls[part] = counters["frames"]["total"] - frames, warm["compiled"][0]
        speedup, control, verdict = judge()
        found[part] = {"verdict": "unsure" if recompiles else verdict, "speedup": speedup, "control": control}
        found[part]["recompiles_while_timing"] = recompiles
        for name in ("eager", "compiled"):
            found[part][name] = {"median_ms": 1e3 * statistics.median(times[name]), "wall_seconds": times[name]}
    for name, one in (("eager", model), ("compiled", compiled)):
        prefill(one)
        for _ in range(TOKENS - 1):
            step(one)
        chosen[name] = [token[0].item() for token in written]
        found["decode"][name]["tokens_per_second"] = 1e3 * BATCH_SIZE / found["decode"][name]["median_ms"]
#SEE#
answer = {"then": THEN} | found["decode"] | {"prefill": found["prefill"]}
answer["compilation"] = {"first_call_seconds": sum(first_calls.values()), "parts": first_calls}
answer["compilation"]["graphs"] = counters["stats"]["unique_graphs"]
pairs = enumerate(zip(chosen["eager"], chosen["compiled"]), 1)
answer["first_other_token"] = next((place for place, pair in pairs if pair[0] != pair[1]), None)
print(json.dumps(answer))
"""

INTERLEAVED = """
def ratio(slow, fast):  # trimmed mean log ratio of paired blocks' medians; Tukey and McLaughlin's 95 % interval
    size, few = 2 * half, {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
    blocks = ([statistics.median(side[at : at + size]) for at in range(0, len(side), size)] for side in (slow, fast))
    logs = sorted(math.log(a / b) for a, b in zip(*blocks))
    kept = logs[len(logs) // 10 : len(logs) - len(logs) // 10]
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

COUNTED = """


def enough(elapsed):
    return len(times["compiled"]) >= ITERATIONS
"""

UNTIL_KNOWN = """


def enough(elapsed, most=[MAX_SECONDS]):  # narrow enough, or time is up: twice the time where the verdict is unsure
    calls, shortest = len(times["compiled"]), min(sum(times["eager"]), sum(times["compiled"]))
    if calls < max(10, 6 * half):
        return False
    found, _, verdict = judge()
    most += [2 * most[0]] * (elapsed >= most[-1] and verdict == "unsure" and len(most) == 1)
    width = max(found["high"] / found["ratio"] - 1, 1 - found["low"] / found["ratio"])
    return calls >= 5_000 or elapsed >= most[-1] or (width <= PRECISION and calls >= 12 * half and shortest >= 0.5)
"""

MEASURE = """
    slowest = max(statistics.median(last[-3:]) for last in (warm_up(calls["eager"]), warm["compiled"]))
    half = max(2, min(14, %sround(0.06 / slowest)))
    frames, start, settle = counters["frames"]["total"], timeit.default_timer(), min(6, half // 2)
    order = (("control", 2 * half, 0), ("eager", half, 0), ("compiled", 2 * half, settle), ("eager", half, settle))
    while not enough(timeit.default_timer() - start%s):
        for v, n, s in order if times["eager"] else order[1:]:  # after a switch s calls settle and are not counted
            times[v] += timeit.repeat(%s, number=1, repeat=s + n)[s:]
"""

PUBLISHED = """
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

MEASURE_PUBLISHED = """
    frames = counters["frames"]["total"]
    for name in ("eager", "compiled"):
        times[name] += timeit.repeat(%s, number=1, repeat=%s)
"""

COMPILE = """
compiled = torch.compile(model, %s)
"""

SELECT_LAYERS = """
marked = [one for one in %s.modules() if isinstance(one, transformers.GradientCheckpointingLayer)]
for layer in [one for one in marked if not any(inner in marked for inner in one.modules() if inner is not one)]:
    layer.compile(%s)
"""

COMPILE_LAYERS = f"""
compiled = copy.deepcopy(model, {{id(one): one for one in (*model.parameters(), *model.buffers())}})  # the same weights
{SELECT_LAYERS.strip()}
"""

PACKAGES = """
from torch.export.pt2_archive._package import AOTICompiledModel
"""

BUILD = """
with torch.no_grad():
    model(**batch)  # eager first, as in the run
    start, configs = timeit.default_timer(), %s
    shapes = %s
    program = torch.export.export(model, (), kwargs=batch, dynamic_shapes=shapes)
    package = torch._inductor.aoti_compile_and_package(program, inductor_configs=configs)
compiled = AOTICompiledModel(torch._C._aoti.AOTIModelPackageLoader(package, "model", False, 1, -1))
built = timeit.default_timer() - start
"""

ANY_SIZE = "{name: dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) for name, value in batch.items()}"

BUILT = """
    warm["compiled"][0] += built  # all that it takes until it has answered once
"""

LOAD_PACKAGE = """
import importlib
import os
import platform

import torch
import transformers
from torch.export.pt2_archive._package import AOTICompiledModel

loader, package = torch._C._aoti.AOTIModelPackageLoader, %s
built = loader.load_metadata_from_package(package, "model")
here = {"torch": torch.__version__, "transformers": transformers.__version__}
here["processor"] = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
if here != {name: built.get(name) for name in here}:
    raise SystemExit(f"{package} was built for {built}, and this is {here}: build it here.")
importlib.import_module(built["outputs"])  # the class of what the model returns
os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"  # else it answers inputs of another size or dtype with wrong numbers
model = AOTICompiledModel(loader(package, "model", False, 1, -1))
"""

TOKENS = """
inputs |= tokenizer(TEXT, padding="max_length", truncation=True, max_length=16, return_tensors="pt")
"""

MADE_UP_TOKENS = """
ids = [[49406, *(zlib.crc32(word.encode()) % 49406 for word in query.split()[:14]), 49407] for query in TEXT]
inputs["input_ids"] = torch.tensor([row + [49407] * (16 - len(row)) for row in ids])
inputs["attention_mask"] = torch.tensor([[1] * len(row) + [0] * (16 - len(row)) for row in ids])
"""

PROMPT_TOKENS = """
prompt = tokenizer(PROMPT, return_tensors="pt")["input_ids"].repeat(BATCH_SIZE, 1).to(DEVICE)
"""

MADE_UP_PROMPT = r"""
words, known = ["<bos>", *re.findall(r"\w+|[^\w\s]", PROMPT)], model.config.get_text_config(decoder=True).vocab_size
ids = torch.tensor([[zlib.crc32(word.encode()) %% known for word in %s]])  # made up: each word's checksum
prompt = ids.repeat(BATCH_SIZE, 1).to(DEVICE)
"""

LAY_OUT = """
cache = transformers.StaticCache(config=model.config, max_cache_len=prompt.shape[1] + %s)
model(prompt[:, :1], past_key_values=cache, use_cache=True)  # once in eager: it lays out the cache
cache.reset()  # in place: from here on compiled calls use this cache
"""

WRITE = """
tokens, written = prompt, []
for _ in range(%s):
    tokens = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].argmax(-1, True)
    written.append(tokens[0].item())
"""

WRITTEN = """
        found["decode"][name]["text"] = tokenizer.decode(chosen[name], skip_special_tokens=True)
"""

DECODED_IN_FLOAT32 = """
    tensors = {part: value.float() for part, value in outputs[name].items() if torch.is_tensor(value)}
    outputs[name] = type(outputs[name])(**tensors)  # boxes and masks are found in float32, as in the run
"""

LABELS = """
    scores = outputs[name].logits[0].float().softmax(-1)
    top = zip(*(found.tolist() for found in scores.topk(min(5, len(scores)))))
    answer[name]["labels"] = [{"label": names.get(at, f"LABEL_{at}"), "score": score} for score, at in top]
"""

BOXES = """
    sizes = [picture.size[::-1]] * BATCH_SIZE
    found = processor.post_process_object_detection(outputs[name], threshold=0.55, target_sizes=sizes)[0]
    edges = [[min(max(0.0, at), most) for at, most in zip(box, picture.size * 2)] for box in found["boxes"].tolist()]
    boxes = sorted(zip(found["scores"].tolist(), found["labels"].tolist(), edges), key=lambda box: -box[0])[:100]
    answer[name]["boxes"] = [{"label": names.get(at, f"LABEL_{at}"), "score": s, "box": box} for s, at, box in boxes]
"""

TARGET = """
wide, high = (max(1, round(side * min(1, 640 / max(picture.size)))) for side in picture.size)
mask = inputs["pixel_mask"][0] if "pixel_mask" in inputs else torch.ones(inputs["pixel_values"].shape[2:])
used_high, used_wide = (mask.any(axis).double().mean().item() for axis in (1, 0))  # the rest is padding
sizes = [(round(high / used_high), round(wide / used_wide))] * BATCH_SIZE
"""

SEMANTIC = """
    found = processor.post_process_semantic_segmentation(outputs[name], target_sizes=sizes)[0]
    kept = [at for at in found.unique().tolist() if (found == at).double().mean() >= 0.002]
    areas = sorted(((found[:high, :wide] == at).double().mean().item(), at) for at in kept)[:-41:-1]
    answer[name]["segments"] = [{"label": names.get(at, f"LABEL_{at}"), "area": area} for area, at in areas if area]
"""

INSTANCES = """
    found = processor.post_process_#KIND#_segmentation(outputs[name], target_sizes=sizes)[0]
    areas = [(found["segmentation"][:high, :wide] == part["id"]).double().mean() for part in found["segments_info"]]
    parts = sorted(zip(areas, found["segments_info"]), key=lambda part: -part[0])[:40]
    parts = [(part["label_id"], part["score"], area.item()) for area, part in parts if area]
    answer[name]["segments"] = [{"label": names.get(at, f"LABEL_{at}"), "score": s, "area": a} for at, s, a in parts]
"""

IMAGE = """
parser.add_argument("--image", default=IMAGE if os.path.isfile(IMAGE) else "", help="without one, a grey picture")
"""

TOKENIZER = """
tokenizer = transformers.AutoTokenizer.from_pretrained(source, **files)
"""

CHECKPOINT = """
parser.add_argument("--checkpoint", default=CHECKPOINT, help="a folder, or a Hugging Face id")
"""

MISSING = """
if options.checkpoint == CHECKPOINT and not os.path.isdir(CHECKPOINT):
    parser.error(f"there is no {CHECKPOINT} here. Start in the project's folder, or name one with --checkpoint.")
"""
