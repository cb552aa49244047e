"""Files that are complete or not there, and disks that take nothing more."""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""`OSError.errno` of a disk that takes nothing more."""


@contextmanager
def lock(folder: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Holds a lock on a folder, which the kernel releases when the process dies. Raises OSError."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new temporary folder, removed at the end; after a kill, by the next call in any process."""
    for left in Path(tempfile.gettempdir()).glob("worth-compiling-*.locked"):
        with suppress(OSError), lock(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(left)
    new = Path(tempfile.mkdtemp(prefix="worth-compiling-"))
    with lock(new):
        folder = new.rename(f"{new}.locked")  # only now does another process look whether it is locked
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` at the end. After an error `path` is as it was before.

    It is written beside its place; if `path` is a link, beside the link's target. Raises OSError. Not covered: a kill
    leaves the draft behind, and a machine that goes down may leave the new file empty.
    """
    place = Path(os.path.realpath(path))
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)
