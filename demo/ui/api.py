"""The four endpoints of the API: `/benchmark`, `/best`, `/history` and `/published`."""

import contextlib
import uuid
from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Literal, get_type_hints

import gradio as gr
from gradio import FileData

from ..core import catalog, format as fmt
from ..core.options import CALLS, OPTIONS, TASKS, BadInput, RunSpec, read_calls
from ..core.result import RunResult
from ..core.result_json import to_json, work_json
from ..present.report import Report
from ..runs.runner import Runner
from ..store import export, published
from ..store.history import History
from ..sweep import best_costs, best_way, best_words
from ..tasks.registry import BY_NAME
from .run_queue import RunQueue
from .tabs.form import default_picture, uploaded_file
from .works import BestSearch, Supervisor

Arguments = dict[str, Any]
"""The values of an endpoint's arguments by name, and as "request" gradio's request."""


def _argument(name: str, annotation: object, default: object) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation, default=default)


MODEL = (
    _argument("checkpoint", str, catalog.DEFAULT),
    _argument("task", Literal[TASKS] | None, None),
    _argument("image", FileData, None),  # not FileData | None: gradio's MCP tools would not see that it is a file
)
HELP = {
    "checkpoint": 'One of the catalogue, such as "shapes-vit", or any id of the Hub with safetensors weights.',
    "task": "Needed only for a checkpoint that is not in the catalogue.",
    "image": 'An uploaded file, over MCP a "data:image/png;base64,..." URL; else an example that suits the model. Text '
    "generation takes none.",
    "whole": "True: the whole result. False: one flat row. By default the row over MCP, else the whole result.",
    "calls": f"{CALLS.help} The answer then has `whole_work`.",
    "minutes": f"Time for its runs, {best_way.MIN_MINUTES:g} to {best_way.MAX_MINUTES:g}; the queue is not counted.",
    "other_formats": "Try half formats, and TF32 on a GPU, too: they change the outputs.",
    **{option.name: option.help for option in OPTIONS.values()},
}


def _option(name: str) -> Parameter:
    option = OPTIONS[name]
    if option.kind == "queries":
        return _argument(name, str, "")
    kind = Literal[option.values] if option.kind == "choice" else get_type_hints(RunSpec)[name]
    return _argument(name, kind, option.default)


def _endpoint(
    name: str, function: Callable[[Arguments], dict[str, object]], description: str, *arguments: Parameter
) -> Callable[..., dict[str, object]]:
    """Returns a function to pass to `gr.api`. It calls `function` with one dict: the arguments of the call by name.

    The dict also has gradio's request as "request". gradio shows clients the name, the signature and the docstring of
    the returned function as the description of the endpoint and of its MCP tool.
    """
    every = [_argument("request", gr.Request, Parameter.empty), *arguments]
    signature = Signature(every, return_annotation="dict[str, Any]")  # as text: described as any JSON

    def endpoint(*values: object) -> dict[str, object]:
        return function(signature.bind(*values).arguments)

    endpoint.__name__ = name
    endpoint.__signature__ = signature  # type: ignore[attr-defined]
    endpoint.__annotations__ = {argument.name: argument.annotation for argument in every}
    endpoint.__annotations__["return"] = signature.return_annotation
    lines = [f"    {argument.name}: {HELP[argument.name]}" for argument in arguments]
    endpoint.__doc__ = "\n".join([description, "Args:", *lines])
    return endpoint


def _spec_and_picture(values: Arguments) -> tuple[RunSpec, Path | None]:
    """Returns the spec and the picture of a run that a call of the API asks for.

    The picture is the uploaded one, or else an example; None if the model uses no picture. Raises BadInput for wrong
    values.
    """
    options = {name: values[name] for name in OPTIONS if values.get(name) is not None}
    spec = catalog.make_spec(values["checkpoint"], values["task"] or None, **options)
    image = values["image"]
    if not spec.sees_picture:
        if image:
            raise BadInput(f"{spec.task} sees no picture: leave image out.")
        return spec, None
    return spec, uploaded_file(image) if image else default_picture(spec.checkpoint)


def _answer(result: RunResult, whole: bool, calls: int | None) -> dict[str, object]:
    """Returns the answer of a call: a flat row, as in an export.

    If `whole`, it is the complete result as JSON, and "summary" is the verdict in one line. `calls`: how many calls a
    process makes before it restarts. With it, "whole_work" says what compiling saves over these calls.
    """
    answer = {"summary": Report(result).summary} | to_json(result) if whole else export.row(result)
    return answer if calls is None else answer | {"whole_work": work_json(result, calls)}


ABOUT_BENCHMARK = """\
Times a model with and without torch.compile on this server's machine, and compares the outputs.

Over MCP the answer is one flat row, as /history gives it. Elsewhere, and with `whole`, it is the result as JSON
(schema_version 3): summary, the answer in one line, status, failure, spec, environment, eager and compiled with raw
times and their median_ms, mean_ms, p95_ms and images_per_second, eager_ms and compiled_ms, whose quotient is the
speedup, speedup with low, high and verdict, control, compilation, break_even_calls, parity, predictions, warnings.
"""


def make_benchmark(runner: Runner, queue: RunQueue) -> Callable[..., dict[str, object]]:

    def benchmark(values: Arguments) -> dict[str, object]:
        calls = read_calls(values["calls"])
        spec, picture = _spec_and_picture(values)
        request = values["request"]
        with queue.join(request.session_hash or "") as places:
            for _ in places:
                pass
            with contextlib.closing(runner.run(spec, picture)) as events:
                result = next(event for event in events if isinstance(event, RunResult))
        over_mcp = request.headers.get("x-gradio-user") == "mcp"  # as gradio's MCP server names itself
        whole = not over_mcp if values["whole"] is None else values["whole"]
        return _answer(result, whole, calls)

    extra = [_argument("whole", bool | None, None), _argument("calls", int | None, None)]
    arguments = [*MODEL, *extra, *map(_option, OPTIONS)]
    return _endpoint("benchmark", benchmark, ABOUT_BENCHMARK, *arguments)


ABOUT_BEST = """\
Searches for the best way to run a model on this server's machine: eager, torch.compile's modes, layer by layer,
freezing, a package, channels last. Each way is a stored run; what is stored already is not run again.

The answer is JSON with complete (whether everything was tried), answer (sentences), winner, equals (ways that cannot be
told from it), and rows, the best first: way, settings, rank (null where it cannot win), speedup
over eager with low and high, seconds of a call, first_answers (seconds from the start of a process by part: "cold" from
nothing, "warm" with a kept cache), memory_bytes, out (why it cannot win), processes and the id of its run. With calls
it also has whole_work: sentences on what that many calls take.
"""


def make_best(runner: Runner, queue: RunQueue, history: History) -> Callable[..., dict[str, object]]:
    searches = Supervisor()

    def best(values: Arguments) -> dict[str, object]:
        spec, picture = _spec_and_picture(values)
        calls = read_calls(values["calls"])
        visitor = values["request"].session_hash or uuid.uuid4().hex
        other_formats = values["other_formats"] is True
        work = BestSearch(runner, queue, visitor, history, spec, picture, other_formats, values["minutes"])
        searches.start(work)
        for _ in work.watch():
            pass
        if isinstance(problem := work.take_result(), Exception):
            raise problem
        table = work.search.table()
        whole_work = {} if calls is None else {"whole_work": best_costs.sentences(table, calls)}
        return {"complete": work.search.complete, **best_words.as_json(table), **whole_work}

    limits = [_argument("minutes", float, best_way.MINUTES), _argument("other_formats", bool, False)]
    limits.append(_argument("calls", int | None, None))
    return _endpoint("best", best, ABOUT_BEST, *MODEL, *limits, *map(_option, best_way.SEARCH_OPTIONS))


MAX_LISTED = 200
"""The most results that one call of `/history` returns. A result takes up to some hundred kilobytes."""


def make_history(stored: History) -> Callable[..., list[dict[str, object]]]:

    def history(
        id: str = "", search: str = "", limit: int = 20, whole: bool = False, calls: int | None = None
    ) -> "list[dict[str, Any]]":
        """Lists the runs stored on this server's machine, newest first, however they ended.

        The answer is a list of flat rows. A row holds settings, machine, latencies in ms, speedup with interval and
        verdict, costs of compiling, agreement of the outputs (parity), and failure. A value not measured is null.

        Args:
            id: Only the run with this id, as a whole result; by default many runs.
            search: Only runs with each of these words in id, time, outcome, checkpoint, settings, device or verdict.
            limit: The most runs to list, 1 to 200.
            whole: Whole results, with raw times, predictions and pictures, instead of one flat row each.
            calls: Calls (text model: tokens) from one restart to the next. Adds whole_work: what compiling saves.
        """
        if type(limit) is not int or not 1 <= limit <= MAX_LISTED:
            wanted = f"a whole number from 1 to {MAX_LISTED}"
            raise BadInput(f"The limit must be {wanted}. Given: {fmt.excerpt(limit)}.")
        calls = read_calls(calls)
        stored.recover()
        if id:
            result = stored.get(str(id))
            if result is None:
                raise BadInput(f"No stored run has the id {fmt.excerpt(id)}.")
            return [_answer(result, True, calls)]
        results = stored.all(limit, str(search or ""))
        return [_answer(result, whole, calls) for result in results]

    return history


PUBLISHED_TASKS = tuple(name for name, task in BY_NAME.items() if task.published)


def published_table(
    subset: str | None = None,
    gpu: str | None = None,
    batch_size: int | None = None,
    task: Literal[PUBLISHED_TASKS] | None = None,  # type: ignore[valid-type]
    model: str | None = None,
) -> "dict[str, Any]":  # as text: gradio then describes the answer as any JSON
    """The speed-ups of torch.compile for vision models in the Transformers guide, and this project's own.

    The answer has three lists. rows: one speed-up each, with origin "published" or "measured by this project", and with
    times in milliseconds or "OOM". faults: known errors of the guide. sources: where the guide's tables come from.

    Args:
        subset: "release" (torch 2.0.1), "nightly" or "reduce-overhead" (2.1.0.dev), "measured" and more; default: all.
        gpu: "A100", "V100" or "T4", or a device that this project measured; default: all.
        batch_size: 1, 4 or 16 in the guide; default: all.
        task: "image-classification", "object-detection" or "image-segmentation"; default: all.
        model: A part of a model's name or checkpoint, such as "vit" or "facebook/detr"; default: all.
    """
    rows = published.select(published.all_rows(), subset, gpu, batch_size, task, model)
    return {
        "rows": [published.record(row) for row in rows],
        "faults": published.faults(),
        "sources": published.sources(),
    }
