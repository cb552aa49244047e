"""The result pane while a run goes on: phases, time, two or three lanes and the interval so far, as HTML.

gradio replaces only the nodes that differ. So the order and number of elements must not depend on the progress: then
bars only change their length.
"""

from markupsafe import Markup

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.result import Progress
from demo.core.spec import RunSpec
from demo.present import sentences
from demo.ui.html.elements import drawn, ruler

STEPS = ("load", "warm_up", "compile", "time", "check")
STEP_OF_PHASE = {"start": 0, "load": 0, "prepare": 0, "warm up": 1, "compile": 2, "time": 3, "check": 4, "done": 5}


def strip(progress: Progress, spec: RunSpec, lang: Language) -> Markup:
    speedup = progress.speedup
    axis = ruler(speedup, not speedup.vague, 0.0, lang) if speedup is not None else ""
    step = STEP_OF_PHASE.get(progress.phase, 0)
    return drawn(
        "progress.strip", lang, spec, progress, STEPS, step, doing(progress, lang), _lanes(progress, spec), axis
    )


def doing(progress: Progress, lang: Language) -> Markup:
    """What the worker is doing."""
    if progress.code:
        return Markup(lang.marked(sentences.worker_word("progress", progress.code, lang)))
    step = STEP_OF_PHASE.get(progress.phase, 0)
    return Markup(lang.html("doing_done" if step == len(STEPS) else f"doing_{STEPS[step]}"))


def _lanes(progress: Progress, spec: RunSpec) -> dict[str, tuple[float, str, str]]:
    """For each variant the share of its bar, its latency and its rate; '–' for what was not measured yet.

    The fastest bar shows how far the timing is; the others are shorter by their ratio so far.
    """
    seen = {"eager": progress.eager_seconds, "compiled": progress.compiled_seconds}
    if spec.graph_break:
        seen["with_break"] = progress.with_break_seconds
    fastest = min((seconds for seconds in seen.values() if seconds), default=0.0)
    done = 1.0 if progress.phase in ("check", "done") else progress.timing_done or 0.0
    return {
        variant: (done * fastest / seconds, fmt.latency(seconds), fmt.rate(spec.batch_size / seconds))
        if seconds
        else (0.0, "–", "–")
        for variant, seconds in seen.items()
    }
