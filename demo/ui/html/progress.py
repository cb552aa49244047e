"""The result pane while a run goes on: phases, time, two or three lanes and the interval so far, as HTML.

gradio replaces only the nodes that differ. So the order and number of elements must not depend on the progress: then
bars only change their length.
"""

from __future__ import annotations

from markupsafe import Markup

from demo.core import format as fmt
from demo.core.languages import Language
from demo.core.result import PROGRESS_CODES, Progress
from demo.core.spec import RunSpec
from demo.present import sentences
from demo.ui.html.elements import drawn, ruler

STEPS = ("load", "warm_up", "compile", "time", "check")
STEP_OF_PHASE = {"start": 0, "load": 0, "prepare": 0, "warm up": 1, "compile": 2, "time": 3, "check": 4, "done": 5}


def waiting(ahead: int, lang: Language) -> Markup:
    """While other runs are ahead. Their time is not known, so none is given."""
    return drawn("progress.waiting", lang, lang.plain("waiting_ahead", count=ahead), "waiting_lead")


def waiting_for_quiet(share: float, lang: Language) -> Markup:
    return drawn("progress.waiting", lang, lang.plain("busy_machine", share=fmt.percent(share)), "waiting_for_quiet")


def strip(progress: Progress, spec: RunSpec, lang: Language) -> Markup:
    return drawn(
        "progress.strip",
        lang,
        asked=sentences.settings_line(spec, lang),
        steps=STEPS,
        step=STEP_OF_PHASE.get(progress.phase, 0),
        progress=progress,
        doing=_doing(progress, lang),
        clock=_clock(progress, lang),
        lanes=_lanes(progress, spec),
        unit=spec.unit,
        so_far=_so_far(progress, lang),
        axis=ruler(progress.speedup, not progress.speedup.vague, 0.0, lang) if progress.speedup is not None else "",
    )


def doing(progress: Progress, lang: Language) -> str:
    """What the worker is doing, as HTML."""
    return lang.marked(_doing(progress, lang))


def _doing(progress: Progress, lang: Language) -> str:
    """A message with a code that this page does not know is quoted."""
    if progress.code in PROGRESS_CODES:
        return lang.plain(f"progress_{progress.code}")
    if progress.message:
        return lang.plain_quoted(progress.message)
    step = STEP_OF_PHASE.get(progress.phase, 0)
    return lang.plain("doing_done" if step == len(STEPS) else f"doing_{STEPS[step]}")


def _clock(progress: Progress, lang: Language) -> str:
    elapsed = fmt.duration(progress.elapsed_seconds)
    if progress.remaining_seconds is None:
        return lang.plain("clock", elapsed=elapsed)
    if progress.remaining_seconds < 1:
        return lang.plain("clock_nearly", elapsed=elapsed)
    return lang.plain("clock_left", elapsed=elapsed, left=sentences.rounded_duration(progress.remaining_seconds))


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


def _so_far(progress: Progress, lang: Language) -> str:
    interval = progress.speedup
    if interval is None:
        return lang.plain("so_far_empty")
    if interval.vague:
        return lang.plain("so_far_hardly")
    ratio = fmt.estimate(interval.ratio, interval.low, interval.high)
    return lang.plain("so_far", ratio=ratio, precision=f"±{fmt.percent(interval.half_width)}")
