"""The SQLite file of results: making it, opening it, and setting it aside if it cannot be used.

- A result whose storing has returned survives a crash or a kill: write-ahead log, synchronous FULL.
- Several processes may use the file at once, or all create it.
- A damaged file, or one of an older version, gets another name, with its log. It is never overwritten.
- A full disk, a read-only folder and a sound file of another program are errors with the way out.

Not covered: network file systems, where neither SQLite's locks nor `flock` can be relied on; damage inside a value, as
SQLite keeps no checksums (`History` skips a row whose JSON cannot be read).
"""

import contextlib
import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from demo.core import limits
from demo.core.files import locked

FOLDER_VARIABLE = "WORTH_COMPILING_DATA"
FILE_VERSION = 3
"""The version of the table and of the results in it (`SCHEMA_VERSION`)."""
BUSY_SECONDS = 30.0
"""How long a writer waits for another one. A write takes milliseconds; a busy disk may take seconds."""
PAGE_BYTES = 4096
"""SQLite's default."""
TABLE = """
CREATE TABLE results (
    id TEXT PRIMARY KEY,
    started_at TEXT NOT NULL,
    checkpoint TEXT NOT NULL,
    batch_size INTEGER NOT NULL,
    mode TEXT NOT NULL,
    dtype TEXT NOT NULL,
    device_name TEXT,
    torch TEXT,
    words TEXT NOT NULL,  -- what a search looks into
    rerun TEXT,           -- the JSON of a StoredRun
    result TEXT NOT NULL  -- the JSON of all: long, and last, so that SQLite reads the others without it
);
CREATE INDEX results_by_words ON results (started_at, words);  -- a search reads nothing else
"""
_FILE_ERRORS = (0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""SQLite's codes of errors after which the file is checked; 0 where it gives none. Others are the machine's."""


class HistoryError(Exception):
    """The file of results cannot be written or read. The message is a whole sentence with the way out."""


class SetAside(HistoryError):
    """The file could not be used and has another name now, which the message says. The next call starts a new one."""


@contextmanager
def open_database(path: Path, purpose: str) -> Iterator[sqlite3.Connection]:
    """Opens the file. Each statement commits. Texts come as bytes.

    `purpose` is 'stored', 'read' or 'deleted'. Only the first makes a missing file; the others then see an empty table.
    Raises HistoryError for errors of SQLite and of the system, also in the statements.
    """
    try:
        if purpose != "stored" and not path.exists():
            with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
                database.executescript(TABLE)
                yield database
            return
        _make_if_missing(path)
        # Nobody renames an open file: when closed, SQLite would remove the log of the one that took its name.
        with locked(path.parent, fcntl.LOCK_SH), contextlib.closing(_connect(path)) as database:
            _prepare(database)
            yield database
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:  # the last for a message of SQLite's that is no text
        _set_aside_unusable(path, error)
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise HistoryError(
            f"Results cannot be {purpose} in {path}: {reason}. Make room on its disk, allow "
            f"writing there, end the program that holds the file or move the file away, or set {FOLDER_VARIABLE} to "
            "another folder."
        ) from error


def _make_if_missing(path: Path) -> None:
    """Makes the file under another name, so that it appears whole or, on a full disk, not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        return
    new = path.with_name(f"{path.name}.new")
    with locked(path.parent):
        if path.exists():  # by another process, meanwhile
            return
        new.unlink(missing_ok=True)  # by a program that was killed
        try:
            with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as database:
                database.executescript(f"BEGIN; {TABLE} PRAGMA user_version = {FILE_VERSION}; COMMIT;")
                # Last: what stood in a log could be lost without an error.
                database.execute("PRAGMA journal_mode = WAL")
            new.rename(path)
        finally:
            new.unlink(missing_ok=True)


def _connect(path: Path) -> sqlite3.Connection:
    if path.is_file() and not path.stat().st_size:  # SQLite would make a new one of it, and remove the log
        raise sqlite3.DatabaseError("it is empty: 0 bytes")
    address = f"{path.absolute().as_uri()}?mode=rw"  # makes no file
    database = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    database.text_factory = bytes  # one row of broken UTF-8 must not end the listing of the others
    return database


def _prepare(database: sqlite3.Connection) -> None:
    """Raises sqlite3.DatabaseError for a file of another version of this program or of another program."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version != FILE_VERSION:
        raise sqlite3.DatabaseError(
            f"another version of this program, or another program, wrote it "
            f"(format {version}, this one knows {FILE_VERSION})"
        )
    database.execute("PRAGMA synchronous = FULL")
    most_pages = max(1, limits.current().history_bytes // PAGE_BYTES)  # 0 would set no limit
    database.execute(f"PRAGMA max_page_count = {most_pages}")


def _set_aside_unusable(path: Path, error: Exception) -> None:
    """Renames a file that is damaged or of an older version, with its log, and raises SetAside."""
    if not _is_of_file(error):
        return
    with contextlib.suppress(OSError), locked(path.parent):  # an error here leaves the file, and `error` is told
        fault = _find_fault(path)  # '' also if another process was first
        if not fault:
            return
        aside = f"{path.name}.{fault}-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
        for part in ("-shm", "-wal", ""):
            file = path.with_name(path.name + part)
            if file.exists():
                file.rename(path.with_name(aside + part))
        what = f"was damaged ({error})" if fault == "damaged" else "is of an older version"
        notice = f"The file of results {what}. It is kept as {aside}, and a new one is started."
        raise SetAside(notice) from error


def _find_fault(path: Path) -> str:
    """Returns 'damaged' or, for an older version of ours, 'version-N'; '' if neither is known."""
    try:
        with contextlib.closing(_connect(path)) as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version == FILE_VERSION:
                return "" if database.execute("PRAGMA quick_check").fetchone() == (b"ok",) else "damaged"
            columns = {name for (name,) in database.execute("SELECT name FROM pragma_table_info('results')")}
            is_older = 0 < version < FILE_VERSION and columns >= {b"id", b"started_at", b"result"}
            return f"version-{version}" if is_older else ""
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return "damaged" if _is_of_file(error) else ""


def _is_of_file(error: Exception) -> bool:
    return not isinstance(error, OSError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _FILE_ERRORS
