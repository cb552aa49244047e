"""Locks on folders, temporary folders, files that are replaced completely or not at all, and standard streams."""

import errno
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""Values of `OSError.errno` for a disk that is full or read-only, and for a file that may not grow further."""
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
LFS_REMEDY = "Run `git lfs pull` in the folder."


def open_closed_streams() -> None:
    """Opens standard streams that the caller closed, as with `2>&-`, on the null device.

    Otherwise the next pipe or file would get the stream's number, and a worker would use it as its own stream. While
    `sys.stderr` is None, `print(file=sys.stderr)` would write to standard output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w")


class LenientStream:
    """A text stream that raises no error if it cannot write, as on a full disk: the text is lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def is_lfs_pointer(file: Path) -> bool:
    """Returns whether `file` is a Git LFS pointer: the short text in place of a large file that was not fetched."""
    try:
        with file.open("rb") as opened:
            return opened.read(len(LFS_POINTER)) == LFS_POINTER
    except OSError:
        return False


@contextmanager
def lock(folder: Path, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Holds a `flock` lock on a folder while the `with` body runs. If the process dies, the kernel releases the lock.

    `how`: flags of `fcntl.flock`. Raises OSError if the folder cannot be locked. If another process holds the lock,
    this waits for it; with the flag `LOCK_NB` it raises OSError instead.
    """
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)


@contextmanager
def temporary_folder(within: Path | None = None) -> Iterator[Path]:
    """Yields a new temporary folder, and removes it at the end of the `with` body. Raises OSError if it cannot be made.

    - `within`: the folder that gets the new one, created if needed; None: the system's folder of temporary files.
    - Also removes the temporary folders that killed processes of this program left in `within`.
    """
    within = within or Path(tempfile.gettempdir())
    within.mkdir(parents=True, exist_ok=True)
    for left in within.glob("worth-compiling-*.locked"):
        with suppress(OSError), lock(left, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(left)
    new = Path(tempfile.mkdtemp(prefix="worth-compiling-", dir=within))
    with lock(new):
        folder = new.rename(f"{new}.locked")  # no other process may remove it before it is locked
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yields an open temporary file that replaces `path` when the `with` body ends. After an error `path` is unchanged.

    The temporary file lies beside `path`, or beside its target if `path` is a link. A killed process leaves it there.
    After a power cut `path` may be empty. Raises OSError.
    """
    place = Path(os.path.realpath(path))
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)
