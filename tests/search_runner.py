"""A runner for tests of the search for the best way: each way has figures of its own, and every run is stored."""

import hashlib
import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fake_runner import FakeRunner
from samples import MACHINE, measurement, ok_result

from demo.core.measurement import Compilation, CompileCost, StartUp
from demo.core.outputs import ImageInfo
from demo.core.result import RunResult
from demo.core.spec import RunSpec
from demo.store.history import History
from demo.ui.tabs.form import scenes

SCENE = scenes()[0]
SAW = ImageInfo(SCENE.name, 320, 240, hashlib.sha256(SCENE.read_bytes()).hexdigest(), "/9j/")
_count = itertools.count()


def measured(spec: RunSpec) -> RunResult:
    """Freezing is fastest and starts slowly, a package starts at once, every other way is as slow as eager."""
    compiled = 0.002 if spec.freezing else 0.003 if spec.compiler == "aot" else 0.004
    cold, warm = (30.0, 20.0) if spec.freezing else (40.0, 0.1) if spec.compiler == "aot" else (20.0, 5.0)
    costs = {name: CompileCost(cost, {"first run": 0.05}) for name, cost in (("cold", cold), ("warm", warm))}
    return ok_result(
        id=f"run-{next(_count)}",
        started_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        spec=spec,
        image=SAW,
        eager=measurement(0.004),
        compiled=measurement(compiled),
        control_times=measurement(0.004),
        start_up=StartUp(2.0, 1.0),
        compilation=Compilation(cold, "cold", 1, **costs),
    )


class SearchRunner(FakeRunner):
    """Keeps what it measured."""

    def __init__(self, history: History, answer: Callable[[RunSpec], Any] = measured, seconds: float = 0.0) -> None:
        super().__init__(lambda spec, image: answer(spec), seconds, MACHINE, history)
