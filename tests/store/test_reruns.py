"""Tests of what stored runs add to a new result: the pooled speed-up, the spread, and costs of first calls."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from support.samples import ENVIRONMENT, measurement, ok_result

from demo.core.comparison import ASSUMED, Spread
from demo.core.machine import HostSample
from demo.core.measurement import Compilation, CompileCost
from demo.core.options import RunSpec
from demo.core.outputs import Parity
from demo.core.result import RunResult
from demo.runs.earlier import with_answer_without_breaks, with_earlier_costs, with_earlier_runs
from demo.store.history import History
from demo.store.reruns import MOST_PROCESSES, earlier_processes, spread

NUMBERS = iter(range(10_000))
VIT = RunSpec("shapes-vit", "image-classification", device="cpu")


def run(log: float = 0.0, **changes: Any) -> RunResult:
    """Returns a run with the speed-up 2 * exp(`log`)."""
    return ok_result(**{"id": f"run {next(NUMBERS)}", "compiled": measurement(0.001 / math.exp(log))} | changes)


def other(spec: RunSpec = VIT, **changed: Any) -> RunSpec:
    return dataclasses.replace(spec, **changed)


def after(history: History, earlier: list[RunResult], **changes: Any) -> RunResult:
    """Stores the `earlier` runs and a further run with `changes`, and returns the further run."""
    result = run(**changes)
    for earlier_run in [*earlier, result]:
        history.append(earlier_run)
    return result


def spread_after(history: History, earlier: list[RunResult], **changes: Any) -> Spread:
    result = after(history, earlier, **changes)
    return spread(result, history.reruns(result))


def reruns(deviation: float, count: int, **changes: Any) -> list[RunResult]:
    logs = np.linspace(-1, 1, count)
    return [run(log, **changes) for log in logs * deviation / logs.std(ddof=1)]


@pytest.mark.parametrize("count", [0, 10], ids=["no runs", "the answer's own processes"])
def test_without_other_specs_the_spread_is_assumed(count: int, history: History) -> None:
    assert spread_after(history, [run(log) for log in np.linspace(-0.03, 0.03, count)]) == ASSUMED


DIFFER, UNKNOWN = Parity("differ", None, "NaN"), Parity("not comparable", None, "no float64 reference")
VERSIONS = ("torch", "transformers", "device_name", "driver", "triton")
VOID = dataclasses.replace(ok_result().compilation, recompiles_while_timing=1)


def there(**changes: Any) -> dict[str, Any]:
    return {"environment": dataclasses.replace(ENVIRONMENT, **changes)}


VARIABLE_SET = {"variables": "TORCHINDUCTOR_MAX_AUTOTUNE=1"}
VARIABLE, ON_GPU = there(settings=VARIABLE_SET), {"convolutions": "float32"}
AVX2 = there(settings={"instructions": "AVX2"})


@pytest.mark.parametrize(
    ("before", "now", "pooled"),
    [
        *(pytest.param(there(**{name: "another"}), {}, 0, id=name) for name in VERSIONS),
        pytest.param({"spec": other(batch_size=4)}, {}, 0, id="batch"),
        pytest.param({"spec": other(protocol="as published")}, {}, 0, id="protocol"),
        pytest.param({"spec": other(graph_break=True)}, {}, 0, id="graph break"),
        pytest.param({"spec": other(precision=0.05, max_seconds=9.0, repeats=3)}, {}, 1, id="timed otherwise"),
        pytest.param(there(threads=7), {}, 0, id="threads"),
        pytest.param({"compilation": VOID}, {}, 0, id="void"),
        pytest.param({"status": "failed"}, {}, 0, id="failed"),
        pytest.param({"parity": DIFFER}, {}, 0, id="differs"),
        pytest.param({"parity": UNKNOWN}, {}, 0, id="not comparable"),
        pytest.param({"parity": None}, {}, 0, id="not compared"),
        pytest.param({"parity": DIFFER}, {"parity": DIFFER}, 0, id="both differ"),
        pytest.param(there(settings={"instructions": "AVX512"}), AVX2, 0, id="instructions"),
        pytest.param({}, AVX2, 0, id="an older run"),
        pytest.param({"parity": UNKNOWN}, {"parity": UNKNOWN}, 1, id="both not comparable"),
        pytest.param({"parity": None}, {"parity": None}, 1, id="both not compared"),
        pytest.param(AVX2, AVX2, 1, id="same instructions"),
        pytest.param({}, VARIABLE, 0, id="a variable that moves speed"),
        pytest.param(VARIABLE, VARIABLE, 1, id="the same variable"),
        pytest.param(there(settings={"variables": "KMP_BLOCKTIME=0"}), VARIABLE, 0, id="another variable"),
        pytest.param(there(settings=ON_GPU), there(settings=ON_GPU | VARIABLE_SET), 0, id="on a GPU"),
    ],
)
def test_only_runs_that_agree_are_pooled(
    before: dict[str, Any], now: dict[str, Any], pooled: int, history: History
) -> None:
    """A good run with the speed-up 1.30 was once shown as 1.07, because it was pooled with a run that gave NaN."""
    result = with_earlier_runs(after(history, [run(**before)], **now), (), history)
    assert len(result.earlier) == pooled and result.speedup.processes == 1 + pooled


def test_a_repeat_leaves_out_processes_of_other_settings(history: History) -> None:
    old = run(**there(torch="2.11.0"))
    result = with_earlier_runs(after(history, [old]), old.as_processes(), history)
    assert result.earlier == () and result.warnings[-1].endswith("not counted here: 1.")


def test_the_newest_runs_are_the_pool(history: History) -> None:
    earlier = [run(started_at=f"2026-11-{1 + number // 20:02}T{number % 20:02}:00:00Z") for number in range(40)]
    result = with_earlier_runs(after(history, earlier), (), history)
    assert [process.id for process in result.earlier] == [process.id for process in earlier[-(MOST_PROCESSES - 1) :]]


def test_a_process_counts_after_its_run_was_deleted() -> None:
    first = run()
    assert [process.id for process in earlier_processes(run(), [], first.as_processes())] == [first.id]
    assert run(parity=DIFFER).as_processes() == ()


def test_a_run_with_added_breaks_has_the_latest_answer_without_them(history: History) -> None:
    earlier = [run(0.2), run(0.1), run(0.3, spec=other(graph_break=True)), run(0.4, spec=other(freezing=True))]
    result = with_answer_without_breaks(after(history, earlier, spec=other(graph_break=True)), history)
    assert result.without_breaks == earlier[1].speedup


def test_specs_that_were_repeated_here_are_pooled(history: History) -> None:
    batches = [rerun for batch in (2, 3, 4, 5) for rerun in reruns(0.05, 3, spec=other(batch_size=batch))]
    spread = spread_after(history, [*batches, run(spec=other(batch_size=6))])
    assert (spread.basis, spread.freedom) == ("this machine", 8 + ASSUMED.freedom)
    variance = (8 * 0.05**2 + ASSUMED.freedom * ASSUMED.deviation**2) / (8 + ASSUMED.freedom)
    assert spread.deviation == pytest.approx(math.sqrt(variance), rel=0.02)


def on_gpu(busy: float, batch: int = 1) -> dict[str, Any]:
    """Returns changes of a result, for a run on a GPU that works for the share `busy` of an eager call."""
    calls = measurement(0.002)
    eager = dataclasses.replace(calls, device_seconds=(busy * calls.median_seconds,))
    return {"spec": other(device="cuda", batch_size=batch), "eager": eager}


@pytest.mark.parametrize(("busy", "basis"), [(0.9, "this machine"), (0.4, "within one process")])
def test_steady_models_are_no_measure_for_models_that_wait(busy: float, basis: str, history: History) -> None:
    steady = [rerun for batch in (2, 3) for rerun in reruns(0.01, 10, **on_gpu(0.8, batch))]
    assert spread_after(history, steady, **on_gpu(busy)).basis == basis


@pytest.mark.parametrize(
    "changes",
    [there(device_name="Another CPU"), there(torch="2.11.0"), {"status": "failed"}, {"parity": DIFFER}],
    ids=["device", "torch", "failed", "outputs differ"],
)
def test_failed_and_foreign_runs_do_not_measure_the_spread(changes: dict[str, Any], history: History) -> None:
    batches = [rerun for batch in (2, 3) for rerun in reruns(0.05, 10, spec=other(batch_size=batch), **changes)]
    assert spread_after(history, batches).basis == "assumed"


def started(seconds: float, **changes: Any) -> RunResult:
    cost = CompileCost(seconds, {})
    return run(compilation=Compilation(seconds, "cold", 1, cold=cost), **changes)


def test_first_calls_of_equal_runs_are_pooled_once_each(history: History) -> None:
    """A run with a filled cache has the newest stored cold cost, which is then not counted in the pool again."""
    earlier = [started(20.0), started(22.0), started(30.0, spec=other(batch_size=2)), started(25.0)]
    warm = Compilation(2.0, "warm", 1, warm=CompileCost(2.0, {}))
    result = with_earlier_costs(after(history, earlier, compilation=warm), history)
    assert result.first_calls == {"cold": (20.0, 22.0)} and result.compilation.cold.run_id == earlier[3].id
    assert result.starts["cold"].seconds == pytest.approx((20 * 22 * 25) ** (1 / 3))
    assert result.starts["warm"].seconds == 2.0


@pytest.mark.parametrize(("quiet", "pooled"), [((20.0,), (20.0,)), ((), (70.0,))], ids=["a quiet one", "no quiet one"])
def test_a_first_call_while_cores_were_taken_counts_only_without_a_quiet_one(
    quiet: tuple[float, ...], pooled: tuple[float, ...], history: History
) -> None:
    busy = (HostSample(1.0, 0.9, None, 0.1), HostSample(2.0, 0.9, None, 0.1))
    earlier = [*map(started, quiet), started(70.0, machine_states=busy)]
    for earlier_run in earlier:
        history.append(earlier_run)
    assert with_earlier_costs(started(21.0), history).first_calls == {"cold": pooled}


TAKEN = {"machine_states": tuple(HostSample(float(at), 0.5, None, 0.9) for at in range(3))}
"""Changes of a result: other programs took one of two cores while the run's two threads were timed."""


def test_a_disturbed_run_takes_nothing_away_from_quiet_ones(history: History) -> None:
    quiet = with_earlier_runs(after(history, [run(0.01), run(-0.01)]), (), history)
    last = with_earlier_runs(after(history, [], compiled=measurement(0.0018), **TAKEN), (), history)
    assert last.speedup.ratio == pytest.approx(quiet.speedup.ratio) and last.speedup.verdict == "faster"
    assert last.speedup.processes == 3 and last.as_processes() == last.earlier
    assert last.speedup.within == last.earlier[-1].figures[last.main].within


def test_a_disturbed_process_is_not_in_the_pool_of_a_later_run(history: History) -> None:
    disturbed = after(history, [run()], compiled=measurement(0.0018), **TAKEN)
    later = with_earlier_runs(after(history, []), (), history)
    assert len(later.earlier) == 1 and disturbed.id not in {process.id for process in later.earlier}


def test_a_disturbed_run_takes_the_answer_of_other_threads(history: History) -> None:
    fewer = there(threads=1)
    quiet = after(history, [], **fewer)
    last = with_earlier_runs(after(history, [], compiled=measurement(0.0018), **TAKEN), (), history)
    assert [process.id for process in last.earlier] == [quiet.id] and last.speedup.verdict == "faster"


def test_a_disturbed_run_without_quiet_ones_keeps_its_wide_interval(history: History) -> None:
    last = with_earlier_runs(after(history, [run(**TAKEN)], **TAKEN), (), history)
    assert last.earlier == () and last.speedup.pooled.taken


def test_disturbed_runs_say_nothing_of_the_spread_between_processes(history: History) -> None:
    apart = reruns(0.3, 7, spec=other(batch_size=2), **TAKEN)
    assert spread_after(history, apart) == ASSUMED


def test_the_first_call_of_a_disturbed_run_does_not_count_either(history: History) -> None:
    quiet = after(history, [], compilation=Compilation(20.0, "cold", 1, cold=CompileCost(20.0, {})))
    slow = Compilation(60.0, "cold", 1, cold=CompileCost(60.0, {}))
    last = with_earlier_runs(after(history, [], compilation=slow, **TAKEN), (), history)
    assert last.earlier[0].id == quiet.id
    assert with_earlier_costs(last, history).starts["cold"].seconds == pytest.approx(20.0)
