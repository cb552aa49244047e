"""Tests of pushing results to a dataset, with a stub of the Hub."""

import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from huggingface_hub import CommitOperationDelete, CommitScheduler, HfApi
from pyarrow import parquet
from support.samples import failed_result, ok_result, text_result

from demo.cli.main import main
from demo.core.hub import NoAnswer
from demo.core.measurement import Compilation
from demo.core.options import BadInput
from demo.core.result_json import from_json
from demo.store import export, hub_dataset
from demo.store.history import FOLDER_VARIABLE, History


@pytest.fixture(autouse=True)
def data_folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(hub_dataset.VARIABLE, "somebody/worth-compiling-runs")
    return tmp_path


class Hub(HfApi):
    """A stub of the Hub's API, which keeps commits in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.commits: list[list[str]] = []
        self.created: dict[str, Any] = {}

    def create_repo(self, **options: Any) -> Any:
        self.created = options
        return SimpleNamespace(repo_id=options["repo_id"])

    def create_commit(self, operations: list[Any], **_: Any) -> Any:
        self.commits.append([f"{type(operation).__name__} {operation.path_in_repo}" for operation in operations])
        for operation in operations:
            if isinstance(operation, CommitOperationDelete):
                del self.files[operation.path_in_repo]
            else:
                self.files[operation.path_in_repo] = operation.path_or_fileobj.read()

    def get_paths_info(self, repo_id: str, paths: Any, **_: Any) -> Any:
        return [SimpleNamespace(path=path) for path in paths if path in self.files]


@contextmanager
def scheduled_by(api: Callable[[], HfApi]) -> Iterator[History]:
    """Yields a history whose `CommitScheduler` uses the API that `api` returns."""

    class Scheduler(CommitScheduler):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options, hf_api=api())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.CommitScheduler", Scheduler)
        with hub_dataset.open_history() as history:
            yield history


@contextmanager
def connected(hub: Hub) -> Iterator[History]:
    """Yields a history, once it is connected to this Hub."""
    with scheduled_by(lambda: hub) as history:
        assert isinstance(history, hub_dataset.PushedHistory)
        history.connecting.join(20)
        yield history


def test_without_the_variable_nothing_is_pushed(monkeypatch) -> None:
    monkeypatch.delenv(hub_dataset.VARIABLE)
    with hub_dataset.open_history() as history:
        assert type(history) is History


@pytest.mark.parametrize("name", ["no-owner", "a/b/c", "https://huggingface.co/a/b", "a b/c"])
def test_what_is_no_dataset_is_refused(name: str, monkeypatch) -> None:
    monkeypatch.setenv(hub_dataset.VARIABLE, name)
    with pytest.raises(BadInput, match="owner/name"), hub_dataset.open_history():
        pass


FIRST, SECOND = "runs/2026-11-21/20261121T090000-abcdef.json", "runs/2026-11-21/20261121T090100-fedcba.json"


def test_a_result_is_pushed_whole() -> None:
    hub = Hub()
    with connected(hub) as history:
        history.append(ok_result())
        history.append(failed_result())
    assert hub.created["repo_type"] == "dataset" and hub.created["private"] is True
    assert [name for name in sorted(hub.files) if name.endswith(".json")] == [FIRST, SECOND]
    assert from_json(json.loads(hub.files[FIRST])) == ok_result() == History().get(ok_result().id)


def test_what_was_not_pushed_is_pushed_by_the_next_program(caplog) -> None:
    def unreachable() -> Any:
        raise ConnectionError("no way to the Hub")

    with scheduled_by(unreachable) as history:
        assert history.append(ok_result()).caveats == ()
    assert "no way to the Hub" in caplog.text
    hub = Hub()
    with connected(hub):
        pass
    assert FIRST in hub.files


def test_a_page_to_send_is_uploaded_and_goes_with_its_run(monkeypatch) -> None:
    hub = Hub()
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: hub)
    monkeypatch.setattr("demo.core.hub.problem", lambda: None)
    monkeypatch.setattr(
        hub, "upload_file", lambda path_or_fileobj, path_in_repo, **_: hub.files.update({path_in_repo: path_or_fileobj})
    )
    history = History()
    history.append(ok_result())
    address = hub_dataset.push_page(history, ok_result(), "<!doctype html>")
    place = "pages/2026-11-21/20261121T090000-abcdef.html"
    assert address.endswith(f"/datasets/somebody/worth-compiling-runs/blob/main/{place}")
    assert hub.files == {place: b"<!doctype html>"} and hub.created["private"] is True
    with connected(hub) as pushed:
        pushed.delete([ok_result().id])
    assert hub.files == {}


def test_a_hub_that_cannot_be_reached_is_one_error(monkeypatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(NoAnswer, match="does not answer"):
        hub_dataset.push_page(History(), ok_result(), "<!doctype html>")


def test_a_full_disk_is_one_error(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("demo.core.hub.problem", lambda: None)
    (tmp_path / "file").touch()
    history = SimpleNamespace(path=tmp_path / "file" / "history.sqlite3")
    with pytest.raises(NoAnswer, match="Not a directory"):
        hub_dataset.push_page(cast(History, history), ok_result(), "<!doctype html>")


def test_an_error_of_the_library_is_one_error(monkeypatch) -> None:
    """The library's errors of the network are no OSError."""
    monkeypatch.setattr("demo.core.hub.problem", lambda: None)
    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", Mock(side_effect=Exception("connection lost")))
    with pytest.raises(NoAnswer, match="connection lost"):
        hub_dataset.push_page(History(), ok_result(), "<!doctype html>")


def test_a_push_that_fails_harms_no_run(caplog) -> None:
    hub = Hub()
    hub.create_commit = Mock(side_effect=OSError("the dataset is full"))  # type: ignore[method-assign]
    with connected(hub) as history:
        history.append(ok_result())
        assert history.all() == [ok_result()]
    assert "the dataset is full" in caplog.text


def test_a_hub_that_does_not_answer_holds_up_nothing() -> None:
    answered = threading.Event()

    def slow() -> Any:
        answered.wait(60)
        raise ConnectionError("too late")

    with scheduled_by(slow) as history:
        history.append(ok_result())
        assert history.all() == [ok_result()]
    assert not answered.is_set()
    answered.set()


def test_a_row_is_what_a_table_exports() -> None:
    hub = Hub()
    recompiled = Compilation(1.0, "cold", 1, recompiles_while_timing=2)
    with connected(hub) as history:
        history.append(ok_result())
        history.append(text_result(id="text"))
        history.append(ok_result(id="next-day", started_at="2026-11-22T00:00:00Z"))
        history.append(ok_result(id="void", compilation=recompiled))
    files = [io.BytesIO(hub.files[name]) for name in sorted(hub.files) if name.startswith("rows/")]
    rows = [row for file in files for row in parquet.read_table(file).to_pylist()]
    assert [row["id"] for row in rows] == [ok_result().id, "text", "next-day"]
    assert rows[0] == export.row(ok_result())


def pushed(hub: Hub) -> list[str]:
    """Returns the ids of all results of which the dataset has a file."""
    return sorted({Path(name).stem for name in hub.files})


def test_a_deleted_run_is_deleted_in_the_dataset_in_one_commit() -> None:
    hub = Hub()
    with connected(hub) as history:
        for id in ("kept", "first", "second"):
            history.append(ok_result(id=id))
    assert pushed(hub) == ["first", "kept", "second"]
    with connected(hub) as history:
        scheduler = cast(hub_dataset.PushedHistory, history)._scheduler
        while not hasattr(scheduler, "last_future"):
            time.sleep(0.01)
        scheduler.last_future.result(20)  # the push at the start would find the first deletion alone
        assert history.delete(["first", "second"]) == 2
    assert pushed(hub) == ["kept"]
    deleting = [commit for commit in hub.commits if commit[0].startswith("CommitOperationDelete")]
    assert [len(commit) for commit in deleting] == [4]  # two results, each whole and as a row


def test_a_deletion_without_the_hub_waits_for_the_next_push() -> None:
    hub = Hub()
    with connected(hub) as history:
        history.append(ok_result())

    def unreachable() -> Any:
        raise ConnectionError("no way to the Hub")

    with scheduled_by(unreachable) as history:
        history.delete([ok_result().id])
    assert pushed(hub) == [ok_result().id]
    with connected(hub):
        pass
    assert pushed(hub) == []
    commits = len(hub.commits)
    with connected(hub):
        pass
    assert len(hub.commits) == commits  # deleted once


def test_a_run_that_was_never_pushed_is_deleted_here_only() -> None:
    hub = Hub()
    History().append(ok_result(id="of another program"))
    with connected(hub) as history:
        hub_dataset.forget(history, ["of another program", "unknown"])
        assert history.delete(["of another program", "unknown"]) == 1
    assert hub.commits == []


def test_a_deletion_on_the_command_line_counts(capsys) -> None:
    hub = Hub()
    with connected(hub) as history:
        history.append(ok_result())
    assert main(["history", "delete", ok_result().id, "--yes"]) == 0
    with connected(hub):
        pass
    assert hub.files == {}
