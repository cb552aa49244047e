"""The processes of one run: their number, their threads, and their progress combined into the run's progress."""

import dataclasses
import time
from dataclasses import dataclass

from ..core.comparison import ProcessResult
from ..core.progress import Progress, Provisional
from ..core.result import RunResult


@dataclass(frozen=True)
class ThreadPolicy:
    """How many threads torch uses in a process on a CPU, if the spec names no number."""

    threads: int | None = None
    """None: torch's default number, or fewer if other programs use cores."""
    refuse_fewer_threads: bool = False
    """If fewer cores than `threads` are free while the model is loaded: True refuses the process, False gives it fewer
    threads. If a core is taken later, during the timing, both give it fewer."""
    kept_threads: tuple[int, ...] = ()
    """Numbers of threads for which the compile cache has code. If few cores are free, such a number is preferred."""


class Repeats:
    """Counts the processes of a run. `number` is the current process, from 1; `advance` goes on to the next process."""

    def __init__(self, count: int, earlier: tuple[ProcessResult, ...], runs_after: int, threads: int | None) -> None:
        """Begins with the first process to run.

        - `count`: how many processes the run has in total, including those in `earlier`, which have ended. At least one
          more process runs.
        - `runs_after`: how many other runs follow.
        - `threads`: the most threads of torch in a process. If other programs use cores, it uses fewer. None: the first
          process decides, and each later process uses as many as the first.
        """
        self.earlier = earlier
        self.number = self._first = len(earlier) + 1
        self._last = max(self._first, count)
        self._runs_after = runs_after
        self._threads, self._refuse_fewer_threads = threads, threads is None
        self._began = time.monotonic()
        self._before = 0.0
        """How many seconds the processes before this one took."""

    @property
    def is_first(self) -> bool:
        return self.number == self._first

    @property
    def is_last(self) -> bool:
        return self.number == self._last

    @property
    def threads(self) -> ThreadPolicy:
        if self._threads is None and self.earlier:
            self._threads = self.earlier[0].threads
        return ThreadPolicy(self._threads, self._refuse_fewer_threads)

    def at_end(self, result: RunResult, limit: float) -> RunResult:
        """Ends the run early if it has taken more than `limit` seconds. Returns `result`, of the current process.

        If the run ends early, the returned result has a note that says after how many processes it ended.
        """
        if not self.is_last and time.monotonic() - self._began > limit:
            late = f"Repeats ended after {self.number} of {self._last} processes: the time of one run was over."
            self._last = self.number
            return result.with_note(late)
        return result

    def following(self, result: RunResult | None) -> int:
        """Returns how many processes are still to start: of this run, and of the other runs that follow.

        `result`: the result of the current process, which decides whether its run goes on; None if the process refused
        the spec.
        """
        if result is not None and result.status == "cancelled":
            return 0
        goes_on = result is not None and result.as_processes()
        return self._runs_after + (self._last - self.number if goes_on else 0)

    def advance(self, result: RunResult) -> bool:
        """Goes on to the next process. Returns False if no other process follows.

        `result`: the result of the current process. If it cannot be pooled, for example because the process failed, no
        other process follows.
        """
        self.earlier = result.as_processes()  # () if it cannot count, such as of a failed process
        if self.is_last or not self.earlier:
            return False
        self.number += 1
        self._before = time.monotonic() - self._began
        return True

    def progress(self, progress: Progress) -> Progress:
        """Converts the progress of the current process into that of the whole run.

        A provisional result is passed on only in the last process, because only then is the run's answer known.
        """
        if isinstance(progress, Provisional) and not self.is_last:
            progress = Progress(**{field.name: getattr(progress, field.name) for field in dataclasses.fields(Progress)})
        ended, processes_after = self.number - self._first, self._last - self.number
        remaining = progress.remaining_seconds
        if processes_after:  # how long the next processes take is known once one has ended
            remaining = remaining + self._before / ended * processes_after if remaining is not None and ended else None
        return dataclasses.replace(
            progress,
            fraction=(ended + progress.fraction) / (ended + 1 + processes_after),
            elapsed_seconds=self._before + progress.elapsed_seconds,
            remaining_seconds=remaining,
            repeat=self.number,
            repeats=self._last,
        )
