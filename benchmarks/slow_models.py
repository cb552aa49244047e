"""Does a run of a slow model get a verdict, and do its runs agree? Six models, five runs each.

The models are of the Transformers guide, with random weights. Nothing else is running. Each run is `python -m demo run`
with its defaults; the models take turns. No runs are stored at first.

Each run has two verdicts: by itself, and pooled with the earlier runs of its model. A verdict contradicts the mean of
the model's five runs if it says 'faster' and the mean 'slower', or the other way round. It also contradicts if it
is 'same' and the mean is more than 3 % away from 1. Aims: at most one of the sixty verdicts contradicts. Of the models
whose mean is more than 8 % away from 1, at least four in five runs have a verdict other than 'unsure', both by
themselves and pooled.

`--keep FOLDER` stores every result in the folder as JSON. If the benchmark is started again with the folder, it
continues after the stored runs. The verdicts of stored runs are computed anew.
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import report
from demo.core import stats
from demo.core.result import RunResult
from demo.core.result_json import from_json
from demo.core.stats import Verdict

RUNS = 5
MODELS = (
    "microsoft/resnet-50",
    "nvidia/segformer-b0-finetuned-ade-512-512",
    "google/vit-base-patch16-224",
    "google/deeplabv3_mobilenet_v2_1.0_513",
    "microsoft/beit-base-patch16-224-pt22k-ft22k",
    "google/owlvit-base-patch32",
)
QUERIES = {"google/owlvit-base-patch32": "a cat,a dog"}
BEYOND = 0.08


def run(checkpoint: str, number: int, folder: Path) -> RunResult:
    """Returns the result of run `number` of the checkpoint, from `folder` if it is stored there. Else makes the run."""
    kept = folder / f"{checkpoint.split('/')[-1]}-{number}.json"
    if not kept.exists():
        command = [sys.executable, "-m", "demo", "run", "--checkpoint", checkpoint, "--weights", "random", "--json"]
        command += ["--text", QUERIES[checkpoint]] if checkpoint in QUERIES else []
        env = os.environ | {"WORTH_COMPILING_DATA": str(folder / "data"), "HF_HUB_OFFLINE": "1"}
        kept.write_text(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    return from_json(json.loads(kept.read_text()))


def contradicts(verdict: Verdict, mean: float) -> bool:
    side = "faster" if mean > 1 else "slower"
    return verdict not in (side, "same", "unsure") or (verdict == "same" and abs(mean - 1) > stats.SAME_WITHIN)


def verdicts_of(runs: list[RunResult]) -> tuple[float, list[Verdict], list[Verdict]]:
    """Returns the mean speed-up, each run's verdict by itself, and each verdict pooled with the earlier runs."""
    alone = [dataclasses.replace(run, earlier=()).speedup for run in runs]
    together = [run.speedup for run in runs]
    assert None not in alone and None not in together, "a run has no figure"
    mean = stats.geometric_mean([speedup.ratio for speedup in alone if speedup])
    return mean, [speedup.verdict for speedup in alone if speedup], [speedup.verdict for speedup in together if speedup]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--keep", type=Path)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.parse_args().keep or Path(temporary)
        runs = {checkpoint: [run(checkpoint, 0, folder)] for checkpoint in MODELS}
        for number in range(1, RUNS):
            for checkpoint, model_runs in runs.items():
                model_runs.append(run(checkpoint, number, folder))
    rows, against, beyond = [], 0, {"alone": [0, 0], "together": [0, 0]}
    for checkpoint, model_runs in runs.items():
        mean, alone, together = verdicts_of(model_runs)
        for name, verdicts in (("alone", alone), ("together", together)):
            against += sum(contradicts(verdict, mean) for verdict in verdicts)
            if max(mean, 1 / mean) > 1 + BEYOND:
                beyond[name][0] += sum(verdict != "unsure" for verdict in verdicts)
                beyond[name][1] += len(verdicts)
        ratios = [run.speedup.within.ratio for run in model_runs if run.speedup]
        seconds = statistics.median(run.eager.median_seconds for run in model_runs if run.eager)
        calls = statistics.median(len(run.eager.wall_seconds) for run in model_runs if run.eager)
        span = f"{mean:.2f}× ({min(ratios):.2f} to {max(ratios):.2f})"
        rows.append(
            [checkpoint, f"{seconds * 1e3:.0f} ms", f"{calls:.0f}", span, ", ".join(alone), ", ".join(together)]
        )
    head = ["checkpoint", "eager call", "calls", "mean (range)", "verdict by itself", "with the earlier runs"]
    shares = ", ".join(f"{name}: {some} of {of}" for name, (some, of) in beyond.items())
    below = f"Verdicts that contradict the mean: {against}. With a verdict if the mean is beyond 8 %: {shares}."
    report.publish("slow_models", "Does a run of a slow model answer?", f"{report.table(head, rows)}\n\n{below}")
    if against > 1 or any(some < 0.8 * of for some, of in beyond.values()):
        sys.exit("outside the aims")


if __name__ == "__main__":
    main()
