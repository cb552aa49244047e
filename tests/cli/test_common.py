"""The question before a start."""

import sys

import pytest
from support.scripted_runner import Terminal

from demo.cli.common import confirm


@pytest.mark.parametrize(("typed", "starts"), [("", False), ("n\n", False), ("\n", True), ("Y\n", True)])
def test_a_start_takes_an_answer_and_ctrl_d_is_none(typed: str, starts: bool, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert confirm() is starts
