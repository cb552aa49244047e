"""A worker without torch that tells, in a warning of its result, what it sees of ZeroGPU."""

import dataclasses
import json
import os
import sys

from demo.core import codec
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from tests import quick_worker, samples


def result(job: dict) -> RunResult:
    made = samples.ok_result(id=job["id"], started_at=job["started_at"], spec=codec.load(RunSpec, job["spec"]))
    seen = {"gpu": os.environ.get("CUDA_VISIBLE_DEVICES"), "patched": "spaces" in sys.modules, "pid": os.getppid()}
    return dataclasses.replace(made, warnings=(json.dumps(seen),))


if __name__ == "__main__":
    quick_worker.main(result)
