"""The API: `/benchmark` runs one setting, `/best` searches for the best one, `/history` lists stored results."""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import gradio as gr
from gradio import FileData

from demo.core import catalog
from demo.core import format as fmt
from demo.core.errors import BadInput
from demo.core.result import RunResult
from demo.core.spec import OPTIONS, TASKS, Option, RunSpec
from demo.runs.any_runner import AnyRunner
from demo.store import export
from demo.store.history import History, HistoryError
from demo.store.journal import Journal
from demo.sweep import best_way, best_words
from demo.sweep.best_table import GOALS, Goal
from demo.ui.jobs.jobs import is_closing, make_search
from demo.ui.jobs.queue import RunQueue
from demo.ui.tabs.form import Choice, default_picture, uploaded
from demo.ui.tabs.form import example as named_example
from demo.ui.web.calls import asked_over_mcp

_log = logging.getLogger(__name__)


def endpoint(runner: AnyRunner, queue: RunQueue, choice: Choice) -> Callable[..., dict[str, Any]]:
    """The function behind `/benchmark`. Its runs stand in the same queue as those of the page.

    gradio makes the API's description, and an MCP tool, of the function's signature, annotations and docstring. They
    are made from the table of options; the function itself takes whatever that signature allows.
    """
    signature = _signature(choice)

    def benchmark(*given: Any, **named: Any) -> dict[str, Any]:
        call = signature.bind(*given, **named)
        call.apply_defaults()
        asked = call.arguments
        request, checkpoint, image = asked["request"], asked["checkpoint"], asked["image"]
        with _refusals():
            spec = catalog.make_spec(checkpoint, asked["task"] or None, **_options(asked))
            picture = _picture(spec, image, asked["example"], choice)
            with queue.join(request.session_hash or "") as places:
                for _ in places:
                    pass
                with contextlib.closing(runner.run(spec, picture)) as events:
                    result = next(event for event in events if isinstance(event, RunResult))
            whole = not asked_over_mcp(request) if asked["whole"] is None else asked["whole"]
            return result.to_json() if whole else export.row(result)

    return _described(benchmark, signature, _DESCRIPTION, _NOTES)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Makes the answer of an error: its sentence where it was to be expected, else that the log has it."""
    try:
        yield
    except (BadInput, HistoryError) as refused:
        raise gr.Error(fmt.redact(str(refused)), print_exception=False) from refused
    except Exception as error:
        _log.exception("a run failed inside the API")
        raise gr.Error("The server met an error that it did not expect; it is in its log.") from error


def _options(asked: dict[str, Any]) -> dict[str, Any]:
    """The options among the arguments of a call."""
    return {
        name: asked[name]
        for name, option in OPTIONS.items()
        if name in asked and (asked[name] is not None or option.default not in (None, ()))
    }


def _described(
    function: Callable[..., dict[str, Any]], signature: inspect.Signature, description: str, notes: dict[str, str]
) -> Callable[..., dict[str, Any]]:
    """The function with what gradio reads of it; `notes` are its arguments'."""
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {name: taken.annotation for name, taken in signature.parameters.items()}
    function.__annotations__ |= {"return": signature.return_annotation}
    function.__doc__ = "\n".join([description, "Args:", *(f"    {name}: {note}" for name, note in notes.items())])
    return function


_DESCRIPTION = """\
Times a model with and without torch.compile on this server's machine, and compares what both see or write.

Over MCP the answer is one flat row, as /history gives it. Elsewhere, and with `whole`, it is the result as JSON
(schema_version 2): status, failure, spec, environment, eager and compiled with raw times and their median_ms,
mean_ms, p95_ms and images_per_second, eager_ms and compiled_ms, whose quotient is the speedup, speedup with
low, high and verdict, control, compilation, break_even_calls, parity, predictions, warnings.
"""
_FIRST = ("batch_size", "mode", "dtype", "device", "weights")
"""Clients may give arguments by position: these have always stood first."""
_BEFORE_WHOLE = "profile"
"""The last option before `whole` and `example`; options that are declared after it stand behind them."""
_ORDERED = [OPTIONS[name] for name in dict.fromkeys((*_FIRST, *OPTIONS))]
_LATER = _ORDERED[_ORDERED.index(OPTIONS[_BEFORE_WHOLE]) + 1 :]
_EARLIER = _ORDERED[: -len(_LATER)]
_NOTES = {
    "checkpoint": 'One of the catalogue, such as "shapes-vit", or any id of the Hub with safetensors weights.',
    "task": "Needed only for a checkpoint that is not in the catalogue.",
    "image": 'An uploaded file, over MCP a "data:image/png;base64,..." URL; else an example that suits the model. Text '
    "generation takes none.",
    **{option.name: option.help for option in _EARLIER},
    "whole": "The whole result instead of one flat row; without it, the row over MCP and the whole elsewhere.",
    "example": 'Instead of an image: one of the page\'s examples, such as "shapes-scene-2" or "lion".',
    **{option.name: option.help for option in _LATER},
}
"""What the API's documentation says of each argument, in the order of the signature."""


def _signature(choice: Choice) -> inspect.Signature:
    """The arguments of `/benchmark`.

    Clients may give them by position, so an option that is added to the end of the table moves none of the others.
    """

    return _signature_of(
        ("request", gr.Request, inspect.Parameter.empty),
        ("checkpoint", str, choice.checkpoint),
        ("task", Literal[TASKS] | None, None),
        ("image", FileData, None),  # "| None" hides from gradio's MCP tools that it is a file
        *_arguments(_EARLIER),
        ("whole", bool | None, None),
        ("example", str, ""),
        *_arguments(_LATER),
    )


def _arguments(options: list[Option]) -> Iterator[tuple[str, Any, Any]]:
    for option in options:
        yield option.name, _annotation(option), "" if option.kind == "queries" else option.default


def _signature_of(*taken: tuple[str, Any, Any]) -> inspect.Signature:
    """The signature of an endpoint whose arguments have these names, annotations and defaults."""
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [inspect.Parameter(name, either, annotation=kind, default=default) for name, kind, default in taken],
        return_annotation="dict[str, Any]",  # as text: gradio then describes the answer as any JSON
    )


def _annotation(option: Option) -> Any:
    if option.kind == "choice":
        return Literal[option.values]
    kind = {"switch": bool, "whole": int, "number": float, "queries": str, "passage": str}[option.kind]
    return kind | None if option.default is None else kind


def _picture(spec: RunSpec, image: FileData | None, example: str, choice: Choice) -> Path | None:
    """The picture that was given, else one that suits the model; None for a model that sees none. Raises BadInput."""
    if not spec.sees_picture:
        if image or example:
            raise BadInput(f"{spec.task} sees no picture: leave image and example out.")
        return None
    if image and example:
        raise BadInput("Both an image and an example were given: leave one of them out.")
    if image:
        return uploaded(image)
    if example:
        return named_example(str(example))
    return choice.image if spec.checkpoint == choice.checkpoint else default_picture(spec.checkpoint)


def best(runner: AnyRunner, queue: RunQueue, history: History, choice: Choice) -> Callable[..., dict[str, Any]]:
    """The function behind `/best`. Each of its runs stands in the queue of the page.

    A search waits where the queue is full, and occupies a thread all the time: as many go on as the queue has places.
    """
    first, places = Goal(), threading.Semaphore(queue.longest)
    signature = _signature_of(
        ("request", gr.Request, inspect.Parameter.empty),
        ("checkpoint", str, choice.checkpoint),
        ("task", Literal[TASKS] | None, None),
        ("image", FileData, None),
        ("example", str, ""),
        ("minutes", float, best_way.MINUTES),
        ("other_formats", bool, False),
        ("goal", Literal[GOALS], first.name),
        ("calls", float, first.calls),
        ("restarts", float, first.restarts),
        *_arguments(_OF_BEST),
    )

    def best(*given: Any, **named: Any) -> dict[str, Any]:
        call = signature.bind(*given, **named)
        call.apply_defaults()
        asked = call.arguments
        with _refusals():
            spec = catalog.make_spec(asked["checkpoint"], asked["task"] or None, **_options(asked))
            picture = _picture(spec, asked["image"], asked["example"], choice)
            goal = Goal(asked["goal"], asked["calls"], asked["restarts"])
            search = make_search(runner, history, spec, picture, asked["other_formats"] is True, asked["minutes"])
            visitor = asked["request"].session_hash
            whose = f"search of {visitor}" if visitor else ""
            if not places.acquire(blocking=False):
                raise BadInput(f"{queue.longest} searches are going on here already. Try again in a few minutes.")
            try:
                cancel = threading.Event()
                turn = functools.partial(queue.join, whose, patient=True)
                with contextlib.closing(search.run(runner, cancel, turn)) as events:
                    for event in events:
                        if is_closing(event):
                            cancel.set()
            finally:
                places.release()
            return {"complete": search.complete, **best_words.as_json(search.table(goal))}

    return _described(best, signature, _ABOUT_BEST, _NOTES_OF_BEST)


_ABOUT_BEST = """\
Searches for the best way to run a model on this server's machine: eager, torch.compile's modes, layer by layer,
freezing, a package, channels last. Each way is a stored run; what is stored already is not run again.

The answer is JSON with complete (whether everything was tried), goal, answer (sentences), winner, equals (ways that
cannot be told from it), crossover, and rows, the best first: way, settings, rank (null where it cannot win), speedup
over eager with low and high, seconds of a call, first_answers (seconds from the start of a process, from nothing and
in the next process, by part), memory_bytes, out (why it cannot win), processes and the id of its run.
"""
_OF_BEST = [OPTIONS[name] for name in ("batch_size", "device", "weights", "text", "prompt", "tokens", "threads")]
"""The options of a run that a search is asked for; the others are what it tries, or how it times."""
_NOTES_OF_BEST = {
    **{name: _NOTES[name] for name in ("checkpoint", "task", "image", "example")},
    "minutes": f"Time for its runs, {best_way.MIN_MINUTES:g} to {best_way.MAX_MINUTES:g}; the queue is not counted.",
    "other_formats": "Try half formats, and TF32 on a GPU, too: they change the outputs.",
    "goal": 'What is least: "steady" a call, "soonest" the first answer of a process, "traffic" the work of a month.',
    "calls": 'Calls a day, for the goal "traffic".',
    "restarts": 'Processes started a day, for the goal "traffic".',
    **{option.name: option.help for option in _OF_BEST},
}

MAX_STORED = 200
"""Results that one call of `/history` may ask for: each is up to some hundred kilobytes."""


def stored(kept: History) -> Callable[..., list[dict[str, Any]]]:
    """The function behind `/history`. gradio shows its name and docstring to users of the API and of MCP."""

    def history(id: str = "", search: str = "", limit: int = 20, whole: bool = False) -> list[dict[str, Any]]:
        """Lists the runs stored on this server's machine, newest first: finished, failed, cancelled and interrupted.

        The answer is a list of rows with id, started_at, status, checkpoint, task, batch_size, mode, dtype, device,
        device_name, torch, eager_ms, compiled_ms, speedup with speedup_low, speedup_high and verdict,
        first_call_seconds, break_even_calls, parity, failure_message and more; null where it was not measured.

        Args:
            id: Give this run only, and give it whole, as /benchmark answered it.
            search: Only runs with each of these words in id, time, outcome, task, checkpoint, mode, dtype or device.
            limit: At most so many, 1 to 200.
            whole: Whole results, with raw times, predictions and pictures, instead of one flat row each.
        """
        with _refusals():
            if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_STORED:
                raise BadInput(f"The limit must be a whole number from 1 to {MAX_STORED}. Given: {str(limit)[:80]}.")
            for name, given in (("id", id), ("search", search)):
                if given is not None and not isinstance(given, str):
                    raise BadInput(f"The {name} must be a text. Given: {str(given)[:80]}.")
            Journal(kept).recover()
            if id:
                found = kept.get(id)
                if found is None:
                    raise BadInput(f"No stored run has the id {id[:80]!r}.")
                return [found.to_json()]
            results = kept.all(limit, search or "")
            return [result.to_json() if whole else export.row(result) for result in results]

    return history
