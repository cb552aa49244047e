"""Fixtures for the tests of the page: a page, and a folder of stored runs for each file of tests."""

from collections.abc import Iterator

import pytest
from support.page_support import answering
from support.samples import ok_result

from demo.core import cores
from demo.store.history import FOLDER_VARIABLE
from demo.ui import works
from demo.ui.page import Page


@pytest.fixture(autouse=True, scope="module")
def data_folder(tmp_path_factory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as changes:
        changes.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("data")))
        changes.setattr(cores, "crowd", cores.Crowd)  # the tests beside these make the machine busy
        yield


@pytest.fixture(scope="module")
def page(data_folder: None) -> Page:
    """Returns a page with a fake runner, whose runs take no time."""
    return Page(answering(ok_result()))


@pytest.fixture
def quick(tmp_path, monkeypatch) -> None:
    """Makes a page show its work's progress at once, and store runs in a folder for one test."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "data"))
    monkeypatch.setattr(works, "UPDATE_SECONDS", 0.01)
