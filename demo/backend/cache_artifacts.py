"""Saves and loads the compile cache as a file: a process of its own, started by `demo.cli.sweep_command`.

The job is {"file": "...", "specs": [...], "input_file": "..."} to save, {"file": "..."} to load. The file is one line
that says what it was made with, followed by what `torch.compiler.save_cache_artifacts` gives, which has a checksum of
its own.
"""

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import torch
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from demo.backend import compile_model, events, machine_probe, workloads
from demo.core import codec, format as fmt
from demo.core.files import replacing
from demo.core.spec import BadInput, RunSpec

KERNEL = re.compile(r"[a-z0-9]{2}/[a-z0-9]+(\.main)?\.so")
"""Names of a CPU's kernels in the cache; packages of AOTInductor leave others there."""


@CacheArtifactFactory.register
class CpuKernel(CacheArtifact):
    """A shared library, by its name in the cache: torch leaves these out, and would compile a CPU's kernels again."""

    def __init__(self, key: str, content: bytes) -> None:
        if not KERNEL.fullmatch(key):
            raise ValueError(f"{key!r} may lie outside the cache")  # torch then loads nothing of the file
        super().__init__(key, content)

    @staticmethod
    def type() -> str:
        return "worth_compiling_cpu_kernel"

    def populate_cache(self) -> None:
        place = Path(cache_dir(), self.key)
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as draft:  # a process that has loaded the old one keeps it
            draft.write(self.content)


def made_with() -> bytes:
    """What compiled code is valid for. A CPU counts by its name: inductor compiles for its instruction set."""
    here = machine_probe.host()
    return f"torch {here.torch}, triton {here.triton}, driver {here.driver}, {here.device_name}".encode()


def record_kernels() -> None:
    """Adds the CPU kernels that this process has loaded to torch's artifacts; without /proc, none."""
    maps, cache = Path("/proc/self/maps"), Path(cache_dir()).resolve()
    loaded = maps.read_text() if maps.exists() else ""
    for path in cache.glob("*/*.so"):
        # Not ".main.so" is inductor's check of the CPU's vector unit, which another process loads.
        key = str(path.relative_to(cache))
        if KERNEL.fullmatch(key) and (f"{path}\n" in loaded or not path.match("*.main.so")):
            CacheArtifactManager.record_artifact(CpuKernel.type(), key, path.read_bytes())


def compile_ahead(spec: RunSpec, input_file: Path) -> None:
    """What a run does until its compiled model has been called: the same loading, picture and settings.

    One eager call comes first, as in a run: models keep some tensors from their first call on, and a trace from before
    it is another graph. Raises whatever the run would fail with.
    """
    workload = workloads.load(spec, input_file)
    model = workload.model
    with torch.no_grad():
        workload.eager()
        for one in [compile_model.with_breaks(model)[0], model] if spec.graph_break else [model]:
            call = workload.call(compile_model.compiled(one, spec))
            for _ in range(2):  # what is compiled again at the second call belongs into the cache too
                call()


def save(file: Path, specs: Iterable[RunSpec], input_file: Path) -> int:
    """Compiles the specs, writes the file, returns how many could be. Raises BadInput where none could, and OSError."""
    cells = 0
    for spec in specs:
        print(f"{spec.checkpoint}, batch {spec.batch_size}, {spec.mode}, {spec.dtype}", file=sys.stderr, flush=True)
        try:
            compile_ahead(spec, input_file)
            cells += 1
        except Exception:  # whatever the run would fail with
            print("Not in the file, because it could not be compiled: `run` says why.", file=sys.stderr)
        torch.compiler.reset()  # the next is compiled, and its entries named, as in a new process
    record_kernels()
    if not cells or (saved := torch.compiler.save_cache_artifacts()) is None:
        raise BadInput("Nothing was saved, since nothing could be compiled. `run` says why.")
    with replacing(file) as draft:
        draft.write(made_with() + b"\n" + saved[0])
    return cells


def load(file: Path) -> str:
    """Puts the entries into this machine's compile cache. Raises BadInput for a file that does not fit, and OSError."""
    head, _, artifacts = file.read_bytes().partition(b"\n")
    if head != made_with():
        here = made_with().decode()
        raise BadInput(f"{file.name} is no cache file for {here}. Make one on such a machine with `cache save`.")
    info = torch.compiler.load_cache_artifacts(artifacts)
    if info is None:
        raise BadInput(f"{file.name} is damaged. Copy it again, or make it anew.")
    return f"{sum(map(len, info.artifacts.values()))} entries are now in {cache_dir()}."


def main() -> int:
    """The job of standard input. Returns the exit code: 0, 1 where a spec could not be compiled, 2 for a refusal."""
    job, answers = events.job_and_answers()
    file, specs = Path(job["file"]), [codec.load(RunSpec, spec) for spec in job.get("specs", ())]
    try:
        if specs:
            cells = save(file, specs, Path(job["input_file"]))
            text = f"{file.name}: {cells} of {len(specs)} cells, {fmt.size(file.stat().st_size)}."
        else:
            cells, text = 0, load(file)
    except (BadInput, OSError) as error:  # of the latter the text names the file
        print(error, file=sys.stderr)
        return 2
    os.write(answers, f"{text}\n".encode())
    return int(cells < len(specs))


if __name__ == "__main__":
    sys.exit(main())
