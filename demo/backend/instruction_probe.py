"""Inductor's instruction probe: before the first compile for a CPU, small programs find out its vector instructions.

- Building the programs takes seconds, once for each machine and compile cache. Later processes only load them.
- `build` builds the programs before any run and times the compiler. A file in the cache stores the times of
  the build and of the compiler.
- `look` runs the probe in a process before that process compiles. It adds the vector instructions to the cache key, so
  that the process loads no code for other instructions.
"""

import contextlib
import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import torch
from torch._inductor import config, cpp_builder, cpu_vec_isa, exc
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.utils._filelock import FileLock

from ..core import codec
from ..core.measurement import InstructionProbe

FILE = "instruction-probe.json"
SHORTEST = 0.01
"""If inductor's instruction probe takes fewer seconds than this, this process has run it before. In a new process it
takes a second or more, because it starts further processes that load its programs."""


@dataclass(frozen=True)
class Built:
    """How long it took to build the programs of inductor's instruction probe."""

    key: str
    """Names the compiler, torch's version and the processor's instructions. If one changes, the programs are built
    anew."""
    seconds: float | None
    """Wall time to find the vector instructions and build the probe's programs. None if nothing was built: the
    compile cache had them already, or the probe is switched off."""
    compiler_seconds: float | None
    """Processor time of the compiler for the slowest program of the instruction probe; None if no program was compiled.
    That program includes ATen's headers, as each of inductor's kernels does."""


def built() -> Built | None:
    """Returns how long it took to build the programs in this compile cache; None if that is not known."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        record = codec.from_plain(Built, json.loads(Path(cache_dir(), FILE).read_text()))
        return record if record.key == _key() else None
    return None


def build() -> Built:
    """Builds the programs, unless this compile cache has the record of a build. Returns how long building took.

    Raises OSError if a file cannot be written, and InvalidCxxCompiler without a C++ compiler.
    """
    (folder := Path(cache_dir())).mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{FILE}.lock"):  # two processes may start together
        if (known := built()) is not None:
            return known
        seconds: list[float] = []
        original, started = cpp_builder.CppBuilder.build, time.perf_counter()

        def build_and_time(self: cpp_builder.CppBuilder) -> None:
            before = _compilers_seconds()
            original(self)
            seconds.append(_compilers_seconds() - before)

        with mock.patch.object(cpp_builder.CppBuilder, "build", build_and_time):
            vector_instructions()
            took = time.perf_counter() - started if seconds else None
            if not seconds and config.cpp.vec_isa_ok is None:  # else the probe is switched off
                _compile_known_program()
        record = Built(_key(), took, max(seconds, default=None))
        _write(folder / FILE, record)
        return record


def look() -> InstructionProbe:
    """Finds the vector instructions, and adds them to the cache key of compiled graphs. Returns how long this took."""
    once = build()
    started = time.perf_counter()
    # Without the tag inductor loaded code for AVX-512 under ATEN_CPU_CAPABILITY=avx2, which gave NaN.
    torch.compiler.config.cache_key_tag = vector_instructions()
    again = time.perf_counter() - started
    return InstructionProbe(once.seconds, again if again > SHORTEST else None)


def separate_instructions() -> None:
    """Makes this process's first compile add the vector instructions to the cache key, unless `look` already has."""

    # Torch holds a lock while it calls this function. If dynamo compiled the function, it would need the same lock, and
    # wait for ever: a model that calls torch.autograd.grad in its forward did.
    @torch._dynamo.disable  # type: ignore[untyped-decorator]  # torch gives it no types
    def tag_cache(_: object) -> None:
        torch.compiler.config.cache_key_tag = torch.compiler.config.cache_key_tag or vector_instructions()

    torch._dynamo.callback_handler.register_start_callback(tag_cache)


def vector_instructions() -> str:
    """Returns the vector instructions that inductor uses: 'avx512 avx512_vnni', or 'no vector instructions'."""
    return str(isa) if (isa := cpu_vec_isa.pick_vec_isa()).bit_width() else "no vector instructions"


def _key() -> str:
    compiler = cpp_builder.get_compiler_version_info(cpp_builder.get_cpp_compiler())
    return f"{compiler} {torch.__version__} {' '.join(cpu_vec_isa.x86_isa_checker())}"


def _compilers_seconds() -> float:
    """Returns the processor time, in seconds, of all child processes that are over. Here these are compilers."""
    times = os.times()
    return times.children_user + times.children_system


def _compile_known_program() -> None:
    """Compiles the instruction probe's longest program once more, only to find out how long the compiler takes."""
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(exc.CppCompileError):
        (source := Path(folder, "probe.cpp")).write_text(cpu_vec_isa.VecISA._avx_code)
        options = cpp_builder.CppTorchOptions(vec_isa=cpu_vec_isa.pick_vec_isa(), warning_all=False)
        cpp_builder.CppBuilder("probe", [str(source)], options, folder).build()


def _write(file: Path, record: Built) -> None:
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as whole:
        json.dump(codec.plain(record), whole)
    os.replace(whole.name, file)
