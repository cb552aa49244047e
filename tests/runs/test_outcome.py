"""What becomes of a run when it ends."""

from pathlib import Path

import pytest
from samples import ok_result

from demo.core.result import RunResult
from demo.runs import outcome
from demo.store.history import History, HistoryError


def test_a_result_that_was_not_stored_says_so_without_a_folder_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(history: History, result: RunResult) -> str:
        raise HistoryError("/home/me/secret/history.sqlite3 cannot be written.")

    monkeypatch.setattr(History, "append", refuse)
    (told,) = outcome.stored(ok_result(), History(tmp_path / "history.sqlite3")).warnings
    assert "not stored" in told and "history.sqlite3 cannot be written" in told and "/home" not in told
