"""A copy of the shared rows of a dataset: fetched from the Hub in a thread, kept in huggingface_hub's folder of assets.

What is covered: a Hub that is slow, refuses, or cannot be reached (the last copy stays, and the answer says of when it
is); a dataset with more or larger files than fit (the newest days are fetched); a restart without a network.
What is not covered: a Hub that sends a file slower than anybody waits holds up later fetches until it ends; a file that
was changed and has kept its size is not fetched again.
"""

from __future__ import annotations

import logging
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
from demo.store.shared_rows import SharedRow

ROWS = "rows"
"""The folder of the dataset with the files of rows, `DAY-PROGRAM.parquet`."""
RENEW_SECONDS = 300.0
"""Age from which a copy that somebody looks at is fetched again, and time to the next try after one that failed."""
REQUEST_SECONDS = 10.0
MAX_FILES, MAX_BYTES, MAX_FILE_BYTES = 200, 64_000_000, 16_000_000
_FETCHED = "fetched"
"""An empty file beside that folder. Its time is that of the last complete look at the Hub, also for a later program."""
_NAME = re.compile(rf"{ROWS}/(\d{{4}}-\d\d-\d\d)-[A-Za-z0-9]{{1,40}}\.parquet")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shared:
    """What is known of the dataset's rows at a moment."""

    dataset: str
    rows: tuple[SharedRow, ...] = ()
    """Newest first."""
    unreadable_rows: int = 0
    unreadable_files: int = 0
    cut: bool = False
    """There are more rows than are shown."""
    fetched_at: str = ""
    """UTC, of the last complete look at the Hub; '' if there has been none."""
    fetching: bool = False
    problem: Literal["failed", "busy"] | None = None
    """Why the copy is not a new one: the Hub did not give it, or a run goes on."""


class SharedCopy:
    """The copy of one dataset. All pages of a server share it."""

    def __init__(self, dataset: str) -> None:
        self._shared = Shared(dataset)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._due = 0.0
        """From when the Hub is asked again."""
        self._cut = False
        """The dataset has more files than are fetched."""

    def look(self, busy: bool = False) -> Shared:
        """What is known now. It waits for nothing; an old copy is fetched again in a thread.

        While the machine is `busy` with a measurement no fetch begins; one that goes on is not stopped.
        """
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return replace(self._shared, fetching=True)
            if time.monotonic() < self._due or (busy and self._shared.fetched_at):
                return self._shared
            if busy:
                return replace(self._shared, fetching=True, problem="busy")
            self._due = time.monotonic() + RENEW_SECONDS
            self._thread = threading.Thread(target=self._renew, daemon=True)
            self._thread.start()
            return replace(self._shared, fetching=True)

    def _renew(self) -> None:
        """Fetches what is new, then shows what lies on this disk, also where the Hub gave nothing."""
        problem: Literal["failed"] | None = None
        for step in (self._fetch, self._publish):
            try:
                step()
            except Exception as error:  # huggingface_hub and its client raise many kinds, and nobody waits for this
                _log.warning("the dataset %s was not read: %s", self._shared.dataset, error)
                problem = "failed"
        self._shared = replace(self._shared, problem=problem)

    def _folder(self) -> Path:
        from huggingface_hub import cached_assets_path, constants  # here, because importing it takes some 60 ms

        assets = constants.HF_ASSETS_CACHE
        return cached_assets_path("worth-compiling", self._shared.dataset, assets_dir=assets)

    def _fetch(self) -> None:
        """Makes the folder a copy of the newest files.

        Raises what huggingface_hub raises, and ConnectionError where a file has not arrived.
        """
        from huggingface_hub import HfApi, hf_hub_download
        from huggingface_hub.utils import disable_progress_bars

        disable_progress_bars()
        folder, dataset, endpoint = self._folder(), self._shared.dataset, hub.endpoint()
        about = HfApi(endpoint=endpoint).dataset_info(dataset, files_metadata=True, timeout=REQUEST_SECONDS)
        sizes, self._cut = _newest_files(about.siblings or ())
        # what is listed is what is fetched, whatever is pushed in between
        asked: dict[str, Any] = {"revision": about.sha, "endpoint": endpoint, "etag_timeout": REQUEST_SECONDS}
        for name, size in sizes.items():
            if _size(folder / name) != size:
                hf_hub_download(dataset, name, repo_type="dataset", local_dir=folder, **asked)
            if _size(folder / name) != size:
                raise ConnectionError(f"the Hub stopped answering before {name}")
        for file in (folder / ROWS).glob("*.parquet"):
            if f"{ROWS}/{file.name}" not in sizes:
                file.unlink()
        (folder / _FETCHED).touch()

    def _publish(self) -> None:
        """Shows the newest rows of the folder, if it was ever a whole copy."""
        folder = self._folder()
        if not (folder / _FETCHED).exists():
            return
        rows: dict[str, SharedRow] = {}
        bad_rows = bad_files = 0
        unread = sorted((folder / ROWS).glob("*.parquet"))
        while unread and len(rows) < shared_rows.MAX_ROWS:
            place = unread.pop()
            try:
                found, bad = _read(place, place.stat().st_mtime_ns)
            except Exception:  # pandas and pyarrow raise several kinds; none of them may cost more than this file
                bad_files += 1
            else:
                rows |= {row.id: row for row in found}
                bad_rows += bad
        newest = sorted(rows.values(), key=lambda row: (row.started_at, row.id), reverse=True)
        self._shared = Shared(
            self._shared.dataset,
            tuple(newest[: shared_rows.MAX_ROWS]),
            bad_rows,
            bad_files,
            self._cut or bool(unread) or len(newest) > shared_rows.MAX_ROWS,
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((folder / _FETCHED).stat().st_mtime)),
        )


@lru_cache(maxsize=MAX_FILES)
def _read(place: Path, modified_ns: int) -> tuple[list[SharedRow], int]:
    """What `shared_rows.read` gives, read once for each version of a file."""
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
