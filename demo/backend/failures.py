"""Turns exceptions into sentences that tell the user what failed and what to change."""

import contextlib
import errno
import json
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import errors as hub_errors
from safetensors import SafetensorError

from ..core import catalog, format as fmt
from ..core.caveat import Caveat
from ..core.files import NO_ROOM
from ..core.options import OWN_MODEL, BadInput, RunSpec
from ..core.progress import PHASE_DOING
from ..core.refusals import AGAIN, less_memory, other_way_to_compile
from ..core.result import Failure, RunResult, Status
from . import compilation, profiling

OTHER = "choose another checkpoint"
NO_ANSWER = (TimeoutError, ConnectionError, hub_errors.LocalEntryNotFoundError)
UNUSABLE_FOLDER = ("failed to map segment", *map(os.strerror, (*NO_ROOM, errno.EACCES, errno.EPERM)))
"""Words in errors about a folder that is full, may not be written, or is mounted without execution (noexec)."""
DAMAGED = (json.JSONDecodeError, UnicodeDecodeError, SafetensorError)
SLOW_FORMAT = 2.0
"""A number format is slow if float32 is at least this many times faster."""
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "status_alloc_failed", "unable to find an engine")
"""Words, in lower case, in the errors of CUDA, C++, Linux, cuBLAS and cuDNN when memory runs out."""


def explain(error: BaseException, phase: str, result: RunResult) -> tuple[Status, Failure]:
    """Returns the status and the failure of a run that raised `error` in `phase`, such as "compile"."""
    spec, environment = result.spec, result.environment
    if is_out_of_memory(error):
        device = f"{environment.device_name} ({fmt.size(environment.memory_bytes)})" if environment else spec.device
        what = "The model" if spec.task == OWN_MODEL else f"Batch size {spec.batch_size}"
        message = f"{what} ran out of memory on {device} while {PHASE_DOING[phase]}."
        return "out_of_memory", Failure(
            phase, message, *less_memory(spec, compiled=phase in ("compile", "time"), half=_half_format(spec))
        )
    text = compilation.first_line(error).rstrip(".:! ")
    remedy, change = _remedy(phase, spec, text)
    if spec.task == OWN_MODEL and phase != "compile":
        text = with_line(error, catalog.own_model_parts(spec.checkpoint)[0]).rstrip(".:! ")
    failure = Failure(phase, f"The run failed while {PHASE_DOING[phase]}: {text}.", remedy, change)
    return "compile_failed" if phase == "compile" else "failed", failure


def with_line(error: BaseException, file: Path) -> str:
    """Returns the error and the line of the user's file that raised it: 'ValueError: bad size (mine.py, line 7)'."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({Path(error.filename or file).name}, line {error.lineno})"
    first = next(iter(str(error).splitlines()), "")
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == str(file)]
    place = f" ({file.name}, line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}{f': {first[:200]}' if first else ''}{place}"


def _remedy(phase: str, spec: RunSpec, text: str) -> tuple[str, dict[str, Any]]:
    """Returns advice for the error message `text`, and the options to change: {"dtype": "float32"}, or {} if none."""
    if phase == "compile" and (remedy := build_remedy(text)):
        return remedy, {}
    if phase in ("compile", "time"):
        other, change = other_way_to_compile(spec)
        return f"{AGAIN if phase == 'time' else 'Eager works and was timed.'} {other}".strip(), change
    exact = {"dtype": "float32"} if spec.dtype in ("float16", "bfloat16") else {}
    if spec.task == OWN_MODEL:
        own = f"The module must run eagerly with the inputs that your function returns and weights of {spec.dtype}"
        return f"{own}: fix it, or choose another --dtype, and run again.", exact
    return f"Try dtype float32, or {OTHER}." if exact else f"{OTHER.capitalize()}.", exact


def _half_format(spec: RunSpec) -> str:
    """Returns the format with half the bytes in which the run's device is about as fast as in float32; '' for none."""
    if spec.device != "cpu":
        return "float16"  # every GPU computes in it
    with contextlib.suppress(RuntimeError, MemoryError):
        return "bfloat16" if profiling.float32_advantage(torch.bfloat16) < SLOW_FORMAT else ""
    return ""


def nothing_done(said: Sequence[Caveat]) -> Failure:
    """Returns the failure of a run in which nothing was compiled or computed. `said`: the caveats that say so."""
    first = next((one for one in said if one.key != "no_graph"), said[0])  # what computes nothing has no graph either
    what = "compiled" if first.key == "no_graph" else "computed"
    return Failure("time", f"Nothing was {what}, so there is no speed-up. {first}", "")


def recompile_failure(events: int) -> Failure:
    return Failure(
        "time",
        f"The model compiled again while it was timed ({events} compile events): the figures are void.",
        f"{AGAIN} If it happens again, look for shapes or branches that change from call to call in "
        "the model's forward: what compiles on every call cannot be timed.",
    )


def is_out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in text for words in OUT_OF_MEMORY)


def build_remedy(message: str) -> str:
    """Returns how to repair a machine that cannot build code, from the error's message; '' for an unknown cause."""
    if any(words in message for words in UNUSABLE_FOLDER):
        return "Set TORCHINDUCTOR_CACHE_DIR and TMPDIR to folders with room, in which files may be written and run."
    if "signal terminated program" in message:
        return f"The system stopped the compiler: free memory, or raise the limits that `ulimit -a` shows. {AGAIN}"
    if re.search(r"\b(Python|pyconfig)\.h\b|\bC(\+\+)? compiler|\bcc1|find .*-l", message):
        version = sysconfig.get_python_version()
        packages = f"Debian and Ubuntu: apt-get install build-essential python{version}-dev"
        return f"Install a C++ compiler and the headers of Python {version} ({packages}), or set CXX to a compiler."
    if re.search("undefined symbol|invalid ELF|file too short|PCH file", message):
        folder = "TORCHINDUCTOR_CACHE_DIR, or torchinductor_ with your user's name among the temporary files"
        return f"The compile cache may be damaged: delete the folder of {folder}."
    return ""


# Loading a checkpoint


class CannotLoad(BadInput):
    """A checkpoint cannot be loaded now, because of the Hub, a login or a file. The run ends with `failure`."""

    def __init__(self, what: str, remedy: str, **change: Any) -> None:
        super().__init__(f"{what} {remedy}")
        self.failure = Failure("load", what, remedy, change)


def short_name(checkpoint: str) -> str:
    """Returns the checkpoint's name for messages: if it is a folder, only the last part, to reveal no path."""
    return Path(checkpoint).name if catalog.is_folder(checkpoint) else checkpoint


@contextlib.contextmanager
def in_sentences(checkpoint: str) -> Iterator[None]:
    """Turns any exception from loading a checkpoint into a BadInput, unless memory ran out."""
    try:
        yield
    except Exception as error:
        if isinstance(error, BadInput) or is_out_of_memory(error):
            raise
        raise load_refusal(checkpoint, error) from error


def load_refusal(checkpoint: str, error: BaseException) -> BadInput:
    """Returns the error to raise after a checkpoint failed to load: CannotLoad if it may load later or elsewhere."""
    name, entry, causes = short_name(checkpoint), catalog.find(checkpoint), list(_causes(error))
    if "attention implementation" in str(error):
        return BadInput(f"{name} does not have the attention implementation that was asked for. Choose auto or eager.")
    other, change = f"or {OTHER}.", dict[str, Any]()
    if entry is not None:  # the catalogue has a config for each of its checkpoints
        other, change = "or choose weights: random, which times its architecture all the same.", {"weights": "random"}
    if any(isinstance(cause, hub_errors.GatedRepoError) for cause in causes):
        login = f"Accept its licence at https://huggingface.co/{name} and log in (hf auth login)"
        return CannotLoad(f"{name} is gated on the Hub.", f"{login}, {other}", **change)
    if any(isinstance(cause, hub_errors.RepositoryNotFoundError) for cause in causes):
        what = f"{name} was not found on the Hub, or is private."
        return CannotLoad(what, "Check the spelling: owner/name, as microsoft/resnet-50.")
    if any(map(_is_hub_failure, causes)):
        what = f"The Hub cannot be reached, or fails, and {name} is not complete in the local cache."
        return CannotLoad(what, f"Try again later, {other}", **change)
    file_error = next((one for one in causes if isinstance(one, DAMAGED) or getattr(one, "errno", None)), None)
    what = f"{name} could not be loaded: {_reason(file_error or error)}."
    if file_error is not None:
        return CannotLoad(what, f"Download or write it again where there is room, or {OTHER}.")
    return BadInput(f"{what} {OTHER.capitalize()}.")


def _is_hub_failure(error: BaseException) -> bool:
    """Returns whether the Hub did not answer, or answered with an error. A missing file does not count."""
    no_answer = isinstance(error, NO_ANSWER) or type(error).__module__.startswith("http")
    failed = isinstance(error, hub_errors.HfHubHTTPError) and not isinstance(error, hub_errors.EntryNotFoundError)
    return no_answer or failed


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: BaseException) -> str:
    """Returns the first sentence of a library's error message, with each path cut to its last part."""
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    if "ignore_mismatched_sizes" in text:
        return "its weights have other shapes than its config says"
    text = fmt.without_folders(" ".join(text.split())) or type(error).__name__
    return re.split(r"\. (?=[A-Z])", text, maxsplit=1)[0][:300].rstrip(".:")
