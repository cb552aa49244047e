"""Reads the newest results of a dataset on the Hugging Face Hub, such as those that other machines pushed there.

The results stay in memory, at most `MAX_RESULTS`, and do not get into the history. The Hub's library keeps their files
in its cache. Not covered: the rows of the dataset, which hold fewer figures than the results.
"""

import json
import logging
import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING

from ..core import format as fmt
from ..core.hub import NoAnswer, ask
from ..core.result import RunResult
from ..core.result_json import from_json

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile, RepoFolder

RUNS = "runs"
"""The dataset's folder of whole results, DAY/ID.json."""
MAX_RESULTS = 100
MAX_FILE_BYTES = 2_000_000
"""A larger file is left out. A result has up to some hundred kilobytes."""
ASK_AGAIN_SECONDS = 300.0
"""How long the list of the dataset's files is used before the Hub is asked again."""
LISTING_SECONDS = 10.0
"""Once the listing has taken this long, no older day's folder is listed: a dataset may have many days."""
READING_SECONDS = 20.0
"""How long `newest` waits for the list, and for files. It returns those that come later when it is called again."""
_AT_ONCE = 8
_log = logging.getLogger(__name__)


class HubResults:
    """The newest results in a dataset. Threads can share one object."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        self._results: dict[tuple[str, str], RunResult | None] = {}
        """By path and hash of the file, in the order of their arrival; None for a file that holds no result."""
        self._files: list[tuple[str, str]] = []
        self._asked_at: float | None = None
        self._reading = threading.Lock()

    def newest(self, without: Collection[str] = ()) -> list[RunResult]:
        """Returns the newest results, newest first, except those with an id in `without`.

        Raises NoAnswer if the Hub does not list the files. While another thread reads, the results that are known
        so far are returned.
        """
        if self._reading.acquire(blocking=False):
            try:
                self._read(without)
            finally:
                self._reading.release()
        known = [result for result in list(self._results.values()) if result is not None and result.id not in without]
        return sorted(known, key=lambda result: result.started_at, reverse=True)

    def is_complete(self, without: Collection[str] = ()) -> bool:
        """Returns whether `newest` has read all files. False if the Hub is slow, or while another thread reads them."""
        return not self._reading.locked() and not self._missing(without)

    def _missing(self, without: Collection[str]) -> list[tuple[str, str]]:
        return [file for file in self._files if file not in self._results and Path(file[0]).stem not in without]

    def _read(self, without: Collection[str]) -> None:
        now = time.monotonic()
        if self._asked_at is None or now - self._asked_at > ASK_AGAIN_SECONDS:
            self._files = ask(self._list_files, READING_SECONDS)
            self._asked_at = now
            self._results = {file: result for file, result in self._results.items() if file in self._files}
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            jobs = {pool.submit(self._download, file[0]): file for file in self._missing(without)}
            for job in as_completed(jobs, READING_SECONDS):
                try:
                    self._results[jobs[job]] = job.result()
                except NoAnswer as error:  # the next call asks for this file again
                    _log.warning("%s of the dataset %s: %s", jobs[job][0], self.dataset, fmt.excerpt(str(error)))
        except TimeoutError:
            _log.info("the dataset %s is slow: its other results come with a later answer", self.dataset)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _list_files(self) -> list[tuple[str, str]]:
        """Returns path and hash of the files of the newest days' results, newest day first.

        Within a day the order is that of the ids, because a file's name has no time.
        """
        from huggingface_hub import HfApi
        from huggingface_hub.hf_api import RepoFile

        files, since = list[tuple[str, str]](), time.monotonic()
        for day in self._entries(HfApi(), RUNS):
            inside = [entry for entry in self._entries(HfApi(), day.path) if isinstance(entry, RepoFile)]
            inside = [entry for entry in inside if entry.path.endswith(".json") and entry.size <= MAX_FILE_BYTES]
            files += [(entry.path, entry.blob_id) for entry in inside]
            if len(files) >= MAX_RESULTS or time.monotonic() - since > LISTING_SECONDS:
                break
        return files[:MAX_RESULTS]

    def _entries(self, hub: "HfApi", folder: str) -> "list[RepoFile | RepoFolder]":
        """Returns what lies in a folder of the dataset, in descending order of its names: the newest day is first."""
        entries = hub.list_repo_tree(self.dataset, folder, repo_type="dataset")
        return sorted(entries, key=lambda entry: entry.path, reverse=True)

    def _download(self, path: str) -> RunResult | None:
        from huggingface_hub import hf_hub_download

        file = ask(lambda: hf_hub_download(self.dataset, path, repo_type="dataset"), READING_SECONDS)
        try:
            return from_json(json.loads(Path(file).read_bytes()))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            _log.warning("%s of the dataset %s is left out: %s", path, self.dataset, fmt.excerpt(str(error)))
            return None
