"""Stores every result, even of failed runs, in the user's SQLite file.

For each run in progress, a locked file holds a result, usually with the status 'interrupted'. If the program dies, the
kernel releases the lock, and the next start of the program stores this result. Not covered: network file systems on
which a `flock` lock does not hold on other machines.
"""

import contextlib
import dataclasses
import errno
import fcntl
import json
import logging
import os
import sqlite3
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ..core.measurement import CompileCost
from ..core.options import BadInput
from ..core.result import RunResult
from ..core.result_json import dumps, from_json
from .database import FOLDER_VARIABLE, PAGE_BYTES, HistoryError, SetAside, cannot, open_database
from .reruns import NEWEST, StoredRun, compiled_spec, dump_rerun, load_rerun, versions

FILE_NAME = "history.sqlite3"
MAX_SEARCHED = 10_000
"""How many of the newest results a search looks into."""
MAX_WORDS = 20
PROBE_BYTES = 1_000_000
"""How many bytes are written to see whether the folder takes a result: as many as a large result has."""
_CACHED_RESULTS = 256
"""How many results stay in memory, so that showing a list again does not compute their intervals again."""
_SAME_MACHINE = "device_name = :device_name AND torch = :torch"
_SAME_MODEL = "checkpoint = :checkpoint AND batch_size = :batch_size AND mode = :mode AND dtype = :dtype"
_NEWEST_FIRST = "ORDER BY started_at DESC, rowid DESC"
_log = logging.getLogger(__name__)


def default_folder() -> Path:
    """Returns the folder for results: WORTH_COMPILING_DATA if it is set, else usually ~/.local/share/worth-compiling.

    Raises HistoryError for a user without a home folder.
    """
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    try:
        return Path(os.environ.get(FOLDER_VARIABLE) or f"{data}/worth-compiling").expanduser()
    except RuntimeError as error:
        raise HistoryError(
            f"This user has no home folder to keep results in. Set {FOLDER_VARIABLE} to a folder that can be written."
        ) from error


class History:
    """The stored results. Every call opens the file again, so threads can share one object."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._notice = ""
        """The message of the last SetAside, until a result is stored with it; '' for none."""

    @property
    def path(self) -> Path:
        return self._path or default_folder() / FILE_NAME

    def append(self, result: RunResult) -> RunResult:
        """Stores one result and returns it as stored. When this method returns, the result is on the disk.

        If an unusable file of results was renamed, now or by an earlier call, the stored result has a caveat that says
        so. Raises HistoryError if the disk is full or not writable, or if a stored result has the same id.
        """
        try:
            stored = self._store(result)
        except HistoryError:  # once more: this or another process may have renamed an unusable file
            stored = self._store(result)
        self._notice = ""
        return stored

    def overwrite(self, result: RunResult) -> None:
        """Replaces the stored result that has the id of `result`. Does nothing if no result has this id.

        Its columns for searches and reruns stay as they were. Raises HistoryError if the file cannot be written.
        """
        with self._database("stored") as database:
            text = _escape_surrogates(dumps(result))
            database.execute("UPDATE results SET result = ? WHERE id = ?", (text, _escape_surrogates(result.id)))

    def probe(self) -> None:
        """Raises HistoryError if a result could not be stored now. Nothing is stored.

        To find out, it writes a temporary file of PROBE_BYTES into the folder, which is created if it does not exist.
        It also checks that the file of results can be read, can be written and is not full.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path.parent) as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
            if self.path.exists() and not os.access(self.path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise cannot("stored", self.path, error) from error
        with self._database("read") as database:  # finds a damaged, newer or full file
            full = "PRAGMA page_count", "PRAGMA max_page_count", "PRAGMA freelist_count"
            pages, most, free = (database.execute(question).fetchone()[0] for question in full)
        if (most - pages + free) * PAGE_BYTES < PROBE_BYTES:
            raise cannot("stored", self.path, OSError(errno.EFBIG, "the file has reached its largest size"))

    def _store(self, result: RunResult) -> RunResult:
        result = result.with_note(self._notice) if self._notice else result
        row = {"id": result.id, "started_at": result.started_at, **_searched_columns(result)}
        row |= {"words": _search_text(result), "rerun": dump_rerun(result), "result": dumps(result)}
        values = [_escape_surrogates(value) if isinstance(value, str) else value for value in row.values()]
        with self._database("stored") as database:
            database.execute(f"INSERT INTO results ({', '.join(row)}) VALUES ({_places(row)})", values)
        return result

    def all(
        self, limit: int | None = None, search: str = "", checkpoints: Collection[str] | None = None
    ) -> list[RunResult]:
        """Returns the results that `each` yields, at most `limit` (None: all).

        A result needs up to some hundred kilobytes of memory.
        """
        return list(islice(self.each(search, checkpoints), limit))

    def each(self, search: str = "", checkpoints: Collection[str] | None = None) -> Iterator[RunResult]:
        """Yields the results, newest first. A row that cannot be read is logged and skipped.

        - `search`: words that a result must all contain, in its id, date, status, checkpoint, settings, device or
          verdict; '' for no condition. Only the newest `MAX_SEARCHED` results are searched. Raises BadInput for more
          than `MAX_WORDS` words.
        - `checkpoints`: only results of these checkpoints; None for all.
        """
        # One query for each result: while a single long query runs, SQLite cannot empty its write-ahead log.
        row_ids = self._row_ids(search, checkpoints)
        with self._database("read") as database:
            for row_id in row_ids:
                row = database.execute("SELECT id, result FROM results WHERE rowid = ?", (row_id,)).fetchone()
                if row is None:  # deleted meanwhile
                    continue
                try:
                    yield _parse_result(row[1])
                except ValueError as error:
                    _log.warning("%s: the row %r cannot be read and is skipped: %s", self.path, row[0], error)

    def count(self, search: str = "") -> int:
        """Returns how many results match `search`, as in `each`; results that cannot be read count, too.

        Raises BadInput for too many words.
        """
        return len(self._row_ids(search))

    def _row_ids(self, search: str, checkpoints: Collection[str] | None = None) -> list[int]:
        words = _escape_surrogates(search.lower()).encode().split()
        if len(words) > MAX_WORDS:
            raise BadInput(f"A search has at most {MAX_WORDS} words. Given: {len(words)}. Leave some out.")
        named = [*map(_escape_surrogates, checkpoints or ())]
        where = "1" if checkpoints is None else f"checkpoint IN ({_places(named)})"
        most = MAX_SEARCHED if words else -1
        newest = self._read(f"SELECT rowid, words FROM results WHERE {where} {_NEWEST_FIRST} LIMIT {most}", named)
        return [row_id for row_id, text in newest if all(word in text for word in words)]

    def get(self, id: str) -> RunResult | None:
        """Returns the result with this id; None if there is none. Raises HistoryError if it cannot be read."""
        rows = self._read("SELECT result FROM results WHERE id = ?", (_escape_surrogates(id),))
        try:
            return _parse_result(rows[0][0]) if rows else None
        except ValueError as error:
            raise HistoryError(f"The result {id} in {self.path} cannot be read: {error}.") from error

    def compile_costs(self, like: RunResult) -> dict[str, list[CompileCost]]:
        """Returns the costs of first calls in stored runs that compiled like `like`, by the state of the compile cache.

        - The keys are 'cold' (empty cache) and 'warm' (filled cache), and the costs are newest first. A key is missing
          if none of the newest 20 runs of the model measured its cost.
        - The runs have the settings, threads, versions and device of `like`; timing options may differ. The run `like`
          itself is left out.
        - Runs whose cores other programs took are used only for a key for which there is no other run.
        """
        wanted = compiled_spec(like.spec), versions(like)
        quiet: dict[str, list[CompileCost]] = {}
        disturbed: dict[str, list[CompileCost]] = {}
        for text in self._column_like(like, "result", f"{_SAME_MODEL} AND {_SAME_MACHINE} AND id <> :id", most=20):
            try:
                earlier = _parse_result(text)
            except ValueError:
                continue
            compiled, settings = earlier.compilation, (compiled_spec(earlier.spec), versions(earlier))
            if compiled is None or settings != wanted:
                continue
            costs = disturbed if earlier.oversubscribed else quiet
            for cache, cost in (("cold", compiled.cold), ("warm", compiled.warm)):
                if cost is not None and not cost.run_id:
                    costs.setdefault(cache, []).append(dataclasses.replace(cost, run_id=earlier.id))
        return disturbed | quiet

    def reruns(self, like: RunResult, same_model: bool = False) -> list[StoredRun]:
        """Returns the newest stored runs with the device and torch version of `like`, without `like` itself.

        With `same_model`, they also have the checkpoint, batch size, mode and dtype of `like`. Runs that later results
        must not use (see `dump_rerun`), such as failed ones, are left out.
        """
        others = f"{_SAME_MACHINE} AND id <> :id AND typeof(rerun) = 'text'"
        others += f" AND {_SAME_MODEL}" if same_model else ""
        return list(filter(None, map(load_rerun, self._column_like(like, "rerun", others, NEWEST))))

    def _column_like(self, like: RunResult, column: str, where: str, most: int) -> list[bytes]:
        # Without an environment, device_name and torch are NULL: no row equals NULL, so nothing is found.
        newest = f"SELECT {column} FROM results WHERE {where} {_NEWEST_FIRST} LIMIT {most}"
        return [value for (value,) in self._read(newest, _searched_columns(like) | {"id": like.id})]

    def delete(self, ids: Iterable[str]) -> int:
        """Deletes the results with these ids and erases their bytes in the file. Returns how many were deleted."""
        named = [_escape_surrogates(id) for id in ids]
        with self._database("deleted") as database:
            database.execute("PRAGMA secure_delete = ON")
            removed = database.execute(f"DELETE FROM results WHERE id IN ({_places(named)})", named)
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else the log keeps the deleted bytes
        return removed.rowcount

    @property
    def running(self) -> Path:
        """The folder that holds one file for each run in progress."""
        return self.path.with_suffix(".running")

    def begin_run(self, if_lost: RunResult) -> BinaryIO | None:
        """Writes a file with `if_lost`, the result that is stored if this process dies during the run, and locks it.

        Returns the open file, to be passed to `end_run`; None if the file cannot be written. `recover` reads the file.
        """
        marker = None
        try:
            self.running.mkdir(parents=True, exist_ok=True)
            marker = (self.running / f"{if_lost.id}.json").open("xb")
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            marker.write(dumps(if_lost).encode("utf-8", "backslashreplace"))
            marker.flush()
            os.fsync(marker.fileno())
        except (OSError, HistoryError) as error:
            _log.warning("the marker of a run could not be written: %s", error)
            if marker is not None:
                self.end_run(marker)
            return None
        return marker

    @staticmethod
    def end_run(marker: BinaryIO) -> None:
        with contextlib.suppress(OSError), marker:  # on a read-only disk `recover` removes it later
            os.unlink(marker.name)

    def recover(self) -> None:
        """Stores, for each run whose process has died, the result that `begin_run` wrote last for it."""
        with contextlib.suppress(OSError, HistoryError):
            for path in sorted(self.running.glob("*.json")):
                self._recover(path)

    def _recover(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with contextlib.suppress(ValueError, RecursionError):  # the file was cut short
                    result = from_json(json.loads(file.read()))
                    if self.get(result.id) is None:  # else its process died after storing it
                        self.append(result)
                path.unlink(missing_ok=True)
        except (OSError, HistoryError) as error:  # BlockingIOError: the run is still going on
            _log.info("%s is left for later: %s", path.name, error)

    def _read(self, statement: str, values: Mapping[str, object] | Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._database("read") as database:
            return database.execute(statement, values).fetchall()

    @contextmanager
    def _database(self, purpose: str) -> Iterator[sqlite3.Connection]:
        """Opens the database with `open_database`.

        If an unusable file was renamed (SetAside), the next stored result gets a caveat that says so. So the user
        learns of it even if a caller that only reads hides the error.
        """
        try:
            with open_database(self.path, purpose) as database:
                yield database
        except SetAside as notice:
            self._notice = str(notice)
            _log.warning("%s: %s", self.path, notice)
            raise


def _places(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def _searched_columns(result: RunResult) -> dict[str, object]:
    spec, machine = result.spec, result.environment
    key = {name: getattr(spec, name) for name in ("checkpoint", "batch_size", "mode", "dtype")}
    return key | {name: machine and getattr(machine, name) for name in ("device_name", "torch")}


def _search_text(result: RunResult) -> str:
    """Returns id, date, status, checkpoint, settings, device, torch and verdict as one text, in lower case."""
    spec, machine = result.spec, result.environment
    texts = [result.id, result.started_at, result.status, spec.task, spec.checkpoint]
    texts += [spec.mode, spec.dtype, spec.device, spec.weights]
    texts += [machine.device_name, machine.torch] if machine is not None else []
    texts += [result.speedup.verdict] if result.speedup is not None else []
    for name, value in spec.departures().items():
        texts += [name, *(value if isinstance(value, tuple) else [value])]
    return "\n".join(map(str, texts)).lower()


def _escape_surrogates(text: str) -> str:
    """Returns the text with lone surrogates, which file names may contain, as escapes such as '\udce9'."""
    return text.encode("utf-8", "backslashreplace").decode()


@lru_cache(maxsize=_CACHED_RESULTS)
def _parse_result(text: bytes) -> RunResult:
    """Returns the result in a stored JSON text. Raises ValueError for any other text."""
    try:
        return from_json(json.loads(text))
    except (TypeError, RecursionError) as error:  # a damaged row may hold a number, or nothing
        raise ValueError(f"it is no result: {error}") from error
