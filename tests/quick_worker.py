"""A worker without torch: answers every job after QUICK_SECONDS with a made-up result. Started by the tests' runner.

Writes a line into the file QUICK_LOG when a job has come. What comes of a job is told by its batch size: see `ODD`.
While the file QUICK_HOLD exists, jobs of a batch size above 3 are not answered.
"""

import dataclasses
import json
import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.quick_worker import Events
from demo.core import codec
from demo.core.result import Failure, RunResult
from demo.core.spec import RunSpec
from tests import samples

ODD = {101: "out_of_memory", 102: "compile_failed", 103: "crash", 104: "refuse"}


def result(job: dict) -> RunResult:
    spec = codec.load(RunSpec, job["spec"])
    seen = samples.info_of(Path(job["input_file"]))
    made = samples.ok_result(id=job["id"], started_at=job["started_at"], spec=spec, image=seen)
    if status := ODD.get(spec.batch_size):
        failure = Failure("compile", f"It went wrong: {status}.", "Try another.")
        made = dataclasses.replace(made, status=status, failure=failure, compiled=None)
    return made


def main(result: Callable[[dict], RunResult] = result) -> None:
    events = Events()
    events.send("ready", version=codec.WIRE_VERSION, machine=codec.plain(samples.MACHINE))
    line = sys.stdin.buffer.readline()
    if not line:
        return
    job = json.loads(line)
    asked = job["spec"]
    if log := os.environ.get("QUICK_LOG"):
        with open(log, "a") as file:
            file.write(f"{asked['checkpoint']} {asked['batch_size']} {asked['mode']}\n")
    match ODD.get(asked["batch_size"]):
        case "crash":
            os._exit(3)
        case "refuse":
            events.send("refused", message="This one is not to be had.")
            return
    seconds, hold = float(os.environ.get("QUICK_SECONDS", "0")), os.environ.get("QUICK_HOLD", "")
    gone, _, _ = select.select([sys.stdin], [], [], seconds)
    while not gone and asked["batch_size"] > 3 and os.path.exists(hold):
        gone, _, _ = select.select([sys.stdin], [], [], 0.05)
    if not gone:
        events.send("result", result=result(job).to_json())


if __name__ == "__main__":
    main()
