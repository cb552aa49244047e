"""What a run leaves beside its result, which a fold offers for download: a trace, a package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from page_support import (
    opened,
    pressed,
)
from samples import full_result

from demo.core.spec import RunSpec
from demo.runs.outcome import NO_FILES, Files
from demo.store.history import History
from demo.ui.page import Page


class TracingRunner(FakeRunner):
    """Writes a trace where it is asked for one, as the worker does."""

    asked: list[Path | None]

    def run(
        self, spec: RunSpec, image: Path, cancel: Any = None, files: Files = NO_FILES, earlier: Any = ()
    ) -> Iterator[Any]:
        self.asked = [*getattr(self, "asked", []), files.trace]
        for file in filter(None, vars(files).values()):
            file.write_bytes(b"what the run leaves")
        yield from super().run(spec, image, cancel, files, earlier)


def file_of(page: Page, updates: dict[Any, Any], name: str = "trace") -> dict[str, Any]:
    shown: dict[str, Any] = updates[page.run_tab.pane.folds[-1].files[name]]
    return shown


def test_a_run_with_a_profile_has_its_trace_to_download_until_another_run_begins(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    history.append(full_result())
    page = Page(runner := TracingRunner(lambda *_: full_result()), history=history)
    *_, last = pressed(page, profile="on")
    (trace,) = runner.asked
    assert file_of(page, last)["visible"] and file_of(page, last)["value"] == str(trace)
    (again,) = opened(page, run=full_result().id)
    assert file_of(page, again)["value"] == str(trace)
    (stranger,) = opened(page, "two", run=full_result().id)
    assert file_of(page, stranger) == {"value": None, "visible": False, "__type__": "update"}
    assert trace is not None and trace.is_file()
    *_, last = pressed(page, profile="off")
    assert runner.asked[-1] is None and file_of(page, last)["visible"] is False
    assert not trace.parent.exists()


@pytest.mark.parametrize("on_space", [False, True])
def test_a_package_is_to_be_taken_along_where_the_page_is_local(
    on_space: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on_space:
        monkeypatch.setenv("SPACE_ID", "someone/worth-compiling")
    page = Page(TracingRunner(lambda *_: full_result()))
    *_, last = pressed(page, compiler="aot")
    assert file_of(page, last, "package")["visible"] is not on_space
    assert file_of(page, last)["visible"] is False


def test_a_job_that_is_forgotten_takes_its_trace_along(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page(runner := TracingRunner(lambda *_: full_result()))
    list(pressed(page, profile="on"))
    monkeypatch.setattr("demo.ui.jobs.supervisor.KEPT_SECONDS", -1.0)
    list(pressed(page, "two"))
    assert runner.asked[0] is not None and not runner.asked[0].parent.exists()
