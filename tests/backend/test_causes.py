"""Tests that causes of failures are recognised by an error's words or by files, and other errors are not."""

import json

import pytest
import torch

from demo.backend import causes
from demo.core.files import LFS_POINTER

POINTER = LFS_POINTER.decode() + "v1\noid sha256:4d7a\nsize 346293852\n"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(causes, "cache_dir", lambda: "/tmp/cache")


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("cab.main.so: undefined symbol: gone", "cache may be damaged: delete"),
        ("Failed to find C compiler. Please specify via CC", "build-essential"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "free memory"),
        ("cc1plus: fatal error: a.s: No space left on device", "folders with room"),
        ("cab.so: failed to map segment from shared object", "TORCHINDUCTOR_CACHE_DIR and TMPDIR"),
        ("fatal error: Python.h: No such file or directory", "python3."),
        ("fatal error: 'Python.h' file not found", "python3."),
        ("fatal error: iostream: No such file or directory", "build-essential"),
        ("fatal error: 'cstdint' file not found", "build-essential"),
        ("fatal error: stdlib.h: No such file or directory", "build-essential"),
        ("g++: fatal error: cannot execute ‘cc1plus’: execvp: No such file or directory", "build-essential"),
        ("g++: fatal error: cannot execute ‘as’: execvp: No such file or directory", "build-essential"),
        ("collect2: fatal error: cannot find ‘ld’", "build-essential"),
        ("cannot find -lstdc++: No such file or directory", "build-essential"),
        ("cannot find crt1.o: No such file or directory", "build-essential"),
        ("fatal error: omp.h: No such file or directory", "lacks OpenMP"),
        ("fatal error: 'omp.h' file not found", "brew install libomp"),
        ("cannot find -lomp", "lacks OpenMP"),
        ("cannot find -lgomp: No such file or directory", "lacks OpenMP"),
        ("library not found for -liomp5", "lacks OpenMP"),
        ("cannot find -lcuda: No such file or directory", "no libcuda.so"),
        ("cannot find -l:libcuda.so.1", "folder of the driver's libcuda.so.1"),
        ("cannot find -lcudart", ""),
        ("cannot find -lopenblas", ""),
        ("fatal error: my_kernel.h: No such file or directory", ""),
        ("libstdc++.so.6: version `GLIBCXX_3.4.32' not found", ""),
        ("error: internal compiler error", ""),
    ],
)
def test_a_machine_that_cannot_build_gets_the_remedy_of_its_cause(message: str, remedy: str) -> None:
    advice = causes.build_remedy(message)
    assert remedy in advice if remedy else advice == ""


def test_a_compiler_is_not_missing_if_path_is(monkeypatch) -> None:
    message = "fatal error: cannot execute 'cc1plus': execvp: No such file or directory"
    assert "Install a C++ compiler" in causes.build_remedy(message)
    monkeypatch.delenv("PATH")
    assert causes.build_remedy(message) == causes.NO_PATH
    assert "no libcuda" in causes.build_remedy("cannot find -lcuda: No such file or directory")


NO_COMPILER = "No working C++ compiler found in torch._inductor.config.cpp.cxx: (None, 'x')"


@pytest.mark.parametrize(
    ("named", "message", "says"),
    [
        ("env g++", NO_COMPILER, "CXX is 'env g++', which is no program that runs. It names one program"),
        ("no-such-compiler", NO_COMPILER, "CXX is 'no-such-compiler', which is no program that runs. Set CXX"),
        ("false", NO_COMPILER, "answers --version with an error"),
        (__file__, "[Errno 13] Permission denied: 'c++'", "which is no program that runs"),
        ("no-such-compiler", "cannot find -lgomp", "lacks OpenMP"),
        (None, NO_COMPILER, "build-essential"),
    ],
)
def test_a_variable_that_names_no_compiler_is_the_cause(named, message: str, says: str, monkeypatch) -> None:
    if named is not None:
        monkeypatch.setenv("CXX", named)
    assert says in causes.build_remedy(message)


@pytest.mark.parametrize("message", ["input file 'my' is the same as output file", "cannot find -ltorch"])
@pytest.mark.parametrize(
    ("cache", "torch_at", "says"),
    [
        ("/tmp/my cache", "/site/torch/__init__.py", "set TORCHINDUCTOR_CACHE_DIR to a folder without spaces"),
        ("/tmp/cache", "/my site/torch/__init__.py", "install torch in a folder without spaces"),
    ],
    ids=["compile cache", "torch"],
)
def test_a_space_in_a_path_is_named(cache: str, torch_at: str, says: str, message: str, monkeypatch) -> None:
    monkeypatch.setattr(causes, "cache_dir", lambda: cache)
    monkeypatch.setattr(torch, "__file__", torch_at)
    assert says in causes.build_remedy(message)
    assert says not in causes.build_remedy("cc1plus: fatal error: a.s: No space left on device")


@pytest.mark.parametrize("variable", ["TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"])
def test_a_variable_that_switches_compiling_off_is_named(variable: str, monkeypatch) -> None:
    monkeypatch.setenv(variable, "0")
    assert causes.switched_off() == ""
    monkeypatch.setenv(variable, "1")
    assert causes.switched_off().startswith(f"{variable}=1 switches torch.compile off")


def test_a_program_that_switches_compiling_off_is_named() -> None:
    with torch._dynamo.config.patch(disable=True):
        assert causes.switched_off().startswith("torch._dynamo.config.disable")
    for stance in ("force_eager", "eager_on_recompile"):
        with torch.compiler.set_stance(stance):
            assert causes.switched_off().startswith(f"torch.compiler.set_stance({stance!r})")
    assert causes.switched_off() == ""


ADAPTER = {"adapter_config.json": json.dumps({"base_model_name_or_path": "google/gemma-2b"}).encode()}
PIPELINE = {"model_index.json": b'{"_class_name": "FluxPipeline"}'}
INDEX = {"model.safetensors.index.json": b'{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}'}


@pytest.mark.parametrize(
    ("names", "says", "remedy"),
    [
        ("adapter_config.json adapter_model.safetensors", "an adapter of google/gemma-2b", "merge_and_unload"),
        ("config.json adapter_config.json adapter_model.safetensors", "an adapter of google/gemma-2b", "Merge it into"),
        ("config.json adapter_config.json model.safetensors", None, ""),
        ("model_index.json unet/config.json", "a FluxPipeline of diffusers", "--model"),
        ("checkpoint-500/config.json checkpoint-500/model.safetensors", "no config.json", "Its folder checkpoint-500"),
        ("snapshots/1a2b/config.json refs/main", "no config.json", "Its folder snapshots/1a2b"),
        ("config.json pytorch_model.bin", "weights as pickle (pytorch_model.bin)", "save_pretrained"),
        ("config.json pytorch_model.bin.index.json pytorch_model-1-of-2.bin", "as pickle", "save_pretrained"),
        ("gemma-q4.gguf", "weights as GGUF (gemma-q4.gguf)", "save_pretrained"),
        ("config.json onnx/model.onnx", "weights as ONNX", "save_pretrained"),
        ("config.json tf_model.h5", "weights as TensorFlow", "save_pretrained"),
        ("config.json model.safetensors.incomplete", "a download that did not end", "Download it again"),
        ("config.json flax_model.msgpack", "weights as Flax", "save_pretrained"),
        ("config.json model.fp16.safetensors", "weights as model.fp16.safetensors", "Rename it to model.safetensors"),
        ("config.json model-00001-of-00002.safetensors", "model-00001-of-00002.safetensors", "Download model.saf"),
        (
            "config.json model.fp16-1-of-2.safetensors model.safetensors.index.fp16.json",
            "weights as model.fp16-1-of-2.safetensors",
            "Rename model.safetensors.index.fp16.json to model.safetensors.index.json.",
        ),
        ("config.json model-1.safetensors model-2.safetensors", "model-1.safetensors", "Download model.safetensors.in"),
        ("config.json model.safetensors.index.json model-1.safetensors", "lacks model-2.safetensors", "Download that"),
        ("config.json model.safetensors.index.json model-1.safetensors model-2.safetensors", None, ""),
        ("config.json model.safetensors pytorch_model.bin", None, ""),
        ("config.json", None, ""),
        ("", None, ""),
    ],
)
def test_files_that_are_no_checkpoint_are_told_apart(names: str, says: str | None, remedy: str) -> None:
    cause = causes.of_files(names.split(), lambda name: (ADAPTER | PIPELINE | INDEX)[name])
    assert cause is None if says is None else says in cause[0] and remedy in cause[1]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("model.safetensors", POINTER.encode(), "is a Git LFS pointer"),
        ("config.json", POINTER.encode(), "is a Git LFS pointer"),
        ("config.json", b"", "is empty"),
        ("model.safetensors", b"\n<!DOCTYPE html><html>", "is a web page"),
        ("model.safetensors", b'{"error":"Repository not found"}', 'is a text: {"error":"Repository'),
        ("config.json", b"\xef\xbb\xbf{}", "is not in plain UTF-8"),
        ("config.json", "{}".encode("utf-16"), "is not in plain UTF-8"),
        ("config.json", b"{,}", "is no JSON (Expecting property name"),
        ("config.json", b"Access to model a/b is restricted. Log in.", "is a text: Access to model a/b is restricted"),
        ("config.json", b"{}", None),
        ("model.safetensors", b"\x08\0\0\0\0\0\0\0{}      ", None),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_named(name: str, data: bytes, says: str | None, tmp_path) -> None:
    (tmp_path / name).write_bytes(data)
    cause = causes.of_checkpoint(str(tmp_path), damaged=True)
    assert cause is None if says is None else cause[0].startswith(f"has a file {name} that {says}")


def test_a_link_to_a_file_that_is_gone_is_named(tmp_path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").symlink_to("../../blobs/4d7a")
    cause = causes.of_checkpoint(str(tmp_path), damaged=False)
    assert cause == ("has a link model.safetensors to a file that is not there", "Download it again.")


def test_a_link_that_nothing_reads_is_not_blamed(tmp_path) -> None:
    (tmp_path / "README.md").symlink_to("../../blobs/4d7a")
    (tmp_path / "model.gguf").write_text("x")
    cause = causes.of_checkpoint(str(tmp_path), damaged=False)
    assert cause is not None and "README.md" not in cause[0]
