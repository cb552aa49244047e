"""What the result pane offers beside an answer: the files of a run, and one more process."""

import dataclasses
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_runner import FakeRunner
from page_support import answering, followed, handler, in_the_form, opened, pressed, stage_of, visitor
from samples import ENVIRONMENT, MACHINE, failed_result, full_result, ok_result

from demo.core import limits
from demo.core.languages import ENGLISH
from demo.core.measurement import Compilation
from demo.core.outputs import ImageInfo
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.core.speedup import Spread
from demo.runs.outcome import NO_FILES, Files
from demo.store.history import History
from demo.ui.page import Page
from demo.ui.tabs import form, result_pane


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
    monkeypatch.setattr("demo.ui.jobs.KEPT_SECONDS", -1.0)
    list(pressed(page, "two"))
    assert runner.asked[0] is not None and not runner.asked[0].parent.exists()


# ---- Repeat


SCENE = form.scenes()[0]
ASSUMED = Spread("assumed", 0.03)


def of_picture(picture: Path = SCENE, **changes: Any) -> RunResult:
    digest = hashlib.sha256(picture.read_bytes()).hexdigest()
    return ok_result(image=ImageInfo(picture.name, 320, 240, digest, "/9j/"), **({"spread": ASSUMED} | changes))


def press(page: Page, id: object, in_form: Any = None) -> list[dict[Any, Any]]:
    """What a press of ProcessResult sends to the page of a visitor."""
    tab = page.run_tab
    begun = handler(page, changes=tab.watched, of=(tab.pane.top, "select"))(visitor("one"), in_form, data={"run": id})
    return list(followed(page, begun))


def storing(history: History) -> FakeRunner:
    """A runner of this machine that stores what it measured, each process under an id of its own."""

    def answer(spec: RunSpec, image: Path) -> RunResult:
        asked.append((spec, image))
        return of_picture(id=f"process {len(asked)}", spec=spec)

    asked: list[tuple[RunSpec, Path]] = []
    runner = FakeRunner(answer, machine=MACHINE)
    runner.asked = asked  # type: ignore[attr-defined]
    return runner


def test_a_stored_run_that_a_link_opens_is_repeated_with_its_own_spec_and_picture(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    first = of_picture(spec=dataclasses.replace(ok_result().spec, dtype="bfloat16", precision=0.02))
    history.append(first)
    page = Page(runner := storing(history), history=history)
    (shown,) = opened(page, run=first.id)
    assert f'data-repeat="{first.id}"' in stage_of(page, shown)
    begun, *_, last = press(page, first.id)
    assert begun[page.run_tab.form.run]["interactive"] is False and "Run 2 of 2" in stage_of(page, begun)
    ((spec, picture),) = runner.asked  # type: ignore[attr-defined]
    assert spec == first.spec
    assert picture.read_bytes() == SCENE.read_bytes()
    assert "from 2 processes" in stage_of(page, last) and 'class="process"' in stage_of(page, last)


def test_a_picture_that_is_gone_is_asked_for_and_then_taken_from_the_form(tmp_path: Path) -> None:
    own = tmp_path / "own <b>.png"
    own.write_bytes((form.scenes()[1]).read_bytes() + b"!")
    history = History(tmp_path / "history.sqlite3")
    history.append(of_picture(own))
    page = Page(runner := storing(history), history=history)
    (refused,) = press(page, of_picture(own).id, in_the_form(SCENE))
    assert "is no longer here" in stage_of(page, refused) and "own &lt;b&gt;.png" in stage_of(page, refused)
    assert not runner.asked  # type: ignore[attr-defined]
    press(page, of_picture(own).id, in_the_form(own))
    ((_, picture),) = runner.asked  # type: ignore[attr-defined]
    assert picture.read_bytes() == own.read_bytes()


ELSEWHERE = dataclasses.replace(ENVIRONMENT, device_name="Another CPU", cpu="Another CPU")
OTHER_TORCH = dataclasses.replace(ENVIRONMENT, torch="2.12.0")
BASE = ok_result().spec
NO_REPEAT = {
    "failed": failed_result(),
    "void": of_picture(compilation=Compilation(5.5, "cold", 1, recompiles_while_timing=1)),
    "another machine": of_picture(environment=ELSEWHERE),
    "another torch": of_picture(environment=OTHER_TORCH),
    "a folder": of_picture(spec=dataclasses.replace(BASE, checkpoint="/srv/model")),
}


def test_what_this_page_cannot_run_once_more_has_no_button_and_a_press_is_refused(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite3")
    page = Page(runner := storing(history), history=history)
    for place, (kind, result) in enumerate(NO_REPEAT.items()):
        history.append(dataclasses.replace(result, id=f"no repeat {place}"))
        assert result_pane.repeat_button(result, MACHINE, ENGLISH) == "", kind
        (refused,) = press(page, f"no repeat {place}")
        assert "This cannot be run" in stage_of(page, refused), kind
    assert not runner.asked  # type: ignore[attr-defined]


def test_a_press_for_anything_that_is_not_stored_is_refused(tmp_path: Path) -> None:
    page = Page(answering(of_picture()), history=History(tmp_path / "history.sqlite3"))
    for id in ("nothing", "", None, {"a": 1}, "x" * 5000):
        (refused,) = press(page, id)
        assert "not stored" in stage_of(page, refused)


def test_a_space_repeats_nothing_that_its_visitors_could_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = of_picture(spec=RunSpec("somebody/model", "image-classification", device="cpu"))
    large = of_picture(spec=dataclasses.replace(BASE, batch_size=64))
    assert result_pane.repeat_button(hub, MACHINE, ENGLISH)
    assert result_pane.repeat_button(large, MACHINE, ENGLISH)
    monkeypatch.setenv("SPACE_ID", "somebody/space")
    monkeypatch.setenv("WORTH_COMPILING_BATCH", "32")
    monkeypatch.setattr(limits, "current", lambda: limits.read(os.environ))
    assert result_pane.repeat_button(of_picture(), MACHINE, ENGLISH)
    assert not result_pane.repeat_button(hub, MACHINE, ENGLISH) and not result_pane.repeat_button(
        large, MACHINE, ENGLISH
    )
