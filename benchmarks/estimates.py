"""How good is a run's estimated time? Each model runs with an empty and a filled cache, on a quiet and a busy machine.

The estimate is made right before the run, as the page makes it. A model's first run has no stored runs before it and an
empty compile cache, so its estimate is a guess. On the busy machine, each core has a program that never pauses.
`--quick`: one model. Aim: 16 of 20 runs take between two thirds and one and a half times their estimate.
"""

import argparse
import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import report
from demo.core import catalog, format as fmt
from demo.core.options import RunSpec
from demo.core.result import RunResult
from demo.runs import forecast
from demo.runs.runner import Runner
from demo.store.history import History
from demo.sweep.grid import PICTURE

MODELS = ("shapes-vit", "shapes-segformer", "shapes-rtdetr", "shapes-gemma", "microsoft/resnet-50")
WITHIN = 1.5


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Keeps one program for each core busy during the `with` block.

    The programs are not started as children of this process, because `demo.core.cores` does not count those as other
    programs.
    """
    start = "import os; os.fork() and os._exit(0); print(os.getpid(), flush=True); os.close(1)"
    command = [sys.executable, "-c", f"{start}\nwhile True: pass"]
    programs = [int(subprocess.check_output(command)) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for program in programs:
            os.kill(program, signal.SIGKILL)


def row(spec: RunSpec, runner: Runner, history: History, case: str) -> tuple[list[str], float]:
    """Makes a run of `spec`. Returns its row of the table, and its time divided by the estimate."""
    machine = runner.inspect()
    expected = forecast.forecast_process(spec, machine, history.all())
    assert expected is not None
    *_, result = runner.run(spec, PICTURE if spec.sees_picture else None)
    assert isinstance(result, RunResult)
    times = result.elapsed_seconds / expected.seconds
    based = "a guess" if not expected.runs else "equal runs" if expected.same_settings else "runs of the model"
    took = f"{result.elapsed_seconds:.0f} s"
    line = [spec.checkpoint, case, based, f"{expected.seconds:.0f} s", took, fmt.ratio(times), result.status]
    print(*line, file=sys.stderr)
    return line, times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    models = MODELS[:1] if parser.parse_args().quick else MODELS
    rows, times = [], []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(folder, "cache"))
        history = History(Path(folder, "history.sqlite3"))
        with contextlib.closing(Runner(history)) as runner:
            for model in models:
                weights = "pretrained" if model.startswith("shapes-") else "random"
                prompt = catalog.PROMPT if model == "shapes-gemma" else ""
                spec = catalog.make_spec(model, weights=weights, device="cpu", prompt=prompt)
                empty = dataclasses.replace(spec, cache="empty")
                for case, run_spec, load in (
                    ("from nothing, quiet", spec, contextlib.nullcontext),
                    ("again, quiet", spec, contextlib.nullcontext),
                    ("again, busy", spec, busy),
                    ("from nothing, busy", empty, busy),
                ):
                    with load():
                        line, ratio = row(run_spec, runner, history, case)
                    rows.append(line)
                    times.append(ratio)
    good = sum(1 / WITHIN <= ratio <= WITHIN for ratio in times)
    heads = ["checkpoint", "run", "estimate from", "estimate", "took", "took over estimate", "status"]
    text = f"{report.table(heads, rows)}\n\nWithin a factor of {WITHIN:g}: {good} of {len(times)}."
    report.publish("estimates", "The estimate of a run", text)
    if good < 0.8 * len(times):
        sys.exit("over a limit")


if __name__ == "__main__":
    main()
