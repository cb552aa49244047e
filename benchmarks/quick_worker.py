"""A stub of the worker that sends the messages of a run, but times nothing. `benchmarks/load.py` uses it for many runs.

A run lasts as many milliseconds as its option `iterations` says, by default 100. It needs no torch, model or compiler.
"""

import dataclasses
import json
import os
import signal
import sys
import time
from typing import Any

from demo.core import codec
from demo.core.machine import HostInfo
from demo.core.measurement import Measurement
from demo.core.options import MODES, RunSpec
from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.core.result_json import to_json

LOOK_SECONDS = 0.05
MACHINE = HostInfo(
    torch="none",
    transformers="none",
    python="3",
    cpu="A worker that times nothing",
    memory_bytes=8_000_000_000,
    modes=MODES,
    compiler="none",
    gpu=None,
    driver=None,
    gpu_problem=None,
    triton=None,
    inductor_cache="",
)


class Events:
    """The pipe through which the worker sends its events to the runner."""

    def __init__(self) -> None:
        self.descriptor = int(sys.argv[1])

    def send(self, event: str, **content: Any) -> None:
        self.raw(json.dumps({"event": event, **content}).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.descriptor, data) :]


def result(job: dict[str, Any]) -> RunResult:
    """Returns a result for the job, with made-up times in which eager and compiled are equally fast."""
    times = Measurement((0.001,) * 40, None, (0.002, 0.001), 4, 1_000_000)
    return RunResult(
        id=job["id"],
        started_at=job["started_at"],
        status="ok",
        spec=codec.from_plain(RunSpec, job["spec"]),
        eager=times,
        compiled=times,
        control_times=times,
    )


def work(events: Events, job: dict[str, Any]) -> None:
    """Sends progress until the made-up duration of the run is over, then the result."""
    seconds = (job["spec"]["iterations"] or 100) / 1000
    started = time.monotonic()
    while (elapsed := time.monotonic() - started) < seconds:
        look = Progress("time", elapsed / seconds, elapsed, seconds - elapsed)
        events.send("progress", progress=codec.plain(look))
        time.sleep(min(LOOK_SECONDS, seconds - elapsed))
    events.send("result", result=to_json(result(job)))


def main() -> None:
    events = Events()
    events.send("ready", machine=dataclasses.asdict(MACHINE))
    line = sys.stdin.buffer.readline()
    if line:
        work(events, json.loads(line))
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
