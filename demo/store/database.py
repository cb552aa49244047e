"""The SQLite file of results: making and opening it, and what to do when it is damaged.

What is covered:
- A crash or a kill at any moment: a result whose `append` has returned is on the disk (write-ahead log, synchronous
  FULL); one that was being written is there whole or not at all.
- Several processes at once, also when all of them create the file: a writer waits up to `BUSY_SECONDS` for another.
- A file that is damaged, cut short or another program's, by SQLite's own quick_check: it is renamed and never
  overwritten.
- A full disk, a file at its limit, a file that may only be read, a file of a newer version: an error with a remedy;
  the file stays as it is. A new file appears once it is whole, so none is left that could not be filled.

What is not covered:
- A folder that may only be read, and a full disk: SQLite needs to write beside the file even to read it.
- A write-ahead log whose main file somebody removed: SQLite removes it with the making of a new file.
- Network file systems, where neither SQLite's locks nor `flock` can be relied on.
- A disk that reports a write as done before it is.
- Damage that quick_check does not see, as inside a value: SQLite keeps no checksums. A row whose JSON became unreadable
  is passed over by `History`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from demo.core import format as fmt
from demo.core import limits

FOLDER_VARIABLE = "WORTH_COMPILING_DATA"
FILE_VERSION = 1
BUSY_SECONDS = 30.0
"""How long a writer waits for another one. A write takes milliseconds; a busy disk may take seconds."""
TABLE = """
CREATE TABLE results (
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
CREATE INDEX results_by_time ON results (started_at);
"""
_COLUMNS = (
    "id", "started_at", "status", "task", "checkpoint", "batch_size", "mode", "dtype", "device", "weights",
    "device_name", "torch", "result"
)  # fmt: skip
INSERT = (
    f"INSERT INTO results ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) ON CONFLICT (id) DO NOTHING"
)

_MAKE_ROOM = "Make room on its disk"
_ALLOW = "Allow writing there, and move away what is in the place of the file or its folder"
_BUSY = f"Another program has held the file for {BUSY_SECONDS:.0f} s: try again, or end that one"
_REMEDIES = {
    sqlite3.SQLITE_FULL: _MAKE_ROOM,
    sqlite3.SQLITE_IOERR: f"{_MAKE_ROOM}, look whether the disk is sound",
    sqlite3.SQLITE_READONLY: _ALLOW,
    sqlite3.SQLITE_PERM: _ALLOW,
    sqlite3.SQLITE_CANTOPEN: _ALLOW,
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_NOMEM: "Free memory and try again",
}
"""The remedy for each of SQLite's errors that comes from the machine. After any other, the file is checked."""
_SHORTEST_FILE = 100
"""Bytes of the header of SQLite's file format."""

_log = logging.getLogger(__name__)


class HistoryError(Exception):
    """The file of results cannot be written or read. The message is a whole sentence with the way out."""


class DamagedFile(HistoryError):
    """SQLite cannot read the file: it is another kind of file, is empty, or parts of it were overwritten."""

    reason = ""
    """Why, in SQLite's words."""


class _Damaged(sqlite3.DatabaseError):
    """Damage that SQLite itself does not report."""


class _Newer(sqlite3.DatabaseError):
    """A newer version of this program wrote the file."""


@contextmanager
def opened(path: Path, purpose: str) -> Iterator[sqlite3.Connection]:
    """A connection that commits each statement, with the table in place. Makes the file and its folder.

    Text is read as bytes. Errors of SQLite and of the system, here and in the statements, become a HistoryError, which
    says what could not be done: `purpose` is 'stored', 'read' or 'deleted'.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent) as folder:
            if not path.exists():
                _make(path)
                os.fsync(folder)
            database = _connected(path)
        with contextlib.closing(database):
            yield database
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:  # the last for a message of SQLite's that is no text
        raise _explained(error, path, purpose) from error


def exists(path: Path) -> bool:
    """Whether the file is there. Raises HistoryError."""
    try:
        return path.exists()
    except OSError as error:  # a name that is too long, a folder that is locked
        raise _explained(error, path, "read") from error


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All statements inside are committed together, or none of them."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # after some errors SQLite has rolled back itself
            database.execute("ROLLBACK")
        raise


def _explained(error: Exception, path: Path, purpose: str) -> HistoryError:
    code = _code(error)
    cannot, elsewhere = f"Results cannot be {purpose} in {path}", f"set {FOLDER_VARIABLE} to another folder."
    if isinstance(error, _Newer):
        remedy = "Update this program"
    elif isinstance(error, OSError):
        remedy = _MAKE_ROOM if error.errno in (errno.ENOSPC, errno.EDQUOT) else _ALLOW
    elif code == sqlite3.SQLITE_FULL and _is_at_its_limit(path):
        return HistoryError(
            f"The file of results has reached its limit of {fmt.size(limits.current().history_bytes)}. Raise "
            f"{limits.variable('history_bytes')}, or {elsewhere}"
        )
    elif code in _REMEDIES:
        remedy = _REMEDIES[code]
    elif code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or not _is_sound(path):
        damaged = DamagedFile(
            f"{cannot}: the file is damaged ({error}). The next run keeps it aside and starts a new one; to look "
            f"elsewhere, {elsewhere}"
        )
        damaged.reason = str(error)
        return damaged
    else:
        remedy = "Its tables are not as this program makes them. Move the file away"
    reason = (isinstance(error, OSError) and error.strerror) or error
    return HistoryError(f"{cannot}: {reason}. {remedy}, or {elsewhere}")


def _is_at_its_limit(path: Path) -> bool:
    """Whether the file is near the limit of the settings: else there is no room on the disk."""
    size = sum(file.stat().st_size for file in (path, log_of(path)) if file.exists())
    return size > 0.9 * limits.current().history_bytes


def log_of(path: Path) -> Path:
    """The write-ahead log: what was stored last stands there, until SQLite moves it into the main file."""
    return path.with_name(path.name + "-wal")


def set_aside(path: Path) -> str | None:
    """Renames a damaged file, its log and its index of the log; the new name. None if another process has done so.

    Raises OSError where it cannot be renamed.
    """
    with _locked(path.parent):
        if not path.exists() or _is_sound(path):
            return None
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
        aside = f"{path.name}.damaged-{stamp}"
        for end in ("-shm", "-wal", ""):
            file = path.with_name(path.name + end)
            if file.exists():
                file.rename(path.with_name(aside + end))
        _log.warning("%s was damaged and is kept as %s", path, aside)
        return aside


def _code(error: Exception) -> int:
    """SQLite's primary result code; 0 for an error that is not SQLite's."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Only one process at a time makes, opens or renames a file of results in this folder, whose descriptor this gives.

    Raises OSError.
    """
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _make(path: Path) -> None:
    """Makes the file under another name, so that it appears whole or, on a full disk, not at all."""
    new, *others = (path.with_name(f"{path.name}.new{end}") for end in ("", "-journal", "-wal", "-shm"))
    try:
        for left in filter(Path.exists, (new, *others)):  # by a program that was killed
            left.unlink()
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as database:
            database.executescript(f"BEGIN; {TABLE} PRAGMA user_version = {FILE_VERSION}; COMMIT;")
            database.execute("PRAGMA journal_mode = WAL")  # last: what stood in a log could be lost without an error
        new.rename(path)
    except BaseException:
        for left in filter(Path.exists, (new, *others)):
            left.unlink()
        raise


def _connected(path: Path) -> sqlite3.Connection:
    """A connection to a file that exists. Raises sqlite3.Error, OSError or UnicodeDecodeError."""
    if path.is_file() and (size := path.stat().st_size) < _SHORTEST_FILE:  # SQLite would make a new one of it,
        raise _Damaged(f"it was cut to {size} bytes" if size else "it is empty: 0 bytes")  # and remove the log
    address = f"{path.absolute().as_uri()}?mode=rw"  # makes no file
    database = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        database.text_factory = bytes  # one row of broken UTF-8 must not end the listing of the others
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version > FILE_VERSION:
            raise _Newer(f"a newer version of this program wrote it (format {version}, this one knows {FILE_VERSION})")
        if version != FILE_VERSION:
            raise _Damaged("it is not a file of this program's")
        database.execute("PRAGMA synchronous = FULL")
        (page,) = database.execute("PRAGMA page_size").fetchone()
        database.execute(f"PRAGMA max_page_count = {max(1, limits.current().history_bytes // page)}")
    except BaseException:
        database.close()
        raise
    return database


def _is_sound(path: Path) -> bool:
    """Whether SQLite finds no damage and a table of ours; True if that is unknown."""
    try:
        with contextlib.closing(_connected(path)) as database:
            database.execute(f"EXPLAIN {INSERT}", [None] * len(_COLUMNS))
            return database.execute("PRAGMA quick_check").fetchone() == (b"ok",)
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        return isinstance(error, OSError | _Newer) or _code(error) in _REMEDIES
