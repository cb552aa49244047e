"""Turns exceptions into sentences that tell the user what failed and what to change."""

import contextlib
import json
import re
import traceback
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from huggingface_hub import errors as hub_errors
from safetensors import SafetensorError
from torch._dynamo.exc import BackendCompilerFailed, Unsupported, UserError

from ..core import catalog, format as fmt, hub
from ..core.caveat import Caveat
from ..core.measurement import Compilation
from ..core.options import OWN_MODEL, BadInput, OptionValues, RunSpec
from ..core.progress import PHASE_DOING
from ..core.refusals import AGAIN, less_memory, other_way_to_compile
from ..core.result import Failure, RunResult, Status
from . import causes, error_text, profiling

OTHER = "choose another checkpoint"
LOGIN = "log in (hf auth login)"
ANOTHER_LOGIN = "Log in again (hf auth login) or log out (hf auth logout): a public model needs no token"
NO_ANSWER = (TimeoutError, ConnectionError, hub_errors.LocalEntryNotFoundError)
DAMAGED = (json.JSONDecodeError, UnicodeDecodeError, SafetensorError)
SLOW_FORMAT = 2.0
"""A number format is slow if float32 is at least this many times faster."""
TRACERS = ("torch._dynamo", "torch._export", "torch.export", "torch.fx.experimental.symbolic_shapes")
NOT_TRACED = {"mode", "freezing", "dtype"}
"""Options that do not cause an error of dynamo or torch.export: tracing the Python code ignores mode and freezing, and
eager has run in the number format."""
HALF_FORMAT = re.compile(r"(?i)\b(half|b?float16|fp16|bf16)\b|same dtype|dtype mismatch")
"""Words in errors of code that cannot compute in a 16-bit number format, or that mixes two formats."""
MIXED_FORMATS = re.compile(
    r"(?i)same (d|data ?|scalar ?)type|dtype mismatch|mixed dtype|expected .*(scalar type|dtype)"
    r"|type .*should be the same"
)
"""Words in errors of operators that got tensors of two number formats."""
OTHER_SIZE_WORDS = "doesn't match model"
"""Words in errors of transformers' vision models that got a picture of another size than their config's."""
OTHER_SIZE = (
    "The preprocessor_config.json makes pictures of another size than config.json says: correct the size in one of "
    "them, or choose another checkpoint."
)
UNREAD_TOKENIZER = re.compile("`tiktoken` is required|instantiate the backend tokenizer|`vocab` and `merges` must")
"""Words in errors of transformers for a tokenizer without tokenizer.json. Transformers asks for tiktoken if it cannot
read a tokenizer.model, even if only sentencepiece is missing."""
INNER_ERROR = re.compile(r"^[\w.]*(?:Error|Exception): .+", re.MULTILINE)
OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "status_alloc_failed", "unable to find an engine")
"""Words, in lower case, in the errors of CUDA, C++, Linux, cuBLAS and cuDNN when memory runs out."""
OWN_BYTES = 1_000_000_000
"""Bytes of a GPU's memory that a process may hold beside torch's allocator."""
ASKED_BYTES = re.compile(r"tried to allocate (\d+) bytes")


def explain(error: BaseException, phase: str, result: RunResult) -> tuple[Status, Failure]:
    """Returns the status and the failure of a run that raised `error` in `phase`, such as "compile"."""
    spec, environment = result.spec, result.environment
    if is_out_of_memory(error):
        device = f"{environment.device_name} ({fmt.size(environment.memory_bytes)})" if environment else spec.device
        what = "The model" if spec.task == OWN_MODEL else f"Batch size {spec.batch_size}"
        mode = f" in mode {spec.mode}" if phase == "compile" and spec.mode != "default" else ""
        message = f"{what} ran out of memory on {device} while {PHASE_DOING[phase]}{mode}."
        if spec.device == "cuda" and (others := memory_of_others()):
            message += f" Other processes held {fmt.size(others)} of it."
        asked = ASKED_BYTES.search(str(error))
        if asked and environment and int(asked[1]) > 2 * spec.batch_size * environment.memory_bytes:
            # Half of it for one picture of the batch would not fit either.
            return "out_of_memory", Failure(phase, f"{message} One tensor asked for {fmt.size(int(asked[1]))}.", "")
        return "out_of_memory", Failure(
            phase, message, *less_memory(spec, compiled=phase in ("compile", "time"), half=_half_format(spec))
        )
    text = error_text.first_line(error).rstrip(".:! ")
    remedy, change = (
        _of_mixed_formats(error, phase, result)
        or _of_processor(error, phase, result)
        or _remedy(phase, spec, error, text)
    )
    if spec.task == OWN_MODEL and phase != "compile":
        text = with_line(error, catalog.own_model_parts(spec.checkpoint)[0]).rstrip(".:! ")
    failure = Failure(phase, f"The run failed while {PHASE_DOING[phase]}: {text}.", remedy, change)
    return "compile_failed" if phase == "compile" else "failed", failure


def _of_mixed_formats(error: BaseException, phase: str, result: RunResult) -> tuple[str, OptionValues] | None:
    """Returns the remedy if eager fails because the run gave weights and inputs another number format.

    Returns None if that is not the cause. Tensors that a model makes, or keeps outside of its buffers, stay as they
    are: the model then mixes two formats, although it runs in the user's own program.
    """
    given = next((str(caveat.values["given"]) for caveat in result.caveats if caveat.key == "given_dtype"), "")
    if phase == "compile" or not given or not MIXED_FORMATS.search(str(error)):
        return None
    why = (
        f"This run gave weights and inputs the format {result.spec.dtype}, but not other tensors that the model makes "
        "or keeps."
    )
    if given in ("float16", "bfloat16"):
        return f"{why} Choose --dtype {given}.", {"dtype": given}
    return f"{why} Make these float32, or register them as buffers, which get the format, too.", {}


def _of_processor(error: BaseException, phase: str, result: RunResult) -> tuple[str, OptionValues] | None:
    """Returns the remedy if eager fails on a picture that was not prepared for the model; None if that is not known."""
    why = next((caveat for caveat in result.caveats if caveat.key in ("other_processor", "default_processor")), None)
    if phase not in ("prepare", "warm up"):
        return None
    if why is None:
        return (OTHER_SIZE, {}) if result.spec.sees_picture and OTHER_SIZE_WORDS in str(error) else None
    prepared = str(why).split(":")[0]
    return f"{prepared}. If its size or its channels do not fit the model, this is why: {OTHER}.", {}


def memory_of_others() -> int:
    """Returns the bytes of the GPU's memory that other processes hold; 0 if they hold little, or if it is not known.

    This process also holds memory outside of torch's allocator, for code and queues. CUDA does not say how much, so
    `OWN_BYTES` is assumed. The rest counts as memory of others if it is more than a tenth of the GPU's memory.
    """
    try:
        free, total = torch.cuda.mem_get_info()
        others = total - free - torch.cuda.memory_reserved() - OWN_BYTES
    except (AssertionError, RuntimeError):  # no CUDA, or the error that failed the run fails every call from now on
        return 0
    return others if others > total / 10 else 0


def with_line(error: BaseException, file: Path) -> str:
    """Returns the error and the line of the user's file that raised it: 'ValueError: bad size (mine.py, line 7)'."""
    if isinstance(error, SyntaxError):
        line = f", line {error.lineno}" if error.lineno else ""
        return f"SyntaxError: {error.msg} ({Path(error.filename or file).name}{line})"
    # TorchScript's messages begin with its own traceback, or with an empty line, and end with what failed.
    inner = INNER_ERROR.findall(str(error)) if "TorchScript" in str(error) else []
    first = next((line for text in (*inner[-1:], *str(error).splitlines()) if (line := text.strip())), "")
    lines = [at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == str(file)]
    place = f" ({file.name}, line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}{f': {first[:200]}' if first else ''}{place}"


def _remedy(phase: str, spec: RunSpec, error: BaseException, text: str) -> tuple[str, OptionValues]:
    """Returns advice for `error` and the options to change, such as {"dtype": "float32"}; {} if there are none.

    `phase`: the phase of the run that failed, such as "compile". `text`: the message of `error`.
    """
    halves = spec.dtype in ("float16", "bfloat16") and HALF_FORMAT.search(str(error)) is not None
    if phase in ("compile", "time"):
        if remedy := causes.build_remedy(text):
            return remedy, {}
        remedy, change = causes.trace_remedy(text), OptionValues()
        if not remedy:
            remedy, change = other_way_to_compile(spec, _cannot_be_it(error, halves))
        return f"{AGAIN if phase == 'time' else 'Eager works and was timed.'} {remedy}".strip(), change
    exact = {"dtype": "float32"} if halves else {}
    if spec.task == OWN_MODEL:
        own = "The module must run eagerly with its inputs"
        other = ", or choose another --dtype," if exact else ""
        return f"{own}{f' and weights of {spec.dtype}' if exact else ''}: fix it{other} and run again.", exact
    return ("Try dtype float32." if exact else ""), exact


def _cannot_be_it(error: BaseException, halves: bool) -> set[str]:
    """Returns the names of options that cannot have caused a failed compile.

    `error`: why the compile failed. `halves`: whether the error may come from a 16-bit number format; if not, "dtype"
    is one of the names.
    """
    others = set() if halves else {"dtype"}
    if isinstance(error, Unsupported | UserError):  # with fullgraph also for what breaks a graph without it
        return others | NOT_TRACED
    traced = type(error).__module__.startswith(TRACERS) and not isinstance(error, BackendCompilerFailed)
    return others | {"fullgraph"} | (NOT_TRACED if traced else set())


def _half_format(spec: RunSpec) -> str:
    """Returns a 16-bit number format that is not slow (`SLOW_FORMAT`) on the run's device; '' if there is none."""
    if spec.device != "cpu":
        return "float16"  # every GPU computes in it
    with contextlib.suppress(RuntimeError, MemoryError):
        return "bfloat16" if profiling.float32_advantage(torch.bfloat16) < SLOW_FORMAT else ""
    return ""


def nothing_done(caveats: Sequence[Caveat], compilation: Compilation, model: torch.nn.Module) -> Failure:
    """Returns the failure of a run in which nothing was compiled, or nothing was computed.

    - `caveats`: at least one, each with a key of `NOTHING_DONE`. The message contains one of them.
    - `compilation`: its fallbacks to eager, or else its graph breaks, say why nothing was compiled.
    - `model`: the eager model, which is searched for layers that dynamo is known not to trace.
    """
    breaks = compilation.fallbacks or compilation.graph_breaks
    # What computes nothing has no graph either.
    first = next((caveat for caveat in caveats if caveat.key != "no_graph"), caveats[0])
    what = "compiled" if first.key == "no_graph" else "computed"
    remedies = [causes.trace_remedy(broken.reason) for broken in breaks]
    if what == "compiled":
        remedies.append(causes.layer_remedy(model))
    # A forward may have switched it off itself.
    remedy = causes.switched_off() or next(filter(None, remedies), "")
    message = f"Nothing was {what}, so there is no speed-up. {first}"
    if what == "compiled" and breaks:
        reasons = [f"{breaks[0].location}: {breaks[0].reason.rstrip('.')}", causes.hidden_errors()]
        message += f" {'; '.join(filter(None, reasons))}."
    return Failure("time", message, remedy)


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


# Loading a checkpoint


class CannotLoad(BadInput):
    """A checkpoint cannot be loaded now, because of the Hub, a login or a file. `failure` becomes the run's failure."""

    def __init__(self, what: str, remedy: str, **change: object) -> None:
        super().__init__(f"{what} {remedy}")
        self.failure = Failure("load", what, remedy, change)


def short_name(checkpoint: str) -> str:
    """Returns the checkpoint's name for messages. A folder is named by its last part, so that no path is revealed."""
    return Path(checkpoint).name if catalog.is_folder(checkpoint) else checkpoint


@contextlib.contextmanager
def loading_errors_as_bad_input(checkpoint: str) -> Iterator[None]:
    """Turns every exception in the `with` block into BadInput, unless memory ran out. The block loads a checkpoint."""
    try:
        yield
    except Exception as error:
        if isinstance(error, BadInput) or is_out_of_memory(error):
            raise
        raise load_refusal(checkpoint, error) from error


def load_refusal(checkpoint: str, error: BaseException) -> BadInput:
    """Returns the error to raise after a checkpoint failed to load: CannotLoad if it may load later, else BadInput."""
    name, entry, chain = short_name(checkpoint), catalog.find(checkpoint), list(_causes(error))
    if "attention implementation" in str(error):
        return BadInput(f"{name} does not have the attention implementation that was asked for. Choose auto or eager.")
    other, change = OTHER, OptionValues()
    if entry is not None:  # the catalogue has a config for each of its checkpoints
        other, change = "choose weights: random, which times its architecture all the same", {"weights": "random"}
    answered = next((cause for cause in chain if isinstance(cause, hub_errors.HfHubHTTPError)), None)
    if answered is not None and not isinstance(answered, hub_errors.EntryNotFoundError):
        what, remedy = hub_refusal(name, answered)
        return CannotLoad(what, f"{remedy}, or {other}." if remedy else f"{other.capitalize()}.", **change)
    if any(map(_is_no_answer, chain)):
        reason, remedy = hub.problem() or ("it fails", "try again later")
        what = f"The Hub cannot be reached ({reason}), and {name} is not complete in the local cache."
        return CannotLoad(what, f"{remedy[0].upper()}{remedy[1:]}, or {other}.", **change)
    if "Can't load image processor" in str(error):
        return CannotLoad(
            f"{name} has no preprocessor_config.json, which says how a picture becomes the model's input.",
            "Give a folder that also has that file of the checkpoint from which the model was trained.",
        )
    if unread := UNREAD_TOKENIZER.search(str(error)):
        remedy = "Give a folder with tokenizer.json: save_pretrained of its tokenizer writes one where it loads."
        if "tiktoken" in unread[0] and find_spec("sentencepiece") is None:
            remedy = f"Install sentencepiece, which reads a tokenizer.model. Or g{remedy[1:]}"
        return CannotLoad(f"{name} has no tokenizer.json, and no other tokenizer file that can be read here.", remedy)
    damage = next((cause for cause in chain if isinstance(cause, DAMAGED) or getattr(cause, "errno", None)), None)
    if fault := causes.of_checkpoint(checkpoint, isinstance(damage, DAMAGED)):
        return CannotLoad(f"{name} {fault[0]}.", fault[1])
    what = f"{name} could not be loaded: {_reason(damage or error)}."
    if damage is not None:
        return CannotLoad(what, f"Download or write it again where there is room, or {OTHER}.")
    return BadInput(f"{what} {OTHER.capitalize()}.")


def hub_refusal(name: str, error: hub_errors.HfHubHTTPError) -> tuple[str, str]:
    """Returns (what, remedy) for an error with which the Hub answered. `name`: the checkpoint's name for messages.

    The remedy has no full stop, so that callers can add an alternative; '' if no remedy is known.
    """
    status, message = error.response.status_code, fmt.printable(error.server_message or "")
    if isinstance(error, hub_errors.GatedRepoError):
        return f"{name} is gated on the Hub.", f"Accept its licence at https://huggingface.co/{name} and {LOGIN}"
    if status == 401 and not isinstance(error, hub_errors.RepositoryNotFoundError):
        source = hub.token_source()
        remedy = "Unset it, or set it to a valid token: a public model needs none" if source else ANOTHER_LOGIN
        return f"The Hub refuses the token of {source or 'your login'}.", remedy
    if isinstance(error, hub_errors.RepositoryNotFoundError):
        what = f"{name} was not found on the Hub, or is private."
        return what, f"Check the spelling (owner/name, as microsoft/resnet-50); if it is private, {LOGIN}"
    if status >= 500 or status == 429:
        return f"The Hub {'asks to wait' if status == 429 else 'fails'} (status {status}).", "Try again later"
    return f"The Hub refuses {name} (status {status}): {message[:300].rstrip('.') or 'it gives no reason'}.", ""


def _is_no_answer(error: BaseException) -> bool:
    """Returns whether the error means that the Hub did not answer. False if the Hub answered with an error."""
    of_client = type(error).__module__.startswith("http") and getattr(error, "response", None) is None
    return isinstance(error, NO_ANSWER) or of_client


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: BaseException) -> str:
    """Returns the first sentence of a library's error message, with each path cut to its last part."""
    text = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    if "ignore_mismatched_sizes" in text:
        return "its weights have other shapes than its config says"
    text = fmt.without_folders(fmt.without_secrets(" ".join(text.split()))) or type(error).__name__
    return re.split(r"\. (?=[A-Z])", text, maxsplit=1)[0][:300].rstrip(".:")
