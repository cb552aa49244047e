"""Opens the SQLite file of results, and renames it if it cannot be used.

- A stored result survives a crash or a kill: write-ahead log, synchronous FULL.
- Several processes may use the file at once, or all create it.
- A damaged file, or one of an older version, gets another name, with its log. It is never overwritten.
- A full disk, a read-only folder and another program's file are errors with the way out.

Not covered: network file systems without reliable locks; damage inside a value (`History` skips a row whose JSON cannot
be read).
"""

import contextlib
import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from demo.core import limits
from demo.core.files import lock

FOLDER_VARIABLE = "WORTH_COMPILING_DATA"
FILE_VERSION = 3
"""The version of the table and of the results in it (`SCHEMA_VERSION`)."""
BUSY_SECONDS = 30.0
"""How long a writer waits for another one. A write takes milliseconds, on a busy disk seconds."""
PAGE_BYTES = 4096
"""SQLite's default."""
TABLE = """
CREATE TABLE IF NOT EXISTS results (
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
    result TEXT NOT NULL  -- the whole JSON: long, and last, so that SQLite reads the others without it
);
CREATE INDEX IF NOT EXISTS results_by_words ON results (started_at, words);  -- a search reads nothing else
"""
_FILE_ERRORS = (0, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""SQLite's codes of errors after which the file is checked; 0 is the error of `_prepare`."""


class HistoryError(Exception):
    """The file of results cannot be written or read. The message is a whole sentence with the way out."""


class SetAside(HistoryError):
    """The file could not be used and was renamed, as the message says. The next call starts a new one."""


@contextmanager
def open_database(path: Path, purpose: str) -> Iterator[sqlite3.Connection]:
    """Opens the file for statements that commit one by one. Texts come as bytes.

    `purpose` is 'stored', 'read' or 'deleted'. Only 'stored' creates a missing file; the others see an empty table.
    Raises HistoryError for errors of SQLite and of the system, also in the statements.
    """
    try:
        if purpose != "stored" and not path.exists():
            with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
                database.executescript(TABLE)
                yield database
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        # Nobody renames an open file: when closed, SQLite would remove the log of the file that took its name.
        with lock(path.parent, fcntl.LOCK_SH), contextlib.closing(_connect(path)) as database:
            _prepare(database)
            yield database
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:  # the last: a message of SQLite's that is no text
        if _is_of_file(error):
            _set_aside_unusable(path, error)
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise HistoryError(
            f"Results cannot be {purpose} in {path}: {reason}. Make room on its disk, allow "
            f"writing there, end the program that holds the file or move the file away, or set {FOLDER_VARIABLE} to "
            "another folder."
        ) from error


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    database.text_factory = bytes  # one row of broken UTF-8 must not end the listing of the others
    return database


def _prepare(database: sqlite3.Connection) -> None:
    """Makes the table of an empty file. Raises sqlite3.DatabaseError for a file of another version or program."""
    version, tables = _version(database)
    if not version and not tables:
        database.executescript(f"BEGIN IMMEDIATE; {TABLE} PRAGMA user_version = {FILE_VERSION}; COMMIT;")
    elif version != FILE_VERSION:
        raise sqlite3.DatabaseError(
            f"another version of this program, or another program, wrote it "
            f"(format {version}, this one knows {FILE_VERSION})"
        )
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(f"PRAGMA max_page_count = {limits.current().history_bytes // PAGE_BYTES}")


def _version(database: sqlite3.Connection) -> tuple[int, list[bytes]]:
    """Returns the format of a file and the names of its tables and indexes."""
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
    (version,) = database.execute("PRAGMA user_version").fetchone()  # last: another process may make them just now
    return version, tables


def _set_aside_unusable(path: Path, error: Exception) -> None:
    """Renames a file that is damaged or of an older version, with its log, and raises SetAside."""
    with contextlib.suppress(OSError), lock(path.parent):  # after an OSError the caller reports `error`
        if not (fault := _find_fault(path)):  # also if another process was first
            return
        aside = f"{path.name}.{fault}-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
        for part in ("-shm", "-wal", ""):
            file = path.with_name(path.name + part)
            if file.exists():
                file.rename(path.with_name(aside + part))
        what = f"was damaged ({error})" if fault == "damaged" else "is of an older version"
        raise SetAside(f"The file of results {what}. It is kept as {aside}, and a new one is started.") from error


def _find_fault(path: Path) -> str:
    """Returns 'damaged' or, for an older version of ours, 'version-N'; '' if neither is known."""
    try:
        with contextlib.closing(_connect(path)) as database:
            version, tables = _version(database)
            if version == FILE_VERSION:
                return "" if database.execute("PRAGMA quick_check").fetchone() == (b"ok",) else "damaged"
            return f"version-{version}" if 0 < version < FILE_VERSION and b"results" in tables else ""
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return "damaged" if _is_of_file(error) else ""


def _is_of_file(error: Exception) -> bool:
    return not isinstance(error, OSError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _FILE_ERRORS
