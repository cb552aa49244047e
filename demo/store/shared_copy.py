"""A copy of the shared rows of a dataset: fetched from the Hub in a thread, kept in huggingface_hub's folder of assets.

What is covered: a Hub that is slow, refuses, or cannot be reached (the last copy stays, and the answer says of when it
is); a dataset with more or larger files than fit (the newest days are fetched).
What is not covered: a restart without the Hub shows no rows; a Hub that sends a file slower than anybody waits holds up
later fetches until it ends; a file that was changed and has kept its size is not fetched again; a Hub that is gone in
the middle may leave an older version of a file.
"""

import logging
import re
import threading
import time
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
MAX_FILES, MAX_FILE_BYTES = 200, 4_000_000
_NAME = re.compile(rf"{ROWS}/\d{{4}}-\d\d-\d\d-[A-Za-z0-9]{{1,40}}\.parquet")

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
        try:
            self._shared = self._fetched()
        except Exception as error:  # huggingface_hub and its client raise many kinds, and nobody waits for this
            _log.warning("the dataset %s was not read: %s", self._shared.dataset, error)
            self._shared = replace(self._shared, problem="failed")

    def _fetched(self) -> Shared:
        """The newest rows of the newest files, of which those that are not on this disk are fetched.

        Raises what huggingface_hub raises.
        """
        from huggingface_hub import HfApi, cached_assets_path, constants, hf_hub_download  # it takes some 60 ms
        from huggingface_hub.utils import disable_progress_bars

        disable_progress_bars()
        dataset, endpoint = self._shared.dataset, hub.endpoint()
        folder = cached_assets_path("worth-compiling", dataset, assets_dir=constants.HF_ASSETS_CACHE)
        about = HfApi(endpoint=endpoint).dataset_info(dataset, files_metadata=True, timeout=REQUEST_SECONDS)
        # files of a day to come, by a wrong clock, would always be the newest
        tomorrow = f"{ROWS}/{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}~"
        listed = [file for file in about.siblings or () if _NAME.fullmatch(file.rfilename)]
        sizes = {file.rfilename: file.size or 0 for file in listed if file.rfilename < tomorrow}
        names = sorted(name for name, size in sizes.items() if size <= MAX_FILE_BYTES)[-MAX_FILES:]
        # what is listed is what is fetched, whatever is pushed in between
        asked: dict[str, Any] = {"revision": about.sha, "endpoint": endpoint, "etag_timeout": REQUEST_SECONDS}
        for name in names:
            if not (folder / name).exists() or (folder / name).stat().st_size != sizes[name]:
                hf_hub_download(dataset, name, repo_type="dataset", local_dir=folder, **asked)
        for file in (folder / ROWS).glob("*.parquet"):
            if f"{ROWS}/{file.name}" not in names:
                file.unlink()
        rows: dict[str, SharedRow] = {}
        bad_rows = bad_files = 0
        for name in reversed(names):
            if len(rows) >= shared_rows.MAX_ROWS:
                break
            try:
                found, bad = _read(folder / name, (folder / name).stat().st_mtime_ns)
            except Exception:  # pandas and pyarrow raise several kinds; none of them may cost more than this file
                bad_files += 1
            else:
                rows |= {row.id: row for row in found}
                bad_rows += bad
        cut = len(names) < len(sizes) or len(rows) >= shared_rows.MAX_ROWS
        newest = sorted(rows.values(), key=lambda row: (row.started_at, row.id), reverse=True)
        shown = tuple(newest[: shared_rows.MAX_ROWS])
        return Shared(dataset, shown, bad_rows, bad_files, cut, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


@lru_cache(maxsize=MAX_FILES)
def _read(place: Path, modified_ns: int) -> tuple[list[SharedRow], int]:
    """What `shared_rows.read` gives, read once for each version of a file."""
    return shared_rows.read(place)
