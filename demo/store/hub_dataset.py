"""Pushes each result to a dataset on the Hugging Face Hub, if `WORTH_COMPILING_DATASET` names a dataset.

This is for a machine that loses its disk, such as a Space. The page's tab History shows local results only. The wall of
races on its tab Published shows results of the dataset, too (`hub_results.py`). No run waits for the Hub: results, and
deletions of results, wait in local folders for the next push. Not covered: a disk lost before the next push, and the
dataset's git history, in which a deleted result stays."""

import logging
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import format as fmt
from ..core.files import replacing
from ..core.hub import ask, shown_endpoint
from ..core.options import BadInput
from ..core.result import RunResult
from ..core.result_json import dumps
from . import export
from .history import History

if TYPE_CHECKING:
    from huggingface_hub import CommitScheduler

VARIABLE = "WORTH_COMPILING_DATASET"
FOLDER = "dataset"
"""Name of the local folder with the files to push."""
DELETED = "dataset-deleted"
"""Name of the local folder with an empty file DAY/ID for each result that the next push deletes in the dataset."""
RESULT_FILES = ("runs/{}.json", "rows/{}.parquet")
"""Paths of a result's files in the dataset. {} is DAY/ID, such as 2026-11-21/4371ed9f8c5f."""
SHARED_FILE = "pages/{}.html"
"""Path of a result's HTML file in the dataset, which `push_page` uploads. {} is DAY/ID."""
EVERY_MINUTES = 5.0
PAGE_SECONDS = 60.0
"""How long the upload of a result's HTML file may take."""
LAST_PUSH_SECONDS = 10.0
"""How long the end of the program waits for the last push."""

_log = logging.getLogger(__name__)


def dataset_name() -> str:
    """Returns `WORTH_COMPILING_DATASET`, 'owner/name'; '' if it is not set. Raises BadInput for another form."""
    name = os.environ.get(VARIABLE, "")
    if name and not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise BadInput(f"{VARIABLE} must name a dataset as owner/name. Given: {name[:80]!r}.")
    return name


@contextmanager
def open_history() -> Iterator[History]:
    """Yields a `PushedHistory` if a dataset is named, else a `History`. Raises BadInput unless its name is
    of the form owner/name."""
    if not (dataset := dataset_name()):
        yield History()
        return
    with closing(PushedHistory(dataset)) as history:
        yield history


class PushedHistory(History):
    """A history that also pushes its results to a dataset on the Hugging Face Hub, every `EVERY_MINUTES` minutes.

    A result becomes runs/DAY/ID.json and, unless the model was recompiled while it was timed (`RunResult.void`), also
    rows/DAY/ID.parquet. If a result is deleted here, the next push deletes it in the dataset.
    """

    def __init__(self, dataset: str) -> None:
        super().__init__()
        self.dataset = dataset
        self._scheduler: CommitScheduler | None = None
        # In a thread, because the scheduler asks the Hub when it is made: that may take long or fail.
        self.connecting = threading.Thread(target=self._connect, daemon=True)
        self.connecting.start()

    def append(self, result: RunResult) -> RunResult:
        try:
            result = super().append(result)
        finally:
            self._prepare(result)
        return result

    def overwrite(self, result: RunResult) -> None:
        super().overwrite(result)
        self._prepare(result)

    def _prepare(self, result: RunResult) -> None:
        try:
            self._write(result)
        except Exception as error:  # no failure of the dataset may harm the run
            _log.warning("a result was not prepared for the dataset %s: %s", self.dataset, _reason(error))

    def delete(self, ids: Iterable[str]) -> int:
        ids = list(ids)
        forget(self, ids)
        return super().delete(ids)

    def close(self) -> None:
        """Pushes the last results. Results that cannot be pushed in time wait for the next start of the program."""
        if self._scheduler is None:
            return
        try:
            self._scheduler.trigger().result(LAST_PUSH_SECONDS)
        except Exception as error:
            _log.warning(
                "the last results were not pushed to %s: %s",
                self.dataset,
                _reason(error) or "no answer in time",
            )
        self._scheduler.stop()

    def _write(self, result: RunResult) -> None:
        whole, row = RESULT_FILES
        files = {whole: f"{dumps(result)}\n".encode("utf-8", "backslashreplace")}
        if not result.void:  # the figures of a void run mean nothing, and no column of a row says so
            files[row] = export.to_bytes([result], "parquet")
        for name, content in files.items():
            path = self.path.parent / FOLDER / name.format(f"{result.started_at[:10]}/{result.id}")
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as draft:  # a push takes whole files only
                draft.write(content)

    def _connect(self) -> None:
        while True:
            try:
                self._scheduler = _scheduler_class(self.path.parent / DELETED)(
                    repo_id=self.dataset,
                    repo_type="dataset",
                    folder_path=self.path.parent / FOLDER,
                    every=EVERY_MINUTES,
                    private=True,
                    ignore_patterns=["**/.*"],
                )
                return
            except Exception as error:
                _log.warning("results cannot be pushed to the dataset %s yet: %s", self.dataset, _reason(error))
                time.sleep(EVERY_MINUTES * 60)


def push_page(history: History, result: RunResult, text: str) -> str:
    """Uploads the HTML file `text` of a result to the dataset that WORTH_COMPILING_DATASET names.

    Returns its web address. Raises NoAnswer if that does not work.
    """
    from huggingface_hub import HfApi

    hub, dataset = HfApi(), dataset_name()
    place = SHARED_FILE.format(f"{result.started_at[:10]}/{result.id}")

    def push() -> None:
        (history.path.parent / FOLDER).mkdir(parents=True, exist_ok=True)  # so that `forget` deletes the file there
        hub.create_repo(repo_id=dataset, repo_type="dataset", private=True, exist_ok=True)
        hub.upload_file(path_or_fileobj=text.encode(), path_in_repo=place, repo_id=dataset, repo_type="dataset")

    ask(push, PAGE_SECONDS)
    return f"{shown_endpoint()}/datasets/{dataset}/blob/main/{place}"


def waits_for_deletion(history: History) -> set[str]:
    """Returns the ids of the results that the next push deletes in the dataset."""
    return {note.name for note in (history.path.parent / DELETED).glob("*/*")}


def forget(history: History, ids: Iterable[str]) -> None:
    """Keeps the results with these ids from being pushed to the dataset.

    The next push deletes from the dataset those of them that were pushed before.
    """
    folder, deleted = history.path.parent / FOLDER, history.path.parent / DELETED
    for result in filter(None, map(history.get, ids if folder.exists() else ())):
        name = f"{result.started_at[:10]}/{result.id}"
        for file in RESULT_FILES:
            (folder / file.format(name)).unlink(missing_ok=True)
        # Last: a push that begins before would find nothing to delete, and then push the files.
        (deleted / name).parent.mkdir(parents=True, exist_ok=True)
        (deleted / name).touch()


def _reason(error: Exception) -> str:
    """Returns the error's text for the log, without a login that the Hub's address may contain."""
    return fmt.without_secrets(str(error))


def _scheduler_class(deleted: Path) -> "type[CommitScheduler]":
    """Returns a subclass of `CommitScheduler` whose pushes first delete the results named in the folder `deleted`."""
    from huggingface_hub import CommitInfo, CommitOperationDelete, CommitScheduler

    class DeletingScheduler(CommitScheduler):
        def push_to_hub(self) -> CommitInfo | None:
            notes = [note for note in sorted(deleted.glob("*/*")) if note.is_file()]
            if notes:
                names = [note.relative_to(deleted).as_posix() for note in notes]
                paths = [file.format(name) for name in names for file in (*RESULT_FILES, SHARED_FILE)]
                # A result that was never pushed is not there, and a commit that deletes what is not there is refused.
                there = self.api.get_paths_info(self.repo_id, paths, repo_type=self.repo_type)
                if operations := [CommitOperationDelete(file.path) for file in there]:
                    self.api.create_commit(
                        repo_id=self.repo_id,
                        repo_type=self.repo_type,
                        operations=operations,
                        commit_message="Deleted runs",
                    )
                for note in notes:
                    note.unlink(missing_ok=True)
            return super().push_to_hub()

    return DeletingScheduler
