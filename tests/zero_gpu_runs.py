"""What `tests/ui/test_zero_gpu.py` runs in a process of its own, as on a ZeroGPU Space, on a machine without a GPU.

`python -m tests.zero_gpu_runs app` is app.py. Without "app": three runs, and a line of JSON for each. In the last two
the calls of CUDA in `spaces` are left out, so that the fork gets as far as starting a worker.
"""

import functools
import json
import os
import runpy
import sys
from typing import Any


def as_built_for_cuda() -> None:
    """`spaces` takes for granted that torch is built for CUDA. Here it may be a build for CPUs."""
    import torch

    if torch.version.cuda is None:
        torch.version.cuda = "13.0"
        torch._C._cuda_init = None
        torch.cuda._is_in_bad_fork = bool  # gives False; what stands there cannot be pickled


def told(runner: Any, **options: str) -> None:
    from demo.core import catalog
    from demo.core.result import RunResult
    from demo.core.spec import BadInput

    try:
        for event in runner.run(catalog.make_spec("shapes-vit", **options), None):
            if isinstance(event, RunResult):
                seen = json.loads(event.warnings[0]) if event.status == "ok" else {}
                print(json.dumps({"status": event.status, "device": event.spec.device, **seen}), flush=True)
    except BadInput as refused:
        print(json.dumps({"refused": str(refused)}), flush=True)


def three_runs() -> None:
    from demo.ui import zero_gpu  # before gradio, as in `serve`

    import spaces.zero.torch as cuda  # isort: skip

    from demo.runs.runner import Runner

    worker, os.environ["FAULT"] = "tests.quick_worker", "what it sees of ZeroGPU"
    zero_gpu.Runner = functools.partial(Runner, worker_module=worker)  # type: ignore[misc]
    runner = Runner(None, worker_module=worker, lent_gpu=zero_gpu.run)
    told(runner, compiler="aot")
    cuda.init = lambda uuid: os.environ.update(CUDA_VISIBLE_DEVICES=uuid)
    cuda.move = lambda callback=None: None
    told(runner, compiler="aot")
    told(runner, compiler="jit")


if __name__ == "__main__":
    as_built_for_cuda()
    if "app" in sys.argv:
        sys.argv = ["app.py"]
        runpy.run_path("app.py", run_name="__main__")
    else:
        three_runs()
