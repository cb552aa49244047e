"""Files that are complete or not there, and disks that take nothing more."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""`OSError.errno` of a disk that takes nothing more."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` at the end. After an error `path` is as it was before.

    It is written beside its place; where `path` is a link, beside what that leads to. Raises OSError. Not covered: a
    kill leaves the draft behind, and a machine that goes down may leave the new file empty.
    """
    place = Path(os.path.realpath(path))
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)
