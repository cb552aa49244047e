"""A picture is decoded in a process of its own before a run."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from demo.core import images
from demo.core.catalog import scenes
from demo.runs import picture_check


def test_the_app_decodes_no_picture(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(images, "decode", None)
    (broken := tmp_path / "broken.png").write_bytes(b"no picture")
    assert "cannot be read as a picture" in picture_check.picture_problem(broken)
    assert picture_check.picture_problem(scenes()[0]) == ""


def test_a_refusal_arrives_whatever_the_encoding_of_the_terminal(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    Image.new("L", (400, 1)).save(flat := tmp_path / "fläche.png")
    assert picture_check.picture_problem(flat).startswith("'fläche.png' is 400 × 1 pixels")


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
