"""Every result, failures too, in one SQLite file of the user's: what was measured is never lost.

The whole result is kept as its JSON; the columns beside it repeat a few of its fields so that they can be searched.
Several processes may write at once (the page, a sweep, a terminal).
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import re
import sqlite3
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from demo.core import format as fmt
from demo.core import limits
from demo.core.languages import LANGUAGES
from demo.core.result import STATUSES, BadInput, CompileCost, RunResult, RunSpec

FOLDER_VARIABLE = "WORTH_COMPILING_DATA"
FILE_NAME = "history.sqlite3"
FILE_VERSION = 1
BUSY_SECONDS = 30.0
"""How long a writer waits for another one. A write takes milliseconds; a busy disk may take seconds."""

_CREATE = """
CREATE TABLE IF NOT EXISTS results (
    id TEXT PRIMARY KEY,
    started_at TEXT NOT NULL,
    status TEXT NOT NULL,
    task TEXT NOT NULL,
    checkpoint TEXT NOT NULL,
    batch_size INTEGER NOT NULL,
    mode TEXT NOT NULL,
    dtype TEXT NOT NULL,
    device TEXT NOT NULL,
    weights TEXT NOT NULL,
    device_name TEXT,
    torch TEXT,
    result TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS results_by_time ON results (started_at);
"""
_COLUMNS = (
    "id", "started_at", "status", "task", "checkpoint", "batch_size", "mode", "dtype", "device", "weights",
    "device_name", "torch", "result"
)  # fmt: skip
_INSERT = (
    f"INSERT INTO results ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) ON CONFLICT (id) DO NOTHING"
)
_SEARCHED = (
    "id", "started_at", "status", "task", "checkpoint", "mode", "dtype", "device", "weights", "device_name", "torch"
)  # fmt: skip
MOST_WORDS = 20
"""Of a search: each is one more term of SQLite's condition, and a thousand are too many for it."""
_KEPT_READ = 128
"""Results kept in memory once read, so that a list shown again does not compute its intervals again."""

_SAME_MODEL = """
SELECT result FROM results
WHERE checkpoint = ? AND batch_size = ? AND mode = ? AND dtype = ? AND device_name = ? AND torch = ?
ORDER BY started_at DESC, rowid DESC LIMIT 20
"""

_log = logging.getLogger(__name__)


class HistoryError(Exception):
    """The file of results cannot be written or read. The message is a whole sentence with the way out."""


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
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        named = os.environ.get("XDG_DATA_HOME", "")
        base = Path(named) if os.path.isabs(named) else home / ".local" / "share"
    return base / "worth-compiling"


class DamagedFile(HistoryError):
    """SQLite cannot read the file: it is none of its own, or parts of it were overwritten."""


class _StrangeVersion(sqlite3.DatabaseError):
    """The file's version is none that this program will ever have."""


DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
DOUBTFUL = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG)
"""What SQLite says of a file with other tables than ours, or a changed header, too: one has to look."""
MOST_VERSION = 1000
HEADER_BYTES, WRITE_VERSION = 20, 18
LATEST_WRITE_VERSION = 2
"""The header's byte that tells who may write: SQLite takes a file with a higher one for one that nobody may."""


class History:
    """The stored results. Opens the file anew for each call, so one object serves any number of threads."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._damaged = False
        """A reader has found that SQLite cannot read the file: the next writer starts a new one."""

    @property
    def path(self) -> Path:
        return self._path or default_folder() / FILE_NAME

    def append(self, result: RunResult) -> str | None:
        """Stores one result; it is on the disk when this returns.

        The same result twice is stored once. Another result under an id that is taken, a full disk, a file that has
        reached its limit or a folder that cannot be written raise HistoryError. A file that is damaged is kept aside
        and a new one is started: the sentence that says so is what this returns then, else None.
        """
        try:
            if not self._damaged:
                self._store(result)
                return None
        except DamagedFile:
            pass
        aside = _set_aside(self.path)
        self._damaged = False
        self._store(result)
        if aside is None:
            return None
        return f"The file of results was damaged. It is kept as {aside.name}, and a new one was started beside it."

    def _store(self, result: RunResult) -> None:
        text = _encoded(result.dumps())
        spec, environment = result.spec, result.environment
        row = (
            result.id,
            result.started_at,
            result.status,
            spec.task,
            _encoded(spec.checkpoint),
            spec.batch_size,
            spec.mode,
            spec.dtype,
            spec.device,
            spec.weights,
            environment.device_name if environment else None,
            environment.torch if environment else None,
            text,
        )
        with self._database("stored") as database:
            stored = database.execute(_INSERT, row)
            if stored.rowcount:
                return
            other = database.execute("SELECT result FROM results WHERE id = ?", (result.id,)).fetchone()
        if other != (text.encode(),):
            raise HistoryError(f"The result was not stored: {self.path} holds another one with the id {result.id}.")

    def all(
        self, limit: int | None = None, search: str = "", checkpoints: Collection[str] | None = None
    ) -> list[RunResult]:
        """The stored results, newest first, at most `limit`. A row that cannot be read is passed over and logged.

        `search` leaves those that hold each of its words somewhere in their id, time, status, task, checkpoint,
        mode, dtype, device, weights or torch version, or in what came of them ("slower", "did not compile"), whatever
        the case; more than `MOST_WORDS` raise BadInput. `checkpoints` leaves those of these.
        """
        where, words = _matching(search)
        if checkpoints is not None:
            where = f"{where} AND checkpoint IN ({', '.join('?' * len(checkpoints))})"
            words += map(_encoded, checkpoints)
        if not self._exists():
            return []
        found: list[RunResult] = []
        with self._database("read") as database:
            for name, text in database.execute(
                f"SELECT id, result FROM results WHERE {where} ORDER BY started_at DESC, rowid DESC", words
            ):
                if limit is not None and len(found) >= limit:
                    break
                try:
                    found.append(_result(text))
                except ValueError as error:
                    _log.warning("%s: the row %r cannot be read and is passed over: %s", self.path, name, error)
        return found

    def compile_costs(self, like: RunResult) -> dict[str, CompileCost]:
        """What the newest earlier runs of the same model, settings, versions and device measured: 'cold', 'warm'."""
        if like.environment is None or not self._exists():
            return {}
        found: dict[str, CompileCost] = {}
        key = (like.spec.checkpoint, like.spec.batch_size, like.spec.mode, like.spec.dtype)
        with self._database("read") as database:
            rows = database.execute(_SAME_MODEL, (*key, like.environment.device_name, like.environment.torch))
            for (text,) in rows:
                try:
                    earlier = _result(text)
                except ValueError:
                    continue
                if earlier.compilation is None or _compiled(earlier.spec) != _compiled(like.spec):
                    continue
                if earlier.environment is None or earlier.environment.transformers != like.environment.transformers:
                    continue
                for cache in ("cold", "warm"):
                    cost: CompileCost | None = getattr(earlier.compilation, cache)
                    if cost is not None and not cost.run_id:
                        found.setdefault(cache, dataclasses.replace(cost, run_id=earlier.id))
        return found

    def count(self, search: str = "") -> int:
        """How many results are stored, readable or not; of those that `search` leaves. Raises as `all` does."""
        where, words = _matching(search)
        if not self._exists():
            return 0
        with self._database("read") as database:
            (number,) = database.execute(f"SELECT COUNT(*) FROM results WHERE {where}", words).fetchone()
        return int(number)

    def delete(self, ids: Iterable[str]) -> int:
        """Removes these results for good, and gives how many there were. The file keeps no trace of them."""
        if not self._exists():
            return 0
        removed = 0
        with self._database("deleted") as database:
            database.execute("PRAGMA secure_delete = ON")
            for id in set(ids):
                removed += database.execute("DELETE FROM results WHERE id = ?", (_encoded(id),)).rowcount
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return removed

    def get(self, id: str) -> RunResult | None:
        """The result with this id, or None. Raises HistoryError where its row cannot be read."""
        if not self._exists():
            return None
        with self._database("read") as database:
            row = database.execute("SELECT result FROM results WHERE id = ?", (_encoded(id),)).fetchone()
        try:
            return None if row is None else _result(row[0])
        except ValueError as error:
            raise HistoryError(f"The result {id} in {self.path} cannot be read: {error}.") from error

    def _exists(self) -> bool:
        try:
            return self.path.exists()
        except OSError as error:  # a name that is too long, a folder that is locked
            raise HistoryError(
                f"Results cannot be read in {self.path}: {error.strerror}. Allow it, or set {FOLDER_VARIABLE} to "
                "another folder."
            ) from error

    @contextmanager
    def _database(self, purpose: str) -> Iterator[sqlite3.Connection]:
        """A connection that commits each statement, with the table in place; SQLite's errors become HistoryError."""
        path = self.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            database = _opened(path)
            try:
                yield database
            finally:
                database.close()
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            if _is_damage(error, path):
                self._damaged = True
                raise DamagedFile(
                    f"Results cannot be {purpose} in {path}: the file is damaged ({error}). The next run keeps it "
                    f"aside and starts a new one; to look elsewhere, set {FOLDER_VARIABLE} to another folder."
                ) from error
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL and _is_at_its_limit(path):
                raise HistoryError(
                    f"The file of results has reached its limit of {fmt.size(limits.current().history_bytes)}. Raise "
                    f"{limits.variable('history_bytes')}, or set {FOLDER_VARIABLE} to another folder."
                ) from error
            raise HistoryError(
                f"Results cannot be {purpose} in {path}: {error}. Make room there and allow writing, "
                f"or set {FOLDER_VARIABLE} to another folder."
            ) from error


def _opened(path: Path, alone: bool = False) -> sqlite3.Connection:
    """With the table in place.

    On a full disk SQLite has no room for the memory that a file's users share, and even reading fails: then the file
    is opened for this connection alone, which needs none.
    """
    database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        database.text_factory = bytes  # a row of broken UTF-8 must not end the listing of the others
        if alone:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
        _prepare(database)
        return database
    except BaseException as error:
        database.close()
        if alone or getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_IOERR:
            raise
    return _opened(path, alone=True)


def _in_words(value: str, words: Mapping[str, str]) -> str:
    """SQL for what the page says instead of the stored `value`."""
    quoted = {stored: said.replace("'", "''") for stored, said in words.items()}
    cases = " ".join(f"WHEN '{stored}' THEN '{said}'" for stored, said in quoted.items())
    return f"CASE {value} {cases} END"


def _in_all_languages(*keys: str) -> str:
    said = " ".join(language.texts[key] for language in LANGUAGES.values() for key in keys)
    return re.sub(r"\{\w+\}", "", said)


_VERDICTS = {
    "faster": _in_all_languages("answer_faster"),
    "slower": _in_all_languages("answer_slower"),
    "same": f"same {_in_all_languages('answer_same')}",
    "unsure": f"unsure {_in_all_languages('unsure_figure', 'unsure_after')}",
}
_OUTCOME = (
    _in_words("status", {status: _in_all_languages(f"status_{status}") for status in STATUSES}),
    _in_words("CASE WHEN json_valid(result) THEN json_extract(result, '$.speedup.verdict') END", _VERDICTS),
)


def _matching(search: str) -> tuple[str, list[Any]]:
    """The condition of a query for rows that hold every word of `search`, and its values. Raises BadInput."""
    if len(search.split()) > MOST_WORDS:
        raise BadInput(f"A search has at most {MOST_WORDS} words. Given: {len(search.split())}. Leave some out.")
    everything = " || ' ' || ".join(f"COALESCE({column}, '')" for column in (*_SEARCHED, *_OUTCOME))
    words = [_encoded(word.lower()) for word in search.split()]
    condition = " AND ".join([f"instr(lower({everything}), ?) > 0"] * len(words))
    return condition or "1", words


def _prepare(database: sqlite3.Connection) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= MOST_VERSION:
        raise _StrangeVersion(f"its format is said to be {version}")
    if version > FILE_VERSION:
        raise sqlite3.DatabaseError(f"a newer version of this program wrote the file (format {version})")
    database.execute("PRAGMA synchronous = FULL")
    (page,) = database.execute("PRAGMA page_size").fetchone()
    database.execute(f"PRAGMA max_page_count = {max(1, limits.current().history_bytes // page)}")
    if version == FILE_VERSION:
        return
    _enter_wal(database)
    database.executescript(f"BEGIN IMMEDIATE; {_CREATE} PRAGMA user_version = {FILE_VERSION}; COMMIT;")


def _is_at_its_limit(path: Path) -> bool:
    """Else it is the disk that is full."""
    files = (path, path.with_name(path.name + "-wal"))
    size = sum(file.stat().st_size for file in files if file.exists())
    return size > 0.9 * limits.current().history_bytes


def _is_damage(error: Exception, path: Path) -> bool:
    """Whether the file itself is why SQLite, or Python with a message of SQLite's that is no text, raised `error`."""
    if isinstance(error, UnicodeDecodeError | _StrangeVersion):
        return True
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in DAMAGED or (code in DOUBTFUL and not _is_sound(path))


def _set_aside(path: Path) -> Path | None:
    """Renames a damaged file and what SQLite keeps beside it. None where another process has done so meanwhile."""
    try:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if _is_sound(path):
                return None
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
            aside = path.with_name(f"{path.name}.damaged-{stamp}")
            for end in ("-wal", "-shm", ""):
                with contextlib.suppress(FileNotFoundError):
                    path.with_name(path.name + end).rename(aside.with_name(aside.name + end))
            _log.warning("%s was damaged and is kept as %s", path, aside.name)
            return aside
        finally:
            os.close(folder)
    except OSError as error:
        raise HistoryError(
            f"The file of results {path} is damaged and cannot be kept aside: {error}. Move it away, "
            f"or set {FOLDER_VARIABLE} to another folder."
        ) from error


def _is_sound(path: Path) -> bool:
    """Whether SQLite can read and write the file, and it holds our table, if any. Where nobody can say, it is."""
    if not path.exists():
        return True
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
        if len(header) == HEADER_BYTES and header[WRITE_VERSION] > LATEST_WRITE_VERSION:
            return False
        with contextlib.closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version == FILE_VERSION:
                database.execute(f"EXPLAIN {_INSERT}", [None] * len(_COLUMNS))
                database.execute(f"EXPLAIN SELECT {', '.join(_COLUMNS)} FROM results")
            return 0 <= version <= MOST_VERSION and database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    except UnicodeDecodeError:
        return False
    except (sqlite3.Error, OSError) as error:
        return getattr(error, "sqlite_errorcode", 0) & 0xFF not in (*DAMAGED, sqlite3.SQLITE_ERROR)


def _enter_wal(database: sqlite3.Connection) -> None:
    """Write-ahead logging, kept in the file from then on.

    SQLite answers 'database is locked' at once, whatever the busy timeout, when two processes that have just
    created the file ask at the same moment; so this asks again.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL").fetchone()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _encoded(text: str) -> str:
    """`text` without lone surrogates (a file name may hold some): inside JSON they become escapes of the same."""
    return text.encode("utf-8", "backslashreplace").decode()


def _compiled(spec: RunSpec) -> RunSpec:
    """The spec without what decides only how it is timed."""
    return dataclasses.replace(
        spec, iterations=None, protocol="interleaved", precision=0.01, most_seconds=3.5, cache="keep", profile="auto"
    )


@lru_cache(maxsize=_KEPT_READ)
def _result(text: bytes) -> RunResult:
    """Raises ValueError for anything that is not a result."""
    try:
        return RunResult.from_json(json.loads(text))
    except (TypeError, RecursionError) as error:  # a damaged row may hold a number, or nothing
        raise ValueError(f"it is no result: {error}") from error
