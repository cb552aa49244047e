"""A copy of the shared rows of a dataset: fetched from the Hub in a thread, kept in huggingface_hub's cache.

What is covered: a Hub that is slow, refuses, or cannot be reached (the last copy stays, and the answer says of when it
is and why); a dataset with more or larger files than fit (the newest days are fetched); a restart without a network.
What is not covered: a Hub that sends a file slower than anybody waits holds up later fetches until it ends.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

from demo.core import hub
from demo.store import shared_rows
from demo.store.shared_rows import FileRows, SharedRow

ROWS = "rows"
"""The folder of the dataset with the files of rows, `DAY-PROGRAM.parquet`."""
RENEW_SECONDS = 300.0
"""Age from which a copy that somebody looks at is fetched again, and time to the next try after one that failed."""
MAX_FETCH_SECONDS = 120.0
REQUEST_SECONDS = 10.0
MAX_FILES, MAX_BYTES, MAX_FILE_BYTES = 200, 64_000_000, 16_000_000
MAX_LISTED = 1_000
"""Names that are held of a listing. More than `MAX_FILES`, as a file that is too large is passed over."""
_NAME = re.compile(rf"{ROWS}/(\d{{4}}-\d\d-\d\d)-[A-Za-z0-9]{{1,40}}\.parquet")

T = TypeVar("T")
Problem = Literal["unreachable", "refused", "failed", "slow", "busy"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shared:
    """What is known of the dataset's rows at a moment."""

    dataset: str
    rows: tuple[SharedRow, ...] = ()
    """Newest first."""
    looked_at: int = 0
    """Rows that were read, the unreadable among them."""
    unreadable: int = 0
    files: int = 0
    unreadable_files: int = 0
    cut: bool = False
    """There are more rows than are shown."""
    fetched_at: str = ""
    """UTC, of the last complete look at the Hub; '' if there has been none."""
    fetching: bool = False
    problem: Problem | None = None
    """Why the copy is not a new one."""


class SharedCopy:
    """The copy of one dataset. All pages of a server share it."""

    def __init__(self, dataset: str) -> None:
        self._shared = Shared(dataset)
        self._folder: Path | None = None
        """The snapshot in huggingface_hub's cache that is shown."""
        self._parsed: dict[Path, FileRows] = {}
        """By the place of a file's content, which no push changes."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._begun = self._due = 0.0
        """When the thread began, and from when the Hub is asked again."""
        self._loaded = False

    def look(self, busy: bool = False) -> Shared:
        """What is known now. It waits for nothing; an old copy is fetched again in a thread.

        While the machine is `busy` with a measurement no fetch begins; one that goes on is not stopped. The copy that
        lies on this disk is read all the same.
        """
        with self._lock:
            now = time.monotonic()
            if self._thread is not None and self._thread.is_alive():
                slow = now - self._begun > MAX_FETCH_SECONDS
                return replace(self._shared, fetching=not slow, problem="slow" if slow else self._shared.problem)
            if now < self._due:
                return self._shared
            if busy and self._loaded:
                known = self._shared
                return known if known.fetched_at else replace(known, fetching=True, problem="busy")
            self._begun = now
            if not busy:
                self._due = now + RENEW_SECONDS
            thread = threading.Thread(target=self._renew, args=(not busy,), daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the machine has no thread left
                self._shared = replace(self._shared, problem="failed")
                return self._shared
            self._thread = thread
            return replace(self._shared, fetching=True, problem="busy" if busy else self._shared.problem)

    def _renew(self, fetch: bool) -> None:
        from huggingface_hub.errors import LocalEntryNotFoundError

        try:
            if not self._loaded:
                self._loaded = True  # also where it fails: the Hub is the next try
                with contextlib.suppress(LocalEntryNotFoundError):  # no earlier program has left a copy
                    folder = self._snapshot(local_files_only=True)
                    self._publish(folder, (folder.parents[1] / "refs" / "main").stat().st_mtime, cut=False)
            if not fetch:
                return
            if not hub.reachable():
                self._shared = replace(self._shared, problem="unreachable")
                return
            commit, names, cut = self._newest()
            before, folder = self._folder, self._snapshot(revision=commit, allow_patterns=names)
            if missing := [name for name in names if not (folder / name).exists()]:
                raise ConnectionError(f"the Hub stopped answering before {missing[0]}")  # this is what lay in the cache
            _remember(folder, commit)
            self._publish(folder, time.time(), cut)
            if before not in (None, folder):
                _forget(self._shared.dataset, before.name)
        except Exception as error:  # a thread that nobody waits for: what is wrong shows on the page
            _log.warning("the dataset %s was not read: %s", self._shared.dataset, error)
            self._shared = replace(self._shared, problem=_reason(error))

    def _newest(self) -> tuple[str, list[str], bool]:
        """The dataset's commit, the names of its files to fetch, newest first, and whether others are left out."""
        from huggingface_hub import HfApi  # here, because importing it takes some 60 ms
        from huggingface_hub.errors import EntryNotFoundError

        end, api = time.monotonic() + MAX_FETCH_SECONDS, HfApi(endpoint=hub.endpoint())
        commit = str(api.dataset_info(self._shared.dataset, timeout=REQUEST_SECONDS).sha)
        try:  # what is listed is what is fetched, whatever is pushed in between
            tree = api.list_repo_tree(self._shared.dataset, ROWS, revision=commit, repo_type="dataset")
            return commit, *_newest_files(_until(end, tree))
        except EntryNotFoundError:  # nothing was pushed yet
            return commit, [], False

    def _snapshot(self, **asked: Any) -> Path:
        """The folder of the dataset's files in huggingface_hub's cache. Raises what its library raises."""
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils import disable_progress_bars

        disable_progress_bars()
        known: dict[str, Any] = {"endpoint": hub.endpoint(), "etag_timeout": REQUEST_SECONDS, "max_workers": 2}
        return Path(snapshot_download(self._shared.dataset, repo_type="dataset", **known, **asked))

    def _publish(self, folder: Path, seconds: float, cut: bool) -> None:
        """Shows the rows of a snapshot that was fetched at this time, in seconds since 1970."""
        self._folder = folder
        files = sorted((file for file in (folder / ROWS).glob("*.parquet")), reverse=True)
        read: dict[Path, FileRows] = {}
        ids: set[str] = set()
        decoded = 0
        for place in (file.resolve() for file in files[:MAX_FILES]):  # the newest first
            if len(ids) >= shared_rows.MAX_ROWS or decoded >= shared_rows.MAX_DECODED:
                break
            read[place] = file = self._parsed.get(place) or shared_rows.read(place)
            ids.update(row.id for row in file.rows)
            decoded += file.decoded
        self._parsed, parsed = read, read.values()
        rows, too_many = shared_rows.newest(parsed)
        self._shared = Shared(
            self._shared.dataset,
            tuple(rows),
            sum(file.looked_at for file in parsed),
            sum(file.unreadable for file in parsed),
            len(parsed),
            sum(not file.readable for file in parsed),
            cut or too_many or len(read) < len(files) or any(file.unread for file in parsed),
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)),
        )


def _remember(folder: Path, commit: str) -> None:
    """Notes the snapshot as that of the branch, where huggingface_hub looks; the note's time is that of the copy."""
    note = folder.parents[1] / "refs" / "main"
    note.parent.mkdir(parents=True, exist_ok=True)  # a dataset without rows has no folder yet
    note.write_text(commit)


def _forget(dataset: str, commit: str) -> None:
    """Removes an earlier snapshot from huggingface_hub's cache, which would grow with every push."""
    from huggingface_hub import scan_cache_dir

    kept = scan_cache_dir()
    if any(one.commit_hash == commit for repo in kept.repos if repo.repo_id == dataset for one in repo.revisions):
        kept.delete_revisions(commit).execute()


def _until(end: float, items: Iterable[T]) -> Iterator[T]:
    """Raises TimeoutError where they take longer."""
    for item in items:
        if time.monotonic() > end:
            raise TimeoutError(f"{MAX_FETCH_SECONDS:.0f} s were not enough to list and fetch the files")
        yield item


def _newest_files(listed: Iterable[Any]) -> tuple[list[str], bool]:
    """The names of the files to fetch, newest first, and whether others are left out.

    The Hub lists by name, the oldest day first, so the whole listing is looked at.
    """
    latest = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%d")
    named = (entry for entry in listed if (found := _NAME.fullmatch(entry.path)) and found[1] <= latest)
    chosen: list[str] = []
    total, cut = 0, False
    for entry in heapq.nlargest(MAX_LISTED, named, key=lambda entry: str(entry.path)):
        size = getattr(entry, "size", MAX_FILE_BYTES + 1)  # a folder has none
        if len(chosen) == MAX_FILES or size > MAX_FILE_BYTES or total + size > MAX_BYTES:
            cut = True
            continue
        chosen.append(entry.path)
        total += size
    return chosen, cut


def _reason(error: Exception) -> Problem:
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403, 404):
        return "refused"
    if isinstance(error, TimeoutError) or type(error).__name__ == "ReadTimeout":
        return "slow"
    offline = ("ConnectError", "ConnectTimeout", "LocalEntryNotFoundError")
    return "unreachable" if isinstance(error, ConnectionError) or type(error).__name__ in offline else "failed"
