"""Times the first compiled call in a new process: how long a restarted server waits for it.

An earlier process has filled the compile cache or built an AOTInductor package. Not timed: importing torch, loading the
eager model and the GPU's libraries, and inductor's instruction probe. The operating system still has the files in
memory, so reading them from disk is not included.

The process reads the arguments of `measure_first_call` as a line of JSON, and prints its result.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import torch

from ..core import codec
from ..core.measurement import CompileCost
from ..core.options import RunSpec
from ..core.program import PACKAGE
from . import compilation, compile_model, instruction_probe, tasks, torch_settings
from .messages import answer_one_job

TIMEOUT_SECONDS = 600.0


def measure_elsewhere(spec: RunSpec, input_file: Path | None, package: Path | None) -> CompileCost:
    """Times the first compiled call in a new process.

    - `package`: the file of an AOTInductor package to load; None: the call loads its compiled code from the compile
      cache.
    - `input_file`: the picture; None for a model that needs none.
    - Raises RuntimeError if the process fails, or if it does not find its graphs in the cache although the cache can
      keep them (`spec.cached`). Raises TimeoutExpired after `TIMEOUT_SECONDS`.
    """
    torch.cuda.empty_cache()  # the other process needs room for a model of its own
    job = json.dumps(codec.plain({"spec": spec, "input_file": input_file, "package": package}))
    command = [sys.executable, "-P", "-m", f"{PACKAGE}.backend.first_call"]
    done = subprocess.run(command, input=job, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1][:300] if lines else f"exit code {done.returncode}")
    cost, cache = json.loads(done.stdout)
    if cache != "warm" and spec.cached:
        raise RuntimeError("inductor did not find what it had compiled before")
    return codec.from_plain(CompileCost, cost)


def measure_first_call(spec: RunSpec, input_file: Path | None, package: Path | None) -> tuple[CompileCost, str]:
    """Loads the model and returns the cost of its first compiled call, and where the call found its code.

    - `input_file` and `package`: as in `measure_elsewhere`.
    - The second value is 'warm' if every graph came from the compile cache or from `package`, 'cold' if at least one
      graph was compiled, and 'off' if the cache was not used.
    """
    workload = tasks.load(spec, input_file)
    with torch.no_grad():
        restorer = workload.restorer  # makes the batch, untimed
        torch_settings.load_gpu_libraries(spec, workload.device)
        if package is not None:
            started = time.perf_counter()
            call = workload.call(compile_model.load_package(package))
            parts = {"load": time.perf_counter() - started, "first run": workload.clock.time(call)}
            return CompileCost(sum(parts.values()), parts), "warm"
        workload.eager()  # without it some models compile to other graphs than the cache holds
        restorer.needed = bool(restorer.changed_inputs())
        if workload.device.type == "cpu":
            instruction_probe.look()  # the machine's, not the model's
        log = compilation.CompileLog()
        seconds = workload.clock.time(workload.call(compile_model.apply_compile(workload.model, spec)))
        log.first_call_ended()
        return log.cost(seconds), log.cache


if __name__ == "__main__":
    answer_one_job(measure_first_call)
