"""Converts a result to JSON and back. The JSON also has numbers that are computed from the stored fields."""

import json
from dataclasses import replace

from ..tasks.registry import BY_NAME
from .codec import JsonObject, from_plain, plain
from .comparison import Speedup
from .format import milliseconds
from .measurement import Measurement
from .result import SCHEMA_VERSION, RunResult


def to_json(result: RunResult) -> dict[str, object]:
    """Returns a result as a dict of JSON types. `docs/api.md` describes the keys.

    `break_even_calls` and `break_even_seconds` are None unless the verdict is 'faster'. `end_to_end_speedup` is None
    without a verdict, if it is 'unsure', or if the steps of a request were not measured.
    """
    data: JsonObject = plain(result)
    for variant in ("eager", "compiled"):
        seconds = result.latencies.get(variant)
        data[f"{variant}_ms"] = milliseconds(seconds) if seconds is not None else None
        measured: Measurement | None = getattr(result, variant)
        if measured is not None:
            data[variant] |= _variant(result, measured, result.latencies[variant])
    data["comparisons"] = {name: _comparison(speedup) for name, speedup in result.comparisons.items()}
    data["speedup"] = plain(result.speedup)
    data["control"] = data["speedup"] and data["speedup"]["control"]
    data["repeats"] = [run.id for run in result.as_processes()]
    data["process"] = plain(result.own_process)
    verdict, compiled = result.speedup.verdict if result.speedup is not None else None, result.compilation
    paid = result.break_even(compiled.own_start) if compiled is not None and verdict == "faster" else None
    data |= {"break_even_calls": paid and paid.calls, "break_even_seconds": paid and paid.seconds}
    data["break_even"] = {start: plain(result.break_even(start)) for start in result.starts}
    requests = result.request_seconds if verdict not in (None, "unsure") else None
    data["end_to_end_speedup"] = requests[0] / requests[1] if requests else None
    data["caveats"] = [plain(caveat) | {"text": str(caveat)} for caveat in result.caveats]
    data["warnings"] = result.warnings
    if (answer := result.answer_seconds) is not None:
        data["answer_ms"] = dict(zip(("eager", "compiled"), map(milliseconds, answer), strict=True))
        data["break_even_answers"] = paid and paid.answers
    return data


def _variant(result: RunResult, measured: Measurement, latency: float) -> dict[str, float | None]:
    rate, batch = f"{result.spec.unit}s_per_second", result.spec.batch_size
    figures = {
        "median_ms": milliseconds(measured.median_seconds),
        "mean_ms": milliseconds(measured.mean_seconds),
        "p95_ms": milliseconds(measured.p95_seconds),
        rate: batch / latency,
        "launch_ms": None if measured.launch_seconds is None else milliseconds(measured.launch_seconds),
    }
    if measured.profile is not None:
        figures |= {"busy_share": measured.busy_share, "roofline_share": result.roofline_share(measured)}
    if run := measured.back_to_back:
        figures[f"{rate}_back_to_back"] = run.calls * batch / run.seconds
        figures["joules_back_to_back"] = run.joules
    return figures


def _comparison(speedup: Speedup) -> dict[str, object]:
    latencies = zip(("eager_ms", "compiled_ms"), map(milliseconds, speedup.latencies), strict=True)
    return dict(latencies) | {"speedup": plain(speedup), "control": plain(speedup.control)}


def dumps(result: RunResult, calls: int | None = None) -> str:
    """Returns a result as one line of JSON, with the keys of `to_json`. Raises ValueError for NaN and infinity.

    `calls`: how many calls a process makes. If given, the key "whole_work" has the time of such a process.
    """
    whole_work = {} if calls is None else {"whole_work": work_json(result, calls)}
    return json.dumps(to_json(result) | whole_work, allow_nan=False, ensure_ascii=False)


def work_json(result: RunResult, calls: int) -> dict[str, object]:
    """Returns how long eager and compiled take for a process with `calls` calls, as JSON values.

    The times are under the key "starts", by the state of the compile cache when the process starts, such as 'cold'. For
    a text model, `calls` counts tokens.
    """
    work = result.whole_work(calls)
    return {"calls": calls, "starts": {state: plain(figures) for state, figures in work.items()}}


def from_json(data: JsonObject) -> RunResult:
    """Returns the result that `to_json` wrote. Raises ValueError for a wrong `schema_version` or value."""
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise ValueError(f"a result has schema_version {SCHEMA_VERSION}, this has {version}")
    if isinstance(beside := data.get("without_breaks"), dict):
        # Stored before there was a `pooled`: the interval as it was judged.
        pooled = {end: beside.get(end) for end in ("ratio", "low", "high")}
        data = data | {"without_breaks": {"pooled": pooled} | beside}
    result, predictions = from_plain(RunResult, data), data.get("predictions")
    kind = BY_NAME[result.spec.task].predictions
    own = {variant: from_plain(kind, stored) for variant, stored in predictions.items()} if predictions else None
    return replace(result, predictions=own)
