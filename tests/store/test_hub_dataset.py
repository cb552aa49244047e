"""Pushing results to a dataset: with a scheduler that fails in every way, and with the real one before a stub."""

import io
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import CommitScheduler
from pyarrow import parquet
from support.samples import failed_result, ok_result, text_result

from demo.core.measurement import Compilation
from demo.core.result_json import from_json
from demo.core.spec import BadInput
from demo.store import export, hub_dataset
from demo.store.history import FOLDER_VARIABLE, History


@pytest.fixture(autouse=True)
def data_folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(hub_dataset.VARIABLE, "somebody/worth-compiling-runs")
    return tmp_path


class Hub:
    """What `CommitScheduler` asks of `HfApi`, in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.created: list[dict[str, Any]] = []

    def runs(self) -> list[str]:
        """The files of whole results."""
        return sorted(name for name in self.files if name.startswith("runs/"))

    def rows(self) -> list[dict[str, Any]]:
        """The rows of all other files."""
        tables = [content for name, content in sorted(self.files.items()) if not name.startswith("runs/")]
        return [row for content in tables for row in parquet.read_table(io.BytesIO(content)).to_pylist()]

    def create_repo(self, **asked: Any) -> Any:
        self.created.append(asked)
        return SimpleNamespace(repo_id=asked["repo_id"])

    def create_commit(self, operations: list[Any], **_: Any) -> None:
        self.files |= {one.path_in_repo: one.path_or_fileobj.read() for one in operations}

    def run_as_future(self, function: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function())
        except Exception as error:
            done.set_exception(error)
        return done


@contextmanager
def opened(hub: Hub) -> Iterator[History]:
    """The history, once it is connected to this Hub."""
    with hub_dataset.open_history(lambda **asked: CommitScheduler(**asked, hf_api=hub)) as history:
        assert isinstance(history, hub_dataset.PushedHistory)
        history.connecting.join(20)
        yield history


def test_without_the_variable_nothing_is_pushed(monkeypatch) -> None:
    monkeypatch.delenv(hub_dataset.VARIABLE)
    with hub_dataset.open_history(scheduler=lambda **_: pytest.fail("a scheduler was made")) as history:
        assert type(history) is History


@pytest.mark.parametrize("name", ["no-owner", "a/b/c", "https://huggingface.co/a/b", "a b/c"])
def test_what_is_no_dataset_is_refused(name: str, monkeypatch) -> None:
    monkeypatch.setenv(hub_dataset.VARIABLE, name)
    with pytest.raises(BadInput, match="owner/name"), hub_dataset.open_history():
        pass


FIRST, SECOND = "runs/2026-11-21/20261121T090000-abcdef.json", "runs/2026-11-21/20261121T090100-fedcba.json"


def test_results_are_pushed_and_stored_here_too() -> None:
    hub = Hub()
    with opened(hub) as history:
        history.append(ok_result())
        history.append(failed_result())
    assert hub.created[0]["repo_type"] == "dataset" and hub.created[0]["private"] is True
    assert hub.runs() == [FIRST, SECOND]
    assert from_json(json.loads(hub.files[FIRST])) == ok_result() == History().get(ok_result().id)


def test_what_was_not_pushed_is_pushed_by_the_next_program(caplog) -> None:
    def unreachable(**_: Any) -> Any:
        raise ConnectionError("no way to the Hub")

    with hub_dataset.open_history(unreachable) as history:
        assert history.append(ok_result()) is None
    assert "no way to the Hub" in caplog.text
    hub = Hub()
    with opened(hub):
        pass
    assert hub.runs() == [FIRST]


def test_a_push_that_fails_harms_no_run(caplog) -> None:
    hub = Hub()
    hub.create_commit = lambda **_: (_ for _ in ()).throw(OSError("the dataset is full"))  # type: ignore[method-assign]
    with opened(hub) as history:
        history.append(ok_result())
        assert history.all() == [ok_result()]
    assert "the dataset is full" in caplog.text


def test_a_hub_that_does_not_answer_holds_up_nothing() -> None:
    """Everything below happens while the scheduler is still being made: it is never waited for."""
    answered = threading.Event()

    def slow(**_: Any) -> Any:
        answered.wait(60)
        raise ConnectionError("too late")

    with hub_dataset.open_history(slow) as history:
        history.append(ok_result())
        assert history.all() == [ok_result()]
    assert not answered.is_set()
    answered.set()


def test_a_row_is_what_a_table_exports() -> None:
    hub = Hub()
    recompiled = Compilation(1.0, "cold", 1, recompiles_while_timing=2)
    with opened(hub) as history:
        history.append(ok_result())
        history.append(text_result(id="text"))
        history.append(ok_result(id="next-day", started_at="2026-11-22T00:00:00Z"))
        history.append(ok_result(id="void", compilation=recompiled))
    rows = hub.rows()
    assert [row["id"] for row in rows] == [ok_result().id, "text", "next-day"]
    assert rows[0] == export.row(ok_result())
