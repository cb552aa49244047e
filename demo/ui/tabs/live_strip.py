"""The run that goes on or waits, as HTML: its phases, the race so far and the interval so far."""

from html import escape

from markupsafe import Markup

from demo.core import format as fmt
from demo.core.progress import Progress
from demo.core.spec import RunSpec
from demo.present import naming, race
from demo.ui.tabs.headline import both_sizes, ruler
from demo.ui.templates import render

STEPS = {
    "Load": "Reading the model and its input",
    "Warm up": "First calls of the eager model",
    "Compile": "Compiling: a one-time cost on the first call",
    "Time": "Timing eager and compiled in turn",
    "Check": "Comparing the outputs of both",
}
"""What is done in each step."""
STEP_OF_PHASE = {"start": 0, "load": 0, "prepare": 0, "warm up": 1, "compile": 2, "time": 3, "check": 4, "done": 5}


def strip(progress: Progress, spec: RunSpec, late: str = "") -> Markup:
    """Phases, time, the race and the interval so far; `late` is for a speaker whose run takes too long.

    gradio replaces only the nodes that differ. So the order and number of elements must not depend on the progress:
    then lines only grow.
    """
    speedup, step = progress.speedup, STEP_OF_PHASE.get(progress.phase, 0)
    axis = ruler(speedup, not speedup.too_wide, 0.0) if speedup is not None else ""
    running = both_sizes(lambda size: race.of_progress(progress, spec, size))
    return render("progress.strip", spec, progress, list(STEPS), step, doing(progress), running, axis, late)


def doing(progress: Progress) -> Markup:
    """What the worker is doing."""
    if progress.code:
        return Markup(escape(fmt.capital(naming.worker_word(progress.code))))
    return Markup([*STEPS.values(), "Done"][STEP_OF_PHASE.get(progress.phase, 0)])
