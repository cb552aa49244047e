"""Turns what loading a checkpoint raises into a sentence that says what is wrong and what to do."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError

from demo.core import catalog
from demo.core.errors import BadInput

OTHER = "choose another checkpoint"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
NO_SAFETENSORS = ("no file named model.safetensors", "cannot be loaded with `safetensors`")
"""What transformers says of a folder, and of a repository of the Hub."""

Cause = TypeVar("Cause", bound=BaseException)


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
    except BadInput:
        raise
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        if "out of memory" in str(error).lower() or "can't allocate memory" in str(error).lower():
            raise
        raise refusal(checkpoint, error) from error


@dataclass(frozen=True)
class _Trouble:
    """An exception that came while a checkpoint was loaded, with all its causes."""

    checkpoint: str
    causes: tuple[BaseException, ...]

    @property
    def name(self) -> str:
        return named(self.checkpoint)

    @property
    def text(self) -> str:
        return " ".join(str(cause) for cause in self.causes)

    def first(self, *kinds: type[Cause]) -> Cause | None:
        """The first cause of one of these kinds."""
        return next((cause for cause in self.causes if isinstance(cause, kinds)), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def refusal(checkpoint: str, error: BaseException) -> BadInput:
    """What is wrong, and what to do. CannotLoad where the same request may work later or elsewhere."""
    trouble = _Trouble(checkpoint, tuple(_causes(error)))
    for explain in (_of_request, _of_hub, _of_system, _of_files, _of_package):
        if (explained := explain(trouble)) is not None:
            return explained
    return BadInput(f"{trouble.name} could not be loaded: {_reason(error)}. {OTHER.capitalize()}.")


def _of_request(trouble: _Trouble) -> BadInput | None:
    name, entry = trouble.name, catalog.find(trouble.checkpoint)
    if "attention implementation" in trouble.text:
        return BadInput(f"{name} does not have the attention implementation that was asked for. Choose auto or eager.")
    if entry is not None and entry.bundled:
        what = f"A file of {name}, which ships with this project, is damaged or missing."
        return CannotLoad(what, "Get the project's folder assets again.")
    return None


def _of_hub(trouble: _Trouble) -> BadInput | None:
    name = trouble.name
    if trouble.first(GatedRepoError):
        remedy = f"Accept its licence at https://huggingface.co/{name} and log in (hf auth login), or "
        if catalog.find(trouble.checkpoint) is None:
            return CannotLoad(f"{name} is gated on the Hub.", f"{remedy}{OTHER}.")
        return CannotLoad(
            f"{name} is gated on the Hub.",
            f"{remedy}choose weights: random, which times its architecture without a login.",
            weights="random",
        )
    if trouble.first(RepositoryNotFoundError):
        what = f"{name} was not found on the Hub, or is private."
        return CannotLoad(what, "Check the spelling: owner/name, as microsoft/resnet-50.")
    if trouble.first(RevisionNotFoundError):
        return CannotLoad(f"{name} has no such revision on the Hub.", f"{OTHER.capitalize()}.")
    http = trouble.first(HfHubHTTPError)
    if http is not None and not isinstance(http, EntryNotFoundError):
        status = http.response.status_code if http.response is not None else "an error"
        if status == 429:
            what = f"The Hub answered 429 (too many requests) for {name}."
            return CannotLoad(what, "Wait a few minutes and run again.")
        remedy = "Try again later, or choose a bundled shapes checkpoint."
        if status in (401, 403):
            remedy = f"Log in with access to it (hf auth login), or {OTHER}."
        return CannotLoad(f"The Hub answered {status} for {name}.", remedy)
    if trouble.first(HFValidationError):
        return BadInput(f"{trouble.checkpoint!r} is not a valid Hub id. It is owner/name, such as microsoft/resnet-50.")
    if trouble.first(LocalEntryNotFoundError):
        what = f"The Hub cannot be reached and {name} is not complete in the local cache."
        return CannotLoad(what, f"{OTHER.capitalize()}.")
    return None


def _of_system(trouble: _Trouble) -> BadInput | None:
    name, error = trouble.name, trouble.first(OSError)
    if error is not None and error.errno in NO_ROOM:
        reason = os.strerror(error.errno)
        if catalog.is_folder(trouble.checkpoint):
            return CannotLoad(f"A file of {name} cannot be read: {reason}.", f"Allow reading it, or {OTHER}.")
        return CannotLoad(
            f"The Hugging Face cache cannot take {name}: {reason}.",
            "Make room and allow writing there, or set HF_HOME to another folder.",
        )
    from_http = any(type(cause).__module__.startswith("http") for cause in trouble.causes)
    if from_http or trouble.first(TimeoutError, ConnectionError):
        remedy = "Try again later, or choose a bundled shapes checkpoint."
        return CannotLoad(f"The Hub did not answer for {name}.", remedy)
    return None


def _of_files(trouble: _Trouble) -> BadInput | None:
    name, text = trouble.name, trouble.text
    if "trust_remote_code" in text or "custom code" in text:
        return BadInput(f"{name} brings Python code of its own, which is never run here; {OTHER}.")
    if any(sign in text for sign in NO_SAFETENSORS):
        return BadInput(f"{name} has no safetensors weights, the only kind that is read; {OTHER}.")
    if trouble.first(json.JSONDecodeError, UnicodeDecodeError, SafetensorError):
        return CannotLoad(f"A file of {name} is damaged and cannot be read.", "Download or write the checkpoint again.")
    if "backend tokenizer" in text:
        return BadInput(f"{name} has no tokenizer (tokenizer.json) to read a text; {OTHER}.")
    if "preprocessor_config.json" in text or "image processor" in text.lower():
        return BadInput(
            f"{name} has no image processor (preprocessor_config.json), so no picture can be prepared; {OTHER}."
        )
    if "ignore_mismatched_sizes" in text:
        what = f"The weights of {name} have other shapes than its config says."
        return CannotLoad(what, f"Write or download the checkpoint again, or {OTHER}.")
    return None


def _of_package(trouble: _Trouble) -> BadInput | None:
    name, text = trouble.name, trouble.text
    if not trouble.first(ImportError) and "timm" not in re.findall(r"\w+", text):
        return None
    package = _package(text)
    if package == "timm":
        return BadInput(
            f"{name} has a backbone of the package timm, which is never part of this project. Choose a checkpoint "
            "whose backbone is of transformers: the list has DETRs of that kind, and some models of the Hub have "
            "a revision no_timm, which can be downloaded and run as a folder from the command line."
        )
    return BadInput(f"{name} needs {package}, which is not part of this project; {OTHER}.")


def _package(text: str) -> str:
    """The package that an import error says is missing, without its advice to install it."""
    match = re.search(
        r"No module named '(\w+)|requires? the (\w+) library|pip install (?:-\S+ )*([\w-]+)|(\btimm\b|\btorchvision\b)",
        text,
    )
    return next(name for name in match.groups() if name) if match else "a package"


def _reason(error: BaseException) -> str:
    """The first line of the error's text, with the second where the first ends in a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    announced = lines[0].endswith(":") and len(lines) > 1
    return " ".join(lines[: 2 if announced else 1])[:300].rstrip(".:")
