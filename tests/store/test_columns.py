"""The columns of every table, and their values, held against a fixture of November 2026."""

import csv
import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
from samples import failed_result, full_result, ok_result, text_result

from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL, RunSpec
from demo.store import export, measured, published
from demo.store.tables import COLUMNS
from demo.sweep import table as sweep_table
from demo.sweep.cells import Cell

FIXTURE = Path(__file__).parents[1] / "fixtures" / "columns_v1.json"
RESULTS = {
    "ok": ok_result(),
    "full": full_result(),
    "failed": failed_result(),
    "interrupted": ok_result(status="interrupted", environment=None, eager=None, compiled=None, control_times=None),
}


def device_table(result: RunResult, folder: Path) -> str:
    (folder / "table.csv").write_text(f"{','.join(COLUMNS)}\n", encoding="utf-8")  # an empty one
    measured.add_measured([result], folder / "table.csv", commit="0123456789ab")
    return (folder / "table.csv").read_text(encoding="utf-8")


def tables(folder: Path) -> dict[str, Any]:
    own = measured.read(folder / "table.csv") if (folder / "table.csv").exists() else []
    return {
        "export": {name: export.row(result) for name, result in RESULTS.items()},
        "sweep": {name: sweep_table.record(Cell(result.spec, result)) for name, result in RESULTS.items()},
        "sweep of a refused cell": sweep_table.record(Cell(ok_result().spec, refused="No.")),
        "measured": {name: device_table(result, folder) for name, result in RESULTS.items()},
        "published": [published.record(row) for row in (*published.rows()[:2], *own)],
        "published as CSV": published.to_csv([*published.rows()[:2], *own]),
    }


def assert_same(found: Any, known: Any) -> None:
    """Dicts in the same order, with further names between; texts (CSV cell by cell) and numbers equal, to 4 digits."""
    if isinstance(known, dict):
        assert [name for name in found if name in known] == list(known)
        for name, value in known.items():
            assert_same(found[name], value)
    elif isinstance(known, list):
        assert len(found) == len(known)
        for one, other in zip(found, known, strict=True):
            assert_same(one, other)
    elif isinstance(known, str) and "\n" in known:
        assert_same(list(csv.reader(found.splitlines())), list(csv.reader(known.splitlines())))
    elif isinstance(known, str) and re.fullmatch(r"\d+\.\d+", known):
        assert float(found) == pytest.approx(float(known), rel=1e-4)
    else:
        assert type(found) is type(known)
        assert found == (pytest.approx(known, rel=1e-4) if isinstance(known, float) else known)


def test_every_table_has_the_columns_and_values_that_it_had(tmp_path: Path) -> None:
    device_table(dataclasses.replace(full_result(), status="out_of_memory"), tmp_path)
    assert_same(tables(tmp_path), json.loads(FIXTURE.read_text(encoding="utf-8")))


def test_rates_are_of_what_a_model_gives_and_options_without_a_meaning_are_empty() -> None:
    own = ok_result(spec=RunSpec("net.py:make", OWN_MODEL, device="cpu"))
    file = export.encoded([ok_result(), text_result(), own], "csv").decode()
    pictures, text, other = csv.DictReader(file.splitlines())
    per_second = {"eager_images_per_second", "eager_tokens_per_second"}
    assert {name for name in per_second if pictures[name]} == {"eager_images_per_second"}
    assert {name for name in per_second if text[name]} == {"eager_tokens_per_second"}
    assert not any(other[name] for name in (*per_second, "batch_size", "weights", "tokens"))
    assert pictures["tokens"] == text["channels_last"] == "" and text["tokens"] == "4"
    assert "calls_per_second" in own.to_json()["eager"]
