"""What was compiled ahead, saved as a file and loaded elsewhere is found by a run; what would not fit is refused."""

import base64
import dataclasses
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny_vit

from demo.backend import cache_artifacts, compile_model
from demo.cli import sweep_command
from demo.cli.main import main
from demo.core import catalog
from demo.core.spec import BadInput, RunSpec
from demo.runs.runner import Runner
from demo.sweep.grid import PICTURE

SPEC = catalog.make_spec(checkpoint="shapes-vit", iterations=10)
ODD = {"dtype": "bfloat16", "fullgraph": True, "channels_last": True, "attention": "eager", "threads": 1}
"""Settings of all kinds, beside the batch size."""
GIVEN = (
    "--iterations 10 --device cpu --dtype bfloat16 --fullgraph --channels-last --attention eager --threads 1".split()
)
CACHE = "TORCHINDUCTOR_CACHE_DIR"


def files_of(cache: Path) -> dict[Path, int]:
    """Every file of a compile cache, and when it was written."""
    return {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def specs(tmp_path_factory) -> list[RunSpec]:
    """A classifier of one layer at two batch sizes."""
    folder = str(tiny_vit.written(tmp_path_factory.mktemp("models") / "vit"))
    one = catalog.make_spec(folder, "image-classification", folders=True, iterations=10, device="cpu", **ODD)
    return [one, dataclasses.replace(one, batch_size=2)]


@pytest.fixture(scope="module")
def saved(specs: list[RunSpec], tmp_path_factory) -> Path:
    """A file with both batch sizes, compiled one after the other by one process."""
    folder = tmp_path_factory.mktemp("saved")
    file = folder / "vit.cache"
    grid = ["--checkpoint", specs[0].checkpoint, "--task", "image-classification", "--batch-size", "1,2", *GIVEN]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE, str(folder / "cache"))
        assert main(["cache", "save", str(file), *grid]) == 0
    assert [path.name for path in folder.iterdir() if path.name != "cache"] == ["vit.cache"]
    return file


def test_a_run_over_a_loaded_file_compiles_nothing(saved: Path, specs: list[RunSpec], tmp_path, monkeypatch) -> None:
    """No graph, although another batch size was compiled before it, and no kernel: the libraries are the file's."""
    cache = tmp_path / "cache"
    monkeypatch.setenv(CACHE, str(cache))
    assert str(cache) in cache_artifacts.load(saved)
    loaded = {path: time for path, time in files_of(cache).items() if path.suffix == ".so"}
    assert loaded
    *_, result = Runner(None).run(specs[1], PICTURE)
    assert (result.status, result.compilation.cache) == ("ok", "warm")
    assert {path: time for path, time in files_of(cache).items() if path.suffix == ".so"} == loaded


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
    change: Callable[[bytes], bytes], words: str, saved: Path, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    file = tmp_path / "other.cache"
    file.write_bytes(change(saved.read_bytes()))
    with pytest.raises(BadInput, match=words):
        cache_artifacts.load(file)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


def test_with_graph_breaks_both_models_are_compiled_ahead_and_called_twice(specs: list[RunSpec], monkeypatch) -> None:
    """As a run does: the model with breaks comes first, and what compiles only at the second call is saved too."""
    called: list[Any] = []

    def compiled(model: Any, spec: RunSpec) -> Any:
        return lambda **batch: called.append(model) or model(**batch)

    monkeypatch.setattr(compile_model, "compiled", compiled)
    cache_artifacts.compile_ahead(dataclasses.replace(specs[0], fullgraph=False, graph_break=True), PICTURE)
    broken, _, plain, _ = called
    assert called == [broken, broken, plain, plain] and broken is not plain


def test_what_cannot_be_compiled_is_named_and_nothing_is_written_where_nothing_could(
    tmp_path, monkeypatch, capsys
) -> None:
    def fail(spec: RunSpec, image: Path) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(cache_artifacts, "compile_ahead", fail)
    with pytest.raises(BadInput, match="Nothing was saved"):
        cache_artifacts.save(tmp_path / "vit.cache", [SPEC], PICTURE)
    assert "Not in the file" in (told := capsys.readouterr().err) and "shapes-vit, batch 1" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("compiled", "code"), [(2, 0), (1, 1)])
def test_the_process_says_what_came_of_its_job_and_its_code_says_whether_all_of_it_was_done(
    compiled: int, code: int, tmp_path, monkeypatch, capfd
) -> None:
    @contextmanager
    def process(module: str, **_: Any) -> Iterator[Any]:
        """In this process; what it answers through its pipe is printed as it is."""
        jobs: list[dict[str, Any]] = []
        monkeypatch.setattr(cache_artifacts.events, "job_and_answers", lambda: (json.loads(json.dumps(jobs[0])), 1))
        yield SimpleNamespace(send=jobs.append, lines=list, exit_code=cache_artifacts.main)

    def saved(file: Path, specs: list[RunSpec], picture: Path) -> int:
        assert [spec.batch_size for spec in specs] == [1, 2] and picture.exists()
        file.write_bytes(bytes(2000))
        return compiled

    monkeypatch.setattr(sweep_command, "child_process", process)
    monkeypatch.setattr(cache_artifacts, "save", saved)
    file = str(tmp_path / "vit.cache")
    assert main(["cache", "save", file, "--checkpoint", "shapes-vit", "--batch-size", "1,2"]) == code
    assert f"{compiled} of 2 cells, 2.00 kB" in capfd.readouterr().out
    assert main(["cache", "load", str(tmp_path / "nowhere.cache")]) == 2
    assert "nowhere.cache" in capfd.readouterr().err
