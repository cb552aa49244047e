"""The settings of one run (`RunSpec`), and the table of all its options (`OPTIONS`).

Functions such as `choice` and `switch` declare an option as a field of `RunSpec`. The command line, the form, the API,
links and sweeps are made from `OPTIONS`. So a new option is declared here and applied in `demo.backend`.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from ..tasks import own_model, text_generation
from ..tasks.registry import BY_NAME
from ..tasks.task import Task
from . import format as fmt

T = TypeVar("T")


class BadInput(ValueError):
    """Raised for settings that cannot be run. The message is a whole sentence for the user."""


TEXT_GENERATION, OWN_MODEL = text_generation.TASK.name, own_model.TASK.name
TASKS = tuple(name for name in BY_NAME if name != OWN_MODEL)
"""Names of the tasks in the order of the form, without the task of a user's own model."""
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")
"""Modes of torch.compile, as `torch._inductor.list_mode_options()` names them. An older torch has fewer."""
CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")
"""The modes of torch.compile that record CUDA graphs on a GPU."""
DTYPES = ("float32", "tf32", "float16", "bfloat16")
"""Number formats of weights and inputs. 'tf32' is float32 with TensorFloat-32 in matrix products and convolutions."""
WEIGHTS = ("pretrained", "random")
MAX_BATCH_SIZE = 256
MAX_QUERIES, MAX_QUERY_LENGTH = 32, 200
MAX_PROMPT = 20_000
"""Longest prompt, in characters."""
PUBLISHED_CALLS = 300
"""Timed calls of eager and of compiled with the protocol 'as published', as many as in the Transformers guide."""
OptionValues = dict[str, Any]
"""Values of options by name: as a user typed them, or as a `RunSpec` has them."""
OPTION_GROUPS = ("machine", "compile", "timing")
"""Groups of options under 'Advanced' in the form, in the order of the form."""


def unused_options(task: str) -> tuple[str, ...]:
    """Returns the options that the task does not use, such as ('prompt', 'tokens') for a task on pictures.

    An unknown task gives the same as a task on pictures.
    """
    return BY_NAME[task].unused if task in BY_NAME else Task.unused


@dataclass(frozen=True)
class Option:
    """One option of a run: its name, its allowed values, and how the form and `--help` show it."""

    name: str
    """Name of the field in `RunSpec`. Links, sweeps, the API and stored JSON use it, too."""
    default: object
    kind: Literal["choice", "switch", "whole", "number", "queries", "passage"]
    help: str
    """A few sentences for `--help`, the form and the API's documentation."""
    label: str
    """Title in the form and in error messages: 'Batch size'. Default: made from `name`."""
    values: tuple[str, ...] = ()
    """Allowed values of a choice. The first is the default."""
    low: float = 0
    high: float = 0
    fold: str | None = None
    """Group under 'Advanced' in the form, one of `OPTION_GROUPS`; None: outside 'Advanced'."""
    timing: bool = False
    """Whether the option changes only how a run is timed, not what is compiled.

    True for all options with `fold` 'timing', and for `cache`."""
    for_speed: bool = False
    """Whether the option may make the same work faster on the same cores, as `mode` and `dtype` may."""

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def parse(self, value: object) -> object:
        """Returns the value that a user's text stands for, such as 4 for '4'; any other value unchanged.

        - A whole number may also be a float, 4.0, and queries may be a list.
        - YAML reads a bare on or off as True or False: for a choice with 'on', True becomes 'on', and False 'off'.
        - A byte order mark is removed from a text, except from a prompt.
        """
        if isinstance(value, str) and self.kind != "passage":
            value = value.replace("\ufeff", "")
        if isinstance(value, bool) and "on" in self.values:
            value = "on" if value else "off"
        readers: dict[str, Callable[[object], object]] = {
            "whole": fmt.parse_whole,
            "number": fmt.parse_number,
            "queries": _parse_queries,
        }
        return readers[self.kind](value) if self.kind in readers else value

    def check(self, value: object) -> None:
        """Raises BadInput for a value that the option does not allow."""
        if value is None and self.default is None:
            return
        match self.kind:
            case "choice":
                check_choice(self.label.lower(), value, self.values)
            case "switch":
                if not isinstance(value, bool):
                    raise BadInput(f"{self.name} is a switch, true or false. Given: {fmt.excerpt(value)}.")
            case "whole" | "number":
                self._check_number(value)
            case "queries":
                _check_queries(value)
            case "passage":
                _check_passage(value)

    def _check_number(self, value: object) -> None:
        noun = "whole number" if self.kind == "whole" else "number"
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        fits = self.low <= number <= self.high and (self.kind != "whole" or isinstance(value, int))
        if not fits:
            bounds = f"from {self.low:g} to {self.high:,.9g}"
            raise BadInput(f"{self.label} must be a {noun} {bounds}. Given: {fmt.excerpt(value)}.")


def option(kind: str, default: T, help: str, **facts: object) -> T:
    """Returns a dataclass field that declares an option of `RunSpec`. `facts` are further fields of its `Option`."""
    metadata = {"kind": kind, "help": help, "timing": facts.get("fold") == "timing"}
    return field(default=default, metadata=metadata | facts)


def choice(values: tuple[str, ...], help: str, **facts: object) -> str:
    return option("choice", values[0], help, values=values, **facts)


def switch(help: str, **facts: object) -> bool:
    return option("switch", False, help, **facts)


def number(default: T, low: float, high: float, help: str, **facts: object) -> T:
    """Returns a dataclass field that declares a numeric option from `low` to `high`.

    The option is a whole number if `low` is an int.
    """
    kind = "whole" if isinstance(low, int) else "number"
    return option(kind, default, f"{help} From {low:g} to {high:g}.", low=low, high=high, **facts)


@dataclass(frozen=True)
class RunSpec:
    """The settings of one run. Raises BadInput for a value that is not allowed, or for options that exclude each other.

    The checkpoint's name is not checked here: `demo.core.catalog.make_spec` does that.
    """

    checkpoint: str
    task: str
    batch_size: int = number(1, 1, MAX_BATCH_SIZE, "How often the picture, or the prompt, is repeated.")
    mode: str = choice(MODES, "The mode of torch.compile.", label="Compile mode", for_speed=True)
    fullgraph: bool = switch(
        "Fail at a graph break instead of running eager.", label="Full graph only", fold="compile", for_speed=True
    )
    dtype: str = choice(DTYPES, "The number format of weights and inputs.", label="Number format", for_speed=True)
    device: str = choice(("auto", "cpu", "cuda"), '"auto" takes the GPU if there is one.', fold="machine")
    """In a stored result: the device that was used; 'auto' only if the run ended before the machine was known."""
    weights: str = choice(
        WEIGHTS, '"random" needs no download: latency stays true, predictions mean nothing.', fold="machine"
    )
    text: tuple[str, ...] = option(
        "queries", (), "For a zero-shot detector: what to look for, separated by commas.", label="What to look for"
    )
    iterations: int | None = number(
        None,
        10,
        10_000,
        "Timed calls of each variant; without it, until the speed-up is known well enough.",
        label="Timed calls of each",
        fold="timing",
    )
    """The number is rounded up to whole blocks. A block has calls of eager, compiled, compiled, eager in this order."""
    protocol: str = choice(
        ("interleaved", "as published"),
        f'"as published": means of {PUBLISHED_CALLS} calls of eager, then of compiled, as in the Transformers guide.',
        fold="timing",
    )
    precision: float = number(
        0.01, 0.001, 0.2, "Stop when the 95 % interval is this narrow to both sides; 0.01 is +-1 %.", fold="timing"
    )
    max_seconds: float = number(
        3.5,
        0.5,
        300.0,
        "Stop timing after this time, or twice this time if the verdict is unsure. By default a slow model may "
        "take as long as its first compiled call, a minute at most.",
        label="Seconds of timing",
        fold="timing",
    )
    channels_last: bool = switch(
        "Weights and pictures in memory with the channels last.", fold="machine", for_speed=True
    )
    attention: str = choice(
        ("auto", "eager", "sdpa"),
        'The attention implementation; "auto" leaves it to the checkpoint\'s class.',
        fold="machine",
        for_speed=True,
    )
    threads: int | None = number(
        None,
        1,
        1024,
        "Threads of torch on a CPU. Without it torch chooses, but at most as many as there are free cores.",
        fold="machine",
    )
    cache: str = choice(
        ("keep", "empty"),
        '"empty" compiles with an empty cache, and once more in a further process from the filled one.',
        label="Compile cache",
        fold="compile",
        timing=True,
    )
    graph_break: bool = switch(
        "Add graph breaks within each layer to the compiled model.", label="Added graph breaks", fold="compile"
    )
    profile: str = choice(
        ("auto", "on", "off"), 'Count kernels and operations with torch.profiler; "auto" does on a GPU.', fold="timing"
    )
    """'auto' is off on a CPU: profiling would lengthen a short run. With 'on' it counts operators there, as a CPU
    launches no kernels, and the roofline is measured, too."""
    repeats: int = number(1, 1, 20, "Fresh processes; the answer rests on all of them.", fold="timing")
    compiler: str = choice(
        ("jit", "aot"), '"jit" is torch.compile, "aot" a package of AOTInductor.', fold="compile", for_speed=True
    )
    scope: str = choice(
        ("model", "layers"),
        '"layers" compiles one repeated layer instead of the whole model: a shorter first call if layers are alike.',
        fold="compile",
        for_speed=True,
    )
    """PyTorch calls the choice 'layers' regional compilation."""
    freezing: bool = switch(
        "Inductor's freezing: weights become constants of the graph.", fold="compile", for_speed=True
    )
    dynamic: str = choice(
        ("auto", "on", "off"),
        'Shapes: "on" compiles for any size, "off" for each size anew, "auto" for any size from the second on.',
        label="Dynamic shapes",
        fold="compile",
        for_speed=True,
    )
    """'auto', 'on' and 'off' become the values None, True and False of torch.compile's argument `dynamic`."""
    prompt: str = option("passage", "", "For text generation: the text that the model goes on from.")
    tokens: int = number(64, 2, 4096, "For text generation: tokens to generate.", label="Tokens to generate")
    """At least two: reading the prompt gives the first token, and the timed steps give the others."""

    def __post_init__(self) -> None:
        if self.task != OWN_MODEL:
            check_choice("task", self.task, TASKS)
        for option in OPTIONS.values():
            option.check(getattr(self, option.name))
        if unused := sorted(self.departures().keys() & set(unused_options(self.task))):
            raise BadInput(f"The task {self.task} cannot use {' and '.join(unused)}. Leave that out.")
        if conflict := self._conflict() or BY_NAME[self.task].refusal(self):
            raise BadInput(conflict)

    def _conflict(self) -> str:
        if self.protocol == "as published" and self.iterations is not None:
            return (
                f"The protocol 'as published' times {PUBLISHED_CALLS} calls of each: leave the number of calls empty, "
                "or choose the protocol 'interleaved'."
            )
        if self.graph_break and (self.fullgraph or self.scope == "layers" or self.compiler == "aot"):
            need = "Added graph breaks need the whole model, compiled just in time and not as one full graph"
            return f"{need}: switch graph_break off, or choose fullgraph off, scope model and compiler jit."
        if self.compiler == "aot" and self.scope == "layers":
            return "AOTInductor compiles a model as a whole: choose scope model, or compiler jit."
        if self.compiler == "aot" and self.mode in CUDA_GRAPH_MODES:
            others = ", ".join(mode for mode in MODES if mode not in CUDA_GRAPH_MODES)
            what = f"AOTInductor records no CUDA graphs, which mode {self.mode} is for."
            return f"{what} Choose mode {others}, or compiler jit."
        return ""

    def on(self, device: str) -> "RunSpec":
        return dataclasses.replace(self, device=device)

    @property
    def unit(self) -> Literal["image", "call", "token"]:
        """The unit of throughput: 'image', 'token' for a text model, 'call' for a user's own model.

        Each call processes `batch_size` images, or generates `batch_size` tokens.
        """
        return BY_NAME[self.task].unit

    @property
    def sees_picture(self) -> bool:
        return self.unit == "image"

    @property
    def cached(self) -> bool:
        """Whether inductor's compile cache can keep the code of this spec.

        The cache keeps no AOTInductor package. On a CPU it keeps no model with the option `freezing`, either.
        """
        return self.compiler == "jit" and (not self.freezing or self.device == "cuda")

    def departures(self) -> OptionValues:
        """Returns the options that differ from their default, with their values: {'batch_size': 4}."""
        return {name: value for name, option in OPTIONS.items() if (value := getattr(self, name)) != option.default}


OPTIONS = {
    field_.name: Option(
        field_.name, field_.default, **{"label": fmt.capital(field_.name.replace("_", " ")), **field_.metadata}
    )
    for field_ in dataclasses.fields(RunSpec)
    if field_.metadata
}
"""The options by name, in the order of the fields: every field of `RunSpec` except `checkpoint` and `task`."""
CALLS = Option(
    "calls",
    None,
    "whole",
    "Calls (of a text model: tokens) that a process makes between two restarts: what compiling saves or costs over the "
    "whole work. From 1 to 100 million.",
    "The number of calls between two restarts",
    low=1,
    high=100_000_000,
)
"""How many calls a process makes. If the user gives it, the report says what compiling saves in all. It is not in
`OPTIONS`, because no measurement depends on it."""


def read_calls(value: object) -> int | None:
    """Returns a number of calls, given as text or as a number, as an int; None for None.

    Raises BadInput for a value that `CALLS` does not allow.
    """
    CALLS.check(calls := CALLS.parse(value))
    return calls if isinstance(calls, int) else None


CHANGES_EAGER = ("dtype", "channels_last", "attention")
"""The options for speed that change the eager calls of a run, too. The others change the compiled model only."""


def check_choice(title: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raises BadInput unless `value` is one of `allowed`. `title` names the choice in the message."""
    if not isinstance(value, str) or value not in allowed:
        meant = fmt.did_you_mean(value, allowed)
        raise BadInput(f"Unknown {title} {fmt.excerpt(value)}. Allowed: {', '.join(allowed)}.{meant}")


def _parse_queries(value: object) -> object:
    if isinstance(value, str):
        return tuple(query.strip() for query in re.split(r"[,;\n]", value) if query.strip())
    if not isinstance(value, Iterable):
        return (value,)
    return tuple(query.strip() if isinstance(query, str) else query for query in value)


def _check_passage(text: object) -> None:
    if not isinstance(text, str):
        raise BadInput(f"The prompt is a text. Given: {fmt.excerpt(text)}.")
    if len(text) > MAX_PROMPT:
        raise BadInput(f"The prompt may have {MAX_PROMPT:,} characters. Given: {len(text):,}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput("The prompt holds half a character (a lone surrogate). Type it anew.") from error


def _check_queries(queries: object) -> None:
    texts = [query for query in queries if isinstance(query, str)] if isinstance(queries, tuple) else []
    fits = isinstance(queries, tuple) and len(texts) == len(queries) <= MAX_QUERIES
    if not fits or not all(query.strip() and len(query) <= MAX_QUERY_LENGTH for query in texts):
        raise BadInput(
            f"The text queries are at most {MAX_QUERIES} texts of 1 to {MAX_QUERY_LENGTH} characters, such as: a cat, "
            f"a remote control. Given: {fmt.excerpt(queries)}."
        )
