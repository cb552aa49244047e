"""Pushes each result to a dataset on the Hugging Face Hub, too, where the environment names one.

For a page on a machine whose disk does not last, such as a Space. The page only reads the local file, and no run waits
for the Hub.

What is covered: a Hub that cannot be reached, refuses or is slow; the results stay in a local folder and are pushed
later, also by the next program that uses this folder.
What is not covered: a disk that is lost before the next push, which is `EVERY_MINUTES` away at most while the Hub
answers. A file of rows that changes in the moment in which it is pushed may arrive cut off, until the next push.
"""

import logging
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from demo.core.files import replacing
from demo.core.result import RunResult
from demo.core.result_json import dumps
from demo.core.spec import BadInput
from demo.store import export
from demo.store.history import History

VARIABLE = "WORTH_COMPILING_DATASET"
FOLDER = "dataset"
ROWS = "rows"
"""The folder of the Parquet files in the dataset."""
EVERY_MINUTES = 5.0
LAST_PUSH_SECONDS = 10.0
"""How long the program waits at its end for the last push."""

_log = logging.getLogger(__name__)


def named() -> str:
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
    if not (dataset := named()):
        yield History()
        return
    with closing(PushedHistory(dataset, scheduler)) as history:
        yield history


class PushedHistory(History):
    """A history that also writes each result to a folder, which huggingface_hub pushes every few minutes.

    One JSON file a result, named by its day and id, and one Parquet file of rows a day and program, so that two
    programs that push to one dataset never write the same file. The scheduler asks the Hub when it is made, which may
    take long or fail. So a thread of its own makes it, and makes it again with the next result if that failed. Files
    that an earlier program left there are pushed, too.
    """

    def __init__(self, dataset: str, scheduler: Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.dataset = dataset
        self._make = scheduler
        self._scheduler: Any = None
        self.connecting = threading.Lock()
        """Held while a thread makes the scheduler."""
        self._program = uuid.uuid4().hex[:8]
        self._rows = threading.Lock()
        """Held while a file of rows is read and written again."""
        self._start()

    def append(self, result: RunResult) -> str | None:
        """Stores the result here and prepares it for the next push, also where the local file cannot take it."""
        try:
            return super().append(result)
        finally:
            try:
                self._start()
                self._write(result)
            except Exception as error:  # no failure of the dataset may harm the run
                _log.warning("a result was not prepared for the dataset %s: %s", self.dataset, error)

    def delete(self, ids: Iterable[str]) -> int:
        """Removes results here. Those that were pushed stay in the dataset; the others are not pushed any more.

        A file of rows that is still here is pushed again without their rows.
        """
        ids = set(ids)
        with self._rows:
            withdraw(self.path.parent / FOLDER, ids)
        return super().delete(ids)

    def close(self) -> None:
        """Pushes the last results, if that takes a few seconds only; else the next program does."""
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is None:
            return
        try:
            scheduler.trigger().result(LAST_PUSH_SECONDS)
        except Exception as error:
            _log.warning("the last results were not pushed to %s: %s", self.dataset, error or "no answer in time")
        scheduler.stop()

    def _write(self, result: RunResult) -> None:
        import pandas as pd

        folder, day = self.path.parent / FOLDER, result.started_at[:10]
        whole, table = folder / "runs" / day / f"{result.id}.json", folder / ROWS / f"{day}-{self._program}.parquet"
        for file in (whole, table):
            file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(whole) as draft:  # so that the scheduler never pushes half a file
            draft.write(f"{dumps(result)}\n".encode("utf-8", "backslashreplace"))
        if result.void:  # its figures mean nothing, and no column of a row says so
            return
        with self._rows:
            rows = [pd.read_parquet(table, dtype_backend="numpy_nullable")] if table.exists() else []
            with replacing(table) as draft:
                pd.concat([*rows, export.table([result])]).to_parquet(draft, index=False)

    def _start(self) -> None:
        if self._scheduler is None and self.connecting.acquire(blocking=False):
            threading.Thread(target=self._connect, daemon=True).start()

    def _connect(self) -> None:
        try:
            from huggingface_hub import CommitScheduler

            self._scheduler = (self._make or CommitScheduler)(
                repo_id=self.dataset,
                repo_type="dataset",
                folder_path=self.path.parent / FOLDER,
                every=EVERY_MINUTES,
                private=True,
                ignore_patterns=["**/.*"],
            )
        except Exception as error:
            _log.warning("results cannot be pushed to the dataset %s yet: %s", self.dataset, error)
        finally:
            self.connecting.release()


def withdraw(folder: Path, ids: set[str]) -> None:
    """Removes these results from what this folder pushes. Not covered: a row that another program adds meanwhile."""
    for file in folder.glob("runs/*/*.json"):
        if file.stem in ids:
            file.unlink(missing_ok=True)
    for file in folder.glob(f"{ROWS}/*.parquet"):
        import pandas as pd

        try:
            rows = pd.read_parquet(file, dtype_backend="numpy_nullable")
            kept = rows[~rows["id"].isin(ids)]
            if len(kept) < len(rows):
                with replacing(file) as draft:  # also one without a row: a push removes no file from the Hub
                    kept.to_parquet(draft, index=False)
        except Exception as error:  # pyarrow raises several kinds for a file that is damaged
            _log.warning("the rows of %s were not deleted: %s", file.name, error)
