"""Tests of reading the results of a dataset, with a stub of the Hub."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import hub_stub
from support.samples import ok_result

from demo.core import hub
from demo.core.result import RunResult
from demo.core.result_json import dumps
from demo.store import hub_results
from demo.store.hub_results import HubResults

NAME = "somebody/runs"


@pytest.fixture
def dataset(tmp_path) -> Path:
    folder = tmp_path / "dataset"
    for day in (21, 22):
        for number in range(3):
            put(folder, ok_result(id=f"{day}-{number}", started_at=f"2026-11-{day}T0{number}:00:00Z"))
    return folder


def put(folder: Path, result: RunResult) -> Path:
    file = folder / f"runs/{result.started_at[:10]}/{result.id}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(dumps(result))
    return file


@pytest.fixture
def fetched(dataset: Path, tmp_path) -> Iterator[list[str]]:
    """Yields the list of the files that were downloaded from the stub."""
    files: list[str] = []
    with (
        hub_stub.serve({f"datasets/{NAME}": dataset}, files) as address,
        hub_stub.taken_for_the_hub(address, tmp_path / "cache"),
    ):
        yield files


def ids(results: list[RunResult]) -> list[str]:
    return [result.id for result in results]


def test_the_newest_results_come_first(fetched: list[str]) -> None:
    assert ids(HubResults(NAME).newest()) == ["22-2", "22-1", "22-0", "21-2", "21-1", "21-0"]


def test_only_the_newest_results_are_downloaded(fetched: list[str], monkeypatch) -> None:
    monkeypatch.setattr(hub_results, "MAX_RESULTS", 4)
    assert ids(HubResults(NAME).newest()) == ["22-2", "22-1", "22-0", "21-2"] and len(fetched) == 4


def test_results_that_are_stored_here_are_not_downloaded(fetched: list[str]) -> None:
    assert ids(HubResults(NAME).newest(without={"22-2", "21-0"})) == ["22-1", "22-0", "21-2", "21-1"]
    assert len(fetched) == 4


def test_a_file_is_downloaded_once(fetched: list[str], dataset: Path, monkeypatch) -> None:
    results = HubResults(NAME)
    results.newest()
    monkeypatch.setattr(hub_results, "ASK_AGAIN_SECONDS", -1.0)
    (dataset / "runs/2026-11-22/22-1.json").unlink()
    put(dataset, ok_result(id="23-0", started_at="2026-11-23T00:00:00Z"))
    assert ids(results.newest()) == ["23-0", "22-2", "22-0", "21-2", "21-1", "21-0"] and len(fetched) == 7


@pytest.mark.parametrize("text", ["", "[]", "{}", "\xff", json.dumps({"id": "22-1"})])
def test_a_file_that_is_no_result_is_left_out(text: str, fetched: list[str], dataset: Path, caplog) -> None:
    (dataset / "runs/2026-11-22/22-1.json").write_text(text)
    assert ids(HubResults(NAME).newest()) == ["22-2", "22-0", "21-2", "21-1", "21-0"]
    assert "22-1.json of the dataset somebody/runs is left out" in caplog.text


def test_a_large_file_is_not_downloaded(fetched: list[str], dataset: Path) -> None:
    (dataset / "runs/2026-11-22/22-1.json").write_bytes(bytes(hub_results.MAX_FILE_BYTES + 1))
    assert "22-1" not in ids(HubResults(NAME).newest()) and len(fetched) == 5


@pytest.mark.parametrize("name", ["somebody/other", "stub/broken"])
def test_a_dataset_that_cannot_be_listed_is_one_error(name: str, fetched: list[str]) -> None:
    with pytest.raises(hub.NoAnswer):
        HubResults(name).newest()


def test_a_hub_that_cannot_be_reached_is_one_error(monkeypatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(hub.NoAnswer, match="does not answer"):
        HubResults(NAME).newest()


def test_a_hub_that_lists_nothing_is_not_waited_for(fetched: list[str], monkeypatch) -> None:
    results, answered, entries = HubResults(NAME), threading.Event(), HubResults._entries
    monkeypatch.setattr(HubResults, "_entries", lambda *given: answered.wait() and entries(*given))
    monkeypatch.setattr(hub_results, "READING_SECONDS", 0.05)
    with pytest.raises(hub.NoAnswer, match="did not answer"):
        results.newest()
    monkeypatch.setattr(hub_results, "READING_SECONDS", 20.0)
    answered.set()
    assert len(results.newest()) == 6


def test_a_dataset_of_many_days_is_listed_in_part(fetched: list[str], monkeypatch) -> None:
    monkeypatch.setattr(hub_results, "LISTING_SECONDS", -1.0)
    assert ids(HubResults(NAME).newest()) == ["22-2", "22-1", "22-0"]


def test_slow_files_come_with_a_later_answer(fetched: list[str], monkeypatch) -> None:
    results, sent, download = HubResults(NAME), threading.Event(), HubResults._download
    monkeypatch.setattr(HubResults, "_download", lambda self, path: sent.wait(20) and download(self, path))
    monkeypatch.setattr(hub_results, "READING_SECONDS", 0.5)
    assert results.newest() == [] and not results.is_complete()
    monkeypatch.setattr(hub_results, "READING_SECONDS", 20.0)
    sent.set()
    assert len(results.newest()) == 6 and results.is_complete()


def test_while_one_thread_reads_another_does_not_wait(fetched: list[str]) -> None:
    results = HubResults(NAME)
    with results._reading:
        assert results.newest() == [] and not results.is_complete()
    assert len(results.newest(without={"21-0"})) == 5
    assert results.is_complete(without={"21-0"}) and not results.is_complete()
