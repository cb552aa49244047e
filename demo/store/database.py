"""Opens the SQLite file of results. Renames a file that is damaged or of an older version.

Several processes may use the file at once, and a stored result survives a crash, a kill or a loss of power. Not
covered: network file systems without reliable locks, and damage inside a stored value.
"""

import contextlib
import fcntl
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ..core import limits
from ..core.files import lock

FOLDER_VARIABLE = "WORTH_COMPILING_DATA"
FILE_VERSION = 3
"""Version of the table and of the JSON in it, kept in SQLite's `user_version`."""
BUSY_SECONDS = 30.0
"""How long a process waits for another one's write before it fails. A write takes milliseconds to seconds."""
PAGE_BYTES = 4096
"""SQLite's default size of a page."""
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
_FILE_ERRORS = (0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""SQLite's error codes that may mean a damaged file. 0 stands for an error without a code, such as `_prepare`'s.
SQLite also reports damage in the header ("unsupported file format") or in a column's name as SQLITE_ERROR."""


class HistoryError(Exception):
    """Raised if the file of results, or a result in it, cannot be read or written. The message is for the user."""


class SetAside(HistoryError):
    """Raised after an unusable file of results was renamed. The next call makes a new file."""


@contextmanager
def open_database(path: Path, purpose: str) -> Iterator[sqlite3.Connection]:
    """Yields a connection that commits each statement at once and returns texts as bytes.

    `purpose`: what the caller does with results, 'stored', 'read' or 'deleted'. If there is no file of results,
    'stored' creates it; for 'read' and 'deleted' the connection has an empty table in memory. Errors of SQLite or of
    the system, also in the `with` body, become HistoryError.
    """
    try:
        if purpose != "stored" and not path.exists():
            with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
                database.executescript(TABLE)
                yield database
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        # The lock keeps other processes from renaming the file while it is open here. SQLite removes the log by its
        # name on closing: that would be the log of the new file.
        with lock(path.parent, fcntl.LOCK_SH), contextlib.closing(_connect(path)) as database:
            _prepare(database)
            yield database
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:  # UnicodeDecodeError: SQLite's message is no text
        if _may_be_damage(error):
            _set_aside_unusable(path, error)
        raise cannot(purpose, path, error) from error


def cannot(purpose: str, path: Path, error: Exception) -> HistoryError:
    """Returns the error to raise if `error` keeps results from being 'stored', 'read' or 'deleted' (`purpose`)."""
    reason = (isinstance(error, OSError) and error.strerror) or error
    if isinstance(error, FileExistsError | NotADirectoryError):
        reason = "its folder is a file"
    return HistoryError(
        f"Results cannot be {purpose} in {path}: {reason}. Make room on its disk, allow writing there, end the program "
        f"that holds the file or move the file away, or set {FOLDER_VARIABLE} to another folder."
    )


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    database.text_factory = bytes  # as str, one row of broken UTF-8 would end the listing of all rows
    return database


def _prepare(database: sqlite3.Connection) -> None:
    """Creates the table if the file is empty, and sets SQLite's options.

    Raises sqlite3.DatabaseError if another program, or another version of this program, wrote the file.
    """
    version, tables = _version(database)
    if not version and not tables:
        database.executescript(f"BEGIN IMMEDIATE; {TABLE} PRAGMA user_version = {FILE_VERSION}; COMMIT;")
    elif version != FILE_VERSION:
        raise sqlite3.DatabaseError(
            f"another version of this program, or another program, wrote it "
            f"(format {version}, this one knows {FILE_VERSION})"
        )
    _switch_to_wal(database)
    database.execute("PRAGMA synchronous = FULL")
    database.execute(f"PRAGMA max_page_count = {limits.current().history_bytes // PAGE_BYTES}")


def _switch_to_wal(database: sqlite3.Connection) -> None:
    """Switches the file to a write-ahead log (WAL).

    Waits up to BUSY_SECONDS while another process switches it at the same time, because SQLite itself does not wait
    then.
    """
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.02)


def _version(database: sqlite3.Connection) -> tuple[int, list[bytes]]:
    """Returns a file's `user_version`, and the names of its tables and indexes."""
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
    (version,) = database.execute("PRAGMA user_version").fetchone()  # last: another process may just create the table
    return version, tables


def _set_aside_unusable(path: Path, error: Exception) -> None:
    """Renames a damaged or older file of results, with its write-ahead log. Then raises SetAside.

    Does nothing if the file is neither damaged nor older, or cannot be renamed. `error`: why it could not be used.
    """
    with contextlib.suppress(OSError), lock(path.parent):  # after an OSError the caller reports `error`
        if not (fault := _find_fault(path)):  # also if another process has just renamed the file
            return
        aside = f"{path.name}.{fault}-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"
        for part in ("-shm", "-wal", ""):
            file = path.with_name(path.name + part)
            if file.exists():
                file.rename(path.with_name(aside + part))
        what = f"was damaged ({error})" if fault == "damaged" else "is of an older version"
        raise SetAside(f"The file of results {what}. It is kept as {aside}, and a new one is started.") from error


def _find_fault(path: Path) -> str:
    """Returns 'damaged', or for a file in an older format the number of the format, such as 'version-2'.

    Returns '' for a file that is usable, newer, or of another program.
    """
    try:
        with contextlib.closing(_connect(path)) as database:
            version, tables = _version(database)
            if version == FILE_VERSION:
                sound = database.execute("PRAGMA quick_check").fetchone() == (b"ok",)
                # without columns there is no table `results`: the file may be another program's
                return "" if sound and _columns(database) in ([], _own_columns()) else "damaged"
            return f"version-{version}" if 0 < version < FILE_VERSION and b"results" in tables else ""
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return "damaged" if _may_be_damage(error) else ""


def _columns(database: sqlite3.Connection) -> list[bytes]:
    return [name for (name,) in database.execute("SELECT CAST(name AS BLOB) FROM pragma_table_info('results')")]


def _own_columns() -> list[bytes]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(TABLE)
        return _columns(database)


def _may_be_damage(error: Exception) -> bool:
    return not isinstance(error, OSError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _FILE_ERRORS
