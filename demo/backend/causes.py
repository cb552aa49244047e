"""Recognised causes of failures, each with its remedy. A remedy is listed only if it was seen to help.

- A machine on which torch.compile cannot build code: `build_remedy` reads the error, `switched_off` the environment.
  Runs and the command `doctor` use both.
- A model that dynamo does not trace: `trace_remedy`.
- A folder or repository from which no model can be loaded: `of_checkpoint`.
"""

import codecs
import contextlib
import json
import os
import re
import shutil
import sysconfig
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

import huggingface_hub
import torch
from torch._inductor.runtime.cache_dir_utils import cache_dir

from ..core import catalog, format as fmt
from ..core.files import LFS_REMEDY, NO_ROOM, is_lfs_pointer
from ..core.refusals import AGAIN

T = TypeVar("T")

PYTHON = sysconfig.get_python_version()
PACKAGES = f"Debian and Ubuntu: apt-get install build-essential python{PYTHON}-dev"


class Cause(NamedTuple):
    words: str
    """A regular expression that matches in the messages of errors with this cause, and in no others."""
    remedy: str


# --- A machine that cannot build code. The first cause whose words are found counts.

COMPILER = Cause(
    rf"\b(Python|pyconfig)\.h\b|\bC(\+\+)? compiler|\bcc1|cannot (execute|find) .(as|ld|collect2)\b"
    rf"|-l(stdc\+\+|c|m|gcc|gcc_s|python{PYTHON})(?![\w+-])|\bcrt\w\.o\b"
    r"|error: '?(\w+|(std|string|math|limits)\w*\.h)'?(: No such| file not found)",
    f"Install a C++ compiler and the headers of Python {PYTHON} ({PACKAGES}), or set CXX to a compiler.",
)
NO_PATH = (
    "The environment variable PATH is not set, so the compiler or a part of it is not found. Set it, or leave out what "
    "removes it."
)
BUILD = (
    Cause(
        "|".join(["failed to map segment", *map(os.strerror, NO_ROOM), r"Permission denied|Operation not permitted"]),
        "Set TORCHINDUCTOR_CACHE_DIR and TMPDIR to folders with room, in which files may be written and run.",
    ),
    Cause(
        "signal terminated program",
        f"The system stopped the compiler: free memory, or raise the limits that `ulimit -a` shows. {AGAIN}",
    ),
    Cause(
        r"-lcuda\b",
        "The linker finds no libcuda.so. Set LIBRARY_PATH to a folder that has one: usr/lib/wsl/lib on WSL, "
        "lib64/stubs of a CUDA toolkit, or one with a link of this name to the driver's libcuda.so.1.",
    ),
    Cause(
        r"-l:libcuda\.so\.1",
        "Set LIBRARY_PATH to the folder of the driver's libcuda.so.1, which `ldconfig -p | grep libcuda` prints.",
    ),
    Cause(
        r"\bomp\.h\b|-l[gi]?omp5?\b|OpenMP support not found",
        "The compiler lacks OpenMP: install it (for g++ build-essential, for clang libomp-dev of clang's version, on "
        "macOS brew install libomp), or set CXX to a compiler that has it.",
    ),
    COMPILER,
    Cause(
        "undefined symbol|invalid ELF|file too short|PCH file",
        "The compile cache may be damaged: delete the folder of TORCHINDUCTOR_CACHE_DIR, or torchinductor_ with your "
        "user's name among the temporary files.",
    ),
)


def build_remedy(message: str) -> str:
    """Returns how to repair a machine that cannot build code, from the error's message; '' for an unknown cause."""
    if remedy := _broken_cxx(message) or _space_in_a_path(message):
        return remedy
    remedy = next((cause.remedy for cause in BUILD if re.search(cause.words, message)), "")
    return NO_PATH if remedy == COMPILER.remedy and not os.environ.get("PATH") else remedy


def _broken_cxx(message: str) -> str:
    """Returns what is wrong with the environment variable CXX, and what to do; '' if nothing is.

    `message`: the error of a failed compile. CXX is checked only if the message says that no C++ compiler runs.
    """
    named = os.environ.get("CXX")
    if named is None or not re.search(r"cpp\.cxx|Exec format error|Permission denied", message):
        return ""
    if shutil.which(named) is None:
        split = " It names one program, without arguments." if shutil.which(named.split(" ")[0]) else ""
        return f"CXX is {named!r}, which is no program that runs.{split} Set CXX to a C++ compiler, or unset it."
    if "cpp.cxx" in message or "Exec format" in message:
        return f"CXX is {named!r}, which answers --version with an error. Set CXX to a C++ compiler, or unset it."
    return ""


def _space_in_a_path(message: str) -> str:
    """Returns which path has a space, and what to do; '' if none has.

    `message`: the error of a failed compile. If a space may be its cause, as when a file is not found, the paths of the
    compile cache, of torch and of Python's headers are checked.
    """
    if not re.search(r"same as output file|cannot find|[Nn]o such file|not found|no input files", message):
        return ""
    if " " in cache_dir():
        return (
            "The compile cache's path has a space, at which the compiler's command breaks: set TORCHINDUCTOR_CACHE_DIR "
            "to a folder without spaces."
        )
    if " " in f"{torch.__file__}{sysconfig.get_path('include')}":
        return (
            "The path of this Python environment has a space, at which the compiler's command breaks: install torch "
            "in a folder without spaces."
        )
    return ""


def switched_off() -> str:
    """Returns, as sentences, what switches torch.compile off in this process and what to do; '' if nothing does."""
    for variable in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
        if os.environ.get(variable) == "1":
            return f"{variable}=1 switches torch.compile off. Unset it, and start again."
    if torch._dynamo.config.disable:
        return "torch._dynamo.config.disable switches torch.compile off. Leave it out."
    if (stance := torch._dynamo.eval_frame._stance.stance) in ("force_eager", "eager_on_recompile"):
        return f"torch.compiler.set_stance({stance!r}) switches torch.compile off. Leave it out."
    return ""


def hidden_errors() -> str:
    """Returns which setting makes failed compiles run in eager without an error in this process; '' if none does."""
    variable = "TORCHDYNAMO_SUPPRESS_ERRORS"
    set_by = f"{variable}={os.environ[variable]}" if os.environ.get(variable) else "suppress_errors of torch._dynamo"
    return f"{set_by} made eager calls of this error" if torch._dynamo.config.suppress_errors else ""


# --- A model that cannot be traced

TRACE = (
    Cause(
        "RNN, GRU, or LSTM",
        "With torch._dynamo.config.allow_rnn = True in the file of the model, dynamo traces these layers.",
    ),
    Cause(
        "torch.jit.script/freeze",
        "Build this part without torch.jit: dynamo does not trace TorchScript.",
    ),
)


TORCHAO = (
    "Dynamo does not trace layers that torch.ao.quantization made. It traces linear layers that quantize_ of torchao "
    "made."
)
COUNTER = re.compile(r"the guard ([a-zA-Z]\w*\.[\w.]+) == -?\d+ failed")
COUNTS = 3
"""A module's number is taken for a counter if guards on it failed at least this many times."""


def trace_remedy(message: str) -> str:
    """Returns the remedy for a model that dynamo does not trace; '' for an unknown cause."""
    return next((cause.remedy for cause in TRACE if re.search(cause.words, message)), "")


def layer_remedy(model: torch.nn.Module) -> str:
    """Returns the remedy if the model has layers that dynamo does not trace; '' if it has none that are known."""
    kinds = (type(module).__module__ for module in model.modules())
    return TORCHAO if any(kind.startswith("torch.ao.nn.quantized") for kind in kinds) else ""


def counter_remedy(reasons: Iterable[str]) -> str:
    """Returns the remedy if a number that a module counts up made dynamo compile again and again; '' if none did.

    `reasons`: those of the recompiles, such as 'the guard self.counter == 0 failed'.
    """
    found = (COUNTER.match(reason) for reason in reasons)
    for name, times in Counter(match[1] for match in found if match).most_common(1):
        if times >= COUNTS:
            return (
                f"{name} changes from call to call: with torch._dynamo.config.allow_unspec_int_on_nn_module = True in "
                "the file of the model, it is compiled as a variable."
            )
    return ""


# --- A checkpoint's files, after it failed to load

LEVELS = ("*", "*/*", "*/*/*")
READ = r"[^/]*\.(json|model|txt|jinja)|model[^/]*\.safetensors"
"""Matches the names of files that transformers reads to load a checkpoint. Only their content is checked for faults."""
MAX_JSON_BYTES = 5_000_000
KEPT_NAMES = ("model.safetensors", "model.safetensors.index.json")
OTHER_WEIGHTS = {
    "gguf": "GGUF",
    "onnx": "ONNX",
    "bin": "pickle",
    "pt": "pickle",
    "pth": "pickle",
    "ckpt": "pickle",
    "h5": "TensorFlow",
    "msgpack": "Flax",
    "tflite": "TensorFlow Lite",
}
"""{end of a file's name: format of weights that this program does not read}"""


def of_checkpoint(checkpoint: str, damaged: bool) -> tuple[str, str] | None:
    """Returns why a checkpoint failed to load, as (what, remedy), found by looking at its files; None if not found.

    `checkpoint`: a folder, or a Hub id. `damaged`: True if the error said that a file's content is invalid. The
    folder's JSON files are then parsed to find that file.
    """
    folder = Path(checkpoint)
    if catalog.is_folder(checkpoint):
        files = (file for level in LEVELS for file in folder.glob(level) if file.is_file())
        names = sorted(str(file.relative_to(folder)) for file in files)
        for link in sorted(folder.glob("*")):
            if re.fullmatch(READ, link.name) and link.is_symlink() and not link.exists():
                return f"has a link {fmt.printable(link.name)[:100]} to a file that is not there", "Download it again."
        for name in names:
            if re.fullmatch(READ, name) and (fault := of_file(folder / name, damaged)):
                return f"has a file {fmt.printable(name)[:100]} that {fault[0]}", fault[1]
    else:
        try:  # a file of the cache is what was sent, so only the names are looked at
            timeout = huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT
            names = [file.rfilename for file in huggingface_hub.model_info(checkpoint, timeout=timeout).siblings or []]
        except Exception:  # this only explains a failure that is reported anyway
            return None

    def read(name: str) -> bytes:
        file = folder / name if catalog.is_folder(checkpoint) else huggingface_hub.hf_hub_download(checkpoint, name)
        return Path(file).read_bytes()

    fault = of_files(names, read)
    return (fmt.redact(fault[0])[:300], fmt.redact(fault[1])[:300]) if fault else None


def pointers(folder: Path, ends: tuple[str, ...] = ("",)) -> str:
    """Returns the names of files in the folder that are Git LFS pointers: 'a.pt, b.pt'; '' if there are none.

    `ends`: the ends of the file names to look at, such as '.json'. The default looks at all files.
    """
    files = (file for file in sorted(folder.glob("*")) if file.is_file() and file.name.endswith(ends))
    return fmt.shorten(", ".join(fmt.printable(file.name) for file in files if is_lfs_pointer(file)), 100)


def of_file(file: Path, damaged: bool = True) -> tuple[str, str] | None:
    """Returns why a file's content does not fit its name, as (what, remedy): ('is empty', 'Download ...').

    Returns None if no fault is found. `damaged`: whether a JSON file is parsed to find out if it is valid.
    """
    if is_lfs_pointer(file):
        return "is a Git LFS pointer, not the file itself", LFS_REMEDY
    with contextlib.suppress(OSError):
        if file.stat().st_size == 0:
            return "is empty", "Download or write it again."
        with file.open("rb") as opened:
            start = opened.read(200)
        if re.match(rb"\s*<(!doctype|html)\b", start, re.IGNORECASE):
            return "is a web page", "Download the file itself: on the Hub, its address has 'resolve', not 'blob'."
        # Its first eight bytes would be a length, and as letters they are one beyond any memory.
        if file.suffix == ".safetensors" and re.match(rb"[ -~\s]{8}", start):
            return f"is a text: {fmt.printable(start[:40].decode(errors='replace'))}", "Download the file itself."
        if damaged and file.suffix == ".json" and re.match(rb"[A-Za-z]", start):  # an answer that refuses the file
            text = fmt.shorten(fmt.printable(start.decode(errors="replace")), 100)
            return f"is a text: {text}", "Download the file itself."
        if damaged and file.suffix == ".json" and file.stat().st_size < MAX_JSON_BYTES:
            try:
                json.loads(file.read_bytes().decode())
            except ValueError as error:
                if file.read_bytes().startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                    return "is not in plain UTF-8", "Save it as UTF-8 without a byte order mark."
                return f"is no JSON ({error})", "Correct it, or download it again."
    return None


def of_encoding(file: Path) -> tuple[str, str] | None:
    """Returns why Python cannot read a source file, as (what, remedy): UTF-16, or a null byte; None for neither."""
    text = file.read_bytes()
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "is in UTF-16", "Save it as UTF-8."
    return ("holds a null byte", "Save it as UTF-8 text.") if b"\0" in text else None


def of_files(names: Collection[str], read: Callable[[str], bytes]) -> tuple[str, str] | None:
    """Returns why no model can be loaded from these files, as (what, remedy): ('is an adapter of x/y', 'Merge it ...').

    - `names`: paths of the files in a folder or Hub repository, relative to it.
    - `read`: a function that returns the content of a small file, given its path in `names`, or raises an error.
    - Returns None if no fault is found.
    """
    kept = "Load it where it was made, and write it with save_pretrained."
    if "adapter_config.json" in names and not any(name in names for name in KEPT_NAMES):
        base = _entry(read, "adapter_config.json", "base_model_name_or_path", "")[:100]
        remedy = f"Merge it into {base or 'its base model'} (peft: merge_and_unload), and give the folder of that."
        return f"is an adapter of {base or 'another model'}, not a whole model", remedy
    if "model_index.json" in names:
        kind = _entry(read, "model_index.json", "_class_name", "")[:100] or "pipeline"
        return (
            f"is a {kind} of diffusers, which no task here runs",
            "Time a part of it as a model of your own (--model).",
        )
    if "config.json" not in names:
        nested = sorted({str(Path(name).parent) for name in names if Path(name).name == "config.json"})
        if nested:
            return "has no config.json", f"Its folder {nested[0]} has one: give that folder."
    if KEPT_NAMES[1] in names:
        nothing: dict[str, object] = {}
        parts = _entry(read, KEPT_NAMES[1], "weight_map", nothing)
        lacking = sorted({str(part) for part in parts.values()} - {*names})
        what = f"lacks {lacking[0] if lacking else ''}, which its {KEPT_NAMES[1]} names"
        return (what, "Download that file, too.") if lacking else None
    if KEPT_NAMES[0] in names:
        return None
    if begun := sorted(name for name in names if name.endswith((".incomplete", ".part", ".crdownload"))):
        return f"has a download that did not end, {begun[0]}", "Download it again."
    safe = sorted(name for name in names if name.endswith(".safetensors") and "/" not in name)
    others = sorted(name for name in names if Path(name).suffix[1:] in OTHER_WEIGHTS)
    if safe and "config.json" in names:
        what = f"has its weights as {safe[0]}, where model.safetensors or its index is read"
        return what, _rename_advice(names, safe)
    if others:
        kind = OTHER_WEIGHTS[Path(others[0]).suffix[1:]]
        return f"has its weights as {kind} ({others[0]}), and only safetensors are read", kept
    return None


def _rename_advice(names: Collection[str], safe: list[str]) -> str:
    if indexes := sorted(name for name in names if re.fullmatch(r"model\.safetensors\.index\.\w+\.json", name)):
        return f"Rename {indexes[0]} to {KEPT_NAMES[1]}."  # of a variant, such as fp16
    whole = len(safe) == 1 and not re.search(r"-\d+-of-\d+", safe[0])
    return f"Rename it to {KEPT_NAMES[0]}." if whole else f"Download {KEPT_NAMES[1]}, too."


def _entry(read: Callable[[str], bytes], name: str, key: str, default: T) -> T:
    """Returns the entry `key` of the JSON file `name`.

    Returns `default` if the file cannot be read, or if the entry is missing or has another type than `default`.
    """
    try:
        value = json.loads(read(name)).get(key)
    except (OSError, ValueError, AttributeError):
        return default
    return value if isinstance(value, type(default)) else default
