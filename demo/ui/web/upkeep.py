"""Removes old temporary files, and keeps the log short when the process runs out of file descriptors.

Covered: aborted uploads after an hour, all other files of gradio's folder after a day, those of a killed app too; one
line a minute in the log while no file descriptor is free.

Not covered: a disk that fills up within an hour (limit uploads in front of the server); files outside gradio's folder;
the number of connections.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any

from gradio.utils import get_upload_folder

from demo.ui.web.guard import NO_FILES

_log = logging.getLogger(__name__)

HOUR = 3600.0
DAY = 24 * HOUR
"""gradio removes the uploads that it knows of after a day; `sweep` removes the other files of its folder."""
MINUTE = 60.0


@contextlib.asynccontextmanager
async def upkeep(app: Any) -> AsyncIterator[None]:
    """The lifespan of the server: `app` is gradio's."""
    asyncio.get_running_loop().set_exception_handler(quiet())
    sweeping = asyncio.create_task(_sweep_every_hour(app))
    try:
        yield
    finally:
        sweeping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sweeping


async def _sweep_every_hour(app: Any) -> None:
    while True:
        blocks = app.get_blocks().blocks.values()
        kept = {str(path) for block in list(blocks) for path in getattr(block, "keep_in_cache", ())}
        await asyncio.to_thread(sweep, Path(get_upload_folder()), kept, time.time())
        await asyncio.sleep(HOUR)


def sweep(folder: Path, kept: Collection[str], now: float) -> None:
    """Removes files of gradio's folder that were last written an hour ago (aborted uploads) or a day ago (all others).

    gradio itself leaves aborted uploads, the files of a killed app, and those sent over MCP. `kept` are files that a
    page shows as long as it is served: their time is renewed, so that another app with the same folder keeps them, too.
    Only names of gradio's pattern are removed. An emptied folder goes an hour later.
    """
    for path in kept:
        with contextlib.suppress(OSError):
            os.utime(path, (now, now))
    folders = [one for one in folder.glob("[0-9a-f]" * 64) if not one.is_symlink()]
    files = [(file, HOUR) for name in ("tmp????????", "tmp????????.*") for file in folder.glob(name)]
    files += [(file, DAY) for one in folders for file in one.glob("*")]
    for file, seconds in files:
        with contextlib.suppress(OSError):  # another app was faster
            if now - file.lstat().st_mtime > seconds:
                file.unlink()
    for one in folders:
        with contextlib.suppress(OSError):  # as where something lies in it
            if now - one.stat().st_mtime > HOUR:
                one.rmdir()


def quiet() -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """An event loop's exception handler that logs a lack of file descriptors once a minute.

    asyncio itself reports it for each waiting connection, twenty thousand lines a second.
    """
    next_at = 0.0

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal next_at
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in NO_FILES:
            loop.default_exception_handler(context)
        elif loop.time() >= next_at:
            next_at = loop.time() + MINUTE
            _log.warning(
                "Every file that this process may open is open: new connections wait. Raise the limit (ulimit -n), "
                "or put a proxy that limits connections in front."
            )

    return handle
