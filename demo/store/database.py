"""The SQLite file of results: making and opening it, and what to do when it is damaged.

What is covered:
- A crash or a kill at any moment: a result whose `append` has returned is on the disk (write-ahead log, synchronous
  FULL); one that was being written is there whole or not at all.
- Several processes at once, also when all of them create the file: a writer waits up to `BUSY_SECONDS` for another.
- A file that SQLite's own quick_check finds damaged or cut short, or that is no SQLite file: it is renamed and never
  overwritten.
- A full disk, a file at its limit, a file that may only be read, a sound SQLite file of a newer version or of another
  program: an error with a remedy; the file stays as it is. A new file appears once it is whole, so none is left that
  could not be filled.

What is not covered:
- A folder that may only be read, and a full disk: SQLite needs to write beside the file even to read it.
- A write-ahead log whose main file somebody removed: SQLite removes it with the making of a new file.
- Network file systems, where neither SQLite's locks nor `flock` can be relied on.
- A disk that reports a write as done before it is.
- Damage that quick_check does not see, as inside a value: SQLite keeps no checksums. A row whose JSON became unreadable
  is passed over by `History`.
"""

import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from demo.core import format as fmt, limits
from demo.core.files import locked

FOLDER_VARIABLE = "WORTH_COMPILING_DATA"
FILE_VERSION = 1
BUSY_SECONDS = 30.0
"""How long a writer waits for another one. A write takes milliseconds; a busy disk may take seconds."""
_COLUMNS = (
    "id", "started_at", "status", "task", "checkpoint", "batch_size", "mode", "dtype", "device", "weights",
    "device_name", "torch", "result"
)  # fmt: skip
_TEXTS = [column for column in _COLUMNS if column not in ("batch_size", "result")]
SEARCHED = "lower(" + " || ' ' || ".join(f"COALESCE({column}, '')" for column in _TEXTS) + ")"
TOLD = "CASE WHEN json_valid(result) THEN json_extract(result, '$.speedup.verdict', '$.spec') END"
INDEX = f"CREATE INDEX IF NOT EXISTS results_by_words ON results (started_at, id, status, {SEARCHED}, {TOLD})"
"""What a search looks into: the texts of the columns, the verdict and the settings. SQLite keeps it in step with the
results, whichever program writes them."""
TABLE = f"""
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
{INDEX};
"""
INSERT = (
    f"INSERT INTO results ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) ON CONFLICT (id) DO NOTHING"
)

_OF_THE_MACHINE = (
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM
)  # fmt: skip
"""SQLite's errors that come from the machine. After any other, the file is checked."""
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_ELSEWHERE = f"or set {FOLDER_VARIABLE} to another folder."

_log = logging.getLogger(__name__)


class HistoryError(Exception):
    """The file of results cannot be written or read. The message is a whole sentence with the way out."""


class DamagedFile(HistoryError):
    """SQLite cannot read the file: it is another kind of file, is empty, or parts of it were overwritten."""

    def __init__(self, path: Path, reason: object) -> None:
        super().__init__(
            f"The file of results {path} is damaged ({reason}). The next run keeps it aside and starts a new one."
        )
        self.reason = str(reason)


@contextmanager
def opened(path: Path, purpose: str) -> Iterator[sqlite3.Connection]:
    """A connection that commits each statement, with the table in place. Makes the file and its folder.

    Text is read as bytes. Errors of SQLite and of the system, here and in the statements, become a HistoryError, which
    says what could not be done: `purpose` is 'stored', 'read' or 'deleted'.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent):  # one process at a time makes, opens or renames a file of results
            if not path.exists():
                _make(path)
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


def _explained(error: Exception, path: Path, purpose: str) -> HistoryError:
    code = _code(error)
    if code in _DAMAGE or not (isinstance(error, OSError) or code in _OF_THE_MACHINE or _is_sound(path)):
        return DamagedFile(path, error)
    reason = (isinstance(error, OSError) and error.strerror) or error
    return HistoryError(
        f"Results cannot be {purpose} in {path}: {reason}. Make room on its disk, allow writing there, end the program "
        f"that holds the file or move the file away, {_ELSEWHERE}"
    )


def check_limit(database: sqlite3.Connection) -> None:
    """Raises HistoryError where the file has reached its limit of bytes. Pages of deleted results do not count."""
    facts = ("page_size", "page_count", "freelist_count")
    size, count, free = (database.execute(f"PRAGMA {fact}").fetchone()[0] for fact in facts)
    if (count - free) * size >= limits.current().history_bytes:
        raise HistoryError(
            f"The file of results has reached its limit of {fmt.size(limits.current().history_bytes)}. Raise "
            f"{limits.variable('history_bytes')}, {_ELSEWHERE}"
        )


def set_aside(path: Path) -> str | None:
    """Renames a damaged file and its log; the new name, None if another process has done so. Raises HistoryError."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    aside = f"{path.name}.damaged-{stamp}"
    try:
        with locked(path.parent):
            if not path.exists() or _is_sound(path):
                return None
            for end in ("-shm", "-wal", ""):
                file = path.with_name(path.name + end)
                if file.exists():
                    file.rename(path.with_name(aside + end))
    except OSError as error:
        raise _explained(error, path, "kept aside") from error
    _log.warning("%s was damaged and is kept as %s", path, aside)
    return aside


def _code(error: Exception) -> int:
    """SQLite's primary result code; 0 for an error that is not SQLite's."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _make(path: Path) -> None:
    """Makes the file under another name, so that it appears whole or, on a full disk, not at all."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)  # by a program that was killed
    try:
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as database:
            database.executescript(f"BEGIN; {TABLE} PRAGMA user_version = {FILE_VERSION}; COMMIT;")
            database.execute("PRAGMA journal_mode = WAL")  # last: what stood in a log could be lost without an error
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)


def _connected(path: Path) -> sqlite3.Connection:
    """A connection to a file that exists. Raises HistoryError, sqlite3.Error, OSError or UnicodeDecodeError."""
    if path.is_file() and not path.stat().st_size:  # SQLite would make a new one of it, and remove the log
        raise DamagedFile(path, "it is empty: 0 bytes")
    address = f"{path.absolute().as_uri()}?mode=rw"  # makes no file
    database = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        database.text_factory = bytes  # one row of broken UTF-8 must not end the listing of the others
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version != FILE_VERSION:
            raise HistoryError(
                f"Another program, or a newer version of this one, wrote {path} (format {version}, this one knows "
                f"{FILE_VERSION}). Update this program, move the file away, {_ELSEWHERE}"
            )
        database.execute("PRAGMA synchronous = FULL")
    except BaseException:
        database.close()
        raise
    return database


def _is_sound(path: Path) -> bool:
    """Whether SQLite finds no damage; True if that is unknown. The tables may be another program's."""
    try:
        with contextlib.closing(_connected(path)) as database:
            return database.execute("PRAGMA quick_check").fetchone() == (b"ok",)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return _code(error) in _OF_THE_MACHINE
    except (HistoryError, OSError) as error:
        return not isinstance(error, DamagedFile)
