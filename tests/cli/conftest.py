"""Every test of the command line has a data folder of its own."""

from pathlib import Path
from typing import Any

import pytest
from support.scripted_runner import ScriptedRunner

from demo.core.progress import Progress
from demo.core.result import RunResult
from demo.runs import runner
from demo.store.history import FOLDER_VARIABLE


@pytest.fixture(autouse=True)
def data_folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture
def scripted(monkeypatch) -> Any:
    def script(*events: Progress | RunResult | BaseException) -> ScriptedRunner:
        fake = ScriptedRunner(*events)
        monkeypatch.setattr(runner, "Runner", fake)
        return fake

    return script
