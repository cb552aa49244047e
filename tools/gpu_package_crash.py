"""Finds out why an AOTInductor package crashes when it is loaded: builds packages with various flags.

    python3 -m tools.gpu_package_crash

It first prints two lines on the machine, and then a line for each process: its exit code, and how far it came. A
negative code is a signal: -4 SIGILL (an instruction that this processor lacks), -6 SIGABRT, -11 SIGSEGV. The first
processes only call `std::regex`, in which the package crashed. Without a GPU, only these processes run, and one that
builds and loads a package for the CPU. Needs g++.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

PACKAGE = """
import os, sys, torch
from unittest import mock
from torch._inductor import cpp_builder
device, flags = sys.argv[1], sys.argv[2:]
shared = cpp_builder._get_shared_cflags
model, batch = torch.nn.Linear(8, 8).eval().to(device), torch.randn(2, 8, device=device)
with torch.no_grad(), mock.patch.object(cpp_builder, "_get_shared_cflags", lambda *a: [*shared(*a), *flags]):
    program = torch.export.export(model, (batch,))
    path = torch._inductor.aoti_compile_and_package(program, package_path=os.path.abspath("model.pt2"))
print("built", flush=True)
loader = torch._C._aoti.AOTIModelPackageLoader(path, "model", False, 1, -1)
print("loaded", flush=True)
loader.run([batch])
print("ran", flush=True)
"""
REGEX = """
#include <regex>
#include <string>
extern "C" int matches(const char *device) {
    std::regex pattern("(cpu|cuda|xpu|mps)(:([0-9]+))?");
    std::smatch found;
    std::string text(device);
    return std::regex_match(text, found, pattern);
}
"""
LOAD_REGEX = "import ctypes; print('matches', ctypes.CDLL('./regex.so').matches(b'cuda:0'))"
BEFORE = {"alone": "", "after torch": "import torch; ", "after CUDA": "import torch; torch.zeros(1).cuda(); "}
COMPILED = (["-O3", "-march=native"], ["-O1", "-march=x86-64-v2"])
FLAGS = {
    "as it is": [],
    "march=x86-64-v2": ["march=x86-64-v2"],  # after inductor's own march=native, so that it counts
    "O1": ["O1"],
    "Bsymbolic": ["Wl,-Bsymbolic"],
    "its own libstdc++": ["static-libstdc++", "static-libgcc", "Wl,--exclude-libs,ALL"],
}


def attempt(label: str, command: list[str], folder: Path, **variables: str) -> None:
    """Runs a command in `folder` with an empty compile cache. Prints its exit code and its last output."""
    shutil.rmtree(folder / "cache", ignore_errors=True)
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")} | variables
    process = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    reached = " ".join(process.stdout.split())
    last = (process.stderr.strip().splitlines() or [""])[-1][:110]
    print(f"{label}: exit {process.returncode} | {reached} | {last}", flush=True)


def main() -> int:
    print(platform.platform(), platform.python_version(), torch.__version__, flush=True)
    print(subprocess.run(["g++", "--version"], capture_output=True, text=True).stdout.partition("\n")[0], flush=True)
    on_gpu = torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "package.py").write_text(PACKAGE)
        (folder / "regex.cpp").write_text(REGEX)
        for flags in COMPILED:
            command = ["g++", *flags, "-std=c++17", "-shared", "-fPIC", "regex.cpp", "-o", "regex.so"]
            subprocess.run(command, cwd=folder, check=True)
            for label, code in BEFORE.items():
                if on_gpu or "cuda" not in code:
                    what = f"std::regex {' '.join(flags)} {label}"
                    attempt(what, [sys.executable, "-c", code + LOAD_REGEX], folder)
        attempt("a CPU's package", [sys.executable, "package.py", "cpu"], folder)
        for label, flags in FLAGS.items() if on_gpu else ():
            attempt(f"a GPU's package, {label}", [sys.executable, "package.py", "cuda", *flags], folder)
        if on_gpu and shutil.which("clang++"):
            attempt("a GPU's package, clang", [sys.executable, "package.py", "cuda"], folder, CXX="clang++")
    return 0


if __name__ == "__main__":
    sys.exit(main())
