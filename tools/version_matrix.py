"""Which ways to compile work with which environment: a matrix with the date of each cell.

    python -m tools.version_matrix --python ENV/bin/python --python OTHER/bin/python [--checkpoint ID] [--way WAY]

Each cell is one run on the command line in a process of the environment named, with an empty compile cache and a
history that is thrown away. The environments take turns, A B B A, so that a drift of the machine reaches both alike.
New cells replace those of the same versions in benchmarks/results/versions.json; versions.md is its table.
"""

import argparse
import json
import os
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo.core.files import replacing

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "benchmarks" / "results" / "versions.json"
CHECKPOINTS = ("shapes-vit", "shapes-segformer", "shapes-rtdetr")
WAYS = {
    "jit": [],
    "freezing": ["--freezing"],
    "layers": ["--scope", "layers"],
    "package": ["--compiler", "aot"],
    "graph break": ["--graph-break"],
}
"""The options of each way, beside those that every cell has."""
LIMIT_SECONDS = 540
VERSIONS = (
    "import json, platform, torch, transformers; print(json.dumps("
    "{'python': platform.python_version(), 'torch': torch.__version__, 'transformers': transformers.__version__}))"
)
PLACE = ("python", "torch", "transformers", "checkpoint", "way")
"""What tells one cell from another."""


def versions(python: str) -> dict[str, str]:
    """Python, torch and transformers of an environment. Raises CalledProcessError where they do not import."""
    found: dict[str, str] = json.loads(subprocess.check_output([python, "-c", VERSIONS], text=True))
    return found


def run(python: str, checkpoint: str, way: str) -> dict[str, Any]:
    """One cell: 'worked' or 'failed', with the reason or the figures (ms), and the date (UTC)."""
    options = [*WAYS[way], *([] if way == "package" else ["--cache", "empty"])]
    command = [python, "-m", "demo", "run", "--checkpoint", checkpoint, "--device", "cpu", *options, "--json"]
    with tempfile.TemporaryDirectory() as data:
        environment = os.environ | {"WORTH_COMPILING_DATA": data}
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=LIMIT_SECONDS
            )
            printed, said = ran.stdout, ran.stderr
        except subprocess.TimeoutExpired:
            printed, said = "", f"no result after {LIMIT_SECONDS} s"
    return {"date": f"{datetime.now(UTC):%Y-%m-%d}", **outcome(printed, said)}


def outcome(printed: str, said: str) -> dict[str, Any]:
    """What the run's JSON says; where it printed none, the last line of what it said."""
    try:
        result = json.loads(printed)
    except json.JSONDecodeError:
        return {"outcome": "failed", "reason": (said.strip().splitlines() or ["it said nothing"])[-1]}
    if result["status"] != "ok":
        failure = result.get("failure") or {}
        return {"outcome": "failed", "reason": failure.get("message") or result["status"]}
    figures = {name: result.get(name) for name in ("eager_ms", "compiled_ms")}
    return {"outcome": "worked", "agreement": (result.get("parity") or {}).get("verdict", "not told"), **figures}


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All cells, sorted; a new cell replaces the old one of its place. Several new ones of one place all stay."""
    replaced = {tuple(cell[name] for name in PLACE) for cell in new}
    kept = [cell for cell in old if tuple(cell[name] for name in PLACE) not in replaced]
    return sorted(kept + new, key=lambda cell: tuple(cell[name] for name in PLACE))


def table(cells: list[dict[str, Any]]) -> str:
    """A Markdown table with a row for each cell."""
    header = ["torch", "Python", "transformers", "checkpoint", "way", "date", "outcome", "eager", "compiled"]
    rows = [header, ["---"] * len(header)]
    for cell in cells:
        told = cell.get("agreement") or cell.get("reason") or ""
        times = [f"{cell[name]:.2f} ms" if cell.get(name) else "" for name in ("eager_ms", "compiled_ms")]
        place = [cell[name] for name in ("torch", "python", "transformers", "checkpoint", "way", "date")]
        rows.append([*place, f"{cell['outcome']}: {told}".replace("|", "\\|").replace("\n", " "), *times])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", required=True, metavar="PATH", help="once for each environment")
    parser.add_argument("--checkpoint", action="append", choices=CHECKPOINTS, help="default: all")
    parser.add_argument("--way", action="append", choices=WAYS, help="default: all")
    parser.add_argument("--turns", type=int, default=1, metavar="N", help="runs of each cell (default: 1; A B B A: 2)")
    asked = parser.parse_args()
    found = {python: versions(python) for python in asked.python}
    for checkpoint in asked.checkpoint or CHECKPOINTS:
        for way in asked.way or WAYS:
            new = []
            for turn in range(asked.turns):
                for python in asked.python if turn % 2 == 0 else asked.python[::-1]:
                    place = {**found[python], "checkpoint": checkpoint, "way": way}
                    new.append({**place, **run(python, checkpoint, way)})
                    print(json.dumps(new[-1]), flush=True)
            cells = merged(json.loads(KEPT.read_text()) if KEPT.exists() else [], new)
            with replacing(KEPT) as file:
                file.write((json.dumps(cells, indent=1) + "\n").encode())
            text = "# Versions\n\nMade by `python -m tools.version_matrix`; each row has its own date.\n"
            KEPT.with_suffix(".md").write_text(f"{text}\n{table(cells)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
