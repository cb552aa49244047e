"""A worker without torch that tells, in a warning of its result, what it sees of ZeroGPU."""

import dataclasses
import json
import os
import sys

from benchmarks.quick_worker import Events
from demo.core import codec
from demo.core.spec import RunSpec
from tests import samples


def main() -> None:
    events = Events()
    events.send("ready", version=codec.WIRE_VERSION, machine=codec.plain(samples.MACHINE))
    if not (line := sys.stdin.buffer.readline()):
        return
    job = json.loads(line)
    made = samples.ok_result(id=job["id"], started_at=job["started_at"], spec=codec.load(RunSpec, job["spec"]))
    seen = {"gpu": os.environ.get("CUDA_VISIBLE_DEVICES"), "patched": "spaces" in sys.modules, "pid": os.getppid()}
    events.send("result", result=dataclasses.replace(made, warnings=(json.dumps(seen),)).to_json())


if __name__ == "__main__":
    main()
