"""Pushes each result to a dataset on the Hugging Face Hub, too, where the environment names one.

For a page on a machine whose disk does not last, such as a Space. The page only reads the local file, and no run waits
for the Hub: while it does not answer, results stay in a local folder, and a later push takes them, also of the next
program with this folder.

Not covered: a disk that is lost before the next push; a run that is deleted here stays in the dataset.
"""

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from demo.core.files import replacing
from demo.core.result import RunResult
from demo.core.result_json import dumps
from demo.core.spec import BadInput
from demo.store import export
from demo.store.history import History

VARIABLE = "WORTH_COMPILING_DATASET"
FOLDER = "dataset"
EVERY_MINUTES = 5.0
LAST_PUSH_SECONDS = 10.0
"""How long the program waits at its end for the last push."""

_log = logging.getLogger(__name__)


def dataset_name() -> str:
    """The dataset that the environment names; '' without one. Raises BadInput for a name that is no dataset's."""
    given = os.environ.get(VARIABLE, "")
    if given and not re.fullmatch(r"[\w.-]+/[\w.-]+", given):
        raise BadInput(f"{VARIABLE} must name a dataset as owner/name. Given: {given[:80]!r}.")
    return given


@contextmanager
def open_history(scheduler: Callable[..., Any] | None = None) -> Iterator[History]:
    """The user's history. Where `WORTH_COMPILING_DATASET` names a dataset, each result is pushed there, too.

    `scheduler` replaces `huggingface_hub.CommitScheduler` in tests. Raises BadInput for a name that is no dataset's.
    """
    if not (dataset := dataset_name()):
        yield History()
        return
    with closing(PushedHistory(dataset, scheduler)) as history:
        yield history


class PushedHistory(History):
    """A history that also writes each result to a folder, which huggingface_hub pushes every few minutes.

    A result is a JSON file and, as a row of an export, a Parquet file, both named by its day and id. The scheduler asks
    the Hub when it is made, which may take long or fail: so a thread makes it, and tries again.
    """

    def __init__(self, dataset: str, scheduler: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.dataset = dataset
        self._scheduler: Any = None
        self.connecting = threading.Thread(target=self._connect, args=[scheduler], daemon=True)
        self.connecting.start()

    def append(self, result: RunResult) -> str | None:
        """Stores the result here and prepares it for the next push, also where the local file cannot take it."""
        try:
            return super().append(result)
        finally:
            try:
                self._write(result)
            except Exception as error:  # no failure of the dataset may harm the run
                _log.warning("a result was not prepared for the dataset %s: %s", self.dataset, error)

    def close(self) -> None:
        """Pushes the last results, if that takes a few seconds only; else the next program does."""
        if self._scheduler is None:
            return
        try:
            self._scheduler.trigger().result(LAST_PUSH_SECONDS)
        except Exception as error:
            _log.warning("the last results were not pushed to %s: %s", self.dataset, error or "no answer in time")
        self._scheduler.stop()

    def _write(self, result: RunResult) -> None:
        folder, name = self.path.parent / FOLDER, f"{result.started_at[:10]}/{result.id}"
        with _pushed_file(folder / "runs" / f"{name}.json") as draft:
            draft.write(f"{dumps(result)}\n".encode("utf-8", "backslashreplace"))
        if not result.void:  # its figures mean nothing, and no column of a row says so
            with _pushed_file(folder / "rows" / f"{name}.parquet") as draft:
                export.write([result], "parquet", draft)

    def _connect(self, scheduler: Callable[..., Any] | None) -> None:
        from huggingface_hub import CommitScheduler

        while True:
            try:
                self._scheduler = (scheduler or CommitScheduler)(
                    repo_id=self.dataset,
                    repo_type="dataset",
                    folder_path=self.path.parent / FOLDER,
                    every=EVERY_MINUTES,
                    private=True,
                    ignore_patterns=["**/.*"],
                )
                return
            except Exception as error:
                _log.warning("results cannot be pushed to the dataset %s yet: %s", self.dataset, error)
                time.sleep(EVERY_MINUTES * 60)


@contextmanager
def _pushed_file(path: Path) -> Iterator[BinaryIO]:
    """A file that is pushed whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        yield draft
