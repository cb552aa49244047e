"""Limits uploads, and removes old ones.

gradio keeps uploaded pictures in one folder. It never removes the files of an upload that breaks off, and holds form
fields without a file name in memory.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import gradio.route_utils
import gradio.routes
from gradio.utils import get_upload_folder
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException

HOUR = 3600.0
DAY = 24 * HOUR
MOST_FILES = 10
"""The most files of one upload. A page sends one."""
UPLOAD_FIELD = "files"
"""The only form field of an upload."""


class UploadParser(gradio.route_utils.GradioMultiPartParser):
    """gradio's parser, but it accepts only a few files and no other form field, and a failed upload leaves no files."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **(named | {"max_files": MOST_FILES}))

    def on_headers_finished(self) -> None:
        super().on_headers_finished()
        if self._current_part.field_name != UPLOAD_FIELD or self._current_part.file is None:
            raise MultiPartException(f'An upload has files only, each in a form field with the name "{UPLOAD_FIELD}".')

    async def parse(self) -> FormData:
        try:
            return await super().parse()
        except BaseException:  # such as a client that leaves
            for file in self._files_to_close_on_error:
                file.close()
                Path(file.name).unlink(missing_ok=True)
            raise


def bound_uploads() -> None:
    """Makes gradio read uploads with `UploadParser`, which limits them."""
    gradio.route_utils.GradioMultiPartParser = UploadParser  # type: ignore[misc]


@contextlib.asynccontextmanager
async def removing_old(app: gradio.routes.App) -> AsyncIterator[None]:
    """Removes old uploads each hour while the server runs. It is the lifespan context of `app`, gradio's server."""
    sweeping = asyncio.create_task(_remove_each_hour(app))
    try:
        yield
    finally:
        sweeping.cancel()


async def _remove_each_hour(app: gradio.routes.App) -> None:
    while True:
        blocks = list(app.get_blocks().blocks.values())
        kept = {str(path) for block in blocks for path in getattr(block, "keep_in_cache", ())}
        await asyncio.to_thread(remove_old, Path(get_upload_folder()), kept, time.time())
        await asyncio.sleep(HOUR)


def remove_old(folder: Path, kept: set[str], now: float) -> None:
    """Removes from gradio's folder the files that are a day old, and files of unfinished uploads that are an hour old.

    `kept`: paths of pictures that the page itself shows, which stay. `now`: seconds since 1970.
    """
    for file in folder.rglob("*"):
        most = HOUR if file.parent == folder and file.name.startswith("tmp") else DAY
        with contextlib.suppress(OSError):  # removed meanwhile
            if file.is_dir() and not file.is_symlink():
                continue
            if str(file) not in kept and now - file.lstat().st_ctime > most:
                file.unlink()
