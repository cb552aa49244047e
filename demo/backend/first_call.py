"""The first compiled call in a process of its own: `python -m demo.backend.first_call`, started by the worker.

Over a cache that another process has filled it tells what a restart of a server costs. Reads the job (a spec and the
picture's path, as JSON) from standard input and writes a schema.CompileCost, with the state of the cache, to its last
line of standard output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import torch

from demo.backend import compilation, models, predictions, settings, timing
from demo.core import images
from demo.core import result as schema
from demo.core.result import CompileCost, RunSpec

TIMEOUT_SECONDS = 600.0


def measure_elsewhere(spec: RunSpec, image: Path) -> CompileCost:
    """Starts the process over this one's compile cache and waits. Raises RuntimeError where it gives no warm figure."""
    job = json.dumps({"spec": schema.plain(spec), "image": str(image)})
    command = [sys.executable, "-m", "demo.backend.first_call"]
    try:
        done = subprocess.run(command, input=job, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"it took more than {TIMEOUT_SECONDS:.0f} s") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[-1][:300] if lines else f"exit code {done.returncode}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if answer["cache"] != "warm":
        raise RuntimeError("inductor did not find what it had compiled before")
    cost: CompileCost = schema.load(CompileCost, answer["cost"])
    return cost


def measure(spec: RunSpec, image: Path) -> tuple[CompileCost, str]:
    """The cost of the first compiled call here and now, and the state that its cache was in."""
    device = torch.device(spec.device)
    settings.apply(spec, device)
    picture, _ = images.read(image)
    loaded = models.load(spec, device)
    batch = predictions.to_batch(predictions.prepare(loaded, picture, spec.text), spec, device)
    clock = timing.WallClock(device)
    with torch.no_grad():
        loaded.model(**batch)
        watch = compilation.Watch()
        model = compilation.compiled(loaded.model, spec)
        seconds = clock.time(lambda: model(**batch))
        watch.first_call_ended()
        return watch.cost(seconds), watch.cache


def main() -> None:
    job = json.loads(sys.stdin.read())
    cost, cache = measure(schema.load(RunSpec, job["spec"]), Path(job["image"]))
    print(json.dumps({"cost": schema.plain(cost), "cache": cache}), flush=True)
    os._exit(0)  # inductor's pool and CUDA's teardown take seconds that nobody should wait for


if __name__ == "__main__":
    main()
