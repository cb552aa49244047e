"""The compile cache as a file: what was saved is found by a later run, and what would not fit is refused."""

from __future__ import annotations

import base64
import dataclasses
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.cli import cache_command
from demo.cli.main import main
from demo.core import catalog
from demo.core.codec import plain
from demo.core.errors import BadInput
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.runs.runner import Runner
from demo.sweep.grid import PICTURE

SPEC = catalog.make_spec(checkpoint="shapes-vit", iterations=10)
CACHE = "TORCHINDUCTOR_CACHE_DIR"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the compiled ViT at two batch sizes, saved from an empty cache."""
    folder = tmp_path_factory.mktemp("saved")
    file = folder / "vit.cache"
    asked = ["--checkpoint", "shapes-vit", "--batch-size", "1,2", "--iterations", "10"]
    done = subprocess.run(
        [sys.executable, "-m", "demo", "cache", "save", str(file), *asked],
        env={**os.environ, CACHE: str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "2 of 2 cells" in done.stdout
    assert [path.name for path in folder.iterdir() if path.name != "cache"] == ["vit.cache"]
    return file


def test_a_run_over_a_loaded_file_compiles_nothing(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No graph, although another batch size was compiled before it, and no kernel: the libraries are the file's."""
    cache = tmp_path / "cache"
    monkeypatch.setenv(CACHE, str(cache))
    assert main(["cache", "load", str(saved)]) == 0
    assert str(cache) in capsys.readouterr().out
    loaded = {path: path.stat().st_mtime_ns for path in cache.glob("*/*.so")}
    assert loaded
    *_, result = Runner(None).run(dataclasses.replace(SPEC, batch_size=2), PICTURE)
    assert isinstance(result, RunResult) and result.compilation is not None
    assert result.compilation.cache == "warm"
    assert {path: path.stat().st_mtime_ns for path in cache.glob("*/*.so")} == loaded


def outside(content: bytes) -> bytes:
    """Renames a kernel to a place beside the cache's folder, in torch's format and with its checksum."""
    line, _, rest = content.partition(b"\n")
    strings = re.findall(rb"\0.((?:[A-Za-z0-9+/=]{4}){10,})\0", rest, re.DOTALL)  # after their length
    written, name = next((one, name) for one in strings if (name := base64.b64decode(one)).endswith(b".so"))
    changed = rest[4:].replace(written, base64.b64encode(b"../" + b"x" * (len(name) - 6) + b".so"))
    return line + b"\n" + zlib.crc32(changed).to_bytes(4, "big") + changed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content.replace(b"torch 2.", b"torch 1.", 1), r"is no cache file for torch 2\."),
        (outside, "damaged"),
        (lambda content: content[:-1000], "damaged"),
        (lambda content: content[:-1000] + bytes(1000), "damaged"),
        (lambda content: b"", "is no cache file for"),
    ],
    ids=["torch", "name", "cut", "changed", "empty"],
)
def test_a_file_that_does_not_fit_or_is_broken_is_refused_and_nothing_is_loaded(
    change: Callable[[bytes], bytes],
    words: str,
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from demo.backend import cache_artifacts  # in this process, which spares five starts of torch

    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    file = tmp_path / "other.cache"
    file.write_bytes(change(saved.read_bytes()))
    with pytest.raises(BadInput, match=words):
        cache_artifacts.load(file)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


def test_what_cannot_be_compiled_is_named_and_nothing_is_written_where_nothing_could(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from demo.backend import cache_artifacts

    def fail(spec: RunSpec, image: Path) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(cache_artifacts.precompile, "compile_ahead", fail)
    job = {"file": str(tmp_path / "vit.cache"), "specs": [plain(SPEC)], "input_file": str(PICTURE)}
    _, failed, refused = cache_artifacts.answers(job)
    assert failed["said"].startswith("Not in the file") and "shapes-vit, batch 1" in failed["said"]
    assert refused["refused"].startswith("Nothing was saved")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nowhere\.cache"):
        cache_command.load(tmp_path / "nowhere.cache")
