"""Should I upgrade? The verdict on two runs of one spec in two environments."""

import dataclasses
from typing import Any

import pytest
from samples import ENVIRONMENT, LABELS, failed_result, measurement, ok_result

from demo.core.languages import ENGLISH, LANGUAGES
from demo.core.machine import HostSample
from demo.core.measurement import Compilation
from demo.core.outputs import Label, Parity, Predictions
from demo.core.result import RunResult
from demo.core.stats import Interval, ProcessResult
from demo.present import upgrade

OLD, NEW = ENVIRONMENT, dataclasses.replace(ENVIRONMENT, torch="2.99.0")
OTHER = Predictions(labels=(Label("square", 0.98),))


def run(machine: Any, slower: float = 1.0, minutes: int = 0, processes: int = 4, **changes: Any) -> RunResult:
    """A result that rests on so many processes, one every two minutes."""
    earlier = tuple(
        ProcessResult(
            f"p{number}",
            0.002 * slower,
            0.001 * slower,
            Interval(2.0, 1.99, 2.01),
            threads=machine.threads,
            started_at=f"2026-11-21T{9 + (minutes + 2 * number) // 60:02}:{(minutes + 2 * number) % 60:02}:00Z",
        )
        for number in range(processes - 1)
    )
    sides = {"eager": measurement(0.002 * slower), "compiled": measurement(0.001 * slower)}
    started = f"2026-11-21T{9 + (minutes + 10) // 60:02}:{(minutes + 10) % 60:02}:00Z"
    known = {"environment": machine, "earlier": earlier, "started_at": started, **sides, **changes}
    return ok_result(id=f"{machine.torch}-{minutes}", **known)


def told(first: RunResult, second: RunResult) -> str:
    return upgrade.told(first, second, ("A", "B"), ENGLISH)


def test_a_slower_environment_is_told_with_every_figure() -> None:
    second = run(NEW, 1.1, compilation=Compilation(22.0, "cold", 1))
    text = told(run(OLD, compilation=Compilation(18.0, "cold", 1)), second)
    assert text.startswith(f"B (torch 2.99.0) is slower than A (torch {OLD.torch}). Eager: 1.10× slower (1.0")
    assert "Compiled: 1.10× slower (1.0" in text and "First compiled call, empty cache: 18 s → 22 s." in text
    assert "Peak memory, compiled: 1.00 MB → 1.00 MB. Outputs: match." in text


def test_the_other_way_round_it_is_faster_by_as_much() -> None:
    there, back = (upgrade.compare(*pair) for pair in [(run(OLD, 1.1), run(NEW)), (run(OLD), run(NEW, 1.1))])
    assert (there.verdict, back.verdict) == ("faster", "slower")
    assert there.eager.ratio == pytest.approx(1 / back.eager.ratio) == pytest.approx(1.1, rel=0.01)


def one_way_faster() -> RunResult:
    second = run(NEW, compiled=measurement(0.0013), eager=measurement(0.0014))
    earlier = [dataclasses.replace(one, eager_seconds=0.0014, compiled_seconds=0.0013) for one in second.earlier]
    return dataclasses.replace(second, earlier=tuple(earlier))


UNDATED = run(OLD, earlier=tuple(dataclasses.replace(one, started_at="") for one in run(OLD).earlier))
BUSY = tuple(HostSample(at, 0.9, free_cores=0.1) for at in (1.0, 2.0))
FAILED = failed_result(spec=run(OLD).spec, environment=NEW, image=None)


@pytest.mark.parametrize(
    ("first", "second", "verdicts"),
    [
        (run(OLD), one_way_faster(), ["mixed"]),
        (run(OLD), run(NEW, 1.01), ["same", "unsure"]),
        (run(OLD), run(NEW, 1.5, minutes=180), ["unsure"]),  # the machine may have been another one in another hour
        (UNDATED, run(NEW, 1.5), ["unsure"]),
        (run(OLD), run(NEW, 1.1, machine_states=BUSY), ["slower"]),  # the last process has no answer, those before have
        (run(OLD), run(NEW, 2.0, processes=2), ["unsure"]),
        (run(OLD), run(dataclasses.replace(NEW, threads=OLD.threads + 1), 2.0), ["unsure"]),
        (FAILED, run(OLD), ["mends"]),
        (run(OLD), run(NEW, 0.5, predictions={"eager": OTHER, "compiled": LABELS}), ["differs"]),
        (run(OLD), run(NEW, 0.5, predictions={"eager": LABELS, "compiled": OTHER}), ["differs"]),
        (run(OLD), run(NEW, 0.5, parity=Parity("differ", 1.0, "Too far.")), ["differs"]),
    ],
)
def test_the_verdict_on_two_runs(first: RunResult, second: RunResult, verdicts: list[str]) -> None:
    assert upgrade.compare(first, second).verdict in verdicts


def test_a_model_that_fails_in_one_environment_is_told_with_its_reason() -> None:
    failing = f"B (torch 2.99.0) fails where A (torch {OLD.torch}) works: Out of memory."
    assert told(run(OLD), FAILED).startswith(failing) and FAILED.failure.message in told(run(OLD), FAILED)
    assert told(FAILED, dataclasses.replace(FAILED, environment=OLD)) == ""
    assert told(run(OLD), dataclasses.replace(FAILED, status="cancelled")) == ""
    assert "run both in turns on a quiet machine" in told(UNDATED, run(NEW, 1.5))


def test_outputs_that_were_not_stored_are_not_called_equal() -> None:
    assert "Outputs: not comparable." in told(run(OLD), run(NEW, predictions=None))


def test_only_one_spec_on_one_device_in_two_environments_is_compared() -> None:
    first = run(OLD)
    assert told(first, run(dataclasses.replace(OLD, interpreter="venv-3fa2c1"), 1.1))
    others = [
        run(OLD),
        run(NEW, spec=dataclasses.replace(first.spec, batch_size=2)),
        run(dataclasses.replace(NEW, device_name="Another")),
        run(NEW, image=dataclasses.replace(first.image, sha256="11" * 32)),
        run(NEW, environment=None),
    ]
    assert [told(first, other) for other in others] == [""] * len(others)


def test_the_verdict_is_told_in_every_language() -> None:
    assert len({upgrade.told(run(OLD), run(NEW, 1.1), ("A", "B"), lang) for lang in LANGUAGES.values()}) == 4
