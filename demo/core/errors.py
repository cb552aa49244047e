"""The errors that more than one room knows."""

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""`OSError.errno` of a disk that takes nothing more."""


class WorkerDied(RuntimeError):
    """A process that runs torch ended without an answer. The text is the end of its standard error."""

    @property
    def reason(self) -> str:
        """The last line of that, without its full stop."""
        return (str(self).strip().splitlines() or ["it said nothing"])[-1].rstrip(".")


class BadInput(ValueError):
    """Something that was asked for cannot be run. The message is a whole sentence for the person who asked."""
