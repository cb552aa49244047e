"""Starts, watches and cancels the worker: a new process for each run. A failed run has a result, too.

A spare worker has already imported torch and transformers and waits for a job, so that a click does not wait for
imports. Spares start after a run, because their imports would disturb it.
"""

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

from ..core import cores, limits
from ..core.caveat import note
from ..core.comparison import ProcessResult
from ..core.machine import HostInfo
from ..core.options import BadInput, RunSpec
from ..core.program import PACKAGE
from ..core.progress import Progress
from ..core.result import RunResult
from ..store.history import History, HistoryError
from . import outcome
from .outcome import NO_FILES, Files, OngoingRun
from .process import POLL_SECONDS, READY_SECONDS, Event, Worker

WORKER_MODULE = f"{PACKAGE}.backend"
CLOSING_SECONDS = 5.0
"""How long `close` waits for a run on another thread, which checks every 0.2 s whether to end."""

_log = logging.getLogger(__name__)


class Runner:
    """Runs specs one after another, each repeat in its own process, and stores each result unless `history` is None."""

    def __init__(self, history: History | None, spare: bool = False, worker_module: str = WORKER_MODULE) -> None:
        """Calls `history.recover`. With `spare`, a started worker always waits for the next run."""
        self.timeout_seconds = limits.current().seconds
        self._history = history
        self._worker_module = worker_module
        self._keeps_spare = spare
        self._one_at_a_time = threading.Lock()
        self._closing = threading.Event()
        self._machine: HostInfo | None = None
        self._spares: list[Worker] = []
        self._busy: Worker | None = None
        if history is not None:
            history.recover()
        self._renew_spares()

    def _renew_spares(self, to_come: int = 0) -> None:
        """Closes surplus spare workers. If none is left, starts as many as are wanted for `to_come` further runs."""
        # Two can import side by side on two cores.
        wanted = min(2, cores.usable_cores(), to_come) or int(self._keeps_spare)
        while len(self._spares) > wanted:
            self._spares.pop().close()
        if self._spares or self._closing.is_set():
            return
        try:
            for _ in range(wanted):
                self._spares.append(Worker(self._worker_module))
        except OSError as error:  # the next run says it
            _log.warning("no spare worker could be started: %s", error)

    @property
    def machine(self) -> HostInfo | None:
        """The machine as a worker reports it; None before the first report."""
        for worker in (*self._spares, self._busy):
            self._machine = self._machine or (worker.machine if worker is not None else None)
        return self._machine

    def inspect(self) -> HostInfo:
        """Returns the machine once the next run's worker has reported it. Raises WorkerDied, or OSError."""
        self._spares = self._spares or [Worker(self._worker_module)]
        return self._spares[0].machine_when_ready()

    def run(
        self,
        spec: RunSpec,
        input_file: Path | None,
        cancel: threading.Event | None = None,
        files: Files = NO_FILES,
        earlier: tuple[ProcessResult, ...] = (),
        to_come: int = 0,
        threads: int | None = None,
    ) -> Generator[Progress | RunResult, None, None]:
        """Yields Progress at least every 0.2 s and, last, the RunResult, which is then already in the history.

        - `input_file`: the picture; None for a model that sees none.
        - `cancel`: once set, the run ends as 'cancelled'. Closing the generator has the same effect.
        - `earlier`: processes that already count towards `spec.repeats`. At least one more process runs.
        - `to_come`: how many runs the caller will start next. Spare workers are started for them.
        - `threads`: torch's threads on a CPU if the spec names none; a process takes fewer if other programs use cores.
          None: the first process takes all free cores, later ones as many; repeats end if fewer cores are free then.

        Each process's result is stored. The RunResult is that of the last process. None starts after one that cannot
        count, such as a failed one, or after `timeout_seconds`. Raises BadInput if the first process refuses the spec.
        """
        with self._one_at_a_time:
            started, exactly = time.monotonic(), threads is None
            repeats = range(len(earlier) + 1, max(len(earlier) + 1, spec.repeats) + 1)
            for repeat in repeats:
                before = time.monotonic() - started
                more = repeats[-1] - repeat + to_come
                if threads is None and earlier:
                    threads = earlier[0].threads
                run = OngoingRun(spec, input_file, files, cancel, threads, exactly)
                try:
                    for event in self._run_one(run, earlier, more, repeat == repeats[-1]):
                        if isinstance(event, Progress):
                            yield _over_repeats(event, repeats, repeat, before)
                        else:
                            result = event
                except BadInput as refused:
                    if repeat == repeats[0]:
                        raise
                    result = dataclasses.replace(result, caveats=(*result.caveats, note(str(refused))))
                    break
                earlier = result.as_processes()
                if repeat != repeats[-1] and time.monotonic() - started > self.timeout_seconds:
                    late = f"Repeats ended after {repeat} of {repeats[-1]} processes: the time of one run was over."
                    result = dataclasses.replace(result, caveats=(*result.caveats, note(late)))
                    earlier = ()
                if not earlier:
                    self._renew_spares(min(to_come, len(self._spares)))  # the repeats to come are not run
                    break
            yield result

    def _run_one(
        self, run: OngoingRun, earlier: tuple[ProcessResult, ...], to_come: int, last: bool
    ) -> Iterator[Progress | RunResult]:
        """Yields the progress of one process and, last, its result, which is already stored. Raises BadInput.

        `to_come`: how many processes of this run and later runs follow. `last`: whether no repeat of this run follows.
        """
        marker = self._history.begin_run(run.as_interrupted()) if self._history is not None else None
        result: RunResult | BadInput | None = None
        try:
            with contextlib.closing(self._on_worker(run)) as events:
                while result is None:
                    event = next(events)
                    if self._closing.is_set():
                        result = run.as_interrupted()
                    elif run.cancel is not None and run.cancel.is_set():
                        result = run.as_cancelled()
                    elif isinstance(event, BadInput | RunResult):
                        result = event
                    elif event is not None and event.answer is not None:
                        run.answer = event.answer
                        answer = self._complete(event.answer, earlier, run.elapsed_seconds)
                        known = answer.compilation is not None and answer.compilation.warm is not None
                        # The worker goes on to measure a first call with a filled cache. The next repeat has one.
                        if (known or not last) and run.spec.cache == "keep":
                            result = run.answer
                            continue
                        # If the app is killed from here on, the next start stores the answer, not 'interrupted'.
                        if marker is not None and self._history is not None:
                            History.end_run(marker)
                            marker = self._history.begin_run(answer)
                        event = dataclasses.replace(event, answer=answer if last else None)
                        yield run.progress_after(run.elapsed_seconds, event)
                    else:
                        yield run.progress_after(run.elapsed_seconds, event)
        finally:
            if not isinstance(result, BadInput):
                result = self._complete(result or run.as_cancelled(), earlier, run.elapsed_seconds)
                result = outcome.store(result, self._history) if self._history is not None else result
                to_come = 0 if result.status == "cancelled" else to_come
            if marker is not None:
                History.end_run(marker)
            self._renew_spares(to_come)
        if isinstance(result, BadInput):
            raise result
        yield result

    def _on_worker(self, run: OngoingRun) -> Generator[Event | None, None, None]:
        """Gives the run to a worker and yields the worker's events, up to a result. Closes the worker at the end.

        Yields None after 0.2 s without an event, because a Gradio handler can be cancelled only when it yields.
        """
        with contextlib.ExitStack() as stack:
            try:
                worker = stack.enter_context(self._one_worker())
                longest = min(READY_SECONDS, self.timeout_seconds)
                while not all(one.ready.wait(POLL_SECONDS) for one in self._spares) and run.elapsed_seconds < longest:
                    yield None  # a spare that still imports would take a core from the run
                worker.child.send(run.job(worker.child.folder))
            except OSError as error:
                yield run.not_started(error)
                return
            for event in worker.events():
                if isinstance(event, RunResult) and event.id != run.id:
                    worker.unreadable = True
                    break
                yield event if run.elapsed_seconds <= self.timeout_seconds else run.as_timed_out(self.timeout_seconds)
            yield run.as_crashed(worker)

    @contextlib.contextmanager
    def _one_worker(self) -> Iterator[Worker]:
        """Yields a spare or a new worker, and closes it at the end. Raises OSError."""
        while self._spares and self._spares[0].child.exit_code_now() is not None:  # killed to free memory
            self._spares.pop(0).close()
        self._busy = worker = self._spares.pop(0) if self._spares else Worker(self._worker_module)
        try:
            yield worker
        finally:
            self._busy = None
            worker.close()
            self._machine = worker.machine or self._machine

    def _complete(self, result: RunResult, earlier: tuple[ProcessResult, ...], elapsed: float) -> RunResult:
        result = outcome.redact(dataclasses.replace(result, elapsed_seconds=round(elapsed, 3)))
        result = outcome.with_earlier_runs(result, earlier, self._history)
        if self._history is None:
            return result
        with contextlib.suppress(HistoryError):
            result = outcome.with_earlier_costs(result, self._history)
            result = outcome.with_answer_without_breaks(result, self._history)
        return result

    def free_threads(self) -> int | None:
        """Returns torch's default number of threads, or fewer if fewer cores are free now; None if not known."""
        machine, free = self.machine, cores.free_now()
        if machine is None or machine.threads is None or free is None:
            return None
        return min(machine.threads, free)

    def close(self) -> None:
        """Ends the spare workers, and ends a run on another thread as 'interrupted'.

        It waits for that run `CLOSING_SECONDS` at most. A run on the calling thread ends when its generator is closed.
        """
        self._closing.set()
        if self._one_at_a_time.acquire(timeout=CLOSING_SECONDS):
            self._one_at_a_time.release()
        while self._spares:
            self._spares.pop().close()


def _over_repeats(progress: Progress, repeats: range, repeat: int, before: float) -> Progress:
    """Turns the progress of one `repeat` of `repeats` into that of the run. Earlier repeats took `before` seconds."""
    ended, to_come = repeat - repeats[0], repeats[-1] - repeat
    remaining = progress.remaining_seconds
    if to_come:  # how long the next processes take is known once one has ended
        remaining = remaining + before / ended * to_come if remaining is not None and ended else None
    return dataclasses.replace(
        progress,
        fraction=(ended + progress.fraction) / len(repeats),
        elapsed_seconds=before + progress.elapsed_seconds,
        remaining_seconds=remaining,
        repeat=repeat,
        repeats=repeats[-1],
    )
