"""A worker without torch, which sends a made-up result for every job. Environment variables control it:

- QUICK_SECONDS: the seconds before the result. QUICK_LOG: a file to which each job appends a line.
- QUICK_HOLD: a file. While it exists, jobs with a batch size above 3 get no result.
- FAULT: how the worker misbehaves, see `fault`. The batch sizes in `ENDS` end a job badly.
"""

import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.quick_worker import Events
from demo.core import codec
from demo.core.caveat import note
from demo.core.codec import plain
from demo.core.measurement import Measurement
from demo.core.options import RunSpec
from demo.core.progress import Progress, Provisional
from demo.core.result import Failure, RunResult
from demo.core.result_json import to_json
from demo.core.stats import Interval
from tests.support import samples

ENDS = {101: "out_of_memory", 102: "compile_failed", 103: "crash", 104: "refuse"}
FAULT = os.environ.get("FAULT", "")
PROGRESS = codec.plain(Progress("compile", 0.5, 1.0))
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def result(job: dict[str, Any]) -> RunResult:
    spec, picture = codec.from_plain(RunSpec, job["spec"]), job.get("input_file")
    image_info = samples.info_of(Path(picture)) if picture else None
    run_result = samples.ok_result(id=job["id"], started_at=job["started_at"], spec=spec, image=image_info)
    if status := ENDS.get(spec.batch_size):
        failure = Failure("compile", f"It went wrong: {status}.", "Try another.")
        run_result = dataclasses.replace(run_result, status=status, failure=failure, compiled=None)
    return run_result


def fault(events: Events, job: dict[str, Any]) -> None:
    events.send("progress", progress=PROGRESS)
    good = to_json(result(job))
    if FAULT == "half a message":
        events.raw(b'{"event": "resu')
        sys.exit(0)
    elif FAULT == "progress without a pause":
        while True:
            events.send("progress", progress=PROGRESS)
            time.sleep(0.01)
    elif FAULT == "the result of another run":
        events.send("result", result=good | {"id": "another"})
    elif FAULT == "SIGSEGV":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif FAULT == "leaves files and a child that holds the pipe":
        Path(os.environ["TMPDIR"], "left").write_text("over")
        subprocess.Popen(SLEEP, close_fds=False)
        os.kill(os.getpid(), signal.SIGKILL)
    elif FAULT == "hangs with a child":
        Path(os.environ["CHILD_FILE"]).write_text(f"{subprocess.Popen(SLEEP).pid}\n")
    elif FAULT == "hangs while timing":
        ratio = Interval(2.0, 1.9, 2.1)
        timing = Progress("time", 0.8, 1.0, eager_seconds=0.002, compiled_seconds=0.001, speedup=ratio)
        events.send("progress", progress=codec.plain(timing))
    elif FAULT == "paths and control characters":
        failure = Failure("compile", "/home/me/secret/file.py: \x1b[31mred", "see /etc/passwd")
        bad = {"status": "failed", "failure": plain(failure), "caveats": [plain(note("~/x/y\x07"))]}
        events.send("result", result=good | bad)
    elif FAULT.startswith("after its answer it "):
        answer = codec.from_plain(RunResult, good)
        events.send("provisional", provisional=codec.plain(Provisional("check", 0.95, 1.0, result=answer)))
        if FAULT.endswith("dies"):
            os.kill(os.getpid(), signal.SIGKILL)
    elif FAULT == "refuses what is to be exact":
        # the caveat tells the test how many threads the first process was given
        if job["refuse_fewer_threads"] and job["threads"]:
            events.send("refused", message=f"Fewer than {job['threads']} cores are free.")
        else:
            events.send("result", result=good | {"caveats": [plain(note(f"{job['threads']} threads"))]})
    elif FAULT.startswith("speed-ups "):
        # 'speed-ups 1.5 1.4/1': the first process reports 1.5×, the second 1.4× with 1 thread, a third one crashes.
        # 'speed-ups 1.5 hangs': the second one hangs
        played = Path(os.environ["CHILD_FILE"])
        number = len(played.read_text()) if played.exists() else 0
        played.write_text("x" * (number + 1))
        speedup, _, threads = FAULT.split()[1:][number].partition("/")
        if speedup == "hangs":
            time.sleep(600)
        answer = dataclasses.replace(
            codec.from_plain(RunResult, good),
            environment=dataclasses.replace(samples.ENVIRONMENT, threads=int(threads or 2)),
            eager=Measurement((0.002,) * 40, None, (), 4),
            compiled=Measurement((0.002 / float(speedup),) * 40, None, (), 4),
        )
        events.send("result", result=to_json(answer))
    else:
        raise RuntimeError(f"no such fault: {FAULT}")
    time.sleep(600)


def main() -> None:
    events = Events()
    events.send("ready", machine=codec.plain(samples.MACHINE))
    line = sys.stdin.buffer.readline()
    if not line:
        return
    job = json.loads(line)
    if FAULT:
        fault(events, job)
    spec = codec.from_plain(RunSpec, job["spec"])
    if log := os.environ.get("QUICK_LOG"):
        with open(log, "a") as file:
            file.write(f"{spec.checkpoint} {spec.batch_size} {spec.mode}\n")
    match ENDS.get(spec.batch_size):
        case "crash":
            os._exit(3)
        case "refuse":
            events.send("refused", message="This one is not to be had.")
            return
    seconds, hold = float(os.environ.get("QUICK_SECONDS", "0")), os.environ.get("QUICK_HOLD", "")
    gone, _, _ = select.select([sys.stdin], [], [], seconds)
    while not gone and spec.batch_size > 3 and os.path.exists(hold):
        gone, _, _ = select.select([sys.stdin], [], [], 0.05)
    if not gone:
        events.send("result", result=to_json(result(job)))


if __name__ == "__main__":
    main()
