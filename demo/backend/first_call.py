"""Times the first compiled call in a process of its own, `python -m demo.backend.first_call`, started by the worker.

Covered: a first call over a compile cache that another process has filled, as after the restart of a server. With a
package: loading the package and calling it once. Not covered: importing torch, loading the model and the GPU's
libraries, and reading from disk: the system has the files in memory.

The job is one line of JSON on standard input, the answer the last line of output: {"cost": {...}, "cache": "warm"}.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from demo.backend import compilation, compile_model, tasks, torch_settings
from demo.core import codec
from demo.core.measurement import CompileCost
from demo.core.spec import RunSpec

TIMEOUT_SECONDS = 600.0


def measure_elsewhere(spec: RunSpec, input_file: Path | None, package: Path | None) -> CompileCost:
    """Times the first call in a new process, which finds this run's compile cache or package.

    Raises RuntimeError if that process fails or does not find the compiled graphs in the cache, or TimeoutExpired.
    """
    torch.cuda.empty_cache()  # the other process needs room for a model of its own
    job = json.dumps(codec.plain({"spec": spec, "input_file": input_file, "package": package}))
    command = [sys.executable, "-m", "demo.backend.first_call"]
    done = subprocess.run(command, input=job, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1][:300] if lines else f"exit code {done.returncode}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if answer["cache"] != "warm" and spec.cached:
        raise RuntimeError("inductor did not find what it had compiled before")
    return codec.from_plain(CompileCost, answer["cost"])


def measure(spec: RunSpec, input_file: Path | None, package: Path | None) -> tuple[CompileCost, str]:
    """Returns the cost of a first call, and the compile cache's state: 'cold', 'off', 'warm'; a package is 'warm'."""
    workload = tasks.load(spec, input_file)
    with torch.no_grad():
        _ = workload.batch  # made here, so that it is not timed
        torch_settings.load_gpu_libraries(spec, workload.device)
        if package is not None:
            started = time.perf_counter()
            call = workload.call(compile_model.load_package(package))
            parts = {"load": time.perf_counter() - started, "first run": workload.clock.time(call)}
            return CompileCost(sum(parts.values()), parts), "warm"
        workload.eager()  # without it some models compile to other graphs than the cache holds
        log = compilation.CompileLog()
        seconds = workload.clock.time(workload.call(compile_model.apply_compile(workload.model, spec)))
        log.first_call_ended()
        return log.cost(seconds), log.cache


if __name__ == "__main__":
    job = json.loads(sys.stdin.read())
    files = (Path(job[name]) if job[name] else None for name in ("input_file", "package"))
    cost, cache = measure(codec.from_plain(RunSpec, job["spec"]), *files)
    print(json.dumps({"cost": codec.plain(cost), "cache": cache}), flush=True)
    os._exit(0)  # a normal exit takes seconds that nobody should wait for: inductor's pool and CUDA's teardown
