"""Limits on what a visitor of the page may ask for, and the environment variables that set most of them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from . import format as fmt
from .options import MAX_BATCH_SIZE, BadInput, OptionValues


@dataclass(frozen=True)
class Limits:
    pixels: int = 25_000_000
    """Most pixels (width × height) of a picture, checked in the file's header."""
    file_bytes: int = 30_000_000
    """Largest picture file, checked at the upload and when it is read."""
    batch: int = MAX_BATCH_SIZE
    parameters: int = 2_000_000_000
    """Most weights of a model that is not in the catalogue, counted before they are downloaded."""
    seconds: int = 1800
    """Longest time of one process of a run. A run with `repeats` starts no further process once it has taken this long.

    Compiling the largest checkpoint took 260 s on two CPU cores."""
    queue: int = 20
    """Most runs that wait or run at once. A further one would wait for an hour and is refused."""
    runs_a_visitor: int = 1
    """Most runs that a browser tab or session of the API may have waiting or running."""
    history_bytes: int = 2_000_000_000
    """Largest file of stored results. A full file takes no new results and keeps the old ones."""
    sweep_cells: int = 2000
    """Most runs in one grid of settings (sweep) from the page; 24 on a Space, where they delay other visitors."""
    hub_ids: bool = True
    """Whether a visitor may run checkpoints of the Hub that are not in `catalog.CHECKPOINTS`."""
    hosts: tuple[str, ...] = ()
    """Names of this server besides localhost and IP addresses. Other pages on these hosts may send it requests, too."""


VARIABLES = {
    "pixels": "WORTH_COMPILING_PIXELS",
    "batch": "WORTH_COMPILING_BATCH",
    "parameters": "WORTH_COMPILING_PARAMETERS",
    "seconds": "WORTH_COMPILING_TIMEOUT",
    "queue": "WORTH_COMPILING_QUEUE",
    "runs_a_visitor": "WORTH_COMPILING_RUNS_A_VISITOR",
    "sweep_cells": "WORTH_COMPILING_SWEEP_CELLS",
}
HUB_IDS_VARIABLE = "WORTH_COMPILING_HUB_IDS"
HOSTS_VARIABLE = "WORTH_COMPILING_HOSTS"
PREFIX = "WORTH_COMPILING_"
KNOWN_VARIABLES = (*VARIABLES.values(), HUB_IDS_VARIABLE, HOSTS_VARIABLE, f"{PREFIX}DATA", f"{PREFIX}DATASET")
"""All settings of this program. Any other environment variable that begins with `PREFIX` is refused as misspelt."""


def on_space(environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether this program runs on a Hugging Face Space, which anybody may visit."""
    return bool(environment.get("SPACE_ID"))


def on_zero_gpu() -> bool:
    """Returns whether this process runs on a ZeroGPU Space, by the variable that the library `spaces` reads, too."""
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def limits_from(environment: Mapping[str, str]) -> Limits:
    """Returns the limits that the environment variables set.

    Raises BadInput for a value that is not allowed, and for an unknown variable that begins with `PREFIX`.
    """
    if unknown := sorted(name for name in environment if name.startswith(PREFIX) and name not in KNOWN_VARIABLES):
        meant = fmt.did_you_mean(unknown[0], KNOWN_VARIABLES, likeness=0.85)  # the prefix alone makes them alike
        raise BadInput(f"There is no setting {fmt.excerpt(unknown[0])}: unset this environment variable.{meant}")
    values: OptionValues = {"hosts": tuple(environment.get(HOSTS_VARIABLE, "").lower().replace(",", " ").split())}
    if on_space(environment):
        values |= {"hub_ids": False, "sweep_cells": 24}
    for name, variable in VARIABLES.items():
        if text := environment.get(variable, ""):
            number = fmt.parse_whole(text)
            if not isinstance(number, int) or number < 1:
                raise BadInput(f"{variable} must be a whole number above 0. Given: {fmt.excerpt(text)}.")
            values[name] = number
    if text := environment.get(HUB_IDS_VARIABLE, ""):
        if text not in ("0", "1"):
            raise BadInput(f"{HUB_IDS_VARIABLE} must be 1 or 0. Given: {fmt.excerpt(text)}.")
        values["hub_ids"] = text == "1"
    return replace(Limits(), **values)


@cache
def current() -> Limits:
    """Returns the limits of this process. Only the first call reads the environment variables.

    Raises BadInput if a variable has a value that is not allowed, or begins with `PREFIX` and is unknown.
    """
    return limits_from(os.environ)
