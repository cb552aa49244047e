"""Runs under way, one small file each, so that a run whose app is killed is stored as interrupted at the next start.

A file holds the result to store if its run never ends. The process of the run keeps the file locked; when that process
dies, however it dies, the kernel releases the lock. So a file that can be locked belongs to a run that was lost. This
also works where two apps, or two containers, share the folder.

What is covered:
- A crash or a kill of the app at any moment: the run is stored once, whoever finds its file first. A kill between the
  storing of a result and the removal of its file does not replace that result.
- A file that is cut short, by a full disk or by a machine that goes down: it is removed, and its run is not stored.
- A folder that cannot be written: the run goes on without a file, and a warning is logged.

What is not covered:
- Network file systems where `flock` does not reach the other machines.
- A run whose file could not be written: nothing is stored of it if its app is killed.
"""

import contextlib
import fcntl
import json
import logging
import os
from pathlib import Path
from typing import BinaryIO

from demo.core.result import RunResult
from demo.store.history import History, HistoryError

_log = logging.getLogger(__name__)


class Journal:
    """The runs under way of one history, in a folder beside its file."""

    def __init__(self, history: History) -> None:
        self._history = history

    @property
    def folder(self) -> Path:
        return self._history.path.with_suffix(".running")

    def begin(self, if_lost: RunResult) -> BinaryIO | None:
        """The open file with the result to store if this process dies before `end`. None where it cannot be written."""
        marker = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            marker = (self.folder / f"{if_lost.id}.json").open("xb")
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            marker.write(if_lost.dumps().encode("utf-8", "backslashreplace"))
            marker.flush()
            os.fsync(marker.fileno())
        except (OSError, HistoryError) as error:
            _log.warning("the marker of a run could not be written: %s", error)
            if marker is not None:
                self.end(marker)
            return None
        return marker

    @staticmethod
    def end(marker: BinaryIO) -> None:
        """Call it when the run has ended and its result is stored, or could not be stored.

        Where the file cannot be removed, as on a disk that has become read-only, the next start removes it.
        """
        with contextlib.suppress(OSError), marker:
            os.unlink(marker.name)

    def recover(self) -> int:
        """Stores every run whose process is gone; how many there were. A file that cannot be read is removed."""
        try:
            paths = sorted(self.folder.glob("*.json"))
        except (OSError, HistoryError):
            return 0
        return sum(self._recovered(path) for path in paths)

    def _recovered(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                try:
                    result = RunResult.from_json(json.loads(file.read()))
                    is_new = self._history.get(result.id) is None  # else its process died after storing it
                    if is_new:
                        self._history.append(result)
                except (ValueError, RecursionError):  # cut short
                    is_new = False
                path.unlink(missing_ok=True)
                return is_new
        except (OSError, HistoryError) as error:  # BlockingIOError: the run is still going on
            _log.info("%s is left for later: %s", path.name, error)
            return False
