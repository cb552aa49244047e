"""Fixtures for the tests of the command line: a data folder of its own for each test, and a fake runner."""

from pathlib import Path
from typing import Any

import pytest
from support.fake_runner import FakeRunner

from demo.core import cores
from demo.core.result import RunResult
from demo.runs import runner
from demo.store.history import FOLDER_VARIABLE, History


@pytest.fixture(autouse=True)
def data_folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "data"))
    monkeypatch.setattr(cores, "crowd", cores.Crowd)  # the tests beside these make the machine busy
    return tmp_path / "data"


@pytest.fixture
def fake(monkeypatch) -> Any:
    """Returns a function that replaces the real runner by a fake one, which gives the answer passed to the function."""

    def make(answer: RunResult | BaseException) -> FakeRunner:
        fake_runner = FakeRunner(lambda spec, image: answer, seconds=0.01, history=History())
        monkeypatch.setattr(runner, "Runner", lambda history: fake_runner)
        return fake_runner

    return make
