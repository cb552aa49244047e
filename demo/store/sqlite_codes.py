"""SQLite's result codes by name. Python's sqlite3 has them, and tells an error's, from 3.11 on only."""

from __future__ import annotations

import sqlite3

# https://www.sqlite.org/rescode.html: part of SQLite's interface, so they do not change.
ERROR, PERM, BUSY, LOCKED, NOMEM, READONLY, IOERR, CORRUPT = 1, 3, 5, 6, 7, 8, 10, 11
FULL, CANTOPEN, SCHEMA, TOOBIG, CONSTRAINT, MISMATCH, NOTADB = 13, 14, 17, 18, 19, 20, 26

_BY_MESSAGE = {
    "access permission denied": PERM,
    "database is locked": BUSY,
    "database table is locked": LOCKED,
    "attempt to write a readonly database": READONLY,
    "disk I/O error": IOERR,
    "database disk image is malformed": CORRUPT,
    "database or disk is full": FULL,
    "unable to open database file": CANTOPEN,
    "database schema has changed": SCHEMA,
    "string or blob too big": TOOBIG,
    "datatype mismatch": MISMATCH,
    "file is not a database": NOTADB,
}
"""SQLite's own texts for these codes. It has other texts where it knows more, for ERROR and CONSTRAINT above all."""


def code(error: Exception) -> int:
    """SQLite's primary result code; 0 for an error that has none."""
    known = getattr(error, "sqlite_errorcode", None)
    return _of_message(error) if known is None else known & 0xFF


def _of_message(error: Exception) -> int:
    """The code by the error's text and class, for Python 3.10; 0 for an error of the module itself."""
    message = str(error)
    if message in _BY_MESSAGE:
        return _BY_MESSAGE[message]
    if isinstance(error, MemoryError):
        return NOMEM
    if isinstance(error, sqlite3.IntegrityError):
        return CONSTRAINT
    return ERROR if type(error) is sqlite3.OperationalError else 0
