"""Runs that have begun and not ended, one small file each: what is stored of a run whose app was killed in the middle.

A file holds the result that the run has if nobody ever ends it. Its writer keeps it locked; the kernel takes the lock
away when the process dies, however it dies. So a file that can be locked is a run that was lost, also where two apps,
or two containers, share the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from pathlib import Path

from demo.core.result import RunResult
from demo.store.history import History, HistoryError

_log = logging.getLogger(__name__)


class Journal:
    """The runs under way that belong to one history, in a folder beside its file."""

    def __init__(self, history: History) -> None:
        self._history = history

    @property
    def folder(self) -> Path:
        return self._history.path.with_suffix(".running")

    def begin(self, if_lost: RunResult) -> Entry | None:
        """Writes down what to store if this process dies before the run ends; None where that cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{if_lost.id}.json"
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except (OSError, HistoryError) as error:
            _log.warning("a run that has begun could not be written down: %s", error)
            return None
        entry = Entry(path, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            rest = if_lost.dumps().encode("utf-8", "backslashreplace")
            while rest:  # a disk that is nearly full takes a part, and says only at the next one that it is
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        except OSError as error:
            _log.warning("a run that has begun could not be written down: %s", error)
            entry.end()
            return None
        return entry

    def recover(self) -> int:
        """Stores every run whose process is gone; how many there were. A file that cannot be read is removed."""
        try:
            lost = sorted(self.folder.glob("*.json"))
        except (OSError, HistoryError):
            return 0
        return sum(self._stored(path) for path in lost)

    def _stored(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                try:
                    result = RunResult.from_json(json.loads(file.read()))
                    # A run that had already been stored when its process died keeps what was stored.
                    new = self._history.get(result.id) is None
                    if new:
                        self._history.append(result)
                except ValueError:  # cut short: the disk was full, or the machine went down
                    new = False
                path.unlink(missing_ok=True)
                return new
        except (OSError, HistoryError) as error:  # BlockingIOError: that run is still going on
            _log.info("%s is left for later: %s", path.name, error)
            return False


class Entry:
    """One run under way."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file

    def end(self) -> None:
        """The run has ended and its result is stored, or could not be: nothing is left to recover.

        Where the file cannot be removed, as on a disk that has become read-only, the next start does so.
        """
        with contextlib.suppress(OSError):
            self._path.unlink()
        os.close(self._file)
