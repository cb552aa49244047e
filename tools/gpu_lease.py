"""Measures on a GPU that is lent for a quarter of an hour, in two calls: the steps in their order, with time limits.

    python3 -m tools.gpu_lease FOLDER 1 --commit COMMIT    first call, 9 minutes
    python3 -m tools.gpu_lease FOLDER 2 --commit COMMIT    second call, 4 minutes, with what the first left in FOLDER
    python3 -m tools.gpu_lease FOLDER 1 --quick            the same on this CPU with the bundled checkpoints

The most valuable steps come first. A step that reaches its limit is stopped, and the next one begins. If a call has too
little time left for a step, it leaves the step out. FOLDER gets the files of `tools.gpu_evidence`, and `lease.txt` with
all that the steps print.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CALL_SECONDS = {1: 550.0, 2: 240.0}
"""Seconds that each of the two calls of the script may take. Both calls and 100 s for the start of the machine fit
together into a quarter of an hour."""
LEAST_SECONDS = 20.0
"""A step begins only if its call of the script has at least this much time left, besides `END_SECONDS`."""
END_SECONDS = 15.0
"""How long a stopped step may write its tables before it is killed."""
BEIT = "microsoft/beit-base-patch16-224-pt22k-ft22k"
REPEATED = ("google/vit-base-patch16-224", "microsoft/resnet-50")
"""The checkpoints that the second call times in further processes and number formats."""


@dataclass(frozen=True)
class Step:
    name: str
    seconds: float
    """Seconds after which the step is stopped."""
    module: str
    arguments: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables that the step sets."""


def steps(call: int, folder: Path, commit: str, quick: bool) -> list[Step]:
    """Returns the steps of a call, 1 or 2. `quick`: on the CPU, with bundled checkpoints."""
    device = "cpu" if quick else "cuda"
    evidence = (str(folder), "--commit", commit, *(["--quick"] if quick else []))
    chosen = () if quick else ("--checkpoints", ",".join(REPEATED))
    beit = ("shapes-vit",) if quick else (BEIT, "--weights", "random")
    if call == 1:
        run = ("run", "--device", device, "--mode", "reduce-overhead", "--max-seconds", "1", "--checkpoint", *beit)
        return [
            Step("times of plain torch", 65, "tools.gpu_plain_loop", ("vit",)),
            Step("BeiT without graph partition", 45, "demo", run, {"TORCHINDUCTOR_GRAPH_PARTITION": "0"}),
            Step("table", CALL_SECONDS[1], "tools.gpu_evidence", (*evidence, "--steps", "machine,table")),
        ]
    return [
        Step("processes and formats", 170, "tools.gpu_evidence", (*evidence, "--steps", "processes,formats", *chosen)),
        Step("crash of a package", 60, "tools.gpu_package_crash"),
        Step("tests", 60, "tools.gpu_evidence", (*evidence, "--steps", "tests")),
        Step("a user's run", 60, "demo", ("run", "--device", device)),
    ]


def run_step(step: Step, seconds: float, log: Path) -> str:
    """Runs a step for at most `seconds`, appending what it prints to the file `log`. Returns how it ended."""
    timed = ("--minutes", f"{seconds / 60:.2f}") if step.module == "tools.gpu_evidence" else ()
    command = [sys.executable, "-m", step.module, *step.arguments, *timed]
    with log.open("ab") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | step.variables, stdout=file, stderr=file, start_new_session=True
        )
        try:
            return f"exit {process.wait(seconds)}"
        except subprocess.TimeoutExpired:
            process.terminate()
            return f"stopped after {seconds:.0f} s"
        finally:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            finally:
                stop_group(process.pid)
                process.wait()


def stop_group(leader: int) -> None:
    """Kills what is left of the process group of a step, such as a worker."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def run_call(chosen: Sequence[Step], seconds: float, log: Path) -> None:
    """Runs the steps one after another within `seconds`. Prints what each step printed, and how it ended."""
    end = time.monotonic() + seconds
    for step in chosen:
        left = end - time.monotonic()
        if left < LEAST_SECONDS + END_SECONDS:
            print(f"== {step.name}: left out, {left:.0f} s are left", flush=True)
            continue
        begins, started = log.stat().st_size if log.exists() else 0, time.monotonic()
        ended = run_step(step, min(step.seconds, left - END_SECONDS), log)
        with log.open("rb") as file:
            file.seek(begins)
            sys.stdout.write(file.read().decode(errors="replace"))
        print(f"== {step.name}: {ended}, {time.monotonic() - started:.0f} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Measures on a GPU that is lent for a quarter of an hour.")
    parser.add_argument("folder", type=Path, help="where the results lie, and those of the first call")
    parser.add_argument("call", type=int, choices=tuple(CALL_SECONDS), help="the first or the second call")
    parser.add_argument("--commit", default="", help="of this project, where the copy has no git history")
    parser.add_argument(
        "--seconds", type=float, help="limit of the call; default: 550 for the first, 240 for the second"
    )
    parser.add_argument("--quick", action="store_true", help="on this CPU, with the bundled checkpoints")
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    chosen = steps(options.call, folder, options.commit, options.quick)
    run_call(chosen, options.seconds or CALL_SECONDS[options.call], folder / "lease.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
