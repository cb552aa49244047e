"""Inductor's compile cache on disk: gives a run an empty cache, and removes unusable entries.

A killed process, a full disk or a power cut leaves unusable entries. Inductor would load them, or fail at each compile.
"""

import contextlib
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

import torch
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.utils._filelock import FileLock

from ..core.caveat import Caveat
from . import compilation, failures

T = TypeVar("T")
_KEY = re.compile(r"\bc[a-z2-7]{51}")
"""Name of an entry of the cache: "c" and a checksum. The checksum's first two characters name the folder of the entry's
files."""
_HEADER_FAILED = re.compile("PCH file|reading precompiled header|internal compiler error")
"""GCC's words about a precompiled header that is cut off or overwritten."""


def use_empty_cache(folder: Path) -> None:
    """Makes `folder` the compile cache of this process. Call it before the process compiles anything."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
    torch._inductor.utils.clear_caches()


def remove_unfinished(folder: Path) -> tuple[set[str], int]:
    """Removes unfinished libraries, with their sources, and damaged JSON files from `folder`, inductor's cache.

    Returns two values: the names of the remaining files of kernels and of their folders, and how many files were
    unfinished or damaged. Folders are named because Triton names a kernel's folder, not its file, by the kernel's hash.
    A locked library stays, because another process is linking it. Damage in other files shows only when a compile
    fails: see `heal`.
    """
    files = [file for entries in ("??/[!.]*.*", "triton/*/*/*.*") for file in folder.glob(entries)]
    removed = 0
    for file in files:
        with contextlib.suppress(OSError):
            if not _is_whole(file):
                with FileLock(folder / "locks" / f"{file.name.partition('.')[0]}.lock", timeout=0):
                    file.unlink()
                    file.with_suffix(".cpp").unlink(missing_ok=True)
                removed += 1
    return {name for file in files if file.exists() for name in (file.name, file.parent.name)}, removed


def _is_whole(file: Path) -> bool:
    """Returns False for JSON that is null or cannot be parsed and, on Linux, for a library that is not all there.

    A library, .so or .cubin, has to be a 64-bit ELF file with its section table.
    """
    if file.suffix in (".json", ".best_config"):
        with contextlib.suppress(ValueError):
            return json.loads(file.read_bytes()) is not None
        return False
    if file.suffix not in (".so", ".cubin") or sys.platform != "linux":
        return True
    with file.open("rb") as library:
        head = library.read(64)
    # Linkers write the section table last.
    sections, entry, count = (int.from_bytes(head[at:end], "little") for at, end in ((40, 48), (58, 60), (60, 62)))
    return head.startswith(b"\x7fELF") and sections + entry * count <= file.stat().st_size


def heal_and_retry(compile_model: Callable[[set[str]], T], folder: Path, tell: Callable[[Caveat], None]) -> T:
    """Calls `compile_model` and returns its value. If damaged cache entries make it fail, removes them and calls again.

    - `compile_model`: called with the names of the files in the cache and of their folders.
    - `folder`: inductor's compile cache.
    - `tell`: called with a caveat for each repair of the cache. For a repair after an error this is only done if the
      second call succeeds.
    - An error that the cache did not cause is raised, and so is any error of the second call.
    """
    cached, removed = remove_unfinished(folder)
    if removed:
        tell(Caveat("cache_healed", {"count": removed}))
    try:
        return compile_model(cached)
    except Exception as error:
        if failures.is_out_of_memory(error) or (healed := heal(error, folder, cached)) is None:
            raise
    compilation.reset_compiler()
    compiled = compile_model(remove_unfinished(Path(cache_dir()))[0])
    tell(healed)  # only now is it known that the removed files were the cause
    return compiled


def heal(error: BaseException, folder: Path, cached: Collection[str]) -> Caveat | None:
    """Removes damaged entries from `folder`, inductor's cache, after a failed compile. Returns a caveat that says so.

    - Removed: the entries that the compile's `error` names, and all precompiled headers if the error is about one.
    - Returns None if there is no such header, and all named entries are new. Then the cache did not cause the error.
    - If an entry cannot be removed, a new, empty folder becomes the compile cache of this process.

    `cached`: names that include those of all files that were in the cache before the compile.
    """
    text = "".join(traceback.format_exception(error))
    entries = [file for key in set(_KEY.findall(text)) for file in (folder / key[1:3]).glob(f"{key}*")]
    headers = folder.glob("precompiled_headers/*.gch") if _HEADER_FAILED.search(text) else ()
    damaged = [*headers, *(entry for entry in entries if entry.name in cached)]
    if not damaged:
        return None
    try:
        for entry in {*damaged, *entries}:
            entry.unlink(missing_ok=True)
    except OSError as refused:
        use_empty_cache(Path(tempfile.mkdtemp(prefix="cache-")))
        return Caveat("cache_replaced", {"reason": refused.strerror})
    torch._inductor.utils.clear_caches()
    return Caveat("cache_healed", {"count": len({*damaged, *entries})})
