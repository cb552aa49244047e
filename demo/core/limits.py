"""What a visitor may ask of this machine: every limit, its default, and the environment variable that sets it.

The variables are read once. A value that is not allowed stops the program with a message.
"""

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from demo.core import format as fmt
from demo.core.spec import MAX_BATCH_SIZE, BadInput


def _setting(default: float, variable: str, unit: str, low: float, high: float, factor: int = 1) -> Any:
    metadata = {"variable": variable, "unit": unit, "low": low, "high": high, "factor": factor}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Limits:
    """The limits in force. Sizes in bytes; the variables that end in _MB are given in millions of them."""

    pixels: int = _setting(25_000_000, "WORTH_COMPILING_PIXELS", "pixels", 1, 1_000_000_000)
    """Width × height of a picture, read from its header before anything is decoded."""
    file_bytes: int = _setting(30_000_000, "WORTH_COMPILING_FILE_MB", "megabytes", 1, 1000, 1_000_000)
    """Size of a picture's file, at the upload and again when it is read."""
    batch: int = _setting(MAX_BATCH_SIZE, "WORTH_COMPILING_BATCH", "pictures", 1, MAX_BATCH_SIZE)
    parameters: int = _setting(2_000_000_000, "WORTH_COMPILING_PARAMETERS", "parameters", 1, 10**15)
    """Size of a model that somebody named, counted from its config before weights are fetched or allocated."""
    seconds: float = _setting(1800.0, "WORTH_COMPILING_TIMEOUT", "seconds", 1e-3, 7 * 86_400)
    """Wall clock of one run; a cold compile of the largest checkpoint took 260 s on two CPU cores."""
    queue: int = _setting(20, "WORTH_COMPILING_QUEUE", "runs", 1, 1000)
    """Runs that wait or run at once. Further ones are refused: they would wait for an hour."""
    runs_a_visitor: int = _setting(1, "WORTH_COMPILING_RUNS_A_VISITOR", "runs", 1, 1000)
    """Runs that wait or run at once from one browser tab or one session of the API."""
    history_bytes: int = _setting(2_000_000_000, "WORTH_COMPILING_HISTORY_MB", "megabytes", 1, 10_000_000, 1_000_000)
    """Size of the file of results. When it is full, further ones are refused; nothing is deleted to make room."""
    sweep_cells: int = _setting(2000, "WORTH_COMPILING_SWEEP_CELLS", "cells", 1, 2000)
    """Cells of one sweep from the page. Fewer on a Space, where each cell delays other visitors."""
    hub_ids: bool = True
    """Whether a visitor may name a model of the Hub that is not in the list."""
    hosts: tuple[str, ...] = ()
    """Host names of the page besides localhost and IP addresses. Pages on these hosts may send requests as well.
    On a Space: its own host and its custom domains."""


SPACE_SWEEP_CELLS = 24
HUB_IDS_VARIABLE = "WORTH_COMPILING_HUB_IDS"
HOSTS_VARIABLE = "WORTH_COMPILING_HOSTS"
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def on_space(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this runs on a Hugging Face Space, which anybody may visit."""
    return bool(environment.get("SPACE_ID"))


def on_zero_gpu(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process belongs to a ZeroGPU Space and holds no GPU; read as the package `spaces` reads it."""
    return environment.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def read(environment: Mapping[str, str]) -> Limits:
    """The limits that these variables set. Raises BadInput for a value that is not allowed."""
    strangers = on_space(environment)
    values: dict[str, Any] = {"hub_ids": _switch(environment, HUB_IDS_VARIABLE, default=not strangers)}
    values["hosts"] = _hosts(environment.get(HOSTS_VARIABLE, ""))
    if strangers:
        values["sweep_cells"] = SPACE_SWEEP_CELLS
        values["hosts"] += tuple(environment.get("SPACE_HOST", "").lower().replace(",", " ").split())
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
    value = fmt.parse_whole(given) if whole else fmt.parse_number(given)
    if isinstance(value, str) or not low <= value <= high:
        kind = "a whole number" if whole else "a number"
        raise BadInput(f"{variable} must be {kind} of {unit} from {low:,} to {high:,}. Given: {given[:80]!r}.")
    return value * factor


def _hosts(given: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in given.split(",") if name.strip())
    if not all(re.fullmatch(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", name) for name in names):
        raise BadInput(
            f"{HOSTS_VARIABLE} must be names of hosts with commas between them, without a port, "
            f"such as demo.example.org,box.local. Given: {given[:80]!r}."
        )
    return names


def _switch(environment: Mapping[str, str], variable: str, default: bool) -> bool:
    given = environment.get(variable, "").strip().lower()
    if given not in (*YES, *NO, ""):
        raise BadInput(f"{variable} must be 1 or 0. Given: {given[:80]!r}.")
    return default if not given else given in YES
