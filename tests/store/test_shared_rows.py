"""Rows that others shared: what is kept of good files, what bad ones cost, and their copy from a Hub on loopback."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pyarrow
import pytest
from huggingface_hub import constants
from samples import failed_result, full_result, ok_result, text_result
from shared_tables import NAME, cells, plausible, write

from demo.store import shared_rows
from demo.store.shared_rows import Shared, SharedCopy, SharedRow
from tests import hub_stub


def only(folder: Path, row: dict[str, Any]) -> SharedRow:
    ((read,), unreadable) = shared_rows.read(write(folder, [row]))
    assert unreadable == 0
    return read


@pytest.mark.parametrize("result", [ok_result(), full_result(), text_result()], ids=["CPU", "GPU", "text"])
def test_a_row_brings_back_spec_versions_and_interval(result: Any, tmp_path) -> None:
    row = only(tmp_path, cells(result))
    machine, speedup = result.environment, result.speedup
    assert (row.spec, row.torch, row.device_name) == (result.spec, machine.torch, machine.device_name)
    assert (row.speedup_low, row.speedup, row.speedup_high) == (speedup.low, speedup.ratio, speedup.high)
    assert (row.verdict, row.threads) == (speedup.verdict, machine.threads)


def test_an_out_of_memory_is_a_row_and_a_cancelled_run_is_none(tmp_path) -> None:
    statuses = ("out_of_memory", "compile_failed", "cancelled", "crashed")
    rows = [cells(failed_result(), status=status, id=status) for status in statuses]
    read, unreadable = shared_rows.read(write(tmp_path, rows))
    assert [row.status for row in read] == ["out_of_memory", "compile_failed"] and unreadable == 0


UNREADABLE = (ValueError, TypeError, OSError, pyarrow.ArrowException)
BAD_CELLS: list[dict[str, Any]] = [
    {"eager_ms": -1.0}, {"eager_ms": math.nan}, {"compiled_ms": math.inf}, {"compiled_ms": 1e300}, {"eager_ms": None},
    {"compiled_ms": 10.0}, {"speedup_low": 5.0}, {"speedup_low": 0.9}, {"speedup_high": 1e300},
    {"verdict": "fastest"}, {"verdict": "slower"}, {"verdict": "same"}, {"status": "splendid"},
    {"threads": 0}, {"threads": 2**60}, {"batch_size": 100_000}, {"mode": "<b>turbo</b>"},
    {"checkpoint": "<script>alert(1)</script>"}, {"checkpoint": "[click](https://example.com)"},
    {"checkpoint": "/etc/passwd"}, {"checkpoint": "a" * 97}, {"task": "own-model", "checkpoint": "model"},
    {"device_name": "Tesla\N{RIGHT-TO-LEFT OVERRIDE} 4T"}, {"device_name": "Tesla\x1b[31m T4"},
    {"device_name": "<img src=x onerror=alert(1)>"}, {"device_name": ""}, {"device_name": None},
    {"torch": "new"}, {"id": "../../x"},
    {"started_at": "9999-01-01T00:00:00Z"}, {"started_at": "2026-02-31T00:00:00Z"}, {"started_at": "yesterday"},
]  # fmt: skip


def test_a_bad_row_costs_itself_only(tmp_path) -> None:
    rows = [row for place, bad in enumerate(BAD_CELLS) for row in (cells(**bad), cells(id=f"good-{place}"))]
    read, unreadable = shared_rows.read(write(tmp_path, rows))
    assert [row.id for row in read] == [f"good-{place}" for place in range(len(BAD_CELLS))]
    assert unreadable == len(BAD_CELLS)


def test_a_column_of_another_type_costs_its_file_only(tmp_path) -> None:
    for name, values in {
        "speedup": [["2.0"]],
        "eager_ms": [{"ratio": 2.0}],
        "compiled_ms": ["fast"],
        "batch_size": [1.5],
        "fullgraph": ["no"],
        "prompt": ["a" * 5_000_000],
        "device_name": pyarrow.array([b"\xff\xfe"]).view(pyarrow.string()),
    }.items():
        with pytest.raises(UNREADABLE):
            shared_rows.read(write(tmp_path, [cells()], **{name: pyarrow.array(values)}))


def test_a_file_that_is_no_table_of_results_costs_itself_only(tmp_path) -> None:
    whole = write(tmp_path, [cells()]).read_bytes()
    for content in (b"", b"PAR1", b"not at all", whole[: len(whole) // 2], whole[:-20] + b"\xff" * 20):
        (tmp_path / "bad.parquet").write_bytes(content)
        with pytest.raises(UNREADABLE):
            shared_rows.read(tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match="no "):
        shared_rows.read(write(tmp_path, [{"name": "somebody", "value": 3}]))


def test_a_column_of_an_older_program_is_missing_and_has_its_default(tmp_path) -> None:
    old = {name: value for name, value in cells(batch_size=4).items() if name not in ("freezing", "prompt", "scope")}
    row = only(tmp_path, old)
    assert row.spec.batch_size == 4 and row.spec.freezing is False


def test_a_file_of_too_many_rows_or_bytes_is_not_read(tmp_path, monkeypatch) -> None:
    path = write(tmp_path, plausible(5))
    assert len(shared_rows.read(path)[0]) == 5
    for limit, least in (("MAX_ROWS", 5), ("MAX_DECODED", 1_000)):
        with monkeypatch.context() as small:
            small.setattr(shared_rows, limit, least - 1)
            with pytest.raises(ValueError, match="too large"):
                shared_rows.read(path)


def test_only_equal_versions_and_settings_are_compared_on_any_model_and_device(tmp_path) -> None:
    gpu = {"device": "cuda", "device_name": "Tesla T4"}
    apart: list[dict[str, Any]] = [
        {"torch": "2.11.0"}, {"transformers": "5.0.0"}, {"mode": "lite"}, {"batch_size": 2}, {"dtype": "bfloat16"},
        {"weights": "random"}, {"protocol": "as published"}, {"freezing": True},
    ]  # fmt: skip
    together: list[dict[str, Any]] = [
        {"checkpoint": "microsoft/resnet-50"}, gpu, gpu | {"threads": 8}, {"threads": 8}, {"precision": 0.05},
        {"most_seconds": 30.0}, {"repeats": 3},
    ]  # fmt: skip
    rows = [cells(id=str(number), **other) for number, other in enumerate(({}, *apart, *together))]
    first, *others = shared_rows.read(write(tmp_path, rows))[0]
    assert [row.setting == first.setting for row in others] == [False] * len(apart) + [True] * len(together)
    _, few_on_gpu, many_on_gpu, many, *_ = others[len(apart) :]
    assert few_on_gpu.device == many_on_gpu.device and many.device != first.device  # threads tell CPUs apart


DATASET = "somebody/worth-compiling-runs"


@pytest.fixture
def repository(tmp_path) -> Path:
    write(tmp_path / "repository", [cells()])
    return tmp_path / "repository"


@pytest.fixture
def online(repository: Path, tmp_path, monkeypatch) -> Iterator[list[str]]:
    """The paths whose bytes were asked for."""
    monkeypatch.setattr(constants, "HF_ASSETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    fetched: list[str] = []
    with hub_stub.serve({f"datasets/{DATASET}": repository}, fetched) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        yield fetched


@pytest.fixture
def copy(online: list[str]) -> SharedCopy:
    return SharedCopy(DATASET)


def looked(copy: SharedCopy) -> Shared:
    """What the copy says when its thread is done."""
    copy._due = 0.0  # as if the last look were long ago
    assert copy.look().fetching
    return arrived(copy)


def arrived(copy: SharedCopy) -> Shared:
    end = time.monotonic() + 20
    while (shared := copy.look()).fetching and time.monotonic() < end:
        time.sleep(0.01)
    return shared


def test_rows_come_from_the_hub_and_nobody_waits_for_them_nor_fetches_while_a_run_goes_on(
    copy: SharedCopy, online: list[str]
) -> None:
    for _ in range(2):
        waiting = copy.look(busy=True)
        assert (waiting.problem, waiting.fetching) == ("busy", True) and online == []
    first = copy.look()
    assert first.fetching and first.rows == () and first.fetched_at == ""
    shared = arrived(copy)
    assert [row.device_name for row in shared.rows] == ["Example CPU"]
    assert shared.fetched_at and shared.problem is None and len(online) == 1
    copy._due = 0.0
    assert copy.look(busy=True) == shared and len(online) == 1


def test_without_the_hub_or_its_leave_the_last_copy_stays_and_says_of_when_it_is(copy: SharedCopy, monkeypatch) -> None:
    before = looked(copy)
    for status, code in ((401, "RepoNotFound"), (403, "GatedRepo"), (500, ""), (0, "")):
        if status:
            monkeypatch.setitem(hub_stub.FAILURES, f"datasets/{DATASET}", (status, {"X-Error-Code": code}))
        else:
            monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        after = looked(copy)
        assert (after.rows, after.fetched_at, after.problem) == (before.rows, before.fetched_at, "failed")
    restarted = looked(SharedCopy(DATASET))
    assert (restarted.rows, restarted.fetched_at, restarted.problem) == ((), "", "failed")


def test_a_new_push_is_fetched_an_old_file_is_not_again_and_its_former_version_goes(
    copy: SharedCopy, tmp_path, repository: Path, online: list[str]
) -> None:
    write(repository, [cells(id="another")], "rows/2026-11-20-cafe.parquet")
    assert len(looked(copy).rows) == len(online) == 2
    write(repository, [cells(), cells(id="new")])
    assert {row.id for row in looked(copy).rows} >= {"another", "new"}
    assert online[2:] == [f"datasets/{DATASET}/{Path(NAME).name}"]
    (repository / NAME).unlink()
    assert [row.id for row in looked(copy).rows] == ["another"]
    assert [file.name for file in (tmp_path / "cache").rglob("*.parquet")] == ["2026-11-20-cafe.parquet"]
    (repository / "rows/2026-11-20-cafe.parquet").unlink()
    empty = looked(copy)  # which is no failure
    assert empty.rows == () and empty.fetched_at and empty.problem is None


def test_only_what_was_listed_is_fetched_and_an_old_copy_is_not_called_new(
    copy: SharedCopy, repository: Path, online: list[str], monkeypatch
) -> None:
    """A push between the listing and the download."""
    before, fetch = looked(copy), huggingface_hub.hf_hub_download

    def pushed(*asked: Any, **named: Any) -> str:
        write(repository, [cells(id="unlisted")], "rows/2026-11-22-beef.parquet")
        return fetch(*asked, **named)

    write(repository, [cells(id="pushed")] * 2, NAME)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", pushed)
    after = looked(copy)
    assert after.problem and (after.rows, after.fetched_at) == (before.rows, before.fetched_at)
    assert len(online) == 1


def test_more_files_than_fit_leave_the_newest_days(
    copy: SharedCopy, repository: Path, online: list[str], monkeypatch
) -> None:
    for day in ("01", "02"):
        row = cells(id=f"day-{day}", started_at=f"2026-11-{day}T00:00:00Z")
        write(repository, [row], f"rows/2026-11-{day}-cafe.parquet")
    (repository / "rows" / "README.md").write_text("not a table")
    write(repository, [cells(id="a wrong clock")], "rows/2126-11-03-cafe.parquet")
    monkeypatch.setattr(shared_rows, "MAX_FILES", 2)
    shared = looked(copy)
    assert [row.id for row in shared.rows] == [cells()["id"], "day-02"] and shared.cut and len(online) == 2


def test_a_bad_file_and_a_bad_row_are_counted_and_harm_nothing_else(copy: SharedCopy, repository: Path) -> None:
    (repository / "rows" / "2026-11-20-bad.parquet").write_bytes(b"PAR1 and no more")
    write(repository, [cells(id="good"), cells(speedup=float("nan"))], "rows/2026-11-20-half.parquet")
    shared = looked(copy)
    assert {row.id for row in shared.rows} == {cells()["id"], "good"}
    assert (shared.unreadable_rows, shared.unreadable_files) == (1, 1)


def test_the_newest_rows_of_all_files_are_kept_each_once(copy: SharedCopy, repository: Path, monkeypatch) -> None:
    for file, days in (("b", (("a", 20), ("c", 22))), ("a", (("b", 21), ("a", 20)))):
        rows = [cells(id=id, started_at=f"2026-11-{day}T00:00:00Z") for id, day in days]
        write(repository, rows, f"rows/2026-11-22-{file}.parquet")
    (repository / NAME).unlink()
    for limit, ids in (
        (100, ["c", "b", "a"]),
        (2, ["c", "a"]),
        (1, ["c"]),
    ):  # then the second file is not read any more
        monkeypatch.setattr(shared_rows, "MAX_ROWS", limit)
        shared = looked(copy)
        assert ([row.id for row in shared.rows], shared.cut) == (ids, limit < 3)
