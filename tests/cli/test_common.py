"""The options of a run, as the commands that take them read them, and the question before a start."""

import io
import sys

import pytest

from demo.cli.common import given_options, wanted
from demo.cli.main import parser
from demo.core.spec import OPTIONS

GIVEN = {"whole": "20", "number": "0.1", "queries": "a cat", "passage": "A cat\nsat, "}


def test_run_takes_every_option_of_a_run() -> None:
    for option in OPTIONS.values():
        value = GIVEN.get(option.kind, option.values[-1] if option.values else None)
        for flag in option.flags:
            options = parser().parse_args(["run", flag, *([] if value is None else [value])])
            assert given_options(options) == {option.name: True if value is None else value}


def test_queries_given_one_by_one_are_the_same_as_with_commas() -> None:
    for words in (["--text", "a cat,a dog"], ["--text", "a cat", "--text", "a dog"]):
        assert given_options(parser().parse_args(["run", *words])) == {"text": "a cat,a dog"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "starts"), [("", False), ("n\n", False), ("\n", True), ("Y\n", True)])
def test_a_start_takes_an_answer_and_ctrl_d_is_none(typed: str, starts: bool, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert wanted() is starts
