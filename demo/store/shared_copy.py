"""A copy of the shared rows of a dataset: fetched from the Hub in a thread, kept in huggingface_hub's cache.

What is covered: a Hub that is slow, refuses, or cannot be reached (the last copy stays, and the answer says of when it
is and why); a dataset with more or larger files than fit (the newest days are fetched); a restart without a network.
What is not covered: a Hub that sends a file slower than anybody waits holds up later fetches until it ends.
"""

from __future__ import annotations

import contextlib
import heapq
import json
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
from demo.core.files import replacing
from demo.store import shared_rows
from demo.store.shared_rows import FileRows, SharedRow

ROWS = "rows"
"""The folder of the dataset with the files of rows, `DAY-PROGRAM.parquet`."""
STATE = "shared.json"
"""Beside the stored results: where the copy lies and of when it is."""
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

    def __init__(self, dataset: str, folder: Path) -> None:
        """`folder` is that of the stored results."""
        self._state = folder / STATE
        self._shared = Shared(dataset)
        self._files: dict[str, tuple[str, str]] = {}
        """By their path in the dataset: blob id, place on this disk."""
        self._parsed: dict[str, FileRows] = {}
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
            self._thread = threading.Thread(target=self._renew, args=(not busy,), daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # no further thread can be started
                _log.warning("the dataset %s cannot be read: %s", self._shared.dataset, error)
                return replace(self._shared, problem="failed")
            return replace(self._shared, fetching=True, problem="busy" if busy else self._shared.problem)

    def _renew(self, fetch: bool) -> None:
        try:
            if not self._loaded:
                self._loaded = True  # also where it fails: the Hub is the next try
                self._publish(*self._read_state())
            if not fetch:
                return
            if not hub.reachable():
                self._shared = replace(self._shared, problem="unreachable")
                return
            files, cut = self._fetch()
            fetched_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            before, self._files = self._files, files
            self._publish(files, fetched_at, cut)
            self._keep({"dataset": self._shared.dataset, "fetched_at": fetched_at, "cut": cut, "files": files})
            _remove_others(before, files)
        except Exception as error:  # a thread that nobody waits for: what is wrong shows on the page
            _log.warning("the dataset %s was not read: %s", self._shared.dataset, error)
            self._shared = replace(self._shared, problem=_reason(error))

    def _publish(self, files: dict[str, tuple[str, str]], fetched_at: str, cut: bool) -> None:
        self._files = files
        read: dict[str, FileRows] = {}
        ids: set[str] = set()
        decoded = 0
        for _, place in files.values():  # the newest first
            if len(ids) >= shared_rows.MAX_ROWS or decoded >= shared_rows.MAX_DECODED:
                break
            read[place] = file = self._parsed.get(place) or shared_rows.read(Path(place))
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
            fetched_at,
        )

    def _read_state(self) -> tuple[dict[str, tuple[str, str]], str, bool]:
        """The copy of an earlier program, as far as huggingface_hub's cache still has it."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
            if state["dataset"] == self._shared.dataset:
                files = {name: (blob, place) for name, (blob, place) in state["files"].items() if Path(place).is_file()}
                return files, str(state["fetched_at"]), bool(state["cut"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # none was kept, or what was kept cannot be read: it is fetched anew
        return {}, "", False

    def _keep(self, state: dict[str, Any]) -> None:
        """For the next program. Where that cannot be written, it fetches the files again."""
        try:
            self._state.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._state) as file:
                file.write(json.dumps(state).encode())
        except OSError as error:
            _log.warning("where the copy of the dataset %s lies was not kept: %s", self._shared.dataset, error)

    def _fetch(self) -> tuple[dict[str, tuple[str, str]], bool]:
        """The files of the newest days, fetched where they are not in the cache; and whether others were left out."""
        from huggingface_hub import HfApi, hf_hub_download  # here, because importing it takes some 60 ms
        from huggingface_hub.errors import EntryNotFoundError
        from huggingface_hub.utils import disable_progress_bars

        disable_progress_bars()
        dataset, end = self._shared.dataset, time.monotonic() + MAX_FETCH_SECONDS
        api = HfApi(endpoint=hub.endpoint())
        commit = api.dataset_info(dataset, revision="main", timeout=REQUEST_SECONDS).sha
        try:
            tree = api.list_repo_tree(dataset, ROWS, revision=commit, repo_type="dataset")
            chosen, cut = _newest_files(_until(end, tree))
        except EntryNotFoundError:  # nothing was pushed yet
            chosen, cut = {}, False
        files = {}
        for name, blob in _until(end, chosen.items()):
            known = self._files.get(name)
            if known is None or known[0] != blob or not Path(known[1]).is_file():
                place = hf_hub_download(
                    dataset,
                    name,
                    repo_type="dataset",
                    revision=commit,
                    endpoint=hub.endpoint(),
                    etag_timeout=REQUEST_SECONDS,
                )
                known = (blob, place)
            files[name] = known
        return files, cut


def _until(end: float, items: Iterable[T]) -> Iterator[T]:
    """Raises TimeoutError where they take longer."""
    for item in items:
        if time.monotonic() > end:
            raise TimeoutError(f"{MAX_FETCH_SECONDS:.0f} s were not enough to list and fetch the files")
        yield item


def _newest_files(listed: Iterable[Any]) -> tuple[dict[str, str], bool]:
    """The blob ids of the files to fetch, by name, newest first, and whether others are left out.

    The Hub lists by name, the oldest day first, so the whole listing is looked at.
    """
    latest = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%d")
    named = (entry for entry in listed if (found := _NAME.fullmatch(entry.path)) and found[1] <= latest)
    chosen: dict[str, str] = {}
    total, cut = 0, False
    for entry in heapq.nlargest(MAX_LISTED, named, key=lambda entry: str(entry.path)):
        size = getattr(entry, "size", MAX_FILE_BYTES + 1)  # a folder has none
        if len(chosen) == MAX_FILES or size > MAX_FILE_BYTES or total + size > MAX_BYTES:
            cut = True
            continue
        chosen[entry.path] = entry.blob_id
        total += size
    return chosen, cut


def _remove_others(before: dict[str, tuple[str, str]], kept: dict[str, tuple[str, str]]) -> None:
    """Removes earlier versions of files from huggingface_hub's cache, which would grow with every push.

    The cache is shared: content that another snapshot links to stays.
    """
    blobs = set()
    for place in {place for _, place in before.values()} - {place for _, place in kept.values()}:
        with contextlib.suppress(OSError):
            blobs.add(Path(place).resolve())
            Path(place).unlink(missing_ok=True)
    snapshots = {blob.parents[1] / "snapshots" for blob in blobs}
    linked = {link.resolve() for folder in snapshots for link in folder.rglob("*")}
    for blob in blobs - linked:
        with contextlib.suppress(OSError):
            blob.unlink(missing_ok=True)


def _reason(error: Exception) -> Problem:
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403, 404):
        return "refused"
    if isinstance(error, TimeoutError) or type(error).__name__ == "ReadTimeout":
        return "slow"
    offline = ("ConnectError", "ConnectTimeout", "LocalEntryNotFoundError")
    return "unreachable" if isinstance(error, ConnectionError) or type(error).__name__ in offline else "failed"
