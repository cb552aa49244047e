"""The worker, a process for one run: `python -m demo.backend EVENTS_FD`, started by `demo.runs.runner`.

It imports torch and transformers, reports the machine, and reads a `WorkerJob` as one line of JSON from standard input.
It answers with JSON lines on the pipe EVENTS_FD, to which no library prints, and ends after `refused` or `result`:

    {"event": "machine", "machine": {...}}      once: a HostInfo
    {"event": "ready", "machine": {...}}        before the job: the same, with the instruction probe's times if known
    {"event": "progress", "progress": {...}}    a Progress
    {"event": "provisional", "provisional": {...}}    a Provisional: the result, without a warm first call
    {"event": "refused", "message": "..."}      the text of a BadInput: the job cannot be run as given
    {"event": "result", "result": {...}}        a RunResult, also of a failed run
"""

import json
import os
import signal
import sys

from PIL import Image

from ..core import codec
from ..core.options import BadInput
from ..core.result_json import to_json
from . import machine_probe
from .messages import Events, WorkerJob
from .run_steps import Run


def main() -> None:
    os.set_inheritable(int(sys.argv[1]), False)
    events = Events(os.fdopen(int(sys.argv[1]), "w", encoding="utf-8"))
    machine_probe.warm_imports()
    import_seconds = machine_probe.seconds_since_start()
    events.send("machine", machine=codec.plain(machine_probe.host()))
    events.send("ready", machine=codec.plain(machine_probe.host_after_probe()))
    line = sys.stdin.buffer.readline()
    if not line:
        return
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # else a model that asks for input, as breakpoint() does, would hang
    Image.MAX_IMAGE_PIXELS = None  # `demo.core.images` has a stricter limit
    try:
        result = Run(codec.from_plain(WorkerJob, json.loads(line)), events, import_seconds).execute()
    except BadInput as refusal:
        events.send("refused", message=str(refusal))
    else:
        events.send("result", result=to_json(result))
    # Not a normal exit: inductor's pool and CUDA's teardown take seconds that nobody should wait for.
    sys.stdout.flush()
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
