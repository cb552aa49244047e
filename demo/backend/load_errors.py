"""Turns what loading a checkpoint raises into a sentence that says what is wrong and what to do."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from demo.backend import failures
from demo.core import catalog
from demo.core import format as fmt
from demo.core.errors import BadInput

OTHER = "choose another checkpoint"
NO_ANSWER = (TimeoutError, ConnectionError, LocalEntryNotFoundError)


class CannotLoad(BadInput):
    """The request is valid, but the Hub or a damaged file prevents it now."""

    def __init__(self, what: str, remedy: str, **change: Any) -> None:
        """`change` holds the settings that the remedy names, by the fields of `RunSpec`."""
        super().__init__(f"{what} {remedy}")
        self.what = what
        self.remedy = remedy
        self.change = change


def named(checkpoint: str) -> str:
    """The checkpoint's name in messages: of a folder only the last part, so that no path is revealed."""
    return Path(checkpoint).name if catalog.is_folder(checkpoint) else checkpoint


@contextlib.contextmanager
def in_sentences(checkpoint: str) -> Iterator[None]:
    """Turns what is raised inside into BadInput, except for memory that ran out."""
    try:
        yield
    except Exception as error:
        if isinstance(error, BadInput) or failures.is_out_of_memory(error):
            raise
        raise refusal(checkpoint, error) from error


def refusal(checkpoint: str, error: BaseException) -> BadInput:
    """What is wrong, and what to do. CannotLoad where the same request may work later or elsewhere."""
    name, entry = named(checkpoint), catalog.find(checkpoint)
    if "attention implementation" in str(error):
        return BadInput(f"{name} does not have the attention implementation that was asked for. Choose auto or eager.")
    if entry is not None and entry.bundled:
        what = f"A file of {name}, which ships with this project, is damaged or missing."
        return CannotLoad(what, "Get the project's folder assets again.")
    causes = tuple(_causes(error))
    # The catalogue has a config for each of its checkpoints.
    other = f"or {OTHER}." if entry is None else "or choose weights: random, which times its architecture all the same."
    change = {} if entry is None else {"weights": "random"}
    if any(isinstance(cause, GatedRepoError) for cause in causes):
        login = f"Accept its licence at https://huggingface.co/{name} and log in (hf auth login)"
        return CannotLoad(f"{name} is gated on the Hub.", f"{login}, {other}", **change)
    if any(isinstance(cause, RepositoryNotFoundError) for cause in causes):
        what = f"{name} was not found on the Hub, or is private."
        return CannotLoad(what, "Check the spelling: owner/name, as microsoft/resnet-50.")
    for cause in causes:
        if isinstance(cause, HfHubHTTPError) and not isinstance(cause, EntryNotFoundError):
            what = f"The Hub answered {cause.response.status_code} for {name}."
            return CannotLoad(what, f"Try again later, log in, or {OTHER}.")
    if any(isinstance(cause, NO_ANSWER) or type(cause).__module__.startswith("http") for cause in causes):
        what = f"The Hub cannot be reached and {name} is not complete in the local cache."
        return CannotLoad(what, f"Try again later, {other}", **change)
    return BadInput(f"{name} could not be loaded: {_reason(error)}. {OTHER.capitalize()}.")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: BaseException) -> str:
    """The first sentence of the library's own words, without folders."""
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    if "ignore_mismatched_sizes" in text:
        return "its weights have other shapes than its config says"
    text = fmt.without_folders(" ".join(text.split())) or type(error).__name__
    return re.split(r"\. (?=[A-Z])", text, maxsplit=1)[0][:300].rstrip(".:")
