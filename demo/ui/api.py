"""The API: a run by name, answered with the JSON of its result; and the results that are stored."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal

import gradio as gr
from gradio import FileData

from demo.core import catalog
from demo.core import format as fmt
from demo.core.result import BadInput, RunResult
from demo.store import export
from demo.store.history import History, HistoryError
from demo.store.journal import Journal
from demo.ui import runs
from demo.ui.jobs.queue import Line
from demo.ui.runs import AnyRunner
from demo.ui.tabs.form import Choice, uploaded

_log = logging.getLogger(__name__)


def endpoint(runner: AnyRunner, line: Line, choice: Choice) -> Callable[..., dict[str, Any]]:
    """The function behind `/benchmark`. It stands in the same line as the page's visitors."""

    def benchmark(
        request: gr.Request,
        checkpoint: str = choice.checkpoint,
        task: Literal["image-classification", "object-detection", "image-segmentation"] | None = None,
        image: FileData = None,  # type: ignore[assignment]  # "| None" hides from gradio's MCP tools that it is a file
        batch_size: int = 1,
        mode: Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite"] = "default",
        dtype: Literal["float32", "tf32", "float16", "bfloat16"] = "float32",
        device: Literal["auto", "cpu", "cuda"] = "auto",
        weights: Literal["pretrained", "random"] = "pretrained",
        fullgraph: bool = False,
        text: str = "",
        iterations: int | None = None,
        protocol: Literal["interleaved", "as published"] = "interleaved",
        precision: float = 0.01,
        most_seconds: float = 3.5,
        channels_last: bool = False,
        attention: Literal["auto", "eager", "sdpa"] = "auto",
        threads: int | None = None,
        cache: Literal["keep", "empty"] = "keep",
        graph_break: bool = False,
        profile: Literal["auto", "on", "off"] = "auto",
        whole: bool = True,
    ) -> dict[str, Any]:
        """Times a vision model with and without torch.compile on this server's machine, and compares what both see.

        Args:
            checkpoint: One of the catalogue, such as "shapes-vit", or any id of the Hub with safetensors weights.
            task: Needed only for a checkpoint that is not in the catalogue.
            image: The picture to look at, as an uploaded file, over MCP as a "data:image/png;base64,..." URL; a drawn
                scene where none is given. Addresses are not fetched.
            batch_size: 1 to 256; the picture is repeated so many times.
            mode: The mode of torch.compile.
            dtype: The number format of weights and inputs.
            device: "auto" takes the GPU where there is one.
            weights: "random" builds the architecture without a download: latency stays true, predictions mean nothing.
            fullgraph: Fail instead of falling back to eager where the graph breaks.
            text: For a zero-shot detector: what to look for, separated by commas.
            iterations: Timed calls of each variant, 10 to 10000; without it, until the speed-up is known well enough.
            protocol: "as published" is the guide's recipe: 300 calls of eager, then 300 of compiled, and their means.
            precision: Stop when the 95 % interval is within this share of the speed-up on both sides; 0.01 is +-1 %.
            most_seconds: Stop timing after so many seconds all the same, twice that where the verdict is unsure.
            channels_last: Weights and pictures in memory with the channels last.
            attention: The attention implementation; "auto" leaves it to the checkpoint's class.
            threads: Threads of torch on a CPU; without it torch's own choice.
            cache: "empty" compiles with an empty cache, and once more in a further process from the filled one.
            graph_break: Put one graph break between the model's layers: for showing what a graph break costs.
            profile: Count kernels and operations with torch.profiler; "auto" does on a GPU.
            whole: With raw times, predictions and pictures; tools should pass false and get one flat row.

        Returns:
            The result as JSON (schema_version 1): status, failure, spec, environment, eager and compiled with raw
            times and their median_ms, mean_ms, p95_ms and images_per_second, speedup with low, high and verdict,
            control, compilation, break_even_calls, parity, predictions, warnings. Not whole: a row of /history.
        """
        asked: dict[str, Any] = {
            "batch_size": batch_size,
            "mode": mode,
            "dtype": dtype,
            "device": device,
            "weights": weights,
            "fullgraph": fullgraph,
            "text": text or "",
        }
        asked |= {"protocol": protocol, "precision": precision, "most_seconds": most_seconds, "cache": cache}
        asked |= {"channels_last": channels_last, "attention": attention, "graph_break": graph_break}
        asked |= {"profile": profile}
        asked |= {
            name: value for name, value in (("iterations", iterations), ("threads", threads)) if value is not None
        }
        try:
            spec = catalog.make_spec(checkpoint, task or None, **asked)
            picture = uploaded(image) if image else choice.image
            with line.join(request.session_hash or "") as place:
                while place.wait(60.0):
                    pass
                with runs.start(runner, spec, picture) as events:
                    result = next(event for event in events if isinstance(event, RunResult))
            return result.to_json() if whole else export.row(result)
        except BadInput as refused:
            raise gr.Error(str(refused), print_exception=False) from refused
        except Exception as error:
            _log.exception("a run failed inside the API")
            raise gr.Error("The server met an error that it did not expect; it is in its log.") from error

    return benchmark


MOST_STORED = 200
"""Results that one call of `/history` may ask for: each is up to some hundred kilobytes."""


def stored(kept: History) -> Callable[..., list[dict[str, Any]]]:
    """The function behind `/history`. Its name is the tool's; of a docstring's lines gradio shows a tool the first."""

    def history(id: str = "", search: str = "", limit: int = 20, whole: bool = False) -> list[dict[str, Any]]:
        """Lists the runs stored on this server's machine, newest first: finished, failed, cancelled and interrupted.

        Args:
            id: Give this run only, and give it whole, as /benchmark answered it.
            search: Only runs with each of these words in id, time, outcome, task, checkpoint, mode, dtype or device.
            limit: At most so many, 1 to 200.
            whole: Whole results, with raw times, predictions and pictures, instead of one flat row each.

        Returns:
            A list. Rows have id, started_at, status, checkpoint, task, batch_size, mode, dtype, device, device_name,
            torch, eager_median_ms, compiled_median_ms, speedup with speedup_low, speedup_high and verdict,
            first_call_seconds, break_even_calls, parity, failure_message and more; null where it was not measured.
        """
        try:
            if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_STORED:
                raise BadInput(f"The limit must be a whole number from 1 to {MOST_STORED}. Given: {str(limit)[:80]}.")
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
        except (BadInput, HistoryError) as refused:
            raise gr.Error(fmt.for_a_stranger(str(refused)), print_exception=False) from refused

    return history
