"""By how much do the times of first compiled calls with equal settings differ? A run times only one, so it cannot tell.

Each start is a new process (`demo.backend.first_call`). A *cold* start has an empty compile cache; the *warm* start
after it has the same cache, now filled. The models take turns, so that a drift of the machine affects all. Models that
are not bundled have random weights. Inductor's instruction probe, which runs once for a cache, is not counted.

The spread is the standard deviation of the logarithm of the seconds, over the starts of a model. Its root mean square
over the models is compared with `ASSUMED_FIRST_CALLS`, for cold and for warm starts. That constant is larger than the
spread on a quiet machine on purpose, because nobody knows whether other programs will be busy at a later start.

Aim, on a quiet machine: the constant is 1 to 2.5 times the spread. In the published run it was 2.1 times (cold) and
1.7 times (warm). The aim was set after that run, and notices changes since then.

`--keep FILE` stores the cold and the warm start of a model as two lines of JSON, once both are made. If the benchmark
is started again with the file, it continues from there. `--rounds` is the number of cold and of warm starts of each
model; `--quick` makes 2 of each, of the first two models only.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import report
from demo.core import catalog, codec, format as fmt
from demo.core.comparison import ASSUMED_FIRST_CALLS
from demo.core.measurement import CompileCost
from demo.sweep.grid import PICTURE

ROUNDS = 10
MODELS = (
    "shapes-vit",
    "shapes-segformer",
    "microsoft/resnet-50",
    "google/deeplabv3_mobilenet_v2_1.0_513",
    "google/vit-base-patch16-224",
    "shapes-gemma",
)
STARTS = ("cold", "warm")
AIM = (1.0, 2.5)
"""How many times as large as the measured spread `ASSUMED_FIRST_CALLS` should be on a quiet machine."""


@dataclass(frozen=True)
class Start:
    checkpoint: str
    cache: str
    """'cold' or 'warm', as inductor reports it."""
    seconds: float
    """Seconds of the first call, without inductor's instruction probe."""
    load: float
    """Load average of the machine before the start."""


def two_starts(checkpoint: str) -> list[Start]:
    """Makes a cold and then a warm start of the model. Raises CalledProcessError if a process fails."""
    weights = "pretrained" if checkpoint.startswith("shapes-") else "random"
    prompt = "The picture shows" if checkpoint == "shapes-gemma" else ""
    spec = catalog.make_spec(checkpoint, device="cpu", weights=weights, prompt=prompt)
    job = json.dumps(codec.plain({"spec": spec, "input_file": PICTURE if spec.sees_picture else None, "package": None}))
    starts = []
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder}
        for _ in STARTS:
            load = os.getloadavg()[0]
            command = [sys.executable, "-m", "demo.backend.first_call"]
            process = subprocess.run(command, input=job, env=env, stdout=subprocess.PIPE, text=True, check=True)
            cost, cache = json.loads(process.stdout)
            starts.append(Start(checkpoint, cache, codec.from_plain(CompileCost, cost).model_seconds, load))
    return starts


def read_kept(path: Path) -> list[Start]:
    return [Start(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def keep(path: Path, starts: Sequence[Start]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(start)) + "\n" for start in starts)


def spread(seconds: Sequence[float]) -> float:
    return statistics.stdev(map(math.log, seconds))


def row(checkpoint: str, cache: str, starts: Sequence[Start]) -> list[str]:
    seconds = [start.seconds for start in starts]
    ends = f"{fmt.duration(min(seconds))} to {fmt.duration(max(seconds))}"
    return [
        checkpoint,
        cache,
        str(len(seconds)),
        fmt.duration(statistics.median(seconds)),
        ends,
        fmt.percent(spread(seconds)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="a file for the starts")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    models, rounds = (MODELS[:2], 2) if options.quick else (MODELS, options.rounds)
    starts = read_kept(options.keep) if options.keep else []
    starts_by_model = Counter(start.checkpoint for start in starts)
    for number in range(rounds):
        for checkpoint in models:
            if starts_by_model[checkpoint] <= number * len(STARTS):
                new = two_starts(checkpoint)
                starts += new
                if options.keep:
                    keep(options.keep, new)
                print(*new, sep="\n", file=sys.stderr, flush=True)
    rows, outside, lines = [], [], []
    for cache in STARTS:
        alike = {
            model: [start for start in starts if (start.checkpoint, start.cache) == (model, cache)] for model in models
        }
        alike = {model: group for model, group in alike.items() if len(group) > 1}
        rows += [row(model, cache, group) for model, group in alike.items()]
        freedom = sum(len(group) - 1 for group in alike.values())
        squares = sum(spread([start.seconds for start in group]) ** 2 * (len(group) - 1) for group in alike.values())
        deviation, assumed = math.sqrt(squares / freedom), ASSUMED_FIRST_CALLS[cache].deviation
        lines.append(
            f"- {cache}: {fmt.percent(deviation)}, with {freedom} degrees of freedom; "
            f"assumed are {fmt.percent(assumed)}."
        )
        if not AIM[0] <= assumed / deviation <= AIM[1]:
            outside.append(f"{cache}: {deviation:.1%} were found, {assumed:.1%} are assumed")
    loads = [start.load for start in starts]
    text = (
        report.table(["model", "start", "starts", "median", "range", "spread"], rows)
        + "\n\nThe spread over all models:\n\n"
        + "\n".join(lines)
        + f"\n\nThe load average before a start was {min(loads):.1f} to {max(loads):.1f}, "
        f"{statistics.median(loads):.1f} in the middle."
    )
    report.publish("first_calls", "How far do equal first calls differ?", text)
    if outside and not options.quick:
        sys.exit("; ".join(outside))


if __name__ == "__main__":
    main()
