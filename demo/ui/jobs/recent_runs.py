"""The stored results, for the forecast: read again only when the file has changed, as every change of the form asks."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from demo.core.result import RunResult
from demo.store.history import History, HistoryError

MOST = 100
"""So many of the latest: fewer than `History` keeps in memory, so that after a run only the new one is read."""

_log = logging.getLogger(__name__)


class Earlier:
    def __init__(self, history: History) -> None:
        self._history = history
        self._lock = threading.Lock()
        self._seen: tuple[float, ...] | None = None
        self._runs: list[RunResult] = []

    def runs(self) -> list[RunResult]:
        """Newest first. None at all where they cannot be read: a forecast can do without."""
        with self._lock:
            try:
                changed = tuple(_changed_at(path) for path in self._files())
                if changed != self._seen:
                    self._runs, self._seen = self._history.all(limit=MOST), changed
            except HistoryError as error:
                _log.warning("no earlier runs for the forecast: %s", error)
                self._runs = []
            return self._runs

    def _files(self) -> tuple[Path, Path]:
        """SQLite's file, and the log beside it that takes the latest writes."""
        path = self._history.path
        return path, path.with_name(path.name + "-wal")


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0.0
