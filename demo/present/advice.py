"""What an engineer takes home from a run: whether to compile, and the lines that do it with the measured settings."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from demo.core import format as fmt
from demo.core.errors import BadInput
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL, TEXT_GENERATION, RunSpec
from demo.present import script_pieces as pieces
from demo.present.script import compile_arguments, device, dtype, literal, memory_format
from demo.present.sentences import count, named_setting, outcome


def worth(result: RunResult, lang: Language) -> str:
    """Yes, no or not known, in one sentence with its condition; '' for a run without figures."""
    compiled, verdict = result.compilation, outcome(result)
    if compiled is None or verdict in (None, "void"):
        return ""
    if result.parity is not None and result.parity.verdict == "differ":
        return lang.plain("worth_differ")
    if verdict == "unsure":
        return lang.plain("worth_unknown")
    costs = list(compiled.known_costs.values())
    times = [lang.plain_value(fmt.start_time(seconds)) for seconds in costs]
    evens = [result.break_even(seconds) for seconds in costs] if verdict == "faster" else []
    needed = [even.images for even in evens if even is not None and even.images is not None]
    if not needed or len(needed) != len(costs):
        return lang.composed("worth_no", time=times[0])
    images = [count(number, result.spec.unit, lang) for number in needed]
    if len(images) == 1:
        return lang.composed("worth_yes", images=images[0], time=times[0])
    kept = lang.plain("worth_kept_package" if result.spec.compiler == "aot" else "worth_kept_cache")
    return lang.composed("worth_either", images=images[0], fewer=images[1], kept=kept, time=times[0], less=times[1])


MIN_GAIN = 1.09
"""Two runs of equal ways, each with a spread of 3 % from process to process, differ by less in 95 of 100 pairs."""
MAX_STEPS = 3
CANDIDATES = {
    "cpu": (("freezing", True), ("compiler", "aot")),
    "cuda": (("mode", "reduce-overhead"), ("mode", "max-autotune"), ("compiler", "aot")),
}
"""Ways to compile, by device, to be tried where nothing is known of them."""


@dataclass(frozen=True)
class Step:
    """Something to try next: an option, and why, as a sentence."""

    option: str
    value: Any
    setting: str
    """'Freezing: on'."""
    words: str


def next_steps(result: RunResult, lang: Language) -> list[Step]:
    """The ways to compile that brought most here, best first, and then those of which nothing is known."""
    if outcome(result) in (None, "void") or result.gains is None:
        return []
    steps = []
    for gain in sorted(result.gains, key=lambda gain: -gain.ratio):
        if gain.ratio >= MIN_GAIN and _possible(result.spec, gain.option, gain.value):
            own = gain.checkpoints == (result.spec.checkpoint,)
            where = lang.plain("next_here") if own else lang.plain_value(", ".join(gain.checkpoints[:3]))
            ratio = lang.plain_value(fmt.ratio(gain.ratio))
            setting = named_setting(gain.option, gain.value, lang)
            words = lang.composed("next_gained", setting=setting, ratio=ratio, where=where)
            steps.append(Step(gain.option, gain.value, setting, words))
    known = {(gain.option, gain.value) for gain in result.gains}
    # Of a user's own model no earlier run counts: its file may have changed.
    for option, value in CANDIDATES[device(result.spec)] if result.spec.task != OWN_MODEL else ():
        unknown = (option, value) not in known and getattr(result.spec, option) != value
        if unknown and _possible(result.spec, option, value):
            setting = named_setting(option, value, lang)
            steps.append(Step(option, value, setting, lang.composed("next_unknown", setting=setting)))
    return steps[:MAX_STEPS]


def next_title(result: RunResult, lang: Language) -> str:
    """'What to try next? Freezing: on'; '' where there is nothing."""
    steps = next_steps(result, lang)
    return lang.composed("section_next", answer=steps[0].setting) if steps else ""


def _possible(spec: RunSpec, option: str, value: Any) -> bool:
    try:
        dataclasses.replace(spec, **{option: value})
    except (BadInput, TypeError):  # a stored result may hold anything
        return False
    return True


def start_seconds(result: RunResult) -> float | None:
    """What one start of a process costs: the first call from a filled cache, or of a loaded package, where measured."""
    costs = result.compilation.known_costs if result.compilation is not None else {}
    return costs.get("warm", costs.get("cold"))


def month(result: RunResult, calls: float, restarts: float, price: float | None, lang: Language) -> str:
    """What compiling saves or costs in 30 days of so many calls and restarts a day, at a price an hour; '' where it is
    not known. Of a text model a call is a whole answer. The page works out the same in the browser."""
    start = start_seconds(result)
    if start is None or outcome(result) not in ("faster", "slower"):
        return ""
    eager, compiled = result.answer_seconds or result.latencies.values()
    saved = 30 * (calls * (eager - compiled) - restarts * start)
    words = lang.plain("traffic_saves" if saved >= 0 else "traffic_costs", time=fmt.work_time(abs(saved)))
    if price is None:
        return words
    return f"{words} {lang.plain('traffic_money', money=f'{abs(saved) / 3600 * price:.2f}')}"


def code_lines(result: RunResult) -> str:
    """The lines for somebody's own code, with the settings of the run. `model` and `inputs` are theirs."""
    spec = result.spec
    lines = [f"model = model.to({literal(device(spec))}, {dtype(spec)}{memory_format(spec)}).eval()"]
    if spec.task == OWN_MODEL:
        lines.insert(0, f"model, _ = {spec.checkpoint.rpartition(':')[2]}()  # inputs: its arguments by name")
    if spec.task == TEXT_GENERATION:
        lines += [
            "cache = transformers.StaticCache(config=model.config, max_cache_len=PROMPT_AND_ANSWER)",
            "model(tokens[:, :1], past_key_values=cache, use_cache=True)  # once in eager: it lays out the cache",
            "cache.reset()  # in place: from here on compiled calls use this cache",
        ]
    if spec.attention != "auto":
        lines.insert(0, f"# model: loaded with attn_implementation={literal(spec.attention)}")
    if spec.dtype == "tf32":
        lines.append('torch.set_float32_matmul_precision("high")')
    if spec.threads is not None:
        lines.append(f"torch.set_num_threads({spec.threads})")
    if spec.freezing:
        lines.append("torch._inductor.config.freezing = True  # import torch._inductor.config")
    if spec.dynamic == "on" and spec.compiler == "jit":
        lines.append("torch.fx.experimental._config.use_duck_shape = False  # a square picture says nothing of others")
    if result.compilation is not None and result.compilation.compiled_first is not None:
        lines.append("model(**inputs)  # once in eager before compiling: else it becomes other graphs")
    if spec.compiler == "aot":
        shapes = f", dynamic_shapes={pieces.ANY_SIZE.replace('batch', 'inputs')}" if spec.dynamic == "on" else ""
        options = f"torch._inductor.list_mode_options({literal(spec.mode)})"
        if spec.dynamic == "on":
            options += ' | {"aot_inductor.check_lowerbound": False}'  # else the check of inputs refuses a batch of 1
        lines += [
            f"program = torch.export.export(model, (), kwargs=inputs{shapes})  # in torch.no_grad(), as the calls",
            f"configs = {options}",
            'torch._inductor.aoti_compile_and_package(program, package_path="model.pt2", inductor_configs=configs)',
            'os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"  # else it answers inputs of other sizes with wrong numbers',
            'model = torch._inductor.aoti_load_package("model.pt2")  # here, or in another process',
        ]
        return "\n".join(lines)
    if spec.scope == "layers":
        lines += (pieces.SELECT_LAYERS.strip("\n") % ("model", compile_arguments(spec))).split("\n")
    else:
        lines.append(f"model = torch.compile(model, {compile_arguments(spec)})")
    kept = " Keep the folder TORCHINDUCTOR_CACHE_DIR from start to start." if spec.cached else ""
    lines.append(f"# Call it in torch.no_grad().{kept}")
    return "\n".join(lines)
