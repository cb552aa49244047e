"""A sweep as a file and as the measured table of its device."""

import dataclasses
from pathlib import Path

import pytest
from samples import ENVIRONMENT, measurement, ok_result

from demo.core.result import RunResult
from demo.core.spec import BadInput
from demo.store import measured
from demo.sweep.cells import Cell
from demo.sweep.table import write_device_table, write_table

SPEC = ok_result().spec


def test_the_table_can_be_parquet(tmp_path: Path) -> None:
    import pandas

    out = tmp_path / "table.parquet"
    write_table(out, [Cell(SPEC, ok_result())])
    assert list(pandas.read_parquet(out)["id"]) == [ok_result().id]


def test_a_sweep_becomes_the_measured_table_of_its_device(tmp_path: Path) -> None:
    failed = ok_result(id="two", status="out_of_memory", compiled=None)
    path = write_device_table([Cell(SPEC, ok_result()), Cell(SPEC, failed), Cell(SPEC)], tmp_path)
    assert path == tmp_path / "example-cpu.csv"
    rows = measured.read(path)
    assert [row.compiled_seconds for row in rows] == [pytest.approx(ok_result().latencies["compiled"], abs=1e-7), None]


def test_a_small_sweep_leaves_the_rows_of_a_measured_table_that_it_does_not_measure(tmp_path: Path) -> None:
    large = dataclasses.replace(SPEC, batch_size=4)
    other = dataclasses.replace(SPEC, mode="lite")
    write_device_table([Cell(one, ok_result(spec=one)) for one in (SPEC, large, other)], tmp_path)
    again = ok_result(compiled=measurement(0.0005))
    path = write_device_table([Cell(SPEC, again)], tmp_path)
    rows = {(row.batch_size, row.mode): row.compiled_seconds for row in measured.read(path)}
    earlier = ok_result().latencies["compiled"]
    expected = {(4, "default"): earlier, (1, "lite"): earlier, (1, "default"): again.latencies["compiled"]}
    assert rows == pytest.approx(expected, abs=1e-7)


def test_a_measured_table_that_cannot_be_read_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "example-cpu.csv").write_text("my,own,notes\n1,2,3\n")
    with pytest.raises(BadInput, match=r"measured table .*example-cpu\.csv"):
        write_device_table([Cell(SPEC, ok_result())], tmp_path)
    assert (tmp_path / "example-cpu.csv").read_text() == "my,own,notes\n1,2,3\n"


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ([], "No cell has a result"),
        ([ok_result(status="failed", compiled=None)], "nothing to put into a table"),
        (
            [ok_result(), ok_result(environment=dataclasses.replace(ENVIRONMENT, device_name="Another"))],
            "Another, Example CPU: a measured table belongs to one device",
        ),
    ],
    ids=["none", "failed only", "two devices"],
)
def test_a_table_of_nothing_or_of_two_devices_is_refused(results: list[RunResult], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=words):
        write_device_table([Cell(SPEC, result) for result in results], tmp_path)
    assert not list(tmp_path.iterdir())
