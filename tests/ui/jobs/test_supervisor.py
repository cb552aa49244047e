"""The ids of visitors."""

from __future__ import annotations

import pytest

from demo.ui.jobs import supervisor


def test_new_visitors_have_ids_of_their_own_and_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MAX_SESSIONS", 3)
    known = supervisor.Visitors()
    names = [known.name(None, f"page {number}") for number in range(5)]
    assert len(set(names)) == 5
    assert known.name("not an id", "page 4") == names[4]
    assert known.name(names[0], "page 4") == names[0]
    assert known.name(None, "page 0") != names[0]
