"""What failed in a run, and what to change: an exception and its phase become a status and a Failure."""

import contextlib
import errno
import json
import os
import re
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import errors as hub_errors
from safetensors import SafetensorError

from demo.backend import compilation
from demo.core import catalog, format as fmt
from demo.core.files import NO_ROOM
from demo.core.record import PHASE_DOING, Failure, Status
from demo.core.refusals import AGAIN, other_way_to_compile
from demo.core.result import RunResult
from demo.core.spec import OWN_MODEL, BadInput, RunSpec

OTHER = "choose another checkpoint"
ASSETS_AGAIN = "Get the project's folder assets again."
NO_ANSWER = (TimeoutError, ConnectionError, hub_errors.LocalEntryNotFoundError)
NOT_WRITTEN = (*NO_ROOM, errno.EACCES, errno.EPERM)
BUILD_REMEDIES = {
    r"\b(Python|pyconfig)\.h\b": "Install the headers of Python {0} (Debian and Ubuntu: apt-get install python{0}-dev; "
    "Fedora: dnf install python3-devel).",
    "failed to map segment": "The folder's file system runs no programs (noexec). Set TORCHINDUCTOR_CACHE_DIR to "
    "another folder, and TMPDIR for a package or an empty cache.",
    r"\bC(\+\+)? compiler|\bcc1|fatal error: '?(?!cuda)[a-z]+(\.h)?[':] ": "Install a C++ compiler (Debian and Ubuntu: "
    "apt-get install build-essential; Fedora: dnf install gcc-c++; macOS: xcode-select --install), or set CXX to one.",
    r"(cannot|unable to) find .*-l|\blibrary .*not found": "Install this library's development files, or set "
    "LIBRARY_PATH to its folder.",
    "GLIBCXX_": "Python loads an older libstdc++ than the compiler's. Set CXX to a compiler of Python's environment.",
    "undefined symbol|invalid ELF|file too short|PCH file": "The compile cache may be damaged: delete the folder of "
    "TORCHINDUCTOR_CACHE_DIR, or torchinductor_ with your user's name among the temporary files.",
    "|".join(map(os.strerror, NOT_WRITTEN)): "Make room and allow writing in the folders of TORCHINDUCTOR_CACHE_DIR "
    "and TMPDIR.",
}
"""What mends a machine that cannot build code, by a pattern of `compilation.first_line`. {0} is Python's version."""
DAMAGED = (json.JSONDecodeError, UnicodeDecodeError, SafetensorError)
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "status_alloc_failed", "unable to find an engine")
"""In lower case: what the allocators of CUDA, C++, Linux, cuBLAS and cuDNN say, and cuDNN of a convolution whose
workspace does not fit."""


def explain(error: Exception, phase: str, result: RunResult) -> tuple[Status, Failure]:
    """`result` is what is known so far: its spec, and its environment where the model was loaded."""
    spec = result.spec
    if is_out_of_memory(error):
        return "out_of_memory", _out_of_memory(phase, result)
    text = compilation.first_line(error).rstrip(".")
    if phase == "compile":
        return "compile_failed", _compile_failed(text, spec)
    if spec.task == OWN_MODEL:
        text = where(error, catalog.own_model_parts(spec.checkpoint)[0])
    remedy, change = _remedy(phase, spec, text)
    return "failed", Failure(phase, f"The run failed while {PHASE_DOING[phase]}: {text}", remedy, change)


def where(error: BaseException, file: Path) -> str:
    """'ValueError: no such size (mine.py, line 7)': the last line of the user's file that took part, if any did."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({Path(error.filename or file).name}, line {error.lineno})"
    first = next(iter(str(error).splitlines()), "")
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == str(file)]
    place = f" ({file.name}, line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}{f': {first[:200]}' if first else ''}{place}"


def _remedy(phase: str, spec: RunSpec, text: str) -> tuple[str, dict[str, Any]]:
    """What to do where a phase but the compile failed with this text, and the settings that this names."""
    if phase == "time":
        other, change = other_way_to_compile(spec)
        return f"{AGAIN} {other}".strip(), change
    half = spec.dtype in ("float16", "bfloat16") and re.search(r"(?i)half|float|dtype|scalar type|16b?f", text)
    exact: dict[str, Any] = {"dtype": "float32"} if half else {}
    if spec.task == OWN_MODEL:
        own = f"The module must run eagerly with the inputs that your function returns and weights of {spec.dtype}"
        return f"{own}: fix it, or choose another --dtype, and run again.", exact
    if phase == "warm up" and exact:
        return "Try dtype float32, or choose another checkpoint.", exact
    if phase == "warm up" and spec.sees_picture:
        return "Choose another checkpoint, or one whose preprocessor_config.json fits its config.json.", {}
    return AGAIN if phase == "check" else f"{OTHER.capitalize()}.", {}


def recompile_failure(events: int) -> Failure:
    """The failure of a run with so many compile events while it was timed."""
    return Failure(
        "time",
        f"The model compiled again while it was timed ({events} compile events): the figures are void.",
        f"{AGAIN} If it happens again, look for shapes or branches that change from call to call in "
        "the model's forward: what compiles on every call cannot be timed.",
    )


def is_out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(words in text for words in OUT_OF_MEMORY)


def _out_of_memory(phase: str, result: RunResult) -> Failure:
    spec, environment = result.spec, result.environment
    device = f"{environment.device_name} ({fmt.size(environment.memory_bytes)})" if environment else spec.device
    own, change = spec.task == OWN_MODEL, dict[str, Any]()
    remedy = "Try smaller inputs or a smaller module." if own else "Try a smaller checkpoint."
    if spec.batch_size > 1:
        change["batch_size"] = max(1, spec.batch_size // 4)
        remedy = f"Try batch size {change['batch_size']}."
    if spec.dtype in ("float32", "tf32"):
        change["dtype"] = "bfloat16" if spec.device == "cpu" else "float16"  # which every GPU computes in
        remedy += f" Dtype {change['dtype']} takes half the memory."
    asked = "The model" if own else f"Batch size {spec.batch_size}"
    what = f"{asked} ran out of memory on {device} while {PHASE_DOING[phase]}."
    return Failure(phase, what, remedy, change)


def _compile_failed(text: str, spec: RunSpec) -> Failure:
    what = "torch.export or AOTInductor" if spec.compiler == "aot" else "torch.compile"
    if remedy := build_remedy(text):
        return Failure("compile", f"{what} failed: {text}.", remedy, {})
    other, change = other_way_to_compile(spec)
    return Failure("compile", f"{what} failed: {text}.", f"Eager works and was timed. {other}".strip(), change)


def build_remedy(said: str) -> str:
    """What mends this machine where building code failed with these words; '' where they name no known cause."""
    remedies = (remedy for pattern, remedy in BUILD_REMEDIES.items() if re.search(pattern, said))
    return next(remedies, "").format(sysconfig.get_python_version())


# Loading a checkpoint


class CannotLoad(BadInput):
    """The request is valid, but the Hub or a damaged file prevents it now."""

    def __init__(self, what: str, remedy: str, **change: Any) -> None:
        """`change` holds the settings that the remedy names, by the fields of `RunSpec`."""
        super().__init__(f"{what} {remedy}")
        self.failure = Failure("load", what, remedy, change)


def short_name(checkpoint: str) -> str:
    """The checkpoint's name in messages: of a folder only the last part, so that no path is revealed."""
    return Path(checkpoint).name if catalog.is_folder(checkpoint) else checkpoint


@contextlib.contextmanager
def in_sentences(checkpoint: str) -> Iterator[None]:
    """Turns what is raised inside into BadInput, except for memory that ran out."""
    try:
        yield
    except Exception as error:
        if isinstance(error, BadInput) or is_out_of_memory(error):
            raise
        raise load_refusal(checkpoint, error) from error


def load_refusal(checkpoint: str, error: BaseException) -> BadInput:
    """What is wrong, and what to do. CannotLoad where the same request may work later or elsewhere."""
    name, entry = short_name(checkpoint), catalog.find(checkpoint)
    if "attention implementation" in str(error):
        return BadInput(f"{name} does not have the attention implementation that was asked for. Choose auto or eager.")
    causes, bundled = tuple(_causes(error)), entry is not None and entry.bundled
    other, change = f"or {OTHER}.", dict[str, Any]()
    if entry is not None:  # the catalogue has a config for each of its checkpoints
        other, change = (
            "or choose weights: random, which times its architecture all the same.",
            {"weights": "random"},
        )
    if any(isinstance(cause, hub_errors.GatedRepoError) for cause in causes):
        login = f"Accept its licence at https://huggingface.co/{name} and log in (hf auth login)"
        return CannotLoad(f"{name} is gated on the Hub.", f"{login}, {other}", **change)
    if any(isinstance(cause, hub_errors.RepositoryNotFoundError) for cause in causes):
        what = f"{name} was not found on the Hub, or is private."
        return CannotLoad(what, "Check the spelling: owner/name, as microsoft/resnet-50.")
    for cause in causes:
        if isinstance(cause, hub_errors.HfHubHTTPError) and not isinstance(cause, hub_errors.EntryNotFoundError):
            what = f"The Hub answered {cause.response.status_code} for {name}."
            return CannotLoad(what, f"Try again later, log in, or {OTHER}.")
        if isinstance(cause, OSError) and cause.errno in NOT_WRITTEN and not (bundled or catalog.is_folder(checkpoint)):
            what = f"The Hugging Face cache cannot take {checkpoint}: {os.strerror(cause.errno)}."
            return CannotLoad(what, "Make room and allow writing there, or set HF_HOME to another folder.")
    if any(isinstance(cause, NO_ANSWER) or type(cause).__module__.startswith("http") for cause in causes):
        what = f"The Hub cannot be reached and {name} is not complete in the local cache."
        return CannotLoad(what, f"Try again later, {other}", **change)
    if any(isinstance(cause, DAMAGED) for cause in causes):
        again = ASSETS_AGAIN if bundled else "Download or write the checkpoint again."
        return CannotLoad(f"A file of {name} is damaged and cannot be read.", again)
    what = f"{name} could not be loaded: {_reason(error)}."
    return CannotLoad(what, ASSETS_AGAIN) if bundled else BadInput(f"{what} {OTHER.capitalize()}.")


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
