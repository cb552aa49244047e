"""Runs a module as a process that ends with its parent: `python -m demo.backend.lifeline FOLDER MODULE [ARGUMENT ...]`.

This process's standard input is a pipe, and its parent holds the pipe's writing end. When that end closes, a watcher
process kills the process group of this process and removes FOLDER, which holds its temporary files. Not covered:
children that leave the group, as with `setsid`. If another process also holds the writing end, nothing is killed until
both have closed it.
"""

import contextlib
import fcntl
import os
import runpy
import select
import shutil
import signal
import sys


def end_with_parent(folder: str) -> None:
    """Forks a watcher that, when this process's parent ends, kills this process's group and removes `folder`.

    - Call it before a thread starts, because it forks.
    - The watcher is a process, because a thread would stop while a library holds the interpreter's lock, and in a
      crash.
    - The watcher closes inherited files except standard input. Otherwise readers of inherited pipes would wait for the
      watcher's end.
    - On Linux the group asks the kernel for SIGKILL when a pipe of the watcher closes (F_SETOWN, F_SETSIG). So killing
      the watcher kills the group, too.
    """
    reading, writing = os.pipe()
    with contextlib.suppress(AttributeError, OSError):  # not Linux
        fcntl.fcntl(reading, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(reading, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)
    if os.fork():
        os.close(writing)
        return
    os.dup2(writing, 1)
    os.closerange(2, 1 << 16)  # not up to SC_OPEN_MAX, which can be unlimited
    pipe = select.poll()
    pipe.register(0, 0)  # without an event to wait for, poll returns only when the other end closes, or on an error
    pipe.poll()
    group = os.getpgrp()
    os.setpgid(0, 0)  # leaves the group, to live on until the folder is removed
    with contextlib.suppress(ProcessLookupError):  # all its processes have ended
        os.killpg(group, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    end_with_parent(sys.argv[1])
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
