"""A picture is decoded in a process of its own before a run."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from demo.core import images
from demo.core.catalog import scenes
from demo.runs import picture_check


def test_the_app_decodes_no_picture(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(images, "decode", None)
    (broken := tmp_path / "broken.png").write_bytes(b"no picture")
    assert "cannot be read as a picture" in picture_check.picture_problem(broken)
    assert picture_check.picture_problem(scenes()[0]) == ""


@pytest.mark.parametrize(
    ("code", "says"),
    [(-11, "broke its decoder, which was killed by signal SIGSEGV."), (None, "took more than 60 s to decode.")],
    ids=["a crash", "a slow picture"],
)
def test_a_picture_that_its_decoder_does_not_survive_is_refused(code: int | None, says: str, monkeypatch) -> None:
    @contextlib.contextmanager
    def process(module: str, picture: str) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(exit_code=lambda seconds: code)

    monkeypatch.setattr(picture_check, "child_process", process)
    assert f"'a.png' {says}" in picture_check.picture_problem(Path("/tmp/secret/a.png"))
