"""Tests of compiling small models: whole, layer by layer, with added graph breaks, and as a package."""

import os
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor import cpp_builder
from torch.utils import cpp_extension
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.detr.modeling_detr import DetrObjectDetectionOutput

from demo.backend import compile_model, machine_probe, torch_settings
from demo.backend.tasks.own_model import OwnModel
from demo.core.options import BadInput, RunSpec
from demo.present.script import loading_lines

BATCH = {"pixel_values": torch.arange(8.0).reshape(2, 4)}


def spec(**options: Any) -> RunSpec:
    return RunSpec("shapes-vit", "image-classification", device="cpu", **options)


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize(("dynamic", "graphs"), [("on", 1), ("off", 2)])
def test_with_dynamic_on_another_size_needs_no_recompile(dynamic: str, graphs: int) -> None:
    """The second input is not square, the first one is."""
    run_spec = spec(dynamic=dynamic)
    torch_settings.apply(run_spec)
    model = compile_model.apply_compile(torch.nn.Sigmoid(), run_spec)
    counters.clear()
    for sides in ((8, 8), (8, 12)):
        model(torch.ones(2, 3, *sides))
    assert counters["stats"]["unique_graphs"] == graphs
    torch_settings.apply(spec())


def test_the_layers_are_the_innermost_that_transformers_marks() -> None:
    outer, inner, plain = Parts(), [Parts(), Parts()], Parts()
    outer.inner = torch.nn.ModuleList(inner)
    assert compile_model.repeated_layers(torch.nn.Sequential(outer, plain, torch.nn.ReLU())) == [*inner, plain]


def test_a_model_without_repeated_layers_is_refused() -> None:
    with pytest.raises(BadInput, match=r"some/net has no repeated layers .* Choose scope model"):
        compile_model.require_layers(torch.nn.Sequential(Parts(), torch.nn.ReLU()), "some/net")


@pytest.mark.parametrize("scope", ["model", "layers"])
def test_the_model_or_its_layers_are_compiled_with_the_options(scope: str, monkeypatch) -> None:
    calls: list[tuple[type, dict[str, Any]]] = []

    def compile(called: Any, **options: Any) -> Any:
        calls.append((type(getattr(called, "__self__", called)), options))
        return called

    monkeypatch.setattr(torch, "compile", compile)
    eager = Transformer().eval()
    model = compile_model.apply_compile(eager, spec(scope=scope, mode="lite", fullgraph=True, dynamic="off"))
    options = {"mode": "lite", "fullgraph": True, "dynamic": False}
    assert calls == ([(Transformer, options)] if scope == "model" else [(Parts, options)] * 5)
    assert all(layer._compiled_call_impl is None for layer in eager.layers)
    assert torch.equal(model(x=X), eager(x=X))


# Added graph breaks: no code is generated


X = torch.ones(2, 4)


class Parts(GradientCheckpointingLayer):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dense = torch.nn.LayerNorm(4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(self.norm(x)).relu()


class Transformer(torch.nn.Module):
    """A model that calls its layers in a loop, in which dynamo cannot resume after a graph break."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
        self.layers = torch.nn.ModuleList(Parts() for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def graph_runs(model: Any, **inputs: Any) -> int:
    """Returns how many compiled graphs a call of the model runs, one after another."""
    runs: list[Any] = []

    def counting(graph: torch.fx.GraphModule, _: Any) -> Any:
        return lambda *inputs: (runs.append(graph), graph.forward(*inputs))[1]

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=counting)
    compiled(**inputs)
    runs.clear()
    compiled(**inputs)
    return len(runs)


@pytest.mark.parametrize(
    ("model", "inputs", "places"),
    [
        (Transformer(), {"x": X}, 10),
        (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4)), {"input": X}, 3),
        (torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())), {"input": X}, 2),
        (torch.nn.ReLU(), {"input": X}, 1),
    ],
    ids=["after each part of each layer", "without layers after each part", "in a shell", "without parts at its end"],
)
def test_breaks_are_added_to_a_twin(model: Any, inputs: dict[str, Any], places: int) -> None:
    broken = compile_model.add_breaks(model.eval())
    assert torch.equal(broken(**inputs), model(**inputs))
    assert (graph_runs(broken, **inputs), graph_runs(model, **inputs)) == (places, 1)


class Detector(torch.nn.Linear):
    """A layer whose outputs are of a class that only one model file of transformers defines, as with detectors."""

    def forward(self, pixel_values: torch.Tensor) -> DetrObjectDetectionOutput:
        return DetrObjectDetectionOutput(logits=super().forward(pixel_values).relu())


Built = tuple[Detector, Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("package")
    model = Detector(4, 3).eval()
    with patch.dict(os.environ), torch.no_grad():
        workload = OwnModel(spec(compiler="aot", dynamic="on"), torch.device("cpu"), model, BATCH)
        seconds = compile_model.build_package(workload, folder / "model.pt2", folder / "cache")
        assert list(seconds) == ["export", "build"] and min(seconds.values()) > 0
        yield model, folder / "model.pt2"


def test_a_package_answers_as_the_model_does_for_any_size(built: Built) -> None:
    model, package = built
    assert package.stat().st_size > 1000
    loaded = compile_model.load_package(package)
    for batch in (BATCH["pixel_values"], torch.arange(20.0).reshape(5, 4)):
        outputs = loaded(pixel_values=batch)
        assert isinstance(outputs, DetrObjectDetectionOutput)
        torch.testing.assert_close(outputs.logits, model(pixel_values=batch).logits)


def test_a_gpus_package_uses_the_toolkit_found(tmp_path, monkeypatch) -> None:
    """The package also uses torch's allocator, which counts its weights. Nothing is exported or compiled."""
    monkeypatch.setattr(cpp_extension, "CUDA_HOME", None)
    monkeypatch.setenv("CUDA_HOME", "")
    monkeypatch.setenv("CPATH", "mine")
    monkeypatch.setattr(machine_probe, "loaded_driver", lambda: tmp_path / "libcuda.so.1")
    monkeypatch.delenv("LIBRARY_PATH", raising=False)
    monkeypatch.setattr(machine_probe, "cuda_toolkit", lambda: [tmp_path / name for name in ("runtime", "nvcc")])
    monkeypatch.setattr(torch.export, "export", Mock())
    monkeypatch.setattr(torch._inductor, "aoti_compile_and_package", build := Mock())
    workload = OwnModel(spec(compiler="aot"), torch.device("cuda"), torch.nn.Sigmoid(), BATCH)
    compile_model.build_package(workload, tmp_path / "model.pt2", tmp_path)
    assert os.environ["CUDA_HOME"] == cpp_extension.CUDA_HOME == str(tmp_path / "runtime")
    assert os.environ["CPATH"] == f"{tmp_path / 'nvcc' / 'include'}:mine"
    assert os.environ["LIBRARY_PATH"] == str(tmp_path) and (tmp_path / "libcuda.so").is_symlink()
    assert build.call_args.kwargs["inductor_configs"]["aot_inductor.weight_use_caching_allocator"]


def test_linkers_find_the_driver_that_is_loaded(tmp_path, monkeypatch) -> None:
    """CUDA's driver has a file libcuda.so.1 only, in a folder that linkers do not search."""
    (hidden := tmp_path / "driver").mkdir()
    (scratch := tmp_path / "scratch").mkdir()
    driver = hidden / "libcuda.so.1"
    command = [cpp_builder.get_cpp_compiler(), "-shared", "-fPIC", "-x", "c++"]
    subprocess.run([*command, "-o", str(driver), "-"], input=b'extern "C" int cuInit() { return 0; }', check=True)
    maps = f"7f00-7f01 r-xp 0 fe:00 1 /M\udcfcller.so\n7f02-7f03 r-xp 0 fe:00 2 {driver}\n"
    (tmp_path / "maps").write_bytes(os.fsencode(maps))  # one name is not UTF-8
    monkeypatch.setattr(machine_probe, "MAPS", tmp_path / "maps")
    monkeypatch.setenv("LIBRARY_PATH", "mine")
    link = [*command, "-o", str(scratch / "package.so"), "-", "-x", "none", "-lcuda"]
    with_driver = b'extern "C" int cuInit(); int f() { return cuInit(); }'
    if not shutil.which("nvcc"):
        assert subprocess.run(link, input=with_driver, capture_output=True).returncode
    for _ in range(2):  # again, as after a damaged cache
        compile_model.link_driver(scratch)
    assert os.environ["LIBRARY_PATH"].split(":")[:2] == ["mine", str(scratch)]
    assert subprocess.run(link, input=with_driver, capture_output=True).returncode == 0


def test_a_package_asks_for_no_executable_stack(built: Built) -> None:
    """glibc 2.41 refuses to load a library that needs an executable stack.

    Some linkers ask for one unless told not to.
    """
    with zipfile.ZipFile(built[1]) as archive:
        library = archive.read(next(name for name in archive.namelist() if name.endswith(".so")))
    offset, size, count = (*struct.unpack_from("<Q", library, 32), *struct.unpack_from("<HH", library, 54))
    headers = [struct.unpack_from("<II", library, offset + size * place) for place in range(count)]
    assert [flags & 1 for kind, flags in headers if kind == 0x6474E551] == [0]  # PT_GNU_STACK without PF_X


def test_a_package_runs_elsewhere_without_a_compiler(built: Built, tmp_path) -> None:
    """There the package also refuses inputs of another size."""
    lines = [
        loading_lines(built[1]),
        "print(model(pixel_values=torch.ones(1, 4)).logits.shape)",
        "model(pixel_values=torch.ones(2, 5))",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    nothing = {name: str(tmp_path) for name in ("PATH", "CXX", "TORCHINDUCTOR_CACHE_DIR")}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | nothing, cwd=Path("/"))
    assert (ran.returncode, ran.stdout) == (1, "torch.Size([1, 3])\n"), ran.stderr
    assert "expected: 4, but got: 5" in ran.stderr


@pytest.mark.parametrize(
    ("changed", "value"),
    [("torch.__version__", "1.0"), ("torch.backends.cpu.get_cpu_capability", lambda: "AVX")],
    ids=["version", "processor"],
)
def test_a_package_is_refused_elsewhere(built: Built, changed: str, value: Any, monkeypatch) -> None:
    monkeypatch.setattr(changed, value)
    with pytest.raises(SystemExit, match="was built for"):
        exec(loading_lines(built[1]), {})
