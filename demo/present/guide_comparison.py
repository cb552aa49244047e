"""Compares a run with the table in the Transformers guide on torch.compile: same checkpoint, mode and batch size."""

from collections.abc import Iterator

from demo.core import format as fmt
from demo.core.options import OPTIONS, PUBLISHED_CALLS
from demo.core.result import RunResult
from demo.present import naming, verdict
from demo.store import published


def compare_with_guide(result: RunResult) -> list[str]:
    """Returns sentences that compare the run with the guide: the speed-ups of both, and how the settings differ.

    Example: 'On the A100 with torch 2.0.1 the guide saw 1.52×.' Returns [] if no row of the guide has the run's
    checkpoint, mode and batch size. Also returns [] for a run without a speed-up, unless the run ran out of memory.
    """
    spec = result.spec
    rows = [
        row
        for row in published.guide_rows()
        if (row.checkpoint, row.mode, row.batch_size) == (spec.checkpoint, spec.mode, spec.batch_size)
    ]
    here = "out of memory" if result.status == "out_of_memory" else verdict.speedup_in_full(result)
    if not here or not rows:
        return []
    texts = []
    for row in rows:
        there = "out of memory" if row.speedup is None else fmt.ratio(row.speedup)
        texts.append(f"On the {row.gpu} with torch {row.torch} the guide saw {there}.")
    torch = result.environment.torch if result.environment is not None else "–"
    return [*texts, f"Here: {here}, with torch {torch} on {naming.where(result)}.", *_differences(result)]


def _differences(result: RunResult) -> Iterator[str]:
    spec, machine = result.spec, result.environment
    guide = {"dtype": "float32", "weights": "pretrained", "channels_last": False, "graph_break": False}
    for name, there in guide.items():
        here = getattr(spec, name)
        if here != there:
            words = f"{naming.value_text(here)} here, {naming.value_text(there)} in the guide"
            yield f"{OPTIONS[name].label}: {words}."
    if machine is not None and "sdpa" in machine.settings.get("attention", ""):
        yield "Attention: SDPA here, plain (eager) in the guide of 2023. --attention eager compares like with like."
    if spec.device == "cpu":
        yield "This run used the CPU; the guide measured GPUs. Their latencies cannot be compared."
    yield (
        f"The guide took two means of {PUBLISHED_CALLS} calls, with the Transformers of 2023 and a picture of "
        "640 × 480 pixels; its A100 may have used TF32."
    )
