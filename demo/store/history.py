"""Every result, failures too, in one SQLite file of the user's.

The whole result is kept as its JSON; the columns beside it repeat a few of its fields, so that they can be searched.

What is covered: an `append` that has returned survives a crash, a kill and another process that writes. A damaged file
is kept under another name and a new one is started. `demo.store.database` has the list, and what is not covered.
A run that is killed before it ends has not been appended: `demo.store.journal` keeps what is known of it.
"""

import contextlib
import dataclasses
import json
import logging
import os
import sqlite3
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from demo.core.measurement import CompileCost
from demo.core.result import RunResult
from demo.store import database as file, search as searches
from demo.store.database import FOLDER_VARIABLE, DamagedFile, HistoryError
from demo.store.reruns import NEWEST, REREAD, StoredRun, compiled_spec, reread

FILE_NAME = "history.sqlite3"
_CACHED_RESULTS = 128
"""Results kept in memory once read, so that a list shown again does not compute its intervals again."""

_OF_THE_MODEL = "checkpoint = :checkpoint AND batch_size = :batch_size AND mode = :mode AND dtype = :dtype"
_OF_THE_MACHINE = "device_name = :device_name AND torch = :torch"

_log = logging.getLogger(__name__)


def default_folder() -> Path:
    """Where the platform keeps an application's data, unless the environment names a folder.

    Raises HistoryError where the user has no home folder.
    """
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen).expanduser()
    try:
        home = Path.home()
    except RuntimeError as error:
        raise HistoryError(f"This user has no home folder to keep results in. Set {FOLDER_VARIABLE}.") from error
    if sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        named = os.environ.get("XDG_DATA_HOME", "")
        base = Path(named) if os.path.isabs(named) else home / ".local" / "share"
    return base / "worth-compiling"


class History:
    """The stored results. Opens the file anew for each call, so one object serves any number of threads."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._damage = ""
        """Why SQLite cannot read the file, once a call has found that. The next `append` starts a new file."""

    @property
    def path(self) -> Path:
        return self._path or default_folder() / FILE_NAME

    def append(self, result: RunResult) -> str | None:
        """Stores one result; it is on the disk when this returns.

        The same result twice is stored once. Another result under an id that is taken, a full disk, a file that has
        reached its limit or a folder that cannot be written raise HistoryError. A damaged file is renamed and a new one
        is started; then this returns the sentence that says so, else None.
        """
        with contextlib.suppress(DamagedFile):
            if not self._damage:
                self._store(result)
                return None
        aside, why = file.set_aside(self.path), self._damage
        self._damage = ""
        self._store(result)
        if aside is None:
            return None
        return f"The file of results was damaged ({why}). It is kept as {aside}, and a new one was started beside it."

    def _store(self, result: RunResult) -> None:
        spec, machine = result.spec, result.environment
        of_machine = (machine.device_name, machine.torch) if machine is not None else (None, None)
        of_spec = (spec.task, spec.checkpoint, spec.batch_size, spec.mode, spec.dtype, spec.device, spec.weights)
        values = (result.id, result.started_at, result.status, *of_spec, *of_machine, result.dumps())
        row = [_encoded(value) if isinstance(value, str) else value for value in values]
        with self._database("stored") as database:
            file.check_limit(database)
            stored = database.execute(file.INSERT, row)
            if stored.rowcount:
                with contextlib.suppress(sqlite3.Error):  # the result is stored, with the index of searches or without
                    database.execute(searches.MAKE_INDEX)
                return
            other = database.execute("SELECT result FROM results WHERE id = ?", (result.id,)).fetchone()
        if other != (row[-1].encode(),):
            raise HistoryError(f"The result was not stored: {self.path} holds another one with the id {result.id}.")

    def all(
        self, limit: int | None = None, search: str = "", checkpoints: Collection[str] | None = None
    ) -> list[RunResult]:
        """The results that `each` gives, all in memory: up to some hundred kilobytes a result."""
        return list(self.each(limit, search, checkpoints))

    def each(
        self, limit: int | None = None, search: str = "", checkpoints: Collection[str] | None = None
    ) -> Iterator[RunResult]:
        """The stored results, newest first, at most `limit`, read one at a time.

        A row that cannot be read is passed over and logged. `search` keeps those that hold each of its words somewhere
        in their id, time, status, task, checkpoint, mode, dtype, device, weights, torch version, or in what the page
        says of their outcome in any language ("slower", "did not compile"), whatever the case; more than `MAX_WORDS`
        raise BadInput. `checkpoints` keeps those of these checkpoints.
        """
        # One query for the keys and one for each result: sorting the results themselves would hold them all.
        keys = self._keys(search, checkpoints)
        if not keys or limit == 0:
            return
        with self._database("read") as database:
            for key in keys:
                row = database.execute("SELECT id, result FROM results WHERE rowid = ?", key).fetchone()
                if row is None:  # deleted meanwhile
                    continue
                try:
                    result = _result(row[1])
                except ValueError as error:
                    _log.warning("%s: the row %r cannot be read and is passed over: %s", self.path, row[0], error)
                    continue
                yield result
                if limit is not None:
                    limit -= 1
                    if limit == 0:
                        return

    def compile_costs(self, like: RunResult) -> dict[str, CompileCost]:
        """The compile costs, 'cold' and 'warm', of the newest runs of the same model, settings, versions and device."""

        def compiled_as(one: RunResult) -> tuple[object, ...]:
            machine = one.environment
            return compiled_spec(one.spec), machine and (machine.transformers, machine.python, machine.interpreter)

        found: dict[str, CompileCost] = {}
        for (text,) in self._like(like, "result", f"{_OF_THE_MODEL} AND {_OF_THE_MACHINE}", most=20):
            try:
                earlier = _result(text)
            except ValueError:
                continue
            if earlier.compilation is None or compiled_as(earlier) != compiled_as(like):
                continue
            for cache in ("cold", "warm"):
                cost: CompileCost | None = getattr(earlier.compilation, cache)
                if cost is not None and not cost.run_id:
                    found.setdefault(cache, dataclasses.replace(cost, run_id=earlier.id))
        return found

    def reruns(self, like: RunResult, where: str = "1") -> list[StoredRun]:
        """The newest runs on the same device with the same torch that have a speed-up, this one left out."""
        parts = ", ".join(f"'$.{path}'" for path in REREAD)
        others = f"{_OF_THE_MACHINE} AND id <> :id AND status = 'ok' AND json_valid(result) AND {where}"
        rows = self._like(like, f"json_extract(result, {parts})", others, NEWEST)
        return list(filter(None, (reread(json.loads(text)) for (text,) in rows)))

    def same_settings(self, like: RunResult) -> list[StoredRun]:
        """Those `reruns` that have an answer and the same model, batch, mode and number format."""
        return self.reruns(like, f"{_OF_THE_MODEL} AND json_extract(result, '$.process') IS NOT NULL")

    def _like(self, like: RunResult, what: str, where: str, most: int) -> list[tuple[Any, ...]]:
        """The newest rows that fit a condition on the values of `like`; none for a run without a machine."""
        if like.environment is None or not file.exists(self.path):
            return []
        values = {name: getattr(like.spec, name) for name in ("checkpoint", "batch_size", "mode", "dtype")}
        values |= {"id": like.id, "device_name": like.environment.device_name, "torch": like.environment.torch}
        newest = f"ORDER BY started_at DESC, rowid DESC LIMIT {most}"
        with self._database("read") as database:
            return database.execute(f"SELECT {what} FROM results WHERE {where} {newest}", values).fetchall()

    def count(self, search: str = "") -> int:
        """How many results are stored, readable or not; of those that `search` keeps. Raises as `each` does."""
        return len(self._keys(search))

    def _keys(self, search: str, checkpoints: Collection[str] | None = None) -> list[tuple[int]]:
        where, values = searches.condition(search)
        if checkpoints is not None:
            where = f"{where} AND checkpoint IN ({', '.join('?' * len(checkpoints))})"
            values += map(_encoded, checkpoints)
        if not file.exists(self.path):
            return []
        with self._database("read") as database:
            source = searches.source(database) if search.split() else "results"
            newest = "ORDER BY started_at DESC, rowid DESC"
            return database.execute(f"SELECT rowid FROM {source} WHERE {where} {newest}", values).fetchall()

    def stamp(self) -> object:
        """A value that changes when something is written. Looks at the file and its log without opening them."""
        found = []
        with contextlib.suppress(OSError, HistoryError):
            for each in (self.path, self.path.with_name(f"{self.path.name}-wal")):
                seen = each.stat()
                if seen.st_size:  # reading may create and remove an empty log
                    found.append((seen.st_ino, seen.st_size, seen.st_mtime_ns))
        return found

    def delete(self, ids: Iterable[str]) -> int:
        """Removes these results and returns how many there were. Their bytes are overwritten on the disk."""
        if not file.exists(self.path):
            return 0
        named = json.dumps([_encoded(id) for id in ids])
        with self._database("deleted") as database:
            database.execute("PRAGMA secure_delete = ON")
            for table in ("search_words", "summaries"):  # in which earlier versions kept texts of results
                database.execute(f"DROP TABLE IF EXISTS {table}")
            removed = database.execute("DELETE FROM results WHERE id IN (SELECT value FROM json_each(?))", (named,))
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return removed.rowcount

    def get(self, id: str) -> RunResult | None:
        """The result with this id, or None. Raises HistoryError where its row cannot be read."""
        if not file.exists(self.path):
            return None
        with self._database("read") as database:
            row = database.execute("SELECT result FROM results WHERE id = ?", (_encoded(id),)).fetchone()
        try:
            return None if row is None else _result(row[0])
        except ValueError as error:
            raise HistoryError(f"The result {id} in {self.path} cannot be read: {error}.") from error

    @contextmanager
    def _database(self, purpose: str) -> Iterator[sqlite3.Connection]:
        try:
            with file.opened(self.path, purpose) as database:
                yield database
        except DamagedFile as damaged:
            self._damage = damaged.reason
            raise


def _encoded(text: str) -> str:
    """`text` with lone surrogates (a file name may hold some) as escapes, which JSON reads back as the same."""
    return text.encode("utf-8", "backslashreplace").decode()


@lru_cache(maxsize=_CACHED_RESULTS)
def _result(text: bytes) -> RunResult:
    """Raises ValueError for anything that is not a result."""
    try:
        return RunResult.from_json(json.loads(text))
    except (TypeError, RecursionError) as error:  # a damaged row may hold a number, or nothing
        raise ValueError(f"it is no result: {error}") from error
