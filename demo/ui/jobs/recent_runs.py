"""The latest stored results, for the forecast beside the Run button.

Each change of the form asks for them, so they are read again only when the history's file has changed.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from demo.core.result import RunResult
from demo.store.history import History, HistoryError

MAX_RUNS = 100
"""Fewer than `History` keeps in memory, so that after a run only the new result is read from disk."""

_log = logging.getLogger(__name__)


class RecentRuns:
    def __init__(self, history: History) -> None:
        self._history = history
        self._lock = threading.Lock()
        self._changed_at: tuple[float, ...] | None = None
        self._runs: list[RunResult] = []

    def runs(self) -> list[RunResult]:
        """At most MAX_RUNS, newest first; none if the history cannot be read, which the log then says."""
        with self._lock:
            try:
                changed_at = tuple(_changed_at(path) for path in self._files())
                if changed_at != self._changed_at:
                    self._runs, self._changed_at = self._history.all(limit=MAX_RUNS), changed_at
            except HistoryError as error:
                _log.warning("no earlier runs for the forecast: %s", error)
                self._runs = []
            return self._runs

    def _files(self) -> tuple[Path, Path]:
        """SQLite's file and its write-ahead log, which takes the latest writes."""
        path = self._history.path
        return path, path.with_name(path.name + "-wal")


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0.0
