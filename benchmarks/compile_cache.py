"""The first call of the compiled model, in fresh processes: with an empty cache, the local one, and a loaded file.

Each row runs `shapes-vit` in a process of its own; the file is saved from the local cache and loaded into an empty one.
"""

import os
import tempfile
from pathlib import Path

from benchmarks import report
from demo.cli.sweep_command import cache_process
from demo.core import catalog, format as fmt
from demo.core.codec import plain
from demo.core.result import RunResult
from demo.runs.runner import Runner

SCENE = catalog.ASSETS / "examples" / "shapes-scene-1.png"
SPEC = catalog.make_spec(checkpoint="shapes-vit", iterations=10)
ROUNDS = 3


def first_call(cache: Path) -> tuple[float, str]:
    """Seconds of the first compiled call in a fresh process over this cache, and what inductor called the cache."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    *_, result = Runner(None).run(SPEC, SCENE)
    if not isinstance(result, RunResult) or result.compilation is None:
        raise SystemExit("the run failed")
    return result.compilation.first_call_seconds, result.compilation.cache


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(ROUNDS):
            local, loaded, file = folder / f"local-{number}", folder / f"loaded-{number}", folder / "cache"
            cold = first_call(local)
            warm = first_call(local)
            cache_process({"file": file, "specs": [plain(SPEC)], "input_file": SCENE})
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(loaded)
            cache_process({"file": file})
            carried = first_call(loaded)
            rows.append([str(number + 1), *(f"{fmt.duration(s)} ({said})" for s, said in (cold, warm, carried))])
    header = ["round", "empty cache", "local cache", "cache loaded from the file"]
    report.publish("compile_cache", "The first call of the compiled model", report.table(header, rows))


if __name__ == "__main__":
    main()
