"""Times a log of input sizes, call by call.

`demo shapes` starts this process once for each strategy, such as "padded".

Covered: each call with the compile that it waits for. The compile cache is empty, and eager has run every size
once. A text is one call over the whole prompt, without a cache of keys and values. Not covered: making the inputs,
and the copy that pads a batch.

Standard input: {"spec": ..., "input_file": ..., "sizes": [...], "compiled": true, "cache_folder": "..."}, on one
line. Output, on one line: {"refused": why}, {"failed": why} or what `replay` returns.
"""

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from demo.backend import compilation, compile_model, tasks
from demo.backend.workload import Workload
from demo.core import codec
from demo.core.size_log import Size
from demo.core.spec import BadInput, RunSpec


def replay(workload: Workload, sizes: list[Size], compiled: bool) -> dict[str, Any]:
    """Returns {"seconds": [0.1, ...], "waited": [True, ...], "recompiles": 0, "fallbacks": 0}, a list entry per call.

    A call that compiled or recorded a CUDA graph "waited". Raises BadInput for a size that the model does not take.
    """
    for size in dict.fromkeys(sizes):
        try:
            workload.model(**workload.batch_of(size))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            raise BadInput(f"The model cannot be called with {size}: {compilation.first_line(error)}") from error
    log = compilation.CompileLog()
    model = compile_model.apply_compile(workload.model, workload.spec) if compiled else workload.model
    seconds, waited = [], []
    for size in sizes:
        batch, before = workload.batch_of(size), (log.events(), compilation.cuda_graph_recordings())
        seconds.append(workload.clock.time(functools.partial(model, **batch)))
        waited.append((log.events(), compilation.cuda_graph_recordings()) != before)
    counts = {"recompiles": len(log.recompiles), "fallbacks": len(log.fallbacks)}
    return {"seconds": seconds, "waited": waited, **counts}


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    spec, sizes = codec.from_plain(RunSpec, job["spec"]), [codec.from_plain(Size, size) for size in job["sizes"]]
    try:
        with torch.no_grad():
            return replay(tasks.load(spec, Path(job["input_file"])), sizes, job["compiled"])
    except BadInput as refusal:
        return {"refused": str(refusal)}
    except torch.OutOfMemoryError:
        return {"failed": "out of memory"}


if __name__ == "__main__":
    # Prints of libraries go to standard error, not into the answer. Processes started here do not inherit `pipe`.
    pipe = os.dup(1)
    os.dup2(2, 1)
    Image.MAX_IMAGE_PIXELS = None  # `demo.core.images` has a stricter limit
    job = json.loads(sys.stdin.buffer.readline())
    compilation.use_empty_cache(Path(job["cache_folder"]))
    os.write(pipe, json.dumps(run_job(job)).encode() + b"\n")
