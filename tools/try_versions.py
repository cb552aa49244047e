"""Tries the project with other versions of torch and transformers, each pair in an environment of its own.

    python -m tools.try_versions 2.11.0/5.23.0 2.15.0/5.24.0 --environments FOLDER

An environment is made with pip, or reused if an earlier start of this command made it in FOLDER. It takes some
gigabytes. In each environment the tests `TESTS` and the default run of the command line are run, with a compile cache
of its own. The table goes to `benchmarks/results/try_versions.md`. Tests that compare a library's texts with those of
the pinned versions may fail.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
import venv
from pathlib import Path

from benchmarks import report

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("tests/backend", "tests/tasks", "tests/ui", "tests/runs", "tests/cli", "tests/test_library.py")
FREE = ("torch", "transformers", "huggingface_hub")
"""Requirements that are installed without this project's pins. Torch and transformers get the versions to try, and pip
chooses the huggingface_hub that fits."""


def environment(folder: Path, torch: str, transformers: str) -> Path:
    """Returns the path of Python in a virtual environment with these versions, which is made if it does not exist.

    Raises CalledProcessError if pip fails.
    """
    home = folder / f"torch-{torch}-transformers-{transformers}"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        venv.create(home, with_pip=True, clear=True)
        lines = "\n".join((ROOT / name).read_text() for name in ("requirements.txt", "requirements-dev.txt"))
        pins = re.sub(rf"^({'|'.join(FREE)})==.*$", "", lines, flags=re.MULTILINE)
        requirements = home / "requirements.txt"
        requirements.write_text(f"torch=={torch}\ntransformers=={transformers}\n{pins}")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", requirements], check=True)
        (home / "complete").touch()
    return python


def try_pair(python: Path, caches: Path, tests: list[str]) -> list[str]:
    """Runs the tests and the default run in an environment. Returns the cells of the table row.

    The cells are the outcome of the tests, the failed tests, the outcome of the default run, and how long all took.
    """
    variables = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(caches / "cache"), "WORTH_COMPILING_DATA": str(caches)}
    started = time.perf_counter()
    command = [str(python), "-m", "pytest", "--quiet", "--durations=0", "--durations-min=600", *tests]
    process = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    lines = process.stdout.strip().splitlines() or [process.stderr.strip()]
    print(*lines[-40:], sep="\n", file=sys.stderr)
    failed = [line.split(" - ")[0].removeprefix("FAILED tests/") for line in lines if line.startswith("FAILED")]
    run = [str(python), "-m", "demo", "run", "--json"]
    answer = subprocess.run(run, cwd=ROOT, env=variables, capture_output=True, text=True)
    result = json.loads(answer.stdout) if answer.returncode == 0 else None
    outcome = f"{result['speedup']['low']:.2f} to {result['speedup']['high']:.2f}×" if result else answer.stderr[-200:]
    return [lines[-1].strip("= "), ", ".join(failed) or "none", outcome, f"{time.perf_counter() - started:.0f} s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pairs", nargs="+", metavar="TORCH/TRANSFORMERS", help="such as 2.15.0/5.24.0")
    parser.add_argument(
        "--environments", type=Path, required=True, metavar="FOLDER", help="where they are made and kept"
    )
    parser.add_argument("--tests", nargs="+", default=list(TESTS), metavar="PATH", help=f"default: {' '.join(TESTS)}")
    options = parser.parse_args()
    rows = []
    for pair in options.pairs:
        torch, _, transformers = pair.partition("/")
        python = environment(options.environments, torch, transformers)
        rows.append([torch, transformers, *try_pair(python, python.parents[1], options.tests)])
    header = ["torch", "transformers", "tests", "failed", "default run", "time"]
    report.publish("try_versions", "Other versions of torch and transformers", report.table(header, rows), "tools")


if __name__ == "__main__":
    main()
