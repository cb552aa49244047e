"""The stage while a run goes: phases, time, two lanes and the narrowing interval, as one piece of HTML.

gradio changes only those nodes that differ, so the order and number of elements here must not depend on the
progress: then bars change their length and nothing else is drawn anew.
"""

from __future__ import annotations

from demo.core import format as fmt
from demo.core.languages import ENGLISH, Language
from demo.core.result import Progress, RunSpec
from demo.present import section_texts as words
from demo.ui.html.elements import bar, esc, lane_name, percentage, ruler

STEPS = ("load", "warm_up", "compile", "time", "check")
_STEP_OF_PHASE = {"start": 0, "load": 0, "prepare": 0, "warm up": 1, "compile": 2, "time": 3, "check": 4, "done": 5}

_MESSAGES = {
    "Looking for the reason: kernels, operations, bytes": "doing_explain",
    "Compiling once more, in a further process, from the cache": "doing_again",
}
"""What the worker says beyond its phase; anything else is quoted as it is."""


def waiting(ahead: int, say: Language = ENGLISH) -> str:
    """While others are in front; nobody is promised a time that nobody knows."""
    who = say.html("waiting_one") if ahead == 1 else say.html("waiting_many", count=ahead)
    return (
        f'<section class="live"><p class="kicker">{say.html("waiting")}</p>'
        f'<h2 class="display small">{who}</h2><p class="lead">{say.html("waiting_lead")}</p></section>'
    )


def strip(progress: Progress, spec: RunSpec, say: Language = ENGLISH) -> str:
    step = _STEP_OF_PHASE.get(progress.phase, 0)
    steps = "".join(_step(say.html(f"step_{name}"), number - step) for number, name in enumerate(STEPS))
    return (
        f'<section class="live" aria-label="{esc(say.plain("live"))}">'
        f'<p class="kicker">{say.marked(words.asked(spec, say))}</p>'
        f'<ol class="steps">{steps}</ol>'
        f'<div class="progress" role="progressbar" aria-label="{esc(say.plain("progress"))}" '
        f'aria-valuemin="0" aria-valuemax="100" aria-valuenow="{progress.fraction * 100:.0f}">'
        f'<i style="width:{percentage(progress.fraction)}"></i></div>'
        f'<p class="clock"><span class="doing">{doing(progress, say)}</span>'
        f"<span>{_clock(progress, say)}</span></p>"
        f'<div class="lanes">{_lanes(progress, spec, say)}</div>'
        f"{_narrowing(progress, say)}</section>"
    )


def doing(progress: Progress, say: Language = ENGLISH) -> str:
    """What the worker is at, as HTML."""
    if (told := _MESSAGES.get(progress.message)) is not None:
        return say.html(told)
    if progress.message:
        return say.quoted(progress.message)
    step = _STEP_OF_PHASE.get(progress.phase, 0)
    return say.html("doing_done" if step == len(STEPS) else f"doing_{STEPS[step]}")


def _step(name: str, distance: int) -> str:
    state = "done" if distance < 0 else "next" if distance else "now"
    current = ' aria-current="step"' if state == "now" else ""
    return f'<li class="{state}"{current}>{name}</li>'


def _clock(progress: Progress, say: Language) -> str:
    elapsed = fmt.duration(progress.elapsed_seconds)
    if progress.remaining_seconds is None:
        return say.html("clock", elapsed=elapsed)
    if progress.remaining_seconds < 1:
        return say.html("clock_nearly", elapsed=elapsed)
    return say.html("clock_left", elapsed=elapsed, left=fmt.duration(progress.remaining_seconds))


def _lanes(progress: Progress, spec: RunSpec, say: Language) -> str:
    """A race over equal time: the faster one is as far as the timing is, the other behind it by the speed-up so far."""
    seen = {"eager": progress.eager_seconds, "compiled": progress.compiled_seconds}
    fastest = min((seconds for seconds in seen.values() if seconds), default=0.0)
    done = 1.0 if progress.phase in ("check", "done") else progress.timing_done or 0.0
    lanes = "".join(
        f'<div class="lane">{lane_name(variant, say)}{bar(variant, done * fastest / seconds if seconds else 0.0)}'
        f'<span class="value">{say.value(fmt.latency(seconds) if seconds else "–")}</span>'
        f'<p class="counters">{_counters(progress, seconds, spec, say)}</p></div>'
        for variant, seconds in seen.items()
    )
    return f'{lanes}<p class="rule">{say.html("lane_rule")}</p>'


def _counters(progress: Progress, seconds: float | None, spec: RunSpec, say: Language) -> str:
    calls = str(progress.calls) if progress.calls else "–"  # what is shown before is a figure of the warm-up
    rate = fmt.rate(spec.batch_size / seconds) if seconds else "–"
    return f"<span>{say.html('counter_calls', calls=calls)}</span><span>{say.html('counter_rate', rate=rate)}</span>"


def _narrowing(progress: Progress, say: Language) -> str:
    interval = progress.speedup
    if interval is None:
        return f'<div class="narrowing empty"><p class="so-far">{say.html("so_far_empty")}</p></div>'
    width = interval.half_width
    ratio = fmt.ratio(interval.ratio)
    if width < 0.5:
        said = say.html("so_far", ratio=ratio, precision=f"±{fmt.percent(width)}")
    else:
        said = say.html("so_far_hardly", ratio=ratio)
    axis = ruler(interval.ratio, interval.low, interval.high, 0.0, say)
    return f'<div class="narrowing"><p class="so-far">{said}</p>{axis}</div>'
