"""Times a log of input sizes, call by call: `demo shapes` starts this as a process of its own for each strategy.

Covered: each call with the compile that it waits for, over an empty compile cache, after one eager call of every size.
A text is one call over the whole prompt, without a cache of keys and values. Not covered: making the inputs, and the
copy that pads a batch.

The job is {"spec": ..., "input_file": ..., "sizes": [...], "compiled": true, "cache_folder": "..."}. The answer is one
line: {"refused": ...}, {"failed": ...} or {"seconds": [...], "waited": [...], "recompiles": 0, "fallbacks": 0}.
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
    """Seconds of each call, which of them compiled or recorded a CUDA graph, recompiles, fallbacks.

    Raises BadInput for a size that the model does not take.
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
    # What a library prints goes to standard error. No process that is started here inherits the copy.
    pipe = os.dup(1)
    os.dup2(2, 1)
    Image.MAX_IMAGE_PIXELS = None  # images.read_picture holds its own, stricter limit
    job = json.loads(sys.stdin.buffer.readline())
    compilation.use_empty_cache(Path(job["cache_folder"]))
    os.write(pipe, json.dumps(run_job(job)).encode() + b"\n")
