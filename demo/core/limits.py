"""What a stranger may ask of this machine: every limit with its safe default, settable by an environment variable.

Read once. A value that makes no sense stops the program with a sentence instead of running it with another one.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from demo.core.result import MAX_BATCH_SIZE, BadInput


def _setting(default: float, variable: str, unit: str, low: float, high: float, factor: int = 1) -> Any:
    return field(
        default=default,
        metadata={"variable": variable, "unit": unit, "low": low, "high": high, "factor": factor},
    )


@dataclass(frozen=True)
class Limits:
    """The limits in force. Sizes in bytes; the variables that end in _MB are given in millions of them."""

    pixels: int = _setting(25_000_000, "WORTH_COMPILING_PIXELS", "pixels", 1, 1_000_000_000)
    """Of a picture, width × height, read from its header before anything is decoded."""
    file_bytes: int = _setting(30_000_000, "WORTH_COMPILING_FILE_MB", "megabytes", 1, 1000, 1_000_000)
    """Of a picture's file, at the upload and again when it is read."""
    batch: int = _setting(MAX_BATCH_SIZE, "WORTH_COMPILING_BATCH", "pictures", 1, MAX_BATCH_SIZE)
    parameters: int = _setting(2_000_000_000, "WORTH_COMPILING_PARAMETERS", "parameters", 1, 10**15)
    """Of a model that somebody named, counted from its config before weights are fetched or allocated."""
    seconds: float = _setting(1800.0, "WORTH_COMPILING_TIMEOUT", "seconds", 1e-3, 7 * 86_400)
    """Wall clock of one run; a cold compile of the largest checkpoint took 260 s on two CPU cores."""
    queue: int = _setting(20, "WORTH_COMPILING_QUEUE", "runs", 1, 1000)
    """Runs that wait or run at once; more would wait for an hour, and it is kinder to say so."""
    runs_a_visitor: int = _setting(1, "WORTH_COMPILING_RUNS_A_VISITOR", "runs", 1, 1000)
    """Of those, from one browser tab or one session of the API."""
    history_bytes: int = _setting(2_000_000_000, "WORTH_COMPILING_HISTORY_MB", "megabytes", 1, 10_000_000, 1_000_000)
    """Of the file of results. A full one takes no further results, and says so; nothing is ever deleted for room."""
    sweep_cells: int = _setting(2000, "WORTH_COMPILING_SWEEP_CELLS", "cells", 1, 2000)
    """Of one sweep from the page. On a Space, where a sweep of a stranger delays others at each cell, fewer."""
    hub_ids: bool = True
    """Whether a visitor may name a model of the Hub that is not in the list."""


SPACE_SWEEP_CELLS = 24
HUB_IDS_VARIABLE = "WORTH_COMPILING_HUB_IDS"
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def on_space(environment: Mapping[str, str] = os.environ) -> bool:
    """On a Hugging Face Space, where the visitors are strangers."""
    return bool(environment.get("SPACE_ID"))


def read(environment: Mapping[str, str]) -> Limits:
    """The limits that these variables set. Raises BadInput for a value that is not one."""
    strangers = on_space(environment)
    values: dict[str, Any] = {"hub_ids": _switch(environment, HUB_IDS_VARIABLE, default=not strangers)}
    if strangers:
        values["sweep_cells"] = SPACE_SWEEP_CELLS
    for setting in dataclasses.fields(Limits):
        if setting.metadata and (given := environment.get(setting.metadata["variable"], "").strip()):
            values[setting.name] = _number(given, whole=isinstance(setting.default, int), **setting.metadata)
    return Limits(**values)


@cache
def current() -> Limits:
    """The limits of this process. Raises BadInput."""
    return read(os.environ)


def variable(name: str) -> str:
    """The environment variable of a limit, for a sentence that says how to raise it."""
    return next(str(s.metadata["variable"]) for s in dataclasses.fields(Limits) if s.name == name)


def _number(given: str, variable: str, unit: str, low: float, high: float, factor: int, whole: bool) -> float:
    try:
        value = int(given) if whole else float(given)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        raise BadInput(f"{variable} must be {kind} of {unit} from {low:,} to {high:,}. Given: {given[:80]!r}.")
    return value * factor


def _switch(environment: Mapping[str, str], variable: str, default: bool) -> bool:
    given = environment.get(variable, "").strip().lower()
    if given not in (*YES, *NO, ""):
        raise BadInput(f"{variable} must be 1 or 0. Given: {given[:80]!r}.")
    return default if not given else given in YES
