"""Folders for temporary files: one for each process that is started here.

Covered: a folder goes with its process, and what an app that was killed has left is removed at the next start. Each
folder is locked by the app that made it, and the kernel releases the lock when that app ends, however it ends; so a
folder whose lock is free belongs to nobody. A file in it marks it as ours, because other programs may use the same
prefix.

Not covered: what a process writes elsewhere, such as into inductor's cache; file systems without `flock`.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import re
import shutil
import tempfile
from pathlib import Path

FOLDER_PREFIX = "worth-compiling-"
MARK = ".of-a-worker"
"""The file that marks a folder as ours."""


def make_scratch_folder() -> tuple[str, int]:
    """A new, marked folder, and the descriptor that holds its lock until it is closed. Raises OSError."""
    while True:
        folder = tempfile.mkdtemp(prefix=FOLDER_PREFIX)
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # another app that was just starting removed it as abandoned
            continue
        with contextlib.suppress(BlockingIOError):  # another app is checking whether it is abandoned
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.isdir(folder):
                try:
                    Path(folder, MARK).touch()
                except OSError:
                    shutil.rmtree(folder, ignore_errors=True)
                    os.close(lock)
                    raise
                _share_headers(folder)
                return folder, lock
        os.close(lock)


def clear_abandoned_folders() -> None:
    """Removes the marked folders that no app has locked.

    A folder without the mark is removed only if it is empty: an app leaves one when it is killed before it has marked
    it.
    """
    with contextlib.suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
            with contextlib.suppress(OSError):
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if (folder / MARK).is_file():
                        shutil.rmtree(folder, ignore_errors=True)
                    else:
                        folder.rmdir()
                finally:
                    os.close(lock)


def inductor_folder() -> Path:
    """Where inductor keeps its cache by default: among the temporary files, under the user's name."""
    user = re.sub(r'[\\/:*?"<>|]', "_", _user())
    return Path(tempfile.gettempdir(), f"torchinductor_{user}")


def _share_headers(folder: str) -> None:
    """Lets a process whose temporary files lie in `folder` find the C++ headers that were compiled before.

    Inductor keeps its precompiled headers among the temporary files, wherever its cache lies, and asks for them before
    it loads any kernel. Without this link each process would compile them again, which takes seconds.
    """
    shared = inductor_folder()
    with contextlib.suppress(OSError):
        shared.mkdir(exist_ok=True)
        Path(folder, shared.name).symlink_to(shared)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a user number that has no name
        return str(os.getuid())
