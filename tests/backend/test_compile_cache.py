"""Tests of damaged entries of inductor's cache, as a kill, a full disk or a power cut leaves them."""

import contextlib
import errno
import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from torch.utils._filelock import FileLock

from demo.backend import compile_cache

WHOLE = b"\x7fELF" + bytes(36) + (64).to_bytes(8, "little") + bytes(10) + b"\x40\0\1\0\0\0" + bytes(64)
"""Bytes of an ELF library with one section, whose table follows the header of 64 bytes: it is not cut off."""
KEY = "c" + 51 * "a"


@pytest.fixture
def entry(tmp_path) -> Path:
    """Returns the path at which an inductor cache keeps a kernel's library, beside the kernel's source."""
    for name in ("aa", "locks"):
        (tmp_path / name).mkdir()
    (tmp_path / "aa" / f"{KEY}.main.cpp").write_text("int kernel;")
    return tmp_path / "aa" / f"{KEY}.main.so"


@pytest.mark.parametrize(
    ("content", "stays"),
    [(WHOLE, True), (b"", False), (WHOLE[:-1], False), (bytes(len(WHOLE)), False)],
    ids=["whole", "empty", "cut off", "zeros"],
)
def test_a_library_of_a_killed_compile_is_removed(content: bytes, stays: bool, entry: Path, tmp_path) -> None:
    entry.write_bytes(content)
    assert compile_cache.remove_unfinished(tmp_path)[0] == ({"aa", entry.name, f"{KEY}.main.cpp"} if stays else set())
    assert entry.exists() == entry.with_suffix(".cpp").exists() == stays


def test_a_library_in_the_making_stays(entry: Path, tmp_path) -> None:
    entry.with_name(".123.tmp").touch()  # a draft of another process
    entry.touch()
    with FileLock(tmp_path / "locks" / f"{KEY}.lock"):
        assert entry.name in compile_cache.remove_unfinished(tmp_path)[0]
    assert entry.exists() and entry.with_name(".123.tmp").exists()


@pytest.mark.parametrize(("content", "stays"), [(json.dumps({"num_warps": 4}), True), ("", False), ("\0\0", False)])
@pytest.mark.parametrize("place", ["aa/caaa.best_config", "triton/0/HASH/kernel.json"])
def test_json_that_cannot_be_read_is_removed(content: str, stays: bool, place: str, tmp_path) -> None:
    file = tmp_path / place
    file.parent.mkdir(parents=True)
    file.write_text(content)
    (tmp_path / "locks").mkdir()
    _, removed = compile_cache.remove_unfinished(tmp_path)
    assert (file.exists(), removed) == (stays, not stays)


NAMED = [
    ImportError("{folder}/aa/{key}.main.so: undefined symbol: gone"),
    RuntimeError("Failed to import {folder}/aa/{key}.py\nSyntaxError: invalid syntax ({key}.py, line 3)"),
    AttributeError("module 'torch._inductor.runtime.compile_tasks.{key}' has no attribute 'call'"),
    RuntimeError("C++ compile error\ng++ {folder}/aa/{key}.main.cpp\nerror: stray '\\200' in program"),
]


@pytest.mark.parametrize("before", [True, False], ids=["found in the cache", "of this very compile"])
@pytest.mark.parametrize("error", NAMED, ids=["library", "module", "module cut off", "source"])
def test_an_entry_is_at_fault_if_it_was_there_before(error: Exception, before: bool, entry: Path, tmp_path) -> None:
    names = [f"{KEY}.main.so", f"{KEY}.main.cpp", f"{KEY}.py"]
    for name in names:
        entry.with_name(name).touch()
    named = type(error)(str(error).format(folder=tmp_path, key=KEY))
    healed = compile_cache.heal(named, tmp_path, set(names) if before else set())
    assert healed is None if not before else healed.key == "cache_healed"
    assert entry.exists() is not before


@pytest.mark.parametrize("broken", [True, False], ids=["broken header", "broken code"])
def test_a_precompiled_header_that_gcc_cannot_read_is_removed(broken: bool, tmp_path) -> None:
    header = tmp_path / "precompiled_headers" / f"{KEY}.h.gch"
    header.parent.mkdir()
    header.touch()
    why = "fatal error: cannot read PCH file: No such file or directory" if broken else "error: no member named 'exp'"
    error = RuntimeError(f"C++ compile error\ng++ x.cpp -include {KEY}.h -o x.o\n{why}")
    assert (compile_cache.heal(error, tmp_path, set()) is not None) is broken
    assert header.exists() is not broken


def test_a_cache_that_cannot_be_healed_is_replaced_for_the_run(entry: Path, tmp_path, monkeypatch) -> None:
    entry.touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compile_cache.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "empty"))
    monkeypatch.setattr(Path, "unlink", Mock(side_effect=OSError(errno.EROFS, os.strerror(errno.EROFS))))
    healed = compile_cache.heal(ImportError(f"{entry}: file too short"), tmp_path, {entry.name})
    assert "cannot be removed (Read-only file system): this run compiled into an empty one" in str(healed)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "empty")


@pytest.mark.parametrize("was_cached", [True, False], ids=["found in the cache", "of this compile"])
def test_a_damaged_entry_costs_one_recompile(was_cached: bool, entry: Path, tmp_path, monkeypatch) -> None:
    """Only entries from before the compile are removed. An error about a file that this compile made is raised."""
    compiles, caveats = [], []

    def compile_model(cached: set[str]) -> str:
        compiles.append(cached)
        if len(compiles) == 1:
            entry.write_bytes(WHOLE)
            raise ImportError(f"{entry}: undefined symbol: gone")
        return "a model"

    if was_cached:
        entry.write_bytes(WHOLE)
    else:
        entry.with_suffix(".cpp").unlink()
    monkeypatch.setattr(compile_cache, "cache_dir", lambda: str(tmp_path))
    with contextlib.nullcontext() if was_cached else pytest.raises(ImportError):
        assert compile_cache.heal_and_retry(compile_model, tmp_path, caveats.append) == "a model"
    assert (len(compiles), [caveat.key for caveat in caveats]) == ((2, ["cache_healed"]) if was_cached else (1, []))


def test_an_error_that_comes_again_is_not_the_caches_fault(entry: Path, tmp_path, monkeypatch) -> None:
    entry.write_bytes(WHOLE)
    monkeypatch.setattr(compile_cache, "cache_dir", lambda: str(tmp_path))
    caveats = Mock()
    with pytest.raises(AssertionError):
        compile_cache.heal_and_retry(Mock(side_effect=AssertionError(f"wrong size in {entry}")), tmp_path, caveats)
    caveats.assert_not_called()


def test_out_of_memory_is_not_the_caches_fault(entry: Path, tmp_path) -> None:
    entry.write_bytes(WHOLE)
    full = Mock(side_effect=torch.OutOfMemoryError(f"in {entry}"))
    with pytest.raises(torch.OutOfMemoryError):
        compile_cache.heal_and_retry(full, tmp_path, print)
    assert full.call_count == 1 and entry.exists()
