"""Turns what loading a checkpoint raises into a sentence that says what is wrong and what to do."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from safetensors import SafetensorError

from demo.core import catalog
from demo.core.errors import NO_ROOM, BadInput

OTHER = "choose another checkpoint"
NOT_WRITTEN = (*NO_ROOM, errno.EACCES, errno.EPERM)
NO_ANSWER = (TimeoutError, ConnectionError)
DAMAGED = (json.JSONDecodeError, UnicodeDecodeError, SafetensorError)
LATER = "Try again later, or choose a bundled shapes checkpoint."
LOG_IN = f"Log in with access to it (hf auth login), or {OTHER}."
HTTP_REMEDIES = {429: "Wait a few minutes and run again.", 401: LOG_IN, 403: LOG_IN}
TROUBLES = {
    "trust_remote_code|custom code": "brings Python code of its own, which is never run here",
    "no file named model.safetensors|cannot be loaded with `safetensors`": "has no safetensors weights, the only kind "
    "that is read",
    "backend tokenizer": "has no tokenizer (tokenizer.json) to read a text",
    "preprocessor_config.json|image processor": "has no image processor (preprocessor_config.json), so no picture can "
    "be prepared",
    "ignore_mismatched_sizes": "has weights of other shapes than its config says",
}
"""Patterns of what transformers says, and what is said here of a checkpoint."""


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
    except (BadInput, torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        if "out of memory" in str(error).lower() or "can't allocate memory" in str(error).lower():
            raise
        raise refusal(checkpoint, error) from error


def refusal(checkpoint: str, error: BaseException) -> BadInput:
    """What is wrong, and what to do. CannotLoad where the same request may work later or elsewhere."""
    causes = tuple(_causes(error))
    name, text = named(checkpoint), " ".join(str(cause) for cause in causes)
    entry = catalog.find(checkpoint)
    if "attention implementation" in text:
        return BadInput(f"{name} does not have the attention implementation that was asked for. Choose auto or eager.")
    if entry is not None and entry.bundled:
        what = f"A file of {name}, which ships with this project, is damaged or missing."
        return CannotLoad(what, "Get the project's folder assets again.")
    for cause in causes:
        if isinstance(cause, GatedRepoError):
            login = f"Accept its licence at https://huggingface.co/{name} and log in (hf auth login), or"
            if entry is None:
                return CannotLoad(f"{name} is gated on the Hub.", f"{login} {OTHER}.")
            timed = "choose weights: random, which times its architecture without a login."
            return CannotLoad(f"{name} is gated on the Hub.", f"{login} {timed}", weights="random")
        if isinstance(cause, RepositoryNotFoundError):
            what = f"{name} was not found on the Hub, or is private."
            return CannotLoad(what, "Check the spelling: owner/name, as microsoft/resnet-50.")
        if isinstance(cause, HfHubHTTPError) and not isinstance(cause, EntryNotFoundError):
            status = cause.response.status_code if cause.response is not None else "an error"
            return CannotLoad(f"The Hub answered {status} for {name}.", HTTP_REMEDIES.get(status, LATER))
        if isinstance(cause, OSError) and cause.errno in NOT_WRITTEN:
            return _no_room(checkpoint, os.strerror(cause.errno))
    if any(isinstance(cause, LocalEntryNotFoundError) for cause in causes):  # raised from the Hub's own answer, too
        what = f"The Hub cannot be reached and {name} is not complete in the local cache."
        return CannotLoad(what, f"{OTHER.capitalize()}.")
    if any(type(cause).__module__.startswith("http") or isinstance(cause, NO_ANSWER) for cause in causes):
        return CannotLoad(f"The Hub did not answer for {name}.", LATER)
    if any(isinstance(cause, DAMAGED) for cause in causes):
        return CannotLoad(f"A file of {name} is damaged and cannot be read.", "Download or write the checkpoint again.")
    if any(isinstance(cause, ImportError) for cause in causes) or re.search(r"\btimm\b", text):
        return BadInput(_package(name, text))
    for pattern, what in TROUBLES.items():
        if re.search(pattern, text, re.IGNORECASE):
            return BadInput(f"{name} {what}; {OTHER}.")
    return BadInput(f"{name} could not be loaded: {_reason(error)}. {OTHER.capitalize()}.")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _no_room(checkpoint: str, reason: str) -> CannotLoad:
    if catalog.is_folder(checkpoint):
        return CannotLoad(f"A file of {named(checkpoint)} cannot be read: {reason}.", f"Allow reading it, or {OTHER}.")
    return CannotLoad(
        f"The Hugging Face cache cannot take {checkpoint}: {reason}.",
        "Make room and allow writing there, or set HF_HOME to another folder.",
    )


def _package(name: str, text: str) -> str:
    """A sentence without the advice of the error to install what is missing."""
    if re.search(r"\btimm\b", text):
        return (
            f"{name} has a backbone of the package timm, which is never part of this project. Choose a checkpoint "
            "whose backbone is of transformers: the list has DETRs of that kind, and some models of the Hub have "
            "a revision no_timm, which can be downloaded and run as a folder from the command line."
        )
    missing = re.search(r"(?:No module named '|requires? the )(\w+)", text)
    return f"{name} needs {missing[1] if missing else 'a package'}, which is not part of this project; {OTHER}."


def _reason(error: BaseException) -> str:
    """The first line of the error's text, with the second where the first ends in a colon."""
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    announced = lines[0].endswith(":") and len(lines) > 1
    return " ".join(lines[: 2 if announced else 1])[:300].rstrip(".:")
