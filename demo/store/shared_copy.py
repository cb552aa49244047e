"""A copy of the shared rows of a dataset: fetched from the Hub in a thread, kept in huggingface_hub's folder of assets.

What is covered: a Hub that is slow, refuses, or cannot be reached (the last copy stays, and the answer says of when it
is and why); a dataset with more or larger files than fit (the newest days are fetched); a restart without a network.
What is not covered: a Hub that sends a file slower than anybody waits holds up later fetches until it ends; a file that
was changed and has kept its size is not fetched again.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

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
_NAME = re.compile(rf"{ROWS}/(\d{{4}}-\d\d-\d\d)-[A-Za-z0-9]{{1,40}}\.parquet")

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
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._begun = self._due = 0.0
        """When the last thread began, and from when the Hub is asked again."""

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
            if busy and self._begun:  # the copy of an earlier program was looked for
                known = self._shared
                return known if known.fetched_at else replace(known, fetching=True, problem="busy")
            self._begun = now
            if not busy:
                self._due = now + RENEW_SECONDS
            self._thread = threading.Thread(target=self._renew, args=(not busy,), daemon=True)
            self._thread.start()
            return replace(self._shared, fetching=True, problem="busy" if busy else self._shared.problem)

    def _renew(self, fetch: bool) -> None:
        from huggingface_hub import cached_assets_path, constants  # here, because importing it takes some 60 ms

        try:
            assets = constants.HF_ASSETS_CACHE
            folder = cached_assets_path("worth-compiling", self._shared.dataset, assets_dir=assets)
            if not self._shared.fetched_at and (kept := folder / ROWS).exists():
                self._publish(sorted(kept.glob("*.parquet"), reverse=True), kept.stat().st_mtime, cut=False)
            if fetch:
                files, cut = self._fetch(folder)
                self._publish(files, time.time(), cut)
        except Exception as error:  # a thread that nobody waits for: what is wrong shows on the page
            _log.warning("the dataset %s was not read: %s", self._shared.dataset, error)
            self._shared = replace(self._shared, problem=_reason(error))

    def _fetch(self, folder: Path) -> tuple[list[Path], bool]:
        """Makes `folder` a copy of the newest files; those files, newest first, and whether others are left out.

        Raises what huggingface_hub raises, and TimeoutError or ConnectionError where a file has not arrived.
        """
        from huggingface_hub import HfApi, hf_hub_download
        from huggingface_hub.utils import disable_progress_bars

        disable_progress_bars()
        begun, dataset, endpoint = time.monotonic(), self._shared.dataset, hub.endpoint()
        about = HfApi(endpoint=endpoint).dataset_info(dataset, files_metadata=True, timeout=REQUEST_SECONDS)
        sizes, cut = _newest_files(about.siblings or ())
        for name, size in sizes.items():
            if _size(folder / name) != size:
                if time.monotonic() - begun > MAX_FETCH_SECONDS:
                    raise TimeoutError(f"{MAX_FETCH_SECONDS:.0f} s were not enough to fetch the files")
                # what is listed is what is fetched, whatever is pushed in between
                asked: dict[str, Any] = {"revision": about.sha, "endpoint": endpoint, "etag_timeout": REQUEST_SECONDS}
                hf_hub_download(dataset, name, repo_type="dataset", local_dir=folder, **asked)
            if _size(folder / name) != size:
                raise ConnectionError(f"the Hub stopped answering before {name}")
        for file in (folder / ROWS).glob("*.parquet"):
            if f"{ROWS}/{file.name}" not in sizes:
                file.unlink()
        (folder / ROWS).mkdir(exist_ok=True)  # a dataset may have no rows yet
        os.utime(folder / ROWS)  # a later program reads there of when the copy is
        return [folder / name for name in sizes], cut

    def _publish(self, places: Sequence[Path], seconds: float, cut: bool) -> None:
        """Shows the rows of these files, the newest first, fetched at this time in seconds since 1970."""
        files: list[FileRows] = []
        for place in places:
            if sum(len(file.rows) for file in files) >= shared_rows.MAX_ROWS:
                cut = True
                break
            files.append(_read(place, place.stat().st_mtime_ns))
        rows, too_many = shared_rows.newest(files)
        self._shared = Shared(
            self._shared.dataset,
            tuple(rows),
            sum(file.looked_at for file in files),
            sum(file.unreadable for file in files),
            len(files),
            sum(not file.readable for file in files),
            cut or too_many,
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)),
        )


@lru_cache(maxsize=MAX_FILES)
def _read(place: Path, modified_ns: int) -> FileRows:
    """The rows of a file, read once for each of its versions."""
    return shared_rows.read(place)


def _size(file: Path) -> int | None:
    return file.stat().st_size if file.exists() else None


def _newest_files(listed: Sequence[Any]) -> tuple[dict[str, int], bool]:
    """The names of the files to fetch with their sizes in bytes, newest first, and whether others are left out."""
    latest = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%d")
    named = [file for file in listed if (found := _NAME.fullmatch(file.rfilename)) and found[1] <= latest]
    chosen: dict[str, int] = {}
    for file in sorted(named, key=lambda file: str(file.rfilename), reverse=True):
        total = sum(chosen.values()) + file.size
        if len(chosen) < MAX_FILES and file.size <= MAX_FILE_BYTES and total <= MAX_BYTES:
            chosen[file.rfilename] = file.size
    return chosen, len(chosen) < len(named)


def _reason(error: Exception) -> Problem:
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403, 404):
        return "refused"
    if isinstance(error, TimeoutError) or type(error).__name__ == "ReadTimeout":
        return "slow"
    offline = ("ConnectError", "ConnectTimeout", "LocalEntryNotFoundError")
    return "unreachable" if isinstance(error, ConnectionError) or type(error).__name__ in offline else "failed"
