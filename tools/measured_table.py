"""Adds stored runs to this project's tables of speed-ups, `assets/measured/*.csv`, which the page shows.

python -m demo history export runs.json --search "..."
python -m tools.measured_table runs.json
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from demo.core import catalog
from demo.core.files import replacing
from demo.core.options import OPTIONS, BadInput, RunSpec
from demo.core.result import RunResult
from demo.core.result_json import from_json
from demo.store import published
from demo.store.export import csv_text
from demo.store.published import COLUMNS, SUBSET, PublishedRow, csv_cells, read_measured

UNNAMED = ("batch_size", "device", "weights", "text", "fullgraph")
"""Options of a run that are not named in the column `subset` of its row."""


def add_measured(results: Iterable[RunResult], path: Path, commit: str) -> list[RunResult]:
    """Writes rows into the table at `path`, new or existing. Returns the results for which no row was written.

    A run gets a row if it has a valid speed-up or ran out of memory. Its row replaces an earlier row with the same
    checkpoint, batch size and subset. `commit`: this project's commit. Raises BadInput if the existing table cannot be
    read, OSError if it cannot be written.
    """
    results_and_rows = [(result, _row(result, commit)) for result in results]
    if rows := [row for _, row in results_and_rows if row is not None]:
        earlier = read_measured(path) if path.exists() else []
        newest = {(row.checkpoint, row.batch_size, row.subset): row for row in rows}
        kept = [row for row in earlier if (row.checkpoint, row.batch_size, row.subset) not in newest]
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            draft.write(csv_text(COLUMNS, map(csv_cells, [*kept, *rows])).encode())
    return [result for result, row in results_and_rows if row is None]


def table_of(results: Iterable[RunResult]) -> Path:
    """Returns the path of the table for the results' device. Raises BadInput unless there is exactly one device."""
    devices = {result.environment.device_name for result in results if result.environment is not None}
    if len(devices) != 1:
        raise BadInput(
            f"A measured table belongs to one device. The runs are of: {', '.join(sorted(devices)) or 'none'}."
        )
    name = re.sub(r"[^a-z0-9]+", "-", device_label(devices.pop()).lower()).strip("-") or "device"
    return published.MEASURED_FOLDER / f"{name}.csv"


def device_label(name: str) -> str:
    """Returns a device's short name: 'T4' for 'Tesla T4', 'H200' for 'NVIDIA H200'."""
    return name.removeprefix("NVIDIA ").removeprefix("Tesla ").strip() or name


def subset_of(spec: RunSpec) -> str:
    """Returns a run's `PublishedRow.subset`: 'measured', then the options of `_departures`."""
    named = [SUBSET]
    for name, value in _departures(spec).items():
        word = name.replace("_", "-") if value is True else f"{name}-{value}"
        named.append(value if name in ("mode", "dtype") else word)
    return " ".join(named)


def _departures(spec: RunSpec) -> dict[str, Any]:
    """Returns the options that are not at their default, except those of the timing and those in `UNNAMED`."""
    options = spec.departures().items()
    return {name: value for name, value in options if not OPTIONS[name].timing and name not in UNNAMED}


def _row(result: RunResult, commit: str) -> PublishedRow | None:
    """Returns a run's row; None if the run has no valid speed-up and did not run out of memory."""
    spec, machine = result.spec, result.environment
    out_of_memory = result.status == "out_of_memory"
    speedup = None if out_of_memory else result.speedup
    answered = result.status == "ok" and not result.void and speedup is not None
    if machine is None or not (answered or out_of_memory):
        return None
    entry = catalog.find(spec.checkpoint)
    costs = {state: both[1] for state in result.starts if (both := result.costs(state)) is not None}
    first_calls = {state: cost.first.seconds for state, cost in costs.items()}
    return PublishedRow(
        subset=subset_of(spec),
        gpu=device_label(machine.device_name),
        torch=machine.torch,
        mode=spec.mode,
        batch_size=spec.batch_size,
        task=spec.task,
        model=entry.family if entry else spec.checkpoint.rsplit("/", 1)[-1],
        checkpoint=spec.checkpoint,
        eager_seconds=result.latencies.get("eager"),
        compiled_seconds=None if out_of_memory else result.latencies["compiled"],
        speedup=speedup.ratio if speedup else None,
        speedup_low=speedup.low if speedup else None,
        speedup_high=speedup.high if speedup else None,
        dtype=spec.dtype,
        weights=spec.weights,
        transformers=machine.transformers,
        triton=machine.triton or "",
        device=machine.device_name,
        driver=machine.driver or "",
        commit=commit,
        date=result.started_at[:10],
        speedup_basis=speedup.basis if speedup else "",
        repeats=speedup.processes if speedup else len(result.earlier) + 1,
        threads=machine.threads if spec.device == "cpu" else None,
        first_call_seconds=first_calls.get("cold"),
        kept_first_call_seconds=first_calls.get("warm"),
        settings={name: value for name, value in _departures(spec).items() if name not in ("mode", "dtype")},
    )


def main(file: str) -> int:
    """Adds the runs in `file`, exported as JSON, to the table of the device that they ran on. Returns the exit code."""
    try:
        newest_first = json.loads(Path(file).read_text(encoding="utf-8"))
        results = [from_json(result) for result in reversed(newest_first)]  # of equal settings the last row stays
        path = table_of(results)
        left_out = add_measured(results, path, published.current_commit())
    except (BadInput, OSError, ValueError, TypeError) as error:
        print(f"{file} was not added to a measured table: {error}", file=sys.stderr)
        return 1
    print(f"{path}: runs added: {len(results) - len(left_out)}, without a speed-up: {len(left_out)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
