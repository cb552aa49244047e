"""The settings of one run (`RunSpec`), and the table of all options (`OPTIONS`).

A field of `RunSpec` declared by `option`, `choice`, `switch` or `number` is an `Option`. The command line, the
form, the API, links and sweeps are made from `OPTIONS`, so a new option is declared here and applied in
`demo.backend`.
"""

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from demo import tasks
from demo.core import format as fmt
from demo.tasks import own, text
from demo.tasks.task import Task


class BadInput(ValueError):
    """The error for a run that cannot be run as asked. The message is a whole sentence for the user."""


TEXT_GENERATION, OWN_MODEL = text.TASK.name, own.TASK.name
TASKS = tuple(name for name in tasks.BY_NAME if name != OWN_MODEL)
"""Names of the tasks that checkpoints do (all but a user's own model), in the order of the form."""
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite")
"""The modes of torch.compile, as `torch._inductor.list_mode_options()` names them. An older torch has fewer."""
CUDA_GRAPH_MODES = ("reduce-overhead", "max-autotune")
"""The modes that record CUDA graphs on a GPU."""
DTYPES = ("float32", "tf32", "float16", "bfloat16")
"""Number formats. 'tf32' is float32 with TensorFloat-32 in matrix products and convolutions; not on every GPU."""
WEIGHTS = ("pretrained", "random")
MAX_BATCH_SIZE = 256
MAX_QUERIES, MAX_QUERY_LENGTH = 32, 200
MAX_PROMPT = 20_000
"""Most characters of a prompt."""
PUBLISHED_CALLS = 300
"""Calls of each variant with the protocol 'as published', as in the Transformers guide."""
FOLDS = ("machine", "compile", "timing")
"""The groups of options under 'Advanced' in the form, in this order."""


def unused_options(task: str) -> tuple[str, ...]:
    """Returns the names of the options that a run of this task cannot use: ('prompt', 'tokens').

    An unknown task counts as a task with pictures.
    """
    return tasks.BY_NAME[task].unused if task in tasks.BY_NAME else Task.unused


@dataclass(frozen=True)
class Option:
    """One option of a run: its name, its allowed values, and how to show it."""

    name: str
    """Name of the field of `RunSpec`, also in links, sweeps, the API and the JSON of a result."""
    default: Any
    """The value of an option that is left out; may be None for a number."""
    kind: Literal["choice", "switch", "whole", "number", "queries", "passage"]
    help: str
    """One or two sentences for `--help`, the form and the API's documentation."""
    label: str
    """Name in the form and in error messages: 'Batch size'. Default: `name` in words."""
    values: tuple[str, ...] = ()
    """The allowed values of a choice; the first is the default."""
    low: float = 0
    high: float = 0
    """Largest allowed value of a number, as `low` is the smallest."""
    fold: str | None = None
    """Group in the form, one of `FOLDS`; None: the form places this option by itself."""
    timing: bool = False
    """Whether the option decides how a run is timed, not what is compiled. Default: True in the fold 'timing'."""
    for_speed: bool = False
    """Whether the option may make calls faster without changing the model's input. Plain eager keeps the
    default."""

    @property
    def flag(self) -> str:
        """Name on the command line: '--batch-size'."""
        return f"--{self.name.replace('_', '-')}"

    def parse(self, value: Any) -> Any:
        """Returns `value` with numbers and queries read from text: 4 for '4'.

        Other values are returned unchanged.
        """
        readers = {"whole": fmt.parse_whole, "number": fmt.parse_number, "queries": _parse_queries}
        return readers[self.kind](value) if self.kind in readers else value

    def check(self, value: Any) -> None:
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

    def _check_number(self, value: Any) -> None:
        types, noun = (int, "whole number") if self.kind == "whole" else (int | float, "number")
        if isinstance(value, bool) or not isinstance(value, types) or not self.low <= value <= self.high:
            bounds = f"from {self.low:g} to {self.high:g}"
            raise BadInput(f"{self.label} must be a {noun} {bounds}. Given: {fmt.excerpt(value)}.")


def option(kind: str, default: Any, help: str, **facts: Any) -> Any:
    """Returns a dataclass field for `RunSpec`, from which its `Option` is made.

    `facts` are further fields of that `Option`.
    """
    metadata = {"kind": kind, "help": help, "timing": facts.get("fold") == "timing"}
    return field(default=default, metadata=metadata | facts)


def choice(values: tuple[str, ...], help: str, **facts: Any) -> Any:
    """Returns a field whose value is one of `values`, by default the first."""
    return option("choice", values[0], help, values=values, **facts)


def switch(help: str, **facts: Any) -> Any:
    """Returns a field that is True or False, by default False."""
    return option("switch", False, help, **facts)


def number(default: float | None, low: float, high: float, help: str, **facts: Any) -> Any:
    """Returns a field with a number from `low` to `high`: a whole number if `low` is an int."""
    kind = "whole" if isinstance(low, int) else "number"
    return option(kind, default, f"{help} From {low:g} to {high:g}.", low=low, high=high, **facts)


@dataclass(frozen=True)
class RunSpec:
    """The settings of one run.

    Raises `BadInput` if the values are not allowed or do not go together. Only `demo.core.catalog.make_spec` checks
    that the checkpoint exists and fits the task and the text.
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
    """In a result: the device that was used, never 'auto'."""
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
    """Rounded up to whole A B B A blocks (eager, compiled, compiled, eager)."""
    protocol: str = choice(
        ("interleaved", "as published"),
        f'"as published": means of {PUBLISHED_CALLS} calls of eager, then of compiled, as in the guide.',
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
    """A GPU's tensor cores compute convolutions in this layout."""
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
        "Threads of torch on a CPU; without it torch's own choice, but no more than other programs leave cores free.",
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
    """'auto' is off on a CPU: no kernels are launched there, and profiling would lengthen a short run."""
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
    """PyTorch's name for 'layers' is regional compilation."""
    freezing: bool = switch(
        "Inductor's freezing: weights become constants of the graph.", fold="compile", for_speed=True
    )
    """Inductor can compute with constants while it compiles: batch norm becomes part of a convolution's weights."""
    dynamic: str = choice(
        ("auto", "on", "off"),
        'Shapes: "on" compiles for any size, "off" for each size anew, "auto" for any size from the second on.',
        label="Dynamic shapes",
        fold="compile",
        for_speed=True,
    )
    """'auto', 'on' and 'off' are None, True and False of torch.compile's argument `dynamic`."""
    prompt: str = option("passage", "", "For text generation: the text that the model goes on from.")
    tokens: int = number(64, 2, 4096, "For text generation: tokens to generate.", label="Tokens to generate")
    """At least two: the call that reads the prompt gives the first token, and each further token is a timed
    step."""

    def __post_init__(self) -> None:
        if self.task != OWN_MODEL:
            check_choice("task", self.task, TASKS)
        for option in OPTIONS.values():
            option.check(getattr(self, option.name))
        if unused := sorted(self.departures().keys() & set(unused_options(self.task))):
            raise BadInput(f"The task {self.task} cannot use {' and '.join(unused)}. Leave that out.")
        if conflict := self._conflict() or tasks.BY_NAME[self.task].refusal(self):
            raise BadInput(conflict)

    def _conflict(self) -> str:
        """Returns why two options cannot go together, and what to choose instead, as a sentence; '' if all can."""
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
        """Returns this spec with another device: 'cpu' or 'cuda'."""
        return dataclasses.replace(self, device=device)

    @property
    def unit(self) -> Literal["image", "call", "token"]:
        """The thing that a rate counts, as in 'images per second': `batch_size` of them in each call."""
        return tasks.BY_NAME[self.task].unit

    @property
    def sees_picture(self) -> bool:
        return self.unit == "image"

    @property
    def cached(self) -> bool:
        """Whether inductor can cache what it compiles for this spec. It cannot store a CPU's frozen weights."""
        return self.compiler == "jit" and (not self.freezing or self.device == "cuda")

    def departures(self) -> dict[str, Any]:
        """Returns the options that differ from their default: {'batch_size': 4}."""
        return {name: value for name, option in OPTIONS.items() if (value := getattr(self, name)) != option.default}


def _option(declared: dataclasses.Field[Any]) -> Option:
    facts: dict[str, Any] = {"label": fmt.capital(declared.name.replace("_", " ")), **declared.metadata}
    return Option(declared.name, declared.default, **facts)


OPTIONS = {declared.name: _option(declared) for declared in dataclasses.fields(RunSpec) if declared.metadata}
"""All options by name, in the order of the fields: every field of `RunSpec` but `checkpoint` and `task`."""


def check_choice(title: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Raises BadInput if `value` is not one of `allowed`. `title` names the choice in the message."""
    if not isinstance(value, str) or value not in allowed:
        raise BadInput(f"Unknown {title} {fmt.excerpt(value)}. Allowed: {', '.join(allowed)}.")


def _parse_queries(value: Any) -> Any:
    if isinstance(value, str):
        value = re.split(r"[,;\n]", value)
        return tuple(query.strip() for query in value if query.strip())
    if not isinstance(value, Iterable):
        return (value,)
    return tuple(query.strip() if isinstance(query, str) else query for query in value)


def _check_passage(text: Any) -> None:
    if not isinstance(text, str):
        raise BadInput(f"The prompt is a text. Given: {fmt.excerpt(text)}.")
    if len(text) > MAX_PROMPT:
        raise BadInput(f"The prompt may have {MAX_PROMPT:,} characters. Given: {len(text):,}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput("The prompt holds half a character (a lone surrogate). Type it anew.") from error


def _check_queries(queries: Any) -> None:
    texts = isinstance(queries, tuple) and all(isinstance(query, str) and query.strip() for query in queries)
    if not texts or len(queries) > MAX_QUERIES or any(len(query) > MAX_QUERY_LENGTH for query in queries):
        raise BadInput(
            f"The text queries are at most {MAX_QUERIES} texts of 1 to {MAX_QUERY_LENGTH} characters, such as: a cat, "
            f"a remote control. Given: {fmt.excerpt(queries)}."
        )
