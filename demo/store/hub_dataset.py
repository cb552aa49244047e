"""Results in a dataset of the Hugging Face Hub, too, where the environment names one.

For a page that is served from a machine whose disk does not last, such as a Space. The local file stays the truth:
what cannot be pushed is pushed later, and no run ever waits for the Hub.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from demo.core.result import BadInput, RunResult
from demo.store.history import History

VARIABLE = "WORTH_COMPILING_DATASET"
FOLDER = "dataset"
EVERY_MINUTES = 5.0
LAST_PUSH_SECONDS = 10.0
"""How long the end of the program waits for what is left to be pushed."""

_log = logging.getLogger(__name__)


@contextmanager
def opened(scheduler: Callable[..., Any] | None = None) -> Iterator[History]:
    """The user's history; where `WORTH_COMPILING_DATASET` names a dataset, one that pushes each result there, too.

    `scheduler` stands in for `huggingface_hub.CommitScheduler`. Raises BadInput for what is no name of a dataset.
    """
    named = os.environ.get(VARIABLE, "")
    if not named:
        yield History()
        return
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", named):
        raise BadInput(f"{VARIABLE} must name a dataset as owner/name. Given: {named[:80]!r}.")
    history = PushedHistory(named, scheduler)
    try:
        yield history
    finally:
        history.close()


class PushedHistory(History):
    """A history whose results also become files of a folder that huggingface_hub pushes every few minutes.

    One file a result, named by its day and id, so that two programs that push to one dataset never meet. The
    scheduler is made on a thread of its own: it asks the Hub at once, and that may take long or fail; then it is
    made anew with the next result. What an earlier program left in the folder is pushed along.
    """

    def __init__(self, dataset: str, scheduler: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self._dataset = dataset
        self._make = scheduler
        self._scheduler: Any = None
        self._starting = threading.Lock()
        self._start()

    def append(self, result: RunResult) -> str | None:
        """As in any history; what cannot be stored in its file is pushed all the same."""
        try:
            return super().append(result)
        finally:
            try:
                self._write(result)
            except Exception as error:  # whatever it is, it must not harm the run
                _log.warning("a result was not prepared for the dataset %s: %s", self._dataset, error)
            self._start()

    def delete(self, ids: Iterable[str]) -> int:
        """As in any history; what was pushed already stays in the dataset, what was not never gets there."""
        ids = set(ids)
        for file in (self.path.parent / FOLDER).glob("runs/*/*.json"):
            if file.stem in ids:
                file.unlink(missing_ok=True)
        return super().delete(ids)

    def close(self) -> None:
        """Pushes what is left, within a few seconds; what remains is pushed by the next program."""
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is None:
            return
        try:
            scheduler.trigger().result(LAST_PUSH_SECONDS)
        except Exception as error:
            _log.warning("the last results were not pushed to %s: %s", self._dataset, error or "no answer in time")
        scheduler.stop()

    def _write(self, result: RunResult) -> None:
        folder = self.path.parent / FOLDER / "runs" / result.started_at[:10]
        folder.mkdir(parents=True, exist_ok=True)
        half = folder / f".{result.id}.tmp"
        half.write_text(result.dumps() + "\n", encoding="utf-8", errors="backslashreplace")
        half.rename(folder / f"{result.id}.json")  # so that the scheduler never sees half a file

    def _start(self) -> None:
        if self._scheduler is None and self._starting.acquire(blocking=False):
            try:
                threading.Thread(target=self._connect, daemon=True).start()
            except RuntimeError as error:  # no thread is to be had
                self._starting.release()
                _log.warning("results cannot be pushed to the dataset %s yet: %s", self._dataset, error)

    def _connect(self) -> None:
        try:
            make = self._make
            if make is None:
                from huggingface_hub import CommitScheduler

                make = CommitScheduler
            self._scheduler = make(
                repo_id=self._dataset,
                repo_type="dataset",
                folder_path=self.path.parent / FOLDER,
                every=EVERY_MINUTES,
                private=True,
                ignore_patterns=["**/.*"],
            )
        except Exception as error:
            _log.warning("results cannot be pushed to the dataset %s yet: %s", self._dataset, error)
        finally:
            self._starting.release()
