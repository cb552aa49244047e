"""The compile cache as a file: `demo.backend.cache_file`, run by `demo.backend.lifeline`, started by
`demo.runs.cache_file`.

One JSON line on standard input is the job: {"do": "save", "file": "...", "specs": [...], "image": "..."} or
{"do": "load", "file": "..."}. JSON lines on standard output are the answer: {"said": "..."} before each spec, then one
of {"saved": ...}, {"loaded": ...} and {"refused": "..."}.

The file is one line of JSON (what it was made with, and the name and length of each part), followed by the parts. A
part without a name is what `torch.compiler.save_cache_artifacts` gave for one spec, in a process that compiled nothing
else. Torch leaves a CPU's compiled kernels out of that and would compile them again: they are the parts with a name.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from demo.backend import precompile  # first: importing inductor asks for a GPU in the way that it sets

import torch  # isort: skip
from torch._inductor.runtime.cache_dir_utils import cache_dir  # isort: skip
from PIL import Image

from demo.backend import machine
from demo.core import codec
from demo.core.errors import BadInput
from demo.core.files import replacing
from demo.core.spec import RunSpec

FORMAT = "worth-compiling compile cache, 1"
MAX_HEAD_BYTES = 1_000_000
OBJECT = re.compile(r"[a-z0-9]{2}/[a-z0-9]+(\.main)?\.so")
PARTS = {"torch": "torch", "triton": "triton", "device_name": "device", "driver": "driver"}
"""Compiled code is valid for these fields of the head; the values are their names in a message."""


def made_with() -> dict[str, str | None]:
    """The versions and the device that a cache made here is valid for.

    A CPU counts by its name: inductor compiles for its instruction set.
    """
    here = machine.report()
    return {
        "torch": here["torch"],
        "triton": here["triton"],
        "device_name": here["gpu"] or here["cpu"],
        "driver": here["driver"],
    }


def save(file: Path, specs: list[RunSpec], image: Path) -> dict[str, Any]:
    """Compiles each spec, which is quick where it is in the cache already, and writes its part of the cache to `file`.

    Returns {"cells": number of specs saved, "bytes": size of the file, "failed": names of those that did not compile}.
    Raises BadInput where none compiled.
    """
    parts: list[tuple[str | None, bytes]] = []
    failed = []
    objects: set[str] = set()
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        for spec in specs:
            named = f"{spec.checkpoint}, batch {spec.batch_size}, {spec.mode}, {spec.dtype}"
            say(said=named)
            part, loaded = Path(folder) / "part", Path(folder) / "loaded"
            pid = os.fork()
            if pid == 0:
                _write_part(spec, image, part, loaded)
            os.waitpid(pid, 0)
            if part.exists():
                parts.append((None, part.read_bytes()))
                objects.update(loaded.read_text().splitlines())
                part.unlink()
            else:
                failed.append(named)
        if not parts:
            raise BadInput(f"Nothing was saved, since nothing could be compiled: {'; '.join(failed)}. `run` says why.")
        cells, cache = len(parts), _cache()
        parts += [(name, (cache / name).read_bytes()) for name in sorted(objects)]
        payload = b"".join(content for _, content in parts)
        head = {
            "format": FORMAT,
            **made_with(),
            "parts": [[name, len(content)] for name, content in parts],
            "sha256": hashlib.sha256(payload).hexdigest(),
        }
        with replacing(file) as draft:
            draft.write(json.dumps(head).encode() + b"\n" + payload)
    return {"cells": cells, "bytes": file.stat().st_size, "failed": failed}


def _write_part(spec: RunSpec, image: Path, part: Path, loaded: Path) -> None:
    """All that the forked process does. Where anything fails, it writes no `part`."""
    try:
        precompile.compile_ahead(spec, image)
        saved = torch.compiler.save_cache_artifacts()
        if saved is not None:
            loaded.write_text("\n".join(_objects()))
            part.write_bytes(saved[0])
    except Exception as error:
        sys.stderr.write(f"{spec.checkpoint}: {error}\n")
    finally:
        os._exit(0)


def _cache() -> Path:
    return Path(cache_dir())


def _objects() -> set[str]:
    """Names in the cache of the shared libraries that this process has loaded, and of inductor's vector unit checks.

    Without /proc the loaded ones are not known, and not saved.
    """
    cache = _cache()
    maps = Path("/proc/self/maps")
    mapped = {line.split(maxsplit=5)[-1] for line in maps.read_text().splitlines()} if maps.exists() else set()
    libraries = {path for path in cache.glob("*/*.so") if str(path) in mapped or not path.name.endswith(".main.so")}
    return {str(path.relative_to(cache)) for path in libraries if OBJECT.fullmatch(str(path.relative_to(cache)))}


def load(file: Path) -> dict[str, Any]:
    """Puts the file's entries into this machine's compile cache.

    Raises BadInput for a file that is damaged, or was made with other versions or for another device.
    """
    head, payload = _read(file)
    here = made_with()
    other = [
        f"{name} {head.get(key) or 'none'} (here: {here[key] or 'none'})"
        for key, name in PARTS.items()
        if head.get(key) != here[key]
    ]
    if other:
        raise BadInput(
            f"{file.name} was made with {' and '.join(other)}: its compiled code does not fit this machine. "
            "Make one here with `cache save`."
        )
    cache = _cache()
    entries, start = 0, 0
    for name, length in head["parts"]:
        content, start = payload[start : start + length], start + length
        if name is not None:
            _put(cache / name, content)
            entries += 1
        elif (info := torch.compiler.load_cache_artifacts(content)) is not None:
            entries += sum(map(len, info.artifacts.values()))
        else:
            raise BadInput(_broken(file))
    return {"cells": sum(name is None for name, _ in head["parts"]), "entries": entries, "cache": str(cache)}


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        draft.write(content)


def _read(file: Path) -> tuple[dict[str, Any], bytes]:
    """The head, and all parts joined. Raises BadInput where the checksum or the lengths do not match."""
    try:
        with file.open("rb") as opened:
            line = opened.readline(MAX_HEAD_BYTES)
            payload = opened.read()
    except OSError as error:
        raise BadInput(f"The cache file {file.name!r} cannot be read: {error.strerror}.") from error
    try:
        head = json.loads(line)
        if head["format"] != FORMAT:
            raise BadInput(f"{file.name} has the format {head['format']!r}; this version reads {FORMAT!r}.")
        whole = sum(length for _, length in head["parts"]) == len(payload)
        whole = whole and hashlib.sha256(payload).hexdigest() == head["sha256"]
        named = all(name is None or OBJECT.fullmatch(name) for name, _ in head["parts"])
    except BadInput:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{file.name} is not a file that `cache save` wrote.") from error
    if not (whole and named):
        raise BadInput(_broken(file))
    return head, payload


def _broken(file: Path) -> str:
    return f"{file.name} is damaged: its content does not fit its checksum. Copy it again, or make it anew."


def say(**message: Any) -> None:
    os.write(ANSWERS, json.dumps(message).encode() + b"\n")


ANSWERS = 1


def main() -> None:
    global ANSWERS
    ANSWERS = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    job = json.loads(sys.stdin.buffer.readline())
    Image.MAX_IMAGE_PIXELS = None  # images.read holds its own, stricter limit
    file = Path(job["file"])
    try:
        if job["do"] == "save":
            say(saved=save(file, [codec.load(RunSpec, spec) for spec in job["specs"]], Path(job["image"])))
        else:
            say(loaded=load(file))
    except BadInput as refused:
        say(refused=str(refused))
    except OSError as error:
        say(refused=f"{file.name} was not written: {error.strerror}.")


if __name__ == "__main__":
    main()
