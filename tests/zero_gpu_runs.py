"""Three runs as on a ZeroGPU Space without a GPU: `python -m tests.zero_gpu_runs`. Prints a line of JSON for each.

Two of them with CUDA's two calls in `spaces` left out, so that the fork gets as far as starting a worker.
"""

from __future__ import annotations

import functools
import json
import os

from demo.ui import zero_gpu  # before gradio and torch, as `serve` does it

import spaces.zero.torch as cuda  # isort: skip

from demo.core import catalog
from demo.core.errors import BadInput
from demo.core.result import RunResult
from demo.runs.runner import Runner

WORKER = "tests.zero_gpu_worker"


def told(runner: Runner, **options: str) -> None:
    try:
        for event in runner.run(catalog.make_spec("shapes-vit", **options), None):
            if isinstance(event, RunResult):
                seen = json.loads(event.warnings[0]) if event.status == "ok" else {}
                print(json.dumps({"status": event.status, "device": event.spec.device, **seen}), flush=True)
    except BadInput as refused:
        print(json.dumps({"refused": str(refused)}), flush=True)


def main() -> None:
    zero_gpu.Runner = functools.partial(Runner, worker_module=WORKER)  # type: ignore[misc]
    runner = Runner(None, worker_module=WORKER, lent_gpu=zero_gpu.run)
    told(runner, compiler="aot")
    cuda.init = lambda uuid: os.environ.update(CUDA_VISIBLE_DEVICES=uuid)
    cuda.move = lambda callback=None: None
    told(runner, compiler="aot")
    told(runner, compiler="jit")


if __name__ == "__main__":
    main()
