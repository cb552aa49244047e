"""Does the interval of one run hold for a rerun? Real runs in new processes, on an idle machine and on a busy one.

1. Three bundled checkpoints and two full-size ones with random weights run 15 times on an otherwise idle machine, and
   15 times while a second process keeps one core busy half of the time.
2. The bundled checkpoints also run 5 times by the loop of the Transformers guide (protocol "as published"). For
   full-size checkpoints its 600 calls would take hours.
3. Models, protocols and conditions take turns, so that a drift of the machine affects all. The compile cache is warm.
4. The runs of each condition and protocol are stored in a history of their own, which is empty at first. As on a user's
   machine, the first interval uses the assumed spread, and later ones the spread of the runs so far.

Two figures of a run are reported:

- Capture: the share of the other runs whose speed-up lies in the run's interval. For a true 95 % interval it is 0.83,
  not 0.95, because the other runs are noisy, too. Aim: 0.75 to 0.92.
- Whether the interval contains the mean of all reruns. Aim: in 0.90 to 0.99 of the runs.

The aims are for the five checkpoints together, in each condition. With 15 runs, the share of a single checkpoint is
known to +-0.1 only, so it has no aim. A third aim: no checkpoint is called both faster and slower.

`--keep FILE` stores every run at once, as a line of JSON. If the benchmark is started again with the file, it continues
after the stored runs, and judges them by the present statistics. The table is written when all runs are there.
"""

import argparse
import contextlib
import dataclasses
import json
import math
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import report
from benchmarks.neighbour import busy_neighbours
from demo.core import catalog, stats
from demo.core.comparison import Speedup
from demo.core.cores import usable_cores
from demo.core.options import RunSpec
from demo.core.result import RunResult
from demo.core.result_json import from_json, to_json
from demo.runs.runner import Runner
from demo.store.history import History
from demo.store.published import current_commit
from demo.store.reruns import NEWEST, StoredRun, rerun_of, spread
from demo.sweep.grid import PICTURE

RUNS, GUIDE_RUNS = 15, 5
IDLE, BUSY = "idle", "one core busy half of the time"
CONDITIONS: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
    IDLE: contextlib.nullcontext,
    BUSY: busy_neighbours,
}
OURS, GUIDE = "interleaved", "as published"
NAMES = {OURS: "this project's", GUIDE: "the guide's loop"}
BUNDLED = tuple(checkpoint.id for checkpoint in catalog.BUNDLED_VISION)
FULL_SIZE = ("microsoft/resnet-50", "google/vit-base-patch16-224")
CAPTURE, MEAN_INSIDE = (0.75, 0.92), (0.90, 0.99)


@dataclass(frozen=True)
class Place:
    """A setting that is run again and again: a checkpoint, a protocol, and how busy the machine is (`condition`)."""

    condition: str
    protocol: str
    checkpoint: str

    @property
    def spec(self) -> RunSpec:
        weights = "pretrained" if self.checkpoint in BUNDLED else "random"
        return catalog.make_spec(self.checkpoint, weights=weights, protocol=self.protocol, device="cpu")


@dataclass(frozen=True)
class Kept:
    place: Place
    commit: str
    """The project's commit when it ran."""
    result: RunResult


@dataclass(frozen=True)
class Judged:
    """One run compared with the other runs of the same checkpoint, protocol and condition."""

    speedup: Speedup
    captured: float
    """Share of the other runs whose estimate lies in this run's interval."""
    captured_within: float
    """Share of the other runs whose estimate lies in this run's interval within one process."""
    holds_mean: bool


def places() -> list[Place]:
    """Returns every setting of the benchmark (checkpoint, protocol, condition) once, in the order of a round."""
    each = [(checkpoint, protocol) for checkpoint in BUNDLED for protocol in (OURS, GUIDE)]
    each += [(checkpoint, OURS) for checkpoint in FULL_SIZE]
    return [Place(condition, protocol, checkpoint) for condition in CONDITIONS for checkpoint, protocol in each]


def remaining(kept: Iterable[Kept]) -> list[Place]:
    """Returns the settings still to run, round by round. One that lacks several runs is listed several times."""
    runs_by_place = Counter(entry.place for entry in kept)
    counts = {OURS: RUNS, GUIDE: GUIDE_RUNS}
    return [
        place for number in range(RUNS) for place in places() if runs_by_place[place] <= number < counts[place.protocol]
    ]


def read_kept(path: Path) -> list[Kept]:
    """Returns the runs that an earlier start of the benchmark stored in the file; [] if there is no file.

    If the last line is incomplete, it is removed from the file.
    """
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        path.write_bytes(whole)
    lines = [json.loads(line) for line in whole.splitlines()]
    return [Kept(Place(**line["place"]), line["commit"], from_json(line["result"])) for line in lines]


def keep(path: Path, entry: Kept) -> None:
    line = {"place": vars(entry.place), "commit": entry.commit, "result": to_json(entry.result)}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, allow_nan=False) + "\n")


def run_remaining(todo: Sequence[Place], path: Path, kept: list[Kept], folder: Path) -> None:
    """Makes the runs in `todo`, and adds each to the file `path` and to `kept`.

    `folder`: the folder for the histories, files of stored runs with which new runs are pooled. The runs in `kept` are
    put into them first.
    """
    histories = {
        (condition, protocol): History(folder / f"{number}-{protocol}.sqlite3")
        for number, condition in enumerate(CONDITIONS)
        for protocol in NAMES
    }
    for entry in kept:
        histories[entry.place.condition, entry.place.protocol].append(entry.result)
    for checkpoint in dict.fromkeys(place.checkpoint for place in todo):
        # Fills the compile cache for every number of threads that a busy core may leave; not kept.
        for threads in range(1, usable_cores() + 1):
            _run(Runner(None), dataclasses.replace(Place(IDLE, OURS, checkpoint).spec, threads=threads))
    for number, place in enumerate(todo, 1):
        runner = Runner(histories[place.condition, place.protocol])
        with CONDITIONS[place.condition]():
            result = _run(runner, place.spec)
        entry = Kept(place, current_commit(), result)
        keep(path, entry)
        kept.append(entry)
        shown = f"{result.speedup.ratio:.3f}" if result.speedup else result.status
        print(
            f"[{number}/{len(todo)}] {place.checkpoint}, {NAMES[place.protocol]}, {place.condition}: {shown} "
            f"in {result.elapsed_seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )


def judge_anew(kept: Iterable[Kept]) -> list[Kept]:
    """Returns the runs, judged again by the present code.

    It computes for each run the spread between processes, from the earlier runs in the same history.
    """
    histories: dict[tuple[str, str], list[StoredRun]] = {}
    judged = []
    for entry in kept:
        earlier = histories.setdefault((entry.place.condition, entry.place.protocol), [])
        result = dataclasses.replace(entry.result, spread=spread(entry.result, earlier[-NEWEST:]))
        judged.append(dataclasses.replace(entry, result=result))
        earlier += filter(None, [rerun_of(result)])
    return judged


def _run(runner: Runner, spec: RunSpec) -> RunResult:
    with contextlib.closing(runner):
        *_, result = runner.run(spec, PICTURE)
    if not isinstance(result, RunResult):
        raise RuntimeError("the runner ended without a result")
    return result


def judge(speedups: Sequence[Speedup]) -> list[Judged]:
    """Compares each of the runs, given by its speed-up, with all others. Needs at least two runs.

    They are runs of the same checkpoint, protocol and condition.
    """
    mean = stats.geometric_mean([speedup.within.ratio for speedup in speedups])

    def share(interval: stats.Interval, own: int) -> float:
        other_ratios = [speedup.within.ratio for number, speedup in enumerate(speedups) if number != own]
        return statistics.fmean(interval.low <= ratio <= interval.high for ratio in other_ratios)

    return [
        Judged(speedup, share(speedup, number), share(speedup.within, number), speedup.low <= mean <= speedup.high)
        for number, speedup in enumerate(speedups)
    ]


def speedups_of(runs: Iterable[RunResult]) -> list[Speedup]:
    """Returns the speed-ups of the runs. Runs that failed or were recompiled while timed are left out."""
    return [run.speedup for run in runs if run.status == "ok" and not run.void and run.speedup is not None]


def shares(judged: Sequence[Judged]) -> list[str]:
    """Returns four figures as text, averaged over the runs:

    1. the half-width of the interval (median)
    2. the share of other runs whose estimate the interval contains (capture)
    3. the same share for the interval within one process
    4. how often the interval contains the mean of all runs
    """
    return [
        f"±{statistics.median(judged_run.speedup.half_width for judged_run in judged):.1%}",
        f"{statistics.fmean(judged_run.captured for judged_run in judged):.2f}",
        f"{statistics.fmean(judged_run.captured_within for judged_run in judged):.2f}",
        f"{statistics.fmean(judged_run.holds_mean for judged_run in judged):.2f}",
    ]


def contradicts(speedups: Iterable[Speedup]) -> bool:
    return {"faster", "slower"} <= {speedup.verdict for speedup in speedups}


HEADER = [
    "checkpoint", "protocol", "runs", "threads", "speed-up, median", "range", "spread between processes",
    "half-width shown", "capture", "capture within one process", "mean inside", "verdicts", "whole run",
]  # fmt: skip


def table_of(condition: str, kept: Sequence[Kept]) -> str:
    rows = []
    for protocol in NAMES:
        here = [entry for entry in kept if (entry.place.condition, entry.place.protocol) == (condition, protocol)]
        groups: list[list[Speedup]] = []
        judged: list[Judged] = []
        for checkpoint in dict.fromkeys(entry.place.checkpoint for entry in here):
            runs = [entry.result for entry in here if entry.place.checkpoint == checkpoint]
            speedups = speedups_of(runs)
            if len(speedups) < 2:
                continue
            groups.append(speedups)
            judged += judge(speedups)
            rows.append(_row(checkpoint, protocol, runs, speedups))
        if len(groups) > 1:
            spread = f"{stats.spread_between([[speedup.within for speedup in group] for group in groups]):.1%}"
            pooled = ["**all**", NAMES[protocol], str(len(judged)), "", "", "", spread, *shares(judged), "", ""]
            rows.append(pooled)
    return report.table(HEADER, rows)


def _row(checkpoint: str, protocol: str, runs: Sequence[RunResult], speedups: Sequence[Speedup]) -> list[str]:
    ratios = [speedup.within.ratio for speedup in speedups]
    threads = sorted({run.environment.threads for run in runs if run.environment is not None})
    verdicts = Counter(speedup.verdict for speedup in speedups)
    return [
        checkpoint,
        NAMES[protocol],
        str(len(speedups)) if len(speedups) == len(runs) else f"{len(speedups)} of {len(runs)}",
        " or ".join(map(str, threads)),
        f"{statistics.median(ratios):.2f}×",
        f"{min(ratios):.2f} to {max(ratios):.2f}×",
        f"{stats.spread_between([[speedup.within for speedup in speedups]]):.1%}",
        *shares(judge(speedups)),
        ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()),
        f"{statistics.median(run.elapsed_seconds for run in runs):.0f} s",
    ]


def all_judged(kept: Sequence[Kept], condition: str) -> list[Judged]:
    """Compares each run by this project's protocol with the other runs of the same checkpoint, in one condition."""
    judged: list[Judged] = []
    for place in dict.fromkeys(entry.place for entry in kept):
        speedups = speedups_of(entry.result for entry in kept if entry.place == place)
        if (place.condition, place.protocol) == (condition, OURS) and len(speedups) > 1:
            judged += judge(speedups)
    return judged


def by_basis(kept: Sequence[Kept]) -> str:
    """Returns a table of how well the intervals hold, by how the spread between processes is known ('assumed' ...)."""
    rows = []
    for condition in CONDITIONS:
        judged = all_judged(kept, condition)
        for basis in dict.fromkeys(judged_run.speedup.basis for judged_run in judged):
            chosen = [judged_run for judged_run in judged if judged_run.speedup.basis == basis]
            rows.append([condition, basis, str(len(chosen)), *shares(chosen)])
    return report.table(["machine", "basis", "runs", *HEADER[7:11]], rows)


def foreign_load(kept: Iterable[Kept], condition: str) -> str:
    """Returns the share of all cores that other processes used while runs of this condition were timed, as text.

    The mean is taken over the samples in a run, then the median over the runs.
    """
    means = [
        statistics.fmean(shares)
        for entry in kept
        if entry.place.condition == condition
        if (shares := [s.foreign_cpu for s in entry.result.machine_states if s.foreign_cpu is not None])
    ]
    return f"{statistics.median(means):.0%}" if means else "an unknown part"


def text_of(kept: Sequence[Kept]) -> str:
    parts = ["Speed-ups are the median of the reruns and their range."]
    for condition in CONDITIONS:
        here = [entry for entry in kept if entry.place.condition == condition]
        if here:
            load = f"Other processes used {foreign_load(here, condition)} of all cores while the runs were timed."
            parts += [f"## The machine: {condition}", load, table_of(condition, kept)]
    days = sorted({entry.result.started_at[:10] for entry in kept})
    commits = ", ".join(dict.fromkeys(entry.commit for entry in kept))
    parts += [
        "## By what the spread is taken from",
        f"This project's protocol, {len(BUNDLED) + len(FULL_SIZE)} checkpoints.",
        by_basis(kept),
        "Capture: in how many of the other runs the estimate lies in a run's interval. Mean inside: how often the "
        "interval holds the mean of all reruns. Spread: the standard deviation of the logarithms of the speed-ups, "
        "less what the intervals within one process explain. The guide's loop has no interval of its own: shown is "
        f"the one that this project gives it. Measured {days[0]} to {days[-1]} at commit {commits}.",
    ]
    return "\n\n".join(parts)


def outside(kept: Sequence[Kept]) -> list[str]:
    """Returns a sentence for each figure that is outside the range that this benchmark asks for; [] if none is."""
    missed = []
    for condition in CONDITIONS:
        judged = all_judged(kept, condition)
        figures = (
            ("capture", [judged_run.captured for judged_run in judged], CAPTURE),
            ("mean inside", [float(judged_run.holds_mean) for judged_run in judged], MEAN_INSIDE),
        )
        for name, values, (low, high) in figures:
            share = statistics.fmean(values) if values else math.nan
            if not low <= share <= high:
                missed.append(f"{condition}: {name} is {share:.3f}, the aim {low:.2f} to {high:.2f}")
    for place in dict.fromkeys(entry.place for entry in kept if entry.place.protocol == OURS):
        if contradicts(speedups_of(entry.result for entry in kept if entry.place == place)):
            missed.append(f"{place.condition}: {place.checkpoint} is called both faster and slower")
    failed = sum(1 for entry in kept if not speedups_of([entry.result]))
    return [*missed, f"{failed} runs have no speed-up"] if failed else missed


def machines(kept: Iterable[Kept]) -> set[tuple[str, ...]]:
    environments = (entry.result.environment for entry in kept)
    return {
        (machine.device_name, machine.torch, machine.transformers) for machine in environments if machine is not None
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", metavar="FILE", type=Path, help="keep the runs here, and go on from those in it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "runs.jsonl"
        kept = read_kept(path)
        run_remaining(remaining(kept), path, kept, Path(folder))
    kept = judge_anew(kept)
    if len(machines(kept)) > 1:
        sys.exit(f"the runs are of several machines or versions: {sorted(machines(kept))}")
    report.publish("reruns", "Does the interval of one run hold for a rerun?", text_of(kept))
    if missed := outside(kept):
        sys.exit("; ".join(missed))


if __name__ == "__main__":
    main()
