"""The Python API: times a model of a script or a notebook, eager and compiled, as the command line does.

A module in memory is sent by cloudpickle to the new process that measures it. The caller's own module is not changed.
Not covered: modules that cannot be pickled. Pass the name of a function that builds such a module.
"""

import pickle
import re
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path

import cloudpickle

from .cli import best_command, common, terminal
from .core import catalog, format as fmt
from .core.catalog import IN_MEMORY
from .core.comparison import BreakEven, Speedup, WholeWork
from .core.files import temporary_folder
from .core.options import CALLS, OPTIONS, OWN_MODEL, BadInput, OptionValues, RunSpec
from .core.progress import Progress
from .core.result import Failure, RunResult
from .present import share
from .present.report import Report
from .runs.runner import Runner
from .store.history import History
from .sweep.best_table import BestTable, Way
from .sweep.best_way import MINUTES, SEARCH_OPTIONS, Search
from .sweep.run_grid import Done, Timing

__all__ = ["Answer", "BadInput", "BestAnswer", "PaysAfter", "best", "measure"]
LOADER = f'''"""Loads a module that was in another process's memory."""

import pickle
import sys
from pathlib import Path


def {IN_MEMORY}():
    with Path(__file__).with_suffix(".pickle").open("rb") as file:
        sys.path += [folder for folder in pickle.load(file) if folder not in sys.path]
        return pickle.load(file)
'''


@dataclass(frozen=True)
class PaysAfter:
    """After how many calls compiling has paid, for two kinds of process.

    A field is None if the first call in its kind of process was not timed, the verdict is missing or 'unsure', or the
    outputs are wrong. If compiling never pays, the `calls` of the field's BreakEven is None.
    """

    cold: BreakEven | None
    """For a process that starts with an empty compile cache."""
    warm: BreakEven | None
    """For a process that starts with a filled compile cache."""


@dataclass(frozen=True, repr=False)
class Answer:
    """The result of a run. `print` shows the report of the command line. A notebook shows the verdict with a chart."""

    result: RunResult
    """Everything that was measured, as it is stored."""

    @property
    def speedup(self) -> Speedup | None:
        """Eager's time over compiled's: `ratio`, 95 % interval `low` to `high`, `verdict`. None: not measured."""
        return self.result.speedup

    @property
    def pays_after(self) -> PaysAfter:
        paid = {start.state: start.paid for start in Report(self.result).starts}
        return PaysAfter(paid.get("cold"), paid.get("warm"))

    def whole_work(self, calls: int) -> dict[str, WholeWork]:
        """Returns the time of a process with `calls` calls, by its compile cache: 'cold' (empty), 'warm' (filled).

        'partly' (some of the model's code) may stand in place of 'cold'. Each entry has `eager_seconds`, `compiled`,
        `saved` and `speedup`, the last three with 95 % intervals. Returns {} for the reasons that
        `RunResult.whole_work` lists, such as a run without a speed-up. For a text model, `calls` counts tokens. Raises
        BadInput for `calls` below 1 or above 100 million.
        """
        CALLS.check(calls)
        return self.result.whole_work(calls)

    @property
    def failure(self) -> Failure | None:
        """Why the run failed, and what to do; None if it did not fail."""
        return self.result.failure

    def __repr__(self) -> str:
        return f"<Answer: {Report(self.result).title}>"

    def __str__(self) -> str:
        return terminal.summary(Report(self.result))

    def _repr_html_(self) -> str:
        """Returns the result as an HTML file within an iframe, which notebooks show. It needs no network."""
        return share.frame(Report(self.result))


@dataclass(frozen=True)
class BestAnswer:
    """The ways to run a model, such as eager or a mode of torch.compile, ranked. `print` shows the report."""

    table: BestTable
    missing: list[tuple[Way, bool]]
    """The ways that needed a first or a further run when the time was up, each with True for a further run.

    [] if no way needed a run."""

    @property
    def winner(self) -> Answer | None:
        """The run of the best way to run the model; None if the best way is eager, or if it is not known."""
        row = self.table.winner
        return Answer(row.result) if row is not None and row.result is not None else None

    def __str__(self) -> str:
        return best_command.best_report(self.table, self.missing)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def measure(
    model: object, inputs: object = None, *, task: str | None = None, image: str | Path | None = None, **options: object
) -> Answer:
    """Times a model, eager and compiled, in a new process, or in several with `repeats`. Stores and returns the result.

    - `model`: a `torch.nn.Module`, or a text: "my_model.py:build", "package.module:build", or a checkpoint's id.
    - `inputs`: for a module: a tensor, a tuple of arguments, or a dict of arguments by name.
    - `task`: needed for a checkpoint that is not in the catalogue. `image`: path of a picture, for a checkpoint that
      uses one.
    - `options`: those of `worth-compiling run`, such as `mode="reduce-overhead"`.

    If the run fails, the answer's `failure` says why. Raises BadInput for a model or an option that cannot be
    run.
    """
    with _name(model, inputs) as name:
        spec = _spec(name, task, OPTIONS, options)
        picture = common.input_picture(None if image is None else str(image), [spec])
        with _progress("Cancelled. What was measured is stored.") as line, closing(Runner(History())) as runner:
            with closing(runner.run(spec, picture)) as events:
                for event in events:
                    if isinstance(event, RunResult):
                        return Answer(event)
                    line.show(event)
    raise AssertionError("a run that was not refused ends with a result")


def best(
    model: object,
    inputs: object = None,
    *,
    task: str | None = None,
    image: str | Path | None = None,
    minutes: float = MINUTES,
    other_formats: bool = False,
    **options: object,
) -> BestAnswer:
    """Searches for the best way to run a model, from eager to an AOTInductor package, for `minutes` at most.

    `other_formats`: whether to try 16-bit number formats, too. `options`: those of `worth-compiling best`. The other
    arguments are as in `measure`. Raises BadInput as `measure` does, HistoryError if the stored results cannot be read,
    and OSError or WorkerDied if no process can start.
    """
    with _name(model, inputs) as name:
        spec = _spec(name, task, SEARCH_OPTIONS, options)
        picture = common.input_picture(None if image is None else str(image), [spec])
        with _progress("Stopped. What is done is stored.") as line, closing(Runner(history := History())) as runner:
            stored = [] if spec.task == OWN_MODEL else history.all(checkpoints={spec.checkpoint})
            began, machine = time.monotonic(), runner.inspect()
            search = Search(spec, machine, stored, picture, other_formats, minutes, time.monotonic() - began)
            with closing(search.run(runner, threading.Event())) as events:
                for event in events:
                    if isinstance(event, Done):
                        line.say(best_command.line_so_far(search, event))
                    elif isinstance(event, Timing):
                        line.show(event.progress)
    return BestAnswer(search.table(), search.missing)


def _spec(name: str, task: str | None, allowed: Iterable[str], options: OptionValues) -> RunSpec:
    for option in options:
        if option not in allowed:
            near = fmt.did_you_mean(option, allowed)
            raise BadInput(f"There is no option {option!r} here.{near} Allowed: {', '.join(allowed)}.")
    own = ".py:" in name or (":" in name and not catalog.is_folder(name))
    model = {"model": name, "checkpoint": None} if own else {"model": None, "checkpoint": name}
    return common.spec_of_options(Namespace(**model, task=task, image=None), options)


@contextmanager
def _name(model: object, inputs: object) -> Iterator[str]:
    """Yields the text by which a run names the model: "file.py:function", or a checkpoint's id.

    A module in memory is written to a temporary file, which is removed at the end of the `with` block.
    """
    if isinstance(model, str):
        if inputs is not None:
            raise BadInput(
                "Inputs go with a torch.nn.Module: a function or a checkpoint brings its own. Leave them out."
            )
        yield model
        return
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise BadInput(
            "The model is a torch.nn.Module, or a text: my_model.py:build, package.module:build, or a checkpoint's id. "
            f"Given: an object of class {type(model).__name__}."
        )
    if inputs is None:
        raise BadInput("A module needs its inputs: a tensor, a tuple of arguments, or a dict of arguments by name.")
    with temporary_folder() as folder:
        name = re.sub(r"\W", "_", type(model).__name__)
        file = folder / f"{name}.py"
        file.write_text(LOADER, encoding="utf-8")
        try:
            with file.with_suffix(".pickle").open("wb") as pickled:
                pickle.dump([str(Path(entry).absolute()) for entry in sys.path], pickled)
                cloudpickle.dump((model, inputs), pickled)
        except OSError as error:
            raise BadInput(
                f"The module could not be written to {folder.parent}: {error.strerror}. Make room."
            ) from error
        except Exception as error:  # pickling calls the module's own code
            raise BadInput(
                f"The module cannot be sent to the process that measures it: {fmt.excerpt(str(error))}. Give the name "
                'of a function that builds it: measure("my_model.py:build").'
            ) from error
        yield f"{file}:{IN_MEMORY}"


@contextmanager
def _progress(stopped: str) -> Iterator[terminal.ProgressLine]:
    """Yields a line of progress: in a notebook's cell, or else on standard error. After Ctrl-C it shows `stopped`."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    with terminal.progress_line(stopped, _NotebookLine(sys.stdout) if hasattr(shell, "kernel") else None) as line:
        yield line


class _NotebookLine(terminal.ProgressLine):
    """A line of progress in a notebook's cell, rewritten at each process and phase of a run."""

    def show(self, progress: Progress, each_phase: bool = True) -> None:
        if self._begins(progress):
            self._print(f"\r{terminal.progress_text(progress):<{terminal.WIDTH}}")

    def end(self) -> None:
        self._print(f"\r{'':<{terminal.WIDTH}}\r")
