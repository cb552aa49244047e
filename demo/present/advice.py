"""What an engineer takes home from a run: whether to compile, and the lines that do it with the measured settings."""

from __future__ import annotations

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL
from demo.present import script_pieces as pieces
from demo.present.script import compile_arguments, device, dtype, literal, memory_format
from demo.present.sentences import count, outcome


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


def start_seconds(result: RunResult) -> float | None:
    """What one start of a process costs: the first call from a filled cache, or of a loaded package, where measured."""
    costs = result.compilation.known_costs if result.compilation is not None else {}
    return costs.get("warm", costs.get("cold"))


def code_lines(result: RunResult) -> str:
    """The lines for somebody's own code, with the settings of the run. `model` and `inputs` are theirs."""
    spec = result.spec
    lines = [f"model = model.to({literal(device(spec))}, {dtype(spec)}{memory_format(spec)}).eval()"]
    if spec.task == OWN_MODEL:
        lines.insert(0, f"model, inputs = {spec.checkpoint.rpartition(':')[2]}()  # inputs: the arguments by name")
    if spec.attention != "auto":
        lines.insert(0, f"# model: loaded with attn_implementation={literal(spec.attention)}")
    if spec.dtype == "tf32":
        lines.append('torch.set_float32_matmul_precision("high")')
    if spec.threads is not None:
        lines.append(f"torch.set_num_threads({spec.threads})")
    if spec.freezing:
        lines.append("torch._inductor.config.freezing = True  # import torch._inductor.config")
    if result.compilation is not None and result.compilation.compiled_first is not None:
        lines.append("model(**inputs)  # once in eager before compiling: else it becomes other graphs")
    if spec.compiler == "aot":
        shapes = f", dynamic_shapes={pieces.ANY_SIZE.replace('batch', 'inputs')}" if spec.dynamic == "on" else ""
        options = f"torch._inductor.list_mode_options({literal(spec.mode)})"
        lines += [
            f"program = torch.export.export(model, (), kwargs=inputs{shapes})  # in torch.no_grad(), as the calls",
            f"configs = {options}",
            'torch._inductor.aoti_compile_and_package(program, package_path="model.pt2", inductor_configs=configs)',
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
