"""Tests that no public name in `fixtures/interfaces.json`, on which scripts and links rely, is removed or renamed.

Add a new name to this file when it is documented.
"""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from support.fake_runner import FakeRunner
from support.samples import full_result, ok_result

from demo.core.result_json import dumps
from demo.store import export, published
from demo.store.history import History
from demo.ui import api
from demo.ui.run_queue import RunQueue
from demo.ui.tabs import links

FIXED = json.loads((Path(__file__).parent / "fixtures" / "interfaces.json").read_text())


def keys(result: dict[str, Any]) -> set[str]:
    """Returns the keys of a result's JSON, and of its documented parts, as in 'speedup.low'."""
    parts = ("speedup", "spec", "environment", "parity", "break_even")
    return {*result, *(f"{part}.{key}" for part in parts for key in result[part])}


def endpoints() -> set[str]:
    """Returns the endpoints of the API with their parameters, as in 'best(minutes)'."""
    runner, queue = FakeRunner(lambda spec, image: ok_result()), RunQueue()
    functions = {
        "benchmark": api.make_benchmark(runner, queue),  # type: ignore[arg-type]
        "published": api.published_table,
        "history": api.make_history(History()),
        "best": api.make_best(runner, queue, History()),  # type: ignore[arg-type]
    }
    parameters = {name: inspect.signature(function).parameters for name, function in functions.items()}
    return {f"{name}({parameter})" for name, named in parameters.items() for parameter in named}


NOW: dict[str, Any] = {
    "result": lambda: keys(json.loads(dumps(full_result()))),
    "columns of an export": lambda: set(export.COLUMN_TYPES),
    "columns of the published tables": lambda: set(published.record(published.guide_rows()[0])),
    "links": lambda: {links.RUN, *links.FIELDS},
    "API": endpoints,
}


@pytest.mark.parametrize("interface", NOW)
def test_a_name_that_others_use_stays(interface: str) -> None:
    assert FIXED[interface] and set(FIXED[interface]) - NOW[interface]() == set()
