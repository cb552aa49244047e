"""Times one call for each entry of a list of input sizes, compiles included. `demo shapes` starts this process.

The compile cache is empty at first, and the eager model has run every size once. A text model reads the whole prompt in
one call, without a cache of keys and values. Not timed: making the inputs, and padding a batch.

The process reads the arguments of `replay_job` as a line of JSON, and prints its result.
"""

import functools
from pathlib import Path

import torch

from ..core.options import BadInput, RunSpec
from ..core.refusals import resolve
from ..core.size_log import InputSize
from . import compilation, compile_cache, compile_model, error_text, failures, machine_probe, tasks
from .messages import answer_one_job
from .workload import Workload


def replay(workload: Workload, sizes: list[InputSize], compiled: bool) -> dict[str, object]:
    """Times a call for each size, in order. Raises BadInput for a size that the model does not accept.

    Returns {"seconds": [0.1, ...], "waited": [True, ...], "recompiles": 0, "fallbacks": 0}:

    - "seconds": the time of each call
    - "waited": whether the call compiled or recorded a CUDA graph
    - "recompiles": how many times dynamo compiled a function again
    - "fallbacks": how many functions dynamo left to eager
    """
    for size in dict.fromkeys(sizes):
        try:
            workload.model(**workload.batch_of(size))
        except Exception as error:
            if failures.is_out_of_memory(error):
                raise
            raise BadInput(f"The model cannot be called with {size}: {error_text.first_line(error)}") from error
    log = compilation.CompileLog()
    model = compile_model.apply_compile(workload.model, workload.spec) if compiled else workload.model
    seconds, waited = [], []
    for size in sizes:
        batch, before = workload.batch_of(size), (log.events(), compilation.cuda_graph_recordings())
        seconds.append(workload.clock.time(functools.partial(model, **batch)))
        waited.append((log.events(), compilation.cuda_graph_recordings()) != before)
    counts = {"recompiles": len(log.recompiles), "fallbacks": len(log.fallbacks)}
    return {"seconds": seconds, "waited": waited, **counts}


def replay_job(
    spec: RunSpec, input_file: Path, sizes: list[InputSize], compiled: bool, cache_folder: Path
) -> dict[str, object]:
    """Loads the model and returns the result of `replay`. `cache_folder`: an empty folder for the compile cache.

    Instead returns {"refused": why} if the input cannot be used, and {"failed": why} if memory runs out.
    """
    compile_cache.use_empty_cache(cache_folder)
    try:
        with torch.no_grad():
            return replay(tasks.load(resolve(spec, machine_probe.host()), input_file), sizes, compiled)
    except BadInput as refusal:
        return {"refused": str(refusal)}
    except Exception as error:
        if failures.is_out_of_memory(error):
            return {"failed": "out of memory"}
        raise


if __name__ == "__main__":
    answer_one_job(replay_job)
