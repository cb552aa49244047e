"""The SQLite file of results: opening it, its versions, and what to do when it is damaged.

What is covered:
- A crash or a kill at any moment: a result whose `append` has returned is on the disk (write-ahead log, synchronous
  FULL); one that was being written is there whole or not at all.
- Several processes at once, also when all of them create the file: a writer waits up to `BUSY_SECONDS` for another.
- A file that is damaged, cut short or replaced by something else: it is recognised, renamed and never overwritten.
  The same for a log whose main file is gone.
- A full disk, a file at its limit, a file that may only be read, a file of a newer version or of another program: an
  error with a remedy; the file stays as it is, and what it holds can still be read where SQLite can read it.

What is not covered:
- A folder that may only be read: SQLite needs to write beside the file even to read it.
- Network file systems, where neither SQLite's locks nor `flock` can be relied on.
- A disk that reports a write as done before it is.
- Damage inside a page that leaves the file's structure intact: SQLite keeps no checksums. A row whose JSON became
  unreadable is passed over by `History`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from demo.core import limits
from demo.store import sqlite_codes as codes
from demo.store.columns import STORED

FILE_VERSION = 1
BUSY_SECONDS = 30.0
"""How long a writer waits for another one. A write takes milliseconds; a busy disk may take seconds."""
TABLE = """
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
_COLUMNS = (*STORED, "result")
INSERT = (
    f"INSERT INTO results ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) ON CONFLICT (id) DO NOTHING"
)

MOVE_AWAY = "Move the file away"
MAKE_ROOM = "Make room on its disk"
ALLOW = "The file or its folder may not be written: allow writing there"
_BUSY = f"Another program has held the file for {BUSY_SECONDS:.0f} s: try again, or end that one"
_REMEDIES = {
    codes.FULL: MAKE_ROOM,
    codes.IOERR: f"{MAKE_ROOM}, look whether the disk is sound",
    codes.READONLY: ALLOW,
    codes.PERM: ALLOW,
    codes.CANTOPEN: ALLOW,
    codes.BUSY: _BUSY,
    codes.LOCKED: _BUSY,
    codes.NOMEM: "Free memory and try again",
    **dict.fromkeys(
        (codes.ERROR, codes.CONSTRAINT, codes.MISMATCH, codes.SCHEMA),
        f"Its tables are not as this program makes them. {MOVE_AWAY}",
    ),
    codes.TOOBIG: "The result is larger than SQLite takes: run with fewer iterations",
}
"""The remedy for each of SQLite's error codes, for a file that is not damaged."""
_SYSTEM_REMEDIES = {
    errno.ENOSPC: MAKE_ROOM,
    errno.EDQUOT: MAKE_ROOM,
    errno.EACCES: ALLOW,
    errno.EPERM: ALLOW,
    errno.EROFS: ALLOW,
    errno.ENOTDIR: "A file is in the place of one of its folders: move that away",
    errno.EEXIST: "A file is in the place of its folder: move that away",
}
_DAMAGE_CODES = (codes.CORRUPT, codes.NOTADB)
_DOUBTFUL_CODES = (codes.ERROR, codes.READONLY, codes.CONSTRAINT, codes.TOOBIG)
"""Codes that SQLite gives for damage, but also for other reasons: the file has to be checked."""
_MAX_VERSION = 1000
"""A higher version number is taken for damage, a lower one for a newer version of this program."""
_HEADER_BYTES, _WRITE_VERSION = 20, 18
_LATEST_WRITE_VERSION = 2
"""Byte 18 of the header is the version that a writer must know. SQLite opens a file with a higher one read-only."""
_SHORTEST_FILE = 100
"""Bytes of the header of SQLite's file format."""

_log = logging.getLogger(__name__)


class _Damaged(sqlite3.DatabaseError):
    """Damage that SQLite itself does not report."""


class _Foreign(sqlite3.DatabaseError):
    """The file is sound, but this version of this program must not write into it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that commits each statement, with the table in place. Makes the file and its folder.

    Text is read as bytes. Raises sqlite3.Error, OSError, or UnicodeDecodeError for a message of SQLite's that is no
    text; `is_damage` and `remedy` tell what they mean.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _make_if_missing(path)
    with contextlib.closing(_connected(path)) as database:
        yield database


def exists(path: Path) -> bool:
    """Whether the file is there, or a log that it has left. Raises OSError."""
    return path.exists() or _left_log(path) is not None


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


def reason(error: Exception) -> str:
    return str((isinstance(error, OSError) and error.strerror) or error)


def remedy(error: Exception, path: Path) -> str:
    """What to do about an error that is no damage, as a sentence without its full stop."""
    if isinstance(error, _Foreign):
        return error.remedy
    if path.is_dir():
        return "A folder is in the file's place: move that away"
    if isinstance(error, OSError):
        return _SYSTEM_REMEDIES.get(error.errno or 0, "Mend that")
    return _REMEDIES.get(codes.code(error), MOVE_AWAY)


def is_damage(error: Exception, path: Path) -> bool:
    """Whether damage to the file is the reason for the error."""
    if isinstance(error, UnicodeDecodeError | _Damaged):
        return True
    if isinstance(error, _Foreign):
        return False
    return codes.code(error) in _DAMAGE_CODES or (codes.code(error) in _DOUBTFUL_CODES and not _is_sound(path))


def is_at_its_limit(error: Exception, path: Path) -> bool:
    """Whether SQLite found no room because the file has reached the limit of the settings, not because of the disk."""
    size = sum(file.stat().st_size for file in (path, log_of(path)) if file.exists())
    return codes.code(error) == codes.FULL and size > 0.9 * limits.current().history_bytes


def log_of(path: Path) -> Path:
    """The write-ahead log: what was stored last stands there, until SQLite moves it into the main file."""
    return path.with_name(path.name + "-wal")


def set_aside(path: Path) -> str | None:
    """Renames a damaged file, its log and its index of the log; the new name. None if another process has done so.

    Raises OSError where it cannot be renamed.
    """
    with _locked(path.parent):
        if _is_sound(path):
            return None
        stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S.%f")
        aside = path.name
        for end in ("-shm", "-wal", ""):  # the last of those that are there names them all
            file = path.with_name(path.name + end)
            if file.exists():
                aside = f"{path.name}.damaged-{stamp}{end}"
                file.rename(path.with_name(aside))
        _log.warning("%s was damaged and is kept as %s", path, aside)
        return aside


def _left_log(path: Path) -> Path | None:
    """The log of a file that is gone."""
    log = log_of(path)
    return log if not path.exists() and log.exists() and log.stat().st_size else None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one process at a time makes or renames a file of results in this folder. Raises OSError."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _make_if_missing(path: Path) -> None:
    """Makes the file under a lock, so that no other process sees it half made.

    Raises _Damaged for a file that is shorter than SQLite's header, or gone with its log left. SQLite would take
    either for a new file and remove the log, which may hold results.
    """
    if path.is_dir() or (path.exists() and path.stat().st_size >= _SHORTEST_FILE):
        return
    with _locked(path.parent):
        if _left_log(path) is not None:
            raise _Damaged("the file is gone and only its log is left")
        if not path.exists():
            _connected(path).close()
        elif (size := path.stat().st_size) < _SHORTEST_FILE:
            raise _Damaged(f"it was cut to {size} bytes" if size else "it is empty: 0 bytes")


def _connected(path: Path, alone: bool = False) -> sqlite3.Connection:
    """With the table in place.

    SQLite needs shared memory for the users of a file, and on a full disk there is none, not even for reading. Then
    the file is opened for this connection alone, which works without.
    """
    database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        database.text_factory = bytes  # one row of broken UTF-8 must not end the listing of the others
        if alone:
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
        _prepare(database)
        return database
    except BaseException as error:
        database.close()
        if alone or not isinstance(error, sqlite3.Error) or codes.code(error) != codes.IOERR:
            raise
    return _connected(path, alone=True)


def _prepare(database: sqlite3.Connection) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if not 0 <= version <= _MAX_VERSION:
        raise _Damaged(f"its format is said to be {version}")
    if version > FILE_VERSION:
        what = f"a newer version of this program wrote the file (format {version}, this one knows {FILE_VERSION})"
        raise _Foreign(what, "Update this program")
    if version == 0 and not _is_ours(database):
        raise _Foreign("the file holds another program's tables", MOVE_AWAY)
    database.execute("PRAGMA synchronous = FULL")
    (page,) = database.execute("PRAGMA page_size").fetchone()
    database.execute(f"PRAGMA max_page_count = {max(1, limits.current().history_bytes // page)}")
    if version == FILE_VERSION:
        return
    _enter_wal(database)
    database.executescript(f"BEGIN IMMEDIATE; {TABLE} PRAGMA user_version = {FILE_VERSION}; COMMIT;")


def _is_ours(database: sqlite3.Connection) -> bool:
    """Whether a file without a version is empty or holds our table: the version may be lost, or not yet written."""
    if not database.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        return True
    with contextlib.suppress(sqlite3.OperationalError):
        database.execute(f"SELECT {', '.join(_COLUMNS)} FROM results LIMIT 0")
        return True
    return False


def _is_sound(path: Path) -> bool:
    """Whether SQLite can read and write the file and it holds no other table of our name; True if that is unknown."""
    if not path.exists():
        return _left_log(path) is None
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES or header[_WRITE_VERSION] > _LATEST_WRITE_VERSION:
            return False
        with contextlib.closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version == FILE_VERSION:
                database.execute(f"EXPLAIN {INSERT}", [None] * len(_COLUMNS))
                database.execute(f"EXPLAIN SELECT {', '.join(_COLUMNS)} FROM results")
            return 0 <= version <= _MAX_VERSION and database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    except UnicodeDecodeError:
        return False
    except (sqlite3.Error, OSError) as error:
        return codes.code(error) not in (*_DAMAGE_CODES, codes.ERROR)


def _enter_wal(database: sqlite3.Connection) -> None:
    """Switches to write-ahead logging, which the file then keeps.

    When two processes that have just created the file ask at the same moment, SQLite answers 'database is locked' at
    once, whatever the busy timeout is; so this asks again.
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
