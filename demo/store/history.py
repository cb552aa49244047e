"""Every result, failures too, in one SQLite file of the user's, with the runs under way beside it, and its search.

The whole result is kept as its JSON, about 50 kB; the columns beside it repeat a few of its fields, and an index holds
what is searched.

A run under way is a small file with the result to store if it never ends. Its process keeps the file locked; when that
process dies, however it dies, the kernel releases the lock. So a file that can be locked belongs to a run that was
lost. This also works where two apps, or two containers, share the folder.

What is covered:
- What `demo.store.database` lists of the file of results.
- A crash or a kill of the app while a run is under way: the run is stored once, whoever finds its file first. A kill
  between the storing of a result and the removal of its file does not replace that result.
- A file of a run that is cut short, by a full disk or by a machine that goes down: it is removed, and its run is not
  stored. Where it could not be written, the run goes on without it, and a warning is logged.

What is not covered: network file systems where `flock` does not reach the other machines.
"""

import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import sqlite3
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from demo.core.measurement import CompileCost
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, BadInput
from demo.store import database as file
from demo.store.database import FOLDER_VARIABLE, SEARCHED, TOLD, DamagedFile, HistoryError
from demo.store.reruns import NEWEST, REREAD, StoredRun, compiled_spec, reread

FILE_NAME = "history.sqlite3"
_CACHED_RESULTS = 128
"""Results kept in memory once read, so that a list shown again does not compute its intervals again."""

_OF_THE_MODEL = "checkpoint = :checkpoint AND batch_size = :batch_size AND mode = :mode AND dtype = :dtype"
_OF_THE_MACHINE = "device_name = :device_name AND torch = :torch"

_log = logging.getLogger(__name__)


def default_folder() -> Path:
    """The platform's folder for an app's data, or what the environment names. Raises HistoryError without a home."""
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
                limit = None if limit is None else limit - 1
                if limit == 0:
                    return

    def compile_costs(self, like: RunResult) -> dict[str, CompileCost]:
        """The compile costs, 'cold' and 'warm', of the newest runs of the same model, settings, versions and device."""

        def compiled_as(one: RunResult) -> tuple[object, ...]:
            machine = one.environment
            versions = machine and (machine.transformers, machine.python)
            return compiled_spec(one.spec), versions, machine and machine.settings.get("instructions")

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
        if like.environment is None:
            return []
        values = {name: getattr(like.spec, name) for name in ("checkpoint", "batch_size", "mode", "dtype")}
        values |= {"id": like.id, "device_name": like.environment.device_name, "torch": like.environment.torch}
        newest = f"ORDER BY started_at DESC, rowid DESC LIMIT {most}"
        return self._read(f"SELECT {what} FROM results WHERE {where} {newest}", values)

    def count(self, search: str = "") -> int:
        """How many results are stored, readable or not; of those that `search` keeps. Raises as `each` does."""
        return len(self._keys(search))

    def _keys(self, search: str, checkpoints: Collection[str] | None = None) -> list[tuple[Any, ...]]:
        where, values = _condition(search)
        if checkpoints is not None:
            where = f"{where} AND checkpoint IN ({', '.join('?' * len(checkpoints))})"
            values += map(_encoded, checkpoints)
        source = "results"
        if search.split():
            with contextlib.suppress(HistoryError):  # a file of an older version that cannot be written lacks it
                self._read(file.INDEX)
                source = "results INDEXED BY results_by_words"
        return self._read(f"SELECT rowid FROM {source} WHERE {where} ORDER BY started_at DESC, rowid DESC", values)

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
            # First, because it fails where the file and its other tables are another program's.
            removed = database.execute("DELETE FROM results WHERE id IN (SELECT value FROM json_each(?))", (named,))
            for table in ("search_words", "summaries"):  # in which earlier versions kept texts of results
                database.execute(f"DROP TABLE IF EXISTS {table}")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return removed.rowcount

    def get(self, id: str) -> RunResult | None:
        """The result with this id, or None. Raises HistoryError where its row cannot be read."""
        rows = self._read("SELECT result FROM results WHERE id = ?", (_encoded(id),))
        try:
            return _result(rows[0][0]) if rows else None
        except ValueError as error:
            raise HistoryError(f"The result {id} in {self.path} cannot be read: {error}.") from error

    @property
    def running(self) -> Path:
        """The folder of the runs under way."""
        return self.path.with_suffix(".running")

    def begin_run(self, if_lost: RunResult) -> BinaryIO | None:
        """The open file with the result to store if the process dies before `end_run`; None where it cannot be."""
        marker = None
        try:
            self.running.mkdir(parents=True, exist_ok=True)
            marker = (self.running / f"{if_lost.id}.json").open("xb")
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            marker.write(if_lost.dumps().encode("utf-8", "backslashreplace"))
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
        """Call it when the run has ended, stored or not. What a read-only disk keeps, the next start removes."""
        with contextlib.suppress(OSError), marker:
            os.unlink(marker.name)

    def recover(self) -> int:
        """Stores every run whose process is gone; how many there were. A file that cannot be read is removed."""
        try:
            paths = sorted(self.running.glob("*.json"))
        except (OSError, HistoryError):
            return 0
        return sum(self._recovered(path) for path in paths)

    def _recovered(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                try:
                    result = RunResult.from_json(json.loads(file.read()))
                    is_new = self.get(result.id) is None  # else its process died after storing it
                    if is_new:
                        self.append(result)
                except (ValueError, RecursionError):  # cut short
                    is_new = False
                path.unlink(missing_ok=True)
                return is_new
        except (OSError, HistoryError) as error:  # BlockingIOError: the run is still going on
            _log.info("%s is left for later: %s", path.name, error)
            return False

    def _read(self, statement: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """The rows that the statement gives; none where there is no file yet."""
        if not file.exists(self.path):
            return []
        with self._database("read") as database:
            return database.execute(statement, values).fetchall()

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


# Searching

MAX_WORDS = 20
"""Each word of a search is a term of SQLite's condition, and a thousand are too many for it."""


_STATUS_WORDS = {
    "ok": "finished",
    "out_of_memory": "out of memory",
    "compile_failed": "did not compile",
    "timed_out": "took too long",
}
_VERDICT_WORDS = {"same": "same no difference", "unsure": "unsure too noisy to tell, no clear difference"}
_OPTION_WORDS = {name: option.label.lower() for name, option in OPTIONS.items() if option.kind == "switch"}
"""What the page says of a run, by what is stored."""


def _departs(name: str) -> str:
    """SQL for the runs whose option of this name is not at its default. Older runs lack newer options."""
    default = json.dumps(OPTIONS[name].default)
    return f"(instr({TOLD}, '\"{name}\":') > 0 AND instr({TOLD}, '\"{name}\":{default}') = 0)"


def _condition(search: str) -> tuple[str, list[str]]:
    """SQL for the rows that hold every word of `search`, and its values. Raises BadInput."""
    words = search.lower().split()
    if len(words) > MAX_WORDS:
        raise BadInput(f"A search has at most {MAX_WORDS} words. Given: {len(words)}. Leave some out.")
    terms = []
    for word in words:
        either = [f"instr({SEARCHED}, ?) > 0"]
        either.append(f"instr({TOLD}, ':\"' || ?) > 0")  # the value of an option, such as "layers"
        either += [f"status = '{status}'" for status, text in _STATUS_WORDS.items() if word in text]
        either += [f"{TOLD} LIKE '[\"{verdict}\"%'" for verdict, text in _VERDICT_WORDS.items() if word in text]
        either += [_departs(name) for name, text in _OPTION_WORDS.items() if word in text]
        terms.append(f"({' OR '.join(either)})")
    return " AND ".join(terms) or "1", [_encoded(word) for word in words for _ in range(2)]
