"""A real package of a module of a few weights: built, loaded here and in a process without this project."""

import contextlib
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers.models.detr.modeling_detr import DetrObjectDetectionOutput

from demo.backend import packages
from demo.backend.own_model import OwnModel
from demo.core.spec import RunSpec
from demo.present.script import loading_lines

SPEC = RunSpec("shapes-vit", "image-classification", device="cpu", compiler="aot", dynamic="on")
BATCH = {"pixel_values": torch.arange(8.0).reshape(2, 4)}


class Model(torch.nn.Module):
    """Its outputs are of a class that only the module of its own architecture defines, as detectors' are."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, pixel_values: torch.Tensor) -> DetrObjectDetectionOutput:
        return DetrObjectDetectionOutput(logits=self.linear(pixel_values).relu())


Built = tuple[Model, Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("package")
    model = Model().eval()
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder / "cache"))
        seconds = packages.build(OwnModel(SPEC, torch.device("cpu"), model, BATCH), folder / "model.pt2")
        assert list(seconds) == ["export", "build"] and min(seconds.values()) > 0
        yield model, folder / "model.pt2"


def test_a_package_answers_as_the_model_does_for_any_size(built: Built) -> None:
    model, package = built
    assert package.stat().st_size > 1000
    loaded = packages.load(package)
    for batch in (BATCH["pixel_values"], torch.arange(20.0).reshape(5, 4)):
        found = loaded(pixel_values=batch)
        assert isinstance(found, DetrObjectDetectionOutput)
        torch.testing.assert_close(found.logits, model(pixel_values=batch).logits)


def test_a_package_asks_for_no_executable_stack(built: Built) -> None:
    """glibc 2.41 loads no library that does; this machine's linker may ask for one where nothing forbids it."""
    with zipfile.ZipFile(built[1]) as archive:
        library = archive.read(next(name for name in archive.namelist() if name.endswith(".so")))
    offset, size, count = (*struct.unpack_from("<Q", library, 32), *struct.unpack_from("<HH", library, 54))
    headers = [struct.unpack_from("<II", library, offset + size * place) for place in range(count)]
    assert [flags & 1 for kind, flags in headers if kind == 0x6474E551] == [0]  # PT_GNU_STACK without PF_X


def calling_lines(built: Built) -> list[str]:
    lines = loading_lines(built[1]).splitlines()
    lines.append("print(model(pixel_values=torch.ones(1, 4)).logits.shape)")
    lines.append("model(pixel_values=torch.ones(2, 5))")
    return lines


def test_a_package_runs_elsewhere_without_a_compiler_on_the_path_and_refuses_inputs_of_another_size(
    built: Built, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", "\n".join(calling_lines(built))]
    nothing = {name: str(tmp_path) for name in ("PATH", "CXX", "TORCHINDUCTOR_CACHE_DIR")}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | nothing, cwd=Path("/"))
    assert (ran.returncode, ran.stdout) == (1, "torch.Size([1, 3])\n"), ran.stderr
    assert "expected: 4, but got: 5" in ran.stderr


@pytest.mark.parametrize("changed", ["torch.__version__", "torch.backends.cpu.get_cpu_capability"])
def test_the_lines_that_load_a_package_refuse_other_versions_and_processors(
    built: Built, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed, "1.0" if changed.endswith("version__") else str)
    with pytest.raises(SystemExit, match="was built for"):
        exec("\n".join(calling_lines(built)), {})


@pytest.mark.parametrize(("version", "refused"), [("2.9", True), ("99.0", False)])
def test_the_lines_that_load_a_package_refuse_an_older_glibc_than_that_of_its_build(
    built: Built, version: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", version))
    loads = pytest.raises(SystemExit, match=f"needs glibc .*has {version}: build on the older system")
    with loads if refused else contextlib.nullcontext():
        exec("\n".join(calling_lines(built)[:-1]), {})
