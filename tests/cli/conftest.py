"""Every test of the command line has a data folder of its own."""

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
    """Puts a runner that gives this answer in the place of the real one."""

    def make(answer: RunResult | BaseException) -> FakeRunner:
        fake_runner = FakeRunner(lambda spec, image: answer, seconds=0.01, history=History())
        monkeypatch.setattr(runner, "Runner", lambda history: fake_runner)
        return fake_runner

    return make
