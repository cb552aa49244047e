"""Searches for the best way to run one model, by successive halving (Jamieson and Talwalkar, 2016):

1. Run each way, such as freezing, once: for `QUICK_SECONDS`, or at full length if each process has to compile it again.
2. Run the winner so far, and the way with the next best estimate, at full length, until each has `FINAL_RUNS` runs.
3. Run each other way a second time if its only run compiled: this times a first output with a filled cache.
4. In the faster half, run at full length the ways that may still be the best (`WayResult.may_win`).
"""

import dataclasses
import statistics
import threading
import time
from collections.abc import Generator, Iterable
from pathlib import Path

from ..core.files import temporary_folder
from ..core.machine import HostInfo
from ..core.options import OWN_MODEL, BadInput, RunSpec
from ..core.result import RunResult
from ..runs.ongoing import Files
from ..runs.runner import Runner
from ..store.reruns import compiled_spec
from .best_table import EAGER_WAY, BestTable, Way, best_table, ways
from .grid import valid_results
from .run_grid import Done, Event, RunArguments, Turn, Waiting, no_queue, run_one

SEARCH_OPTIONS = ("batch_size", "device", "weights", "text", "prompt", "tokens", "threads")
"""The options of a run that the user of a search may set. The search sets the others."""
MINUTES, MIN_MINUTES, MAX_MINUTES = 3.0, 1.0, 60.0
QUICK_SECONDS = 1.0
"""`max_seconds` of the short first run of a way to run the model. A way that each process has to compile again
(freezing on a CPU) has no short run."""
FINAL_RUNS = 2
"""Each of the best two ways to run the model is timed in at least this many processes."""
FIRST_SHARE = 0.6
"""Once this share of the time budget is used, ways that have run before are run before ways that have not."""


class Search:
    """A search for the best way to run one model. Call `run` once; `table` at any time, from any thread."""

    def __init__(
        self,
        spec: RunSpec,
        machine: HostInfo,
        stored: Iterable[RunResult],
        picture: Path,
        other_formats: bool = False,
        minutes: float = MINUTES,
        spent_seconds: float = 0.0,
    ) -> None:
        """Prepares a search. Results in `stored` (newest first) are used if a new run would only repeat them.

        - `minutes`: the time budget of the search. Time in a queue does not count.
        - `spent_seconds`: how much of the budget is used already, for example to inspect the machine.
        - `other_formats`: whether to try ways that change the outputs, such as bfloat16.
        - Raises BadInput for `minutes` out of range, or if eager cannot run here.
        """
        if not isinstance(minutes, int | float) or not MIN_MINUTES <= minutes <= MAX_MINUTES:
            raise BadInput(f"A search takes {MIN_MINUTES:g} to {MAX_MINUTES:g} minutes. Given: {str(minutes)[:80]}.")
        self.ways = tuple(ways(spec, machine, other_formats))
        self.seconds = 60 * minutes
        self._picture = picture
        self._own_model = spec.task == OWN_MODEL
        self._by_spec = {way.spec: way.name for way in self.ways if way.name != EAGER_WAY and not way.refused}
        self._runs: dict[str, list[RunResult]] = {way.name: [] for way in self.ways}
        """The runs of each way to run the model, oldest first."""
        self._refused: dict[str, str] = {}
        self._spent = spent_seconds
        self._threads: int | None = None
        """Threads of each process on a CPU; None if the spec or the runner decides."""
        for result in reversed(list(valid_results(stored, {spec.checkpoint}, machine, picture))):
            name = self._by_spec.get(compiled_spec(result.spec))
            if name is not None and not result.oversubscribed:  # a new run may find a quieter machine
                self._runs[name].append(result)

    def table(self) -> BestTable:
        """Returns the ranked table of the runs so far.

        If runs had different numbers of threads, only the ways with the most common number can win.
        """
        newest = [runs[-1].threads for runs in self._runs.values() if runs and runs[-1].threads]
        threads = statistics.mode(newest or [None])
        ranked, gave_way = {}, {}
        for name, runs in self._runs.items():
            alike = [run for run in runs if not run.threads or run.threads == threads]
            if alike:
                # A disturbed run takes nothing away from what a quiet one knows.
                ranked[name] = next((run for run in reversed(alike) if not run.oversubscribed), alike[-1])
            elif runs:
                why = f"The other ways had {threads}: other programs took cores."
                gave_way[name] = f"Threads: {runs[-1].threads}. {why}"
        return best_table(self.ways, ranked, gave_way | self._refused)

    @property
    def left_seconds(self) -> float:
        return max(0.0, self.seconds - self._spent)

    @property
    def complete(self) -> bool:
        return not self._missing()

    @property
    def missing(self) -> list[tuple[Way, bool]]:
        """The ways to run the model that still need a run, each with whether it has run before.

        After each run the list is made anew, and can have further ways.
        """
        return [(way, bool(self._runs[way.name])) for way in dict.fromkeys(way for way, _ in self._missing())]

    def run(self, runner: Runner, cancel: threading.Event, turn: Turn = no_queue) -> Generator[Event, None, None]:
        """Runs one way after another until nothing is left to try, the time budget is spent, or `cancel` is set.

        Yields the events of the runs; the `place` of an event is the way's index in `ways`. A run is stopped when the
        budget is spent.
        """
        spec = self.ways[0].spec
        if spec.device == "cpu" and spec.threads is None and (threads := runner.free_threads()) is not None:
            self._threads = threads
            for name, runs in self._runs.items():
                self._runs[name] = [run for run in runs if run.threads in (None, 0, threads)]
        with temporary_folder() as folder:
            # The file of an own model may give each process other weights.
            files = Files() if self._own_model else Files(kept_packages=folder)
            while not cancel.is_set() and (step := self._next()) is not None:
                yield from self._try(*step, runner, cancel, turn, files)

    def _try(
        self, way: Way, spec: RunSpec, runner: Runner, cancel: threading.Event, turn: Turn, files: Files
    ) -> Generator[Event, None, None]:
        place, stop = self.ways.index(way), threading.Event()
        spent, began = self._spent, time.monotonic()
        more: RunArguments = {
            "files": files,
            "earlier": self._runs[way.name][-1].as_processes() if self._runs[way.name] else (),
            "runs_after": len(self._missing()) - 1,
            "threads": self._threads,
        }
        for event in run_one(place, spec, runner, self._picture, stop, turn, **more):
            if isinstance(event, Waiting):
                began = time.monotonic()  # time in the queue is not spent
            self._spent = spent + time.monotonic() - began
            if cancel.is_set() or self._spent > self.seconds:
                stop.set()
            if isinstance(event, Done):
                if event.cell.result is None:
                    self._refused[way.name] = event.cell.refused
                else:
                    self._runs[way.name].append(event.cell.result)
            yield event
        if stop.is_set():
            self._spent = max(self._spent, self.seconds)  # ends the search

    def _next(self) -> tuple[Way, RunSpec] | None:
        missing = self._missing()
        if self._spent > FIRST_SHARE * self.seconds:
            missing = [(way, spec) for way, spec in missing if self._runs[way.name]] or missing
        return missing[0] if missing and self.left_seconds > 0 else None

    def _missing(self) -> list[tuple[Way, RunSpec]]:
        """Returns the runs still to do, in order: each way to run the model with the spec of this run.

        The list is for the results so far: after a further run it can have other entries.
        """
        to_run = set(self._by_spec.values()) - self._refused.keys()
        steps = [(way, _first(way.spec)) for way in self.ways if way.name in to_run and not self._runs[way.name]]
        table = self.table()
        # The winner so far, then by their estimates: a wide interval ranks low, but further runs make it narrow.
        good = sorted(
            (row for row in table.rows if row.rank is not None and row.way.name != EAGER_WAY),
            key=lambda row: (row is not table.winner, not row.may_win, -row.speedup.ratio if row.speedup else 0.0),
        )
        runs = {row.way: self._runs[row.way.name] for row in good}
        quick = {way for way in runs if all(run.spec != way.spec for run in runs[way])}
        few = {way for way in runs if len(runs[way]) < FINAL_RUNS}
        steps += [(row.way, row.way.spec) for row in good[:2] if row.way in quick | few]
        for row in good[2:]:
            if len(runs[row.way]) == 1 and row.first_answers and "warm" not in row.first_answers:
                steps.append((row.way, _first(row.way.spec)))
        half = good[2 : -(-len(good) // 2)]
        steps += [(row.way, row.way.spec) for row in half if row.way in quick and row.may_win]
        return list(dict.fromkeys(steps))


def _first(spec: RunSpec) -> RunSpec:
    """Returns the spec of a way's first run: short, or of full length if no cache keeps its code: freezing on a CPU."""
    return dataclasses.replace(spec, max_seconds=QUICK_SECONDS) if spec.cached or spec.compiler == "aot" else spec
