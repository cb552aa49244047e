"""Starts, watches and cancels workers: a new process for each run and each repeat. A failed run has a result, too.

A spare worker has already imported torch and transformers and waits for a job, so that a click does not wait for
imports. Spare workers are started between runs, because their imports would disturb a run.
"""

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO

from ..core import cores, format as fmt, limits
from ..core.comparison import ProcessResult
from ..core.machine import HostInfo
from ..core.options import BadInput, RunSpec
from ..core.program import PACKAGE
from ..core.progress import Progress, Provisional
from ..core.refusals import on_machine, resolve
from ..core.result import RunResult
from ..store.database import HistoryError
from ..store.history import History
from . import forecast
from .earlier import complete, kept_threads, store, store_note
from .ongoing import NO_FILES, Files, OngoingRun
from .process import POLL_SECONDS, READY_SECONDS, Worker, WorkerDied, WorkerEvent
from .repeats import Repeats

WORKER_MODULE = f"{PACKAGE}.backend"
STORED = 10
"""How many of a model's newest stored runs tell how long the next one takes, and what the compile cache holds."""
CLOSING_SECONDS = 5.0
"""How long `close` waits for a run on another thread, which checks every 0.2 s whether to end."""

_log = logging.getLogger(__name__)


class Runner:
    """Runs specs one after another, each repeat in its own process. Stores each result, unless `history` is None."""

    def __init__(self, history: History | None, spare: bool = False, worker_module: str = WORKER_MODULE) -> None:
        """Stores results of runs that an earlier app left unfinished. With `spare`, keeps a worker ready between runs.

        `worker_module`: the Python module that a worker process runs.
        """
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

    def _renew_spares(self, runs_after: int = 0) -> None:
        """Closes surplus spare workers, which have imported torch and wait for a run.

        If no spare is left, starts those needed for `runs_after` further runs.
        """
        # Two can import side by side on two cores.
        wanted = min(2, cores.usable_cores(), runs_after) or int(self._keeps_spare)
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
        """The machine as a worker has reported it; None before the first report."""
        for worker in (*self._spares, self._busy):
            self._machine = worker.machine if worker is not None and worker.machine else self._machine
        return self._machine

    def inspect(self, on_probe: Callable[[], None] = lambda: None) -> HostInfo:
        """Waits until the next run's worker has reported the machine, and returns the report.

        Calls `on_probe` if the worker first runs inductor's instruction probe, which takes seconds. Raises WorkerDied
        if no report comes, OSError if no worker can be started.
        """
        self._spares = self._spares or [Worker(self._worker_module)]
        return self._spares[0].machine_when_ready(on_probe)

    def run(
        self,
        spec: RunSpec,
        input_file: Path | None,
        cancel: threading.Event | None = None,
        files: Files = NO_FILES,
        earlier: tuple[ProcessResult, ...] = (),
        runs_after: int = 0,
        threads: int | None = None,
    ) -> Generator[Progress | RunResult, None, None]:
        """Yields Progress every few tenths of a second and, last, the RunResult, which is stored by then.

        - `input_file`: the picture; None for a model that needs none.
        - `cancel`: once set, the run ends as 'cancelled', or with its provisional result if it has one. Closing the
          generator has the same effect.
        - `earlier`: processes that already count towards `spec.repeats`. At least one more process runs.
        - `runs_after`: how many runs the caller will start next. Spare workers are started for them.
        - `threads`: torch's threads on a CPU if the spec names no number; fewer if other programs use cores. If None,
          the first process uses all free cores, and each later process as many threads as the first. If too few cores
          are free for a later process, the run ends before it.

        Stores the result of each process, and yields the result of the last process. No further process starts after
        `timeout_seconds`, or after a process whose result cannot be pooled, such as a failed one. Raises BadInput if
        the first process refuses the spec. If a later one refuses it, the result has a note that says so.
        """
        with self._one_at_a_time:
            repeats = Repeats(spec.repeats, earlier, runs_after, threads)
            while True:
                run = OngoingRun(spec, input_file, files, cancel, repeats.threads)
                try:
                    result = yield from self._run_process(run, repeats)
                except BadInput as refused:
                    if repeats.is_first:
                        raise
                    result = store_note(result, str(refused), self._history)
                    break
                if not repeats.advance(result):
                    break
            yield result

    def _run_process(self, run: OngoingRun, repeats: Repeats) -> Generator[Progress, None, RunResult]:
        """Yields the progress of one process. Returns its result, which is stored by then.

        Raises BadInput if the process refuses the spec.
        """
        if self.machine is not None:  # known before this worker is ready, for a run that is cancelled until then
            run.spec = on_machine(run.spec, self.machine)
        marker = self._mark(run.as_interrupted())
        result: RunResult | None = None
        refused = False
        try:
            with contextlib.ExitStack() as stack:
                try:
                    worker = stack.enter_context(self._one_worker())
                    while (result := self._end_of(run)) is None and not self._wait_until_ready(worker, run):
                        probes = worker.machine is not None and not worker.ready.is_set()
                        now = run.progress_after(run.elapsed_seconds)
                        yield repeats.progress(dataclasses.replace(now, code="instruction probe" if probes else ""))
                    if result is None and worker.machine is not None:
                        run.spec = resolve(run.spec, worker.machine)
                        marker = self._mark(run.as_interrupted(), marker)
                        stored = self._runs_of_model(run.spec)
                        kept = kept_threads(run.spec, worker.machine, stored)
                        run.threads = dataclasses.replace(run.threads, kept_threads=kept)
                        worker.child.send(run.job(worker.child.folder))
                        run.expected = forecast.forecast_process(run.spec, worker.machine, stored)
                except OSError as error:
                    result = run.not_started(error)
                while result is None:
                    event = self._next_event(worker, run)
                    if (result := self._end_of(run)) is not None:
                        break
                    if isinstance(event, BadInput):
                        raise event
                    if isinstance(event, RunResult):
                        result = event
                        break
                    if isinstance(event, Provisional):
                        answer = complete(event.result, repeats.earlier, run.elapsed_seconds, self._history)
                        event = dataclasses.replace(event, result=answer)
                    now = run.progress_after(run.elapsed_seconds, event)
                    if isinstance(event, Provisional):
                        known = answer.compilation is not None and answer.compilation.warm is not None
                        # The worker goes on to time a first call with a filled cache. Nobody needs that if it is known,
                        # or if a repeat follows, which has such a call: leaving the loop ends the worker.
                        if (known or not repeats.is_last) and run.spec.cache == "keep":
                            result = answer
                            break
                        # If the app is killed from here on, the next start stores the answer, not 'interrupted'.
                        marker = self._mark(answer, marker)
                    yield repeats.progress(now)
        except BadInput as reason:
            refused = True
            raise BadInput(fmt.redact(str(reason))) from None
        finally:
            if not refused:
                result = result or run.as_cancelled()
                if result is not run.answer:  # what was shown is stored as it is
                    result = complete(result, repeats.earlier, run.elapsed_seconds, self._history)
                result = repeats.at_end(result, self.timeout_seconds)
                result = store(result, self._history) if self._history is not None else result
            if marker is not None:
                History.end_run(marker)
            self._renew_spares(repeats.following(result))
        return result

    def _runs_of_model(self, spec: RunSpec) -> list[RunResult]:
        """Returns the newest stored runs of the spec's model; [] if there is no history, or if it cannot be read."""
        with contextlib.suppress(HistoryError):  # the end of the run says it
            return [] if self._history is None else self._history.all(STORED, checkpoints={spec.checkpoint})
        return []

    def _mark(self, if_lost: RunResult, marker: BinaryIO | None = None) -> BinaryIO | None:
        """Writes `if_lost` into a new file. If the app is killed during the run, the next app stores this result.

        Returns the file, open and locked; None if it cannot be written, or if this runner has no history.
        `marker`: the file of an earlier call in the same run, which is removed; None for the first call.
        """
        if marker is not None:
            History.end_run(marker)
        return self._history.begin_run(if_lost) if self._history is not None else None

    def _end_of(self, run: OngoingRun) -> RunResult | None:
        """Returns the result if the run must end now (closing, cancelled or timed out); None if it may go on."""
        if self._closing.is_set():
            return run.as_interrupted()
        if run.cancel is not None and run.cancel.is_set():
            return run.as_cancelled()
        if run.elapsed_seconds > self.timeout_seconds:
            return run.as_timed_out(self.timeout_seconds)
        return None

    def _wait_until_ready(self, worker: Worker, run: OngoingRun) -> bool:
        """Waits up to 0.2 s for the worker, and for spares that still import. Returns whether the job can be sent."""
        longest = min(READY_SECONDS, self.timeout_seconds)
        # A spare that still imports would take a core from the run.
        alone = run.elapsed_seconds >= longest or all(spare.ready.wait(POLL_SECONDS) for spare in self._spares)
        return alone and worker.ready.wait(POLL_SECONDS)

    def _next_event(self, worker: Worker, run: OngoingRun) -> WorkerEvent | None:
        """Returns the worker's next event, or a result if the worker has died; None if nothing came for 0.2 s.

        It does not wait longer, because a Gradio handler can be cancelled only when it yields.
        """
        try:
            event = worker.next_event()
        except WorkerDied:
            return run.as_crashed(worker)
        if isinstance(event, RunResult) and event.id != run.id:
            worker.unreadable = True
            return run.as_crashed(worker)
        return event

    @contextlib.contextmanager
    def _one_worker(self) -> Iterator[Worker]:
        """Yields a worker and closes it at the end: a spare one if there is one, else a new one. Raises OSError."""
        while self._spares and self._spares[0].child.exit_code_now() is not None:  # killed to free memory
            self._spares.pop(0).close()
        self._busy = worker = self._spares.pop(0) if self._spares else Worker(self._worker_module)
        try:
            yield worker
        finally:
            self._busy = None
            worker.close()
            self._machine = worker.machine or self._machine

    def free_threads(self) -> int | None:
        """Returns torch's default number of threads, or the number of free cores if it is smaller.

        Returns None if one of the two is not known.
        """
        machine, free = self.machine, cores.free_now()
        if machine is None or machine.threads is None or free is None:
            return None
        return min(machine.threads, free)

    def close(self) -> None:
        """Ends the spare workers. A run on another thread ends as 'interrupted', or with its provisional result.

        Waits for that run, `CLOSING_SECONDS` at most.

        A run on the calling thread ends when its generator is closed.
        """
        self._closing.set()
        if self._one_at_a_time.acquire(timeout=CLOSING_SECONDS):
            self._one_at_a_time.release()
        while self._spares:
            self._spares.pop().close()
