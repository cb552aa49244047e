"""Times a model eager and compiled, in turns. The interval of their ratio is what `python -m demo run` is for."""

# {% if layers %}
import copy
# {% endif %}
# {% if spec.compiler == "aot" or project %}
import os
# {% endif %}
# {% if own %}
import runpy
# {% endif %}
import statistics
import time

import torch
# {% if not own or layers %}
import transformers
# {% endif %}
# {% if spec.sees_picture %}
from PIL import Image, ImageOps
# {% endif %}
from torch.utils import benchmark

DEVICE, DTYPE, BATCH_SIZE = fill("device"), fill("dtype"), fill("spec.batch_size")
torch.set_grad_enabled(False)
# {% if threads %}
torch.set_num_threads(fill("threads"))
# {% endif %}
# {% if spec.freezing %}
torch._inductor.config.freezing = True
# {% endif %}
# {% if spec.dtype == "tf32" %}
torch.set_float32_matmul_precision("high")
# {% elif device == "cuda" %}
torch.backends.cudnn.allow_tf32 = False
# {% endif %}
# {% if own %}
model, inputs = runpy.run_path(fill("file"))[fill("function")]()
# {% else %}
# {% if project %}
if not os.path.isdir("assets"):
    raise SystemExit("It needs files of the project Worth Compiling?: start it in its folder.")
# {% endif %}
source, files = fill("source"), fill("files")
# {% if spec.sees_picture %}
processor = transformers.AutoImageProcessor.from_pretrained(source, backend="pil", **files)
# {% endif %}
# {% if text or spec.text %}
tokenizer = transformers.AutoTokenizer.from_pretrained(source, **files)
# {% endif %}
# {% if config %}
config = transformers.AutoConfig.from_pretrained(fill("config"), **files)
# {% endif %}
# {% if keys %}
keys = fill("keys")
# {% endif %}
# {% if spec.weights == "random" %}
torch.manual_seed(0)
model = transformers.fill("kind").from_config(config).to(DTYPE)
# {% else %}
model = transformers.fill("kind").from_pretrained(source, fill("arguments"), **files)
# {% endif %}
# {% endif %}
model = model.to(fill("place")).eval()
# {% if own %}


def moved(tensor):
    return tensor.to(DEVICE, DTYPE if tensor.is_floating_point() else None)


model, inputs = model.to(DTYPE), torch.utils._pytree.tree_map_only(torch.Tensor, moved, inputs)
arguments = () if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple) else (inputs,)
inputs = inputs if isinstance(inputs, dict) else {}
# {% elif text %}

ids = tokenizer(fill("spec.prompt"), return_tensors="pt")["input_ids"]
prompt = ids.repeat(BATCH_SIZE, 1).to(DEVICE)
length = prompt.shape[1] + fill("spec.tokens")
cache = transformers.StaticCache(config=model.config, max_cache_len=length)
cache.layers = [transformers.cache_utils.StaticLayer(length) for _ in cache.layers]  # no sliding window counts in it
model(prompt[:, :1], past_key_values=cache, use_cache=True)  # once in eager, which lays the cache out


def run(one):
    cache.reset()  # in place: compiled calls go on using its tensors
    tokens, written = prompt, []
    for _ in range(fill("spec.tokens")):
        logits = one(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        tokens = logits[:, -1].argmax(-1, keepdim=True)
        written.append(tokens[0].item())
    return written


# {% else %}

# {% if picture %}
picture = Image.open(fill("picture"))
# {% else %}
picture = Image.new("RGB", fill("size"), "grey")  # yours: Image.open("...")
# {% endif %}
picture = ImageOps.exif_transpose(picture).convert("RGB")
inputs = {name: value for name, value in processor(images=[picture], return_tensors="pt").items() if "pixel" in name}
# {% if spec.text %}
inputs |= tokenizer(fill("spec.text | list"), padding="max_length", truncation=True, max_length=16, return_tensors="pt")
# {% endif %}
inputs = {name: torch.cat([value] * BATCH_SIZE).to(DEVICE) for name, value in inputs.items()}
arguments, inputs["pixel_values"] = (), inputs["pixel_values"].to(fill("converted"))
# {% endif %}
# {% if not text %}


def run(one):
    return one(*arguments, **inputs)


# {% endif %}
run(model)  # eager first: compiled first, a model may become other graphs
start = time.perf_counter()
# {% if spec.compiler == "aot" %}
options = torch._inductor.list_mode_options(fill("spec.mode"))
program = torch.export.export(model, arguments, kwargs=inputs)
torch._inductor.aoti_compile_and_package(program, package_path="model.pt2", inductor_configs=options)
os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"  # else it answers inputs of other sizes with wrong numbers
compiled = torch._inductor.aoti_load_package("model.pt2")  # here, or in another process
# {% elif layers %}
compiled = copy.deepcopy(model, {id(one): one for one in (*model.parameters(), *model.buffers())})  # the same weights
layers = [one for one in compiled.modules() if isinstance(one, transformers.GradientCheckpointingLayer)]
for layer in [one for one in layers if not any(inner in layers for inner in one.modules() if inner is not one)]:
    layer.compile(mode=fill("spec.mode"), fullgraph=fill("spec.fullgraph"))
# {% else %}
compiled = torch.compile(model, mode=fill("spec.mode"), fullgraph=fill("spec.fullgraph"))
# {% endif %}
run(compiled)
print(f"First compiled call, with all that was compiled for it: {time.perf_counter() - start:.1f} s.")

times = {"eager": [], "compiled": []}
for _ in range(10):
    for name, one in (("eager", model), ("compiled", compiled)):
        timer = benchmark.Timer(fill("call"), globals={**globals(), "one": one}, num_threads=torch.get_num_threads())
        times[name] += timer.blocked_autorange(min_run_time=0.25).times  # it calls some times before it counts
for name, seconds in times.items():
    low, middle, high = (1000 * value for value in statistics.quantiles(seconds, n=4))
    print(f"{name:9}{middle:.3g} ms a call, the middle half {low:.3g} to {high:.3g} ms")
ratio = statistics.median(times["eager"]) / statistics.median(times["compiled"])
print(f"ratio    {ratio:.2f}. The run said:", fill("then"))
# {% if not text %}
outputs = (torch.utils._pytree.tree_leaves(run(one)) for one in (model, compiled))
apart = max(float((x.float() - y.float()).abs().max()) for x, y in zip(*outputs) if torch.is_tensor(x))
print(f"The outputs lie {apart:.2g} apart at most.")
# {% else %}
for name, one in (("eager", model), ("compiled", compiled)):
    print(name, repr(tokenizer.decode(run(one), skip_special_tokens=True)))
# {% endif %}
