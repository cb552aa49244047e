"""The display of a run in progress as HTML: its steps, the times of eager and compiled so far, and the speed-up."""

import itertools
from urllib.parse import urlencode

from markupsafe import Markup, escape

from demo.core import format as fmt
from demo.core.options import RunSpec
from demo.core.progress import Progress
from demo.present import naming, race, verdict
from demo.ui.jobs import Job
from demo.ui.tabs.headline import both_sizes, ruler
from demo.ui.templates import render

STEPS = {
    "Load": "Reading the model and its input",
    "Warm up": "First calls of the eager model",
    "Compile": "Compiling: a one-time cost on the first call",
    "Time": "Timing eager and compiled in turn",
    "Check": "Comparing the outputs of both",
}
STEP_OF_PHASE = {"start": 0, "load": 0, "prepare": 0, "warm up": 1, "compile": 2, "time": 3, "check": 4, "done": 5}


def strip(progress: Progress, spec: RunSpec, late: str = "") -> Markup:
    """Returns the display of a run in progress as HTML. `late`: a hint for a speaker if the run takes long, else ''."""
    speedup = progress.speedup
    # always the same elements in the same order: then gradio replaces only those that differ, and redraws no chart
    return render(
        "progress.strip",
        spec,
        progress,
        list(STEPS),
        STEP_OF_PHASE.get(progress.phase, 0),
        doing(progress),
        compile_parts(progress),
        both_sizes(lambda size: race.of_progress(progress, spec, size)),
        ruler(speedup, not speedup.too_wide, 0.0) if speedup is not None else "",
        late,
    )


def meanwhile(job: Job) -> Markup:
    """Returns a note for a visitor who waits: how long a run takes, and the latest stored verdict of its settings."""
    texts = []
    if job.expected_seconds is not None:
        texts.append(Markup("Yours takes about {}.").format(fmt.rounded_duration(job.expected_seconds)))
    if (run := job.recorded) is not None:
        words = "The latest answer of these settings, {} UTC: {}. <a href='?{}'>Open it</a>"
        at, query = fmt.minute(run.started_at), urlencode({"run": run.id})
        texts.append(Markup(words).format(at, verdict.speedup_in_full(run), query))
    return render("results.note", Markup(" ").join(texts)) if texts else Markup()


PARTS = {"dynamo": "tracing", "aot_autograd": "lowering", "inductor": "code", "backend compile": "C++ or Triton"}
"""Short names of the parts of a compile, by torch's names."""


def compile_parts(progress: Progress) -> str:
    """Returns the parts of the compile so far, "Tracing 2.1 s · lowering 0.6 s."; '' before the compile."""
    steps = progress.compile_steps
    if not steps:
        return ""
    end = progress.first_seconds if progress.first_seconds is not None else progress.racing_seconds or 0.0
    seconds: dict[str, float] = {}
    for (name, begin), (_, next_begin) in itertools.pairwise((*steps, ("", end))):
        seconds[name] = seconds.get(name, 0.0) + max(0.0, next_begin - begin)
    parts = " · ".join(f"{PARTS.get(name, name)} {fmt.duration(taken)}" for name, taken in seconds.items())
    going = progress.first_seconds is None and (progress.graphs or progress.breaks)
    counted = f" Graphs so far: {progress.graphs}, breaks: {progress.breaks}." if going else ""
    return f"{fmt.capital(parts)}.{counted}"


def doing(progress: Progress) -> Markup:
    """Returns what the worker process is doing: "First calls of the eager model"."""
    if progress.code:
        return escape(fmt.capital(naming.worker_word(progress.code)))
    return Markup([*STEPS.values(), "Done"][STEP_OF_PHASE.get(progress.phase, 0)])
