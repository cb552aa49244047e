"""The copy of a dataset's rows, from a Hub on loopback: fetched, kept, and shown without one."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import constants
from shared_tables import NAME, cells, write

from demo.store import shared_copy, shared_rows
from demo.store.shared_copy import Shared, SharedCopy
from tests import hub_stub

DATASET = "somebody/worth-compiling-runs"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_ASSETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write(tmp_path / "repository", [cells()])
    return tmp_path / "repository"


@pytest.fixture
def online(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The paths whose bytes were asked for."""
    fetched: list[str] = []
    with hub_stub.serve({f"datasets/{DATASET}": repository}, fetched) as endpoint:
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        yield fetched


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


def test_rows_come_from_the_hub_and_nobody_waits_for_them(tmp_path: Path, online: list[str]) -> None:
    copy = SharedCopy(DATASET)
    first = copy.look()
    assert first.fetching and first.rows == () and first.fetched_at == ""
    shared = arrived(copy)
    assert [row.device_name for row in shared.rows] == ["Example CPU"]
    assert shared.fetched_at and shared.problem is None and len(online) == 1


def test_without_the_hub_or_its_leave_the_last_copy_stays_and_says_of_when_it_is(
    online: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = SharedCopy(DATASET)
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
    tmp_path: Path, repository: Path, online: list[str]
) -> None:
    write(repository, [cells(id="another")], "rows/2026-11-20-cafe.parquet")
    copy = SharedCopy(DATASET)
    assert len(looked(copy).rows) == len(online) == 2
    write(repository, [cells(), cells(id="new")])
    assert {row.id for row in looked(copy).rows} >= {"another", "new"}
    assert online[2:] == [f"datasets/{DATASET}/{Path(NAME).name}"]
    (repository / NAME).unlink()
    assert [row.id for row in looked(copy).rows] == ["another"]
    assert [file.name for file in (tmp_path / "cache").rglob("*.parquet")] == ["2026-11-20-cafe.parquet"]


def test_a_dataset_without_rows_is_no_failure(repository: Path, online: list[str]) -> None:
    (repository / NAME).unlink()
    shared = looked(SharedCopy(DATASET))
    assert shared.rows == () and shared.fetched_at and shared.problem is None


def test_only_what_was_listed_is_fetched_and_an_old_copy_is_not_called_new(
    repository: Path, online: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A push between the listing and the download."""
    copy, fetch = SharedCopy(DATASET), huggingface_hub.hf_hub_download
    before = looked(copy)

    def pushed(*asked: Any, **named: Any) -> str:
        write(repository, [cells(id="unlisted")], "rows/2026-11-22-beef.parquet")
        return fetch(*asked, **named)

    write(repository, [cells(id="pushed")] * 2, NAME)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", pushed)
    after = looked(copy)
    assert after.problem and (after.rows, after.fetched_at) == (before.rows, before.fetched_at)
    assert len(online) == 1


def test_more_files_than_fit_leave_the_newest_days(
    tmp_path: Path, repository: Path, online: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in ("01", "02"):
        write(
            repository,
            [cells(id=f"day-{day}", started_at=f"2026-11-{day}T00:00:00Z")],
            f"rows/2026-11-{day}-cafe.parquet",
        )
    (repository / "rows" / "README.md").write_text("not a table")
    write(repository, [cells(id="a wrong clock")], "rows/2126-11-03-cafe.parquet")
    monkeypatch.setattr(shared_copy, "MAX_FILES", 2)
    shared = looked(SharedCopy(DATASET))
    assert [row.id for row in shared.rows] == [cells()["id"], "day-02"] and shared.cut and len(online) == 2


def test_a_bad_file_and_a_bad_row_are_counted_and_harm_nothing_else(repository: Path, online: list[str]) -> None:
    (repository / "rows" / "2026-11-20-bad.parquet").write_bytes(b"PAR1 and no more")
    write(repository, [cells(id="good"), cells(speedup=float("nan"))], "rows/2026-11-20-half.parquet")
    shared = looked(SharedCopy(DATASET))
    assert {row.id for row in shared.rows} == {cells()["id"], "good"}
    assert (shared.unreadable_rows, shared.unreadable_files) == (1, 1)


def test_nothing_is_fetched_while_a_run_goes_on(tmp_path: Path, online: list[str]) -> None:
    copy = SharedCopy(DATASET)
    for _ in range(2):
        waiting = copy.look(busy=True)
        assert (waiting.problem, waiting.fetching) == ("busy", True) and online == []
    before = looked(copy)
    copy._due = 0.0
    assert copy.look(busy=True) == before and len(online) == 1


def test_the_newest_rows_of_all_files_are_kept_each_once(
    repository: Path, online: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for file, days in (("b", (("a", 20), ("c", 22))), ("a", (("b", 21), ("a", 20)))):
        rows = [cells(id=id, started_at=f"2026-11-{day}T00:00:00Z") for id, day in days]
        write(repository, rows, f"rows/2026-11-22-{file}.parquet")
    (repository / NAME).unlink()
    shared = looked(SharedCopy(DATASET))
    assert ([row.id for row in shared.rows], shared.cut) == (["c", "b", "a"], False)
    for limit, ids in ((2, ["c", "a"]), (1, ["c"])):  # the second file is not read any more
        monkeypatch.setattr(shared_rows, "MAX_ROWS", limit)
        shared = looked(SharedCopy(DATASET))
        assert ([row.id for row in shared.rows], shared.cut) == (ids, True)
