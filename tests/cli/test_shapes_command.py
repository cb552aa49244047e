"""Tests of `shapes`: its table, its cheapest choice, its refusals. Recompiles: tests/backend/test_replay.py."""

import contextlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demo.cli import shapes_command
from demo.cli.main import main
from demo.cli.shapes_command import Replay, cheapest, shapes_report
from demo.core import catalog
from demo.core.size_log import InputSize
from demo.sweep.grid import PICTURE


def replays(**totals: float) -> list[Replay]:
    return [Replay(name, (total / 2, total / 2), (True, False), 1) for name, total in totals.items()]


def test_the_cheapest_has_the_least_total() -> None:
    assert cheapest(replays(eager=10.0, auto=5.0, on=5.4, off=6.0)) == ["auto", "on"]
    failed = Replay("padded", failed="it ran out of memory")
    assert cheapest([failed]) == []
    report = shapes_report([*replays(eager=10.0, auto=5.0, on=5.4), failed], ["auto", "on"])
    assert "failed: it ran out of memory" in report and "Cheapest for this log: auto. Within 10 % of it" in report


@pytest.mark.parametrize(
    ("strategy", "dynamic", "batch"),
    [("eager", "off", 3), ("auto", "auto", 3), ("on", "on", 3), ("padded", "off", 4)],
)
def test_a_strategy_is_what_its_process_is_told(strategy: str, dynamic: str, batch: int, tmp_path, monkeypatch) -> None:
    jobs: list[dict[str, Any]] = []
    answer = json.dumps({"seconds": [1.0, 0.5], "waited": [True, False], "recompiles": 2, "fallbacks": 1})

    @contextlib.contextmanager
    def child(module: str, **_: Any) -> Any:
        attributes = {"exit_code": lambda _: 0, "output": lambda: [answer], "last_words": str}
        yield SimpleNamespace(folder=str(tmp_path), send=jobs.append, **attributes)

    monkeypatch.setattr(shapes_command, "child_process", child)
    replay = shapes_command.replay_in_process(
        catalog.make_spec("shapes-vit"), PICTURE, (InputSize(3), InputSize(1)), strategy
    )
    assert replay == Replay(strategy, [1.0, 0.5], [True, False], 2, 1)
    (job,) = jobs
    assert job["spec"]["dynamic"] == dynamic and job["compiled"] is (strategy != "eager")
    assert [size["batch_size"] for size in job["sizes"]] == [batch, 1]


def test_every_strategy_is_a_row_of_the_json(tmp_path, monkeypatch, capsys) -> None:
    log = tmp_path / "sizes.txt"
    log.write_text("3\n3\n1\n")

    def made_up(spec: Any, image: Path, sizes: tuple[InputSize, ...], strategy: str) -> Replay:
        assert sizes == (InputSize(3), InputSize(3), InputSize(1))
        return Replay(strategy, (0.1 if strategy == "eager" else 1.0,) * 3, (False,) * 3)

    monkeypatch.setattr(shapes_command, "replay_in_process", made_up)
    assert main(["shapes", str(log), "--checkpoint", "shapes-vit", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["cheapest"] == ["eager"]
    assert [row["strategy"] for row in report["rows"]] == list(shapes_command.STRATEGIES)


def test_a_process_that_times_the_log_answers() -> None:
    replay = shapes_command.replay_in_process(
        catalog.make_spec("shapes-vit", device="cpu"), PICTURE, (InputSize(1), InputSize(3)), "eager"
    )
    assert len(replay.seconds) == 2 and not replay.failed and replay.total > 0


def test_a_process_that_ends_is_a_row(monkeypatch) -> None:
    monkeypatch.setattr(shapes_command, "MODULE", "demo.there_is_no_such_module")
    replay = shapes_command.replay_in_process(catalog.make_spec("shapes-vit"), PICTURE, (InputSize(1),), "eager")
    assert "there_is_no_such_module" in replay.failed
